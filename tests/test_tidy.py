"""The house rules that no tool checks: each broken rule is one line that names the place and the repair.

A rule is a function from a file to complaints, so that it can be tried on a few lines of text; see the last test. The
layers come from the import-linter contracts in pyproject.toml, which reads `import` only: here they hold for `cimport`.
"""

import ast
import functools
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

FUNCTION_LINES_MAX = 70
"""Lines of a function: it fits a screen."""

FILE_LINES = 500
"""Lines of a module: it fits a head. Only a file that is mostly one class may be longer: a class is one file."""

FILE_LINES_MAX = 800
"""Lines of a file that holds one class."""

WITH_A_CLOCK = (
    "src/beanpole/posix.pxd",
    "src/beanpole/server/",
    "src/beanpole/client/recovery.py",
    "src/beanpole/log/postgres/clock.py",
    "src/beanpole/log/files/",
    "src/beanpole/cli/inspect.py",
    "src/beanpole/process/crew.py",
    "ids/src/beanpole_ids/app.py",
    "ids/src/beanpole_ids/cli/",
    "ids/src/beanpole_ids/datagrams.py",
    "ids/src/beanpole_ids/logs.py",
    "ids/src/beanpole_ids/posix.pxd",
)
"""Where time may be read. Everywhere else `now_ns` is an argument, so that tests decide what time it is."""

CLOCKS = re.compile(
    r"\b(clock_gettime(_ns)?|gettimeofday|monotonic(_ns)?|perf_counter(_ns)?|process_time(_ns)?|time_ns|utcnow)\b"
)
CLOCK_CALLS = {("time", "time"), ("datetime", "now"), ("date", "today"), ("datetime", "today")}

WITH_POINTERS = tuple(f"src/beanpole/engine/state/{name}.py" for name in ("jobtable", "keys"))
"""Where objects hang on pointers that the module itself has set, as `item` of a heap's entry does."""

ENUMS = ("Word",)
"""Enums of C: a number becomes one of their names, and no object is looked at."""

PURE = ("src/beanpole/protocol/", "src/beanpole/schedules/", "src/beanpole/engine/")
C_IMPURE = ("posix", "beanpole.posix", "libc.time", "libc.signal", "cpython.time", "cpython.datetime", "openmp")
"""C modules that do I/O, read a clock or start threads: what `socket`, `os`, `time` and `threading` are for Python."""

UNFINISHED = re.compile(r"\b(NotImplemented[E]rror|TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")

Complaints = Iterator[str]


def tracked(*suffixes: str) -> list[Path]:
    """The files of the project with one of the suffixes (all, if none is named), as paths below its root.

    A new file in one of its folders is one of them. Whatever else a user saves beside them is not: the README says so
    of `mails.py`.
    """

    def listed(*arguments: str) -> list[Path]:
        command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", *arguments]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [Path(line) for line in answer.splitlines()]

    paths = listed("--cached")
    folders = sorted({path.parts[0] for path in paths if len(path.parts) > 1})
    paths += listed("--others", "--exclude-standard", "--", *folders)
    return [path for path in paths if (not suffixes or path.suffix in suffixes) and (ROOT / path).is_file()]


def sources(*suffixes: str) -> list[Path]:
    return [path for path in tracked(*suffixes) if path.as_posix().startswith(("src/", "ids/src/"))]


@functools.lru_cache(maxsize=1)
def tree(text: str) -> ast.Module:
    """A file as Python reads it. All rules look at one file before the next, so that each is read once."""
    return ast.parse(text)


@functools.lru_cache(maxsize=1)
def nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(tree(text)))


# --- The rules --------------------------------------------------------------------------------------------------------


def functions_fit_a_screen(name: str, text: str) -> Complaints:
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield (
                    f"{name}:{node.lineno}: {node.name} has {lines} lines, the most is {FUNCTION_LINES_MAX}: "
                    "move a step that has a name of its own into a function"
                )


def files_fit_a_head(name: str, text: str) -> Complaints:
    lines = text.count("\n")
    if lines <= FILE_LINES:
        return
    body = tree(text).body if name.endswith(".py") else []
    longest = max([0, *((each.end_lineno or 0) - each.lineno for each in body if isinstance(each, ast.ClassDef))])
    most = FILE_LINES_MAX if 2 * longest > lines else FILE_LINES
    if lines > most:
        yield f"{name}: {lines} lines, the most is {most}: move what has a name of its own into a module"


def modules_say_what_they_are_for(name: str, text: str) -> Complaints:
    if name.endswith(".pxd"):
        if not text.startswith("#"):
            yield f"{name}: begin with a comment that says what this declares"
    elif not ast.get_docstring(tree(text)) and text.strip():
        yield f"{name}: begin with a docstring: what the module is for, its invariants, what it does not do"


def only_the_server_reads_the_clock(name: str, text: str) -> Complaints:
    if name.startswith(WITH_A_CLOCK):
        return
    repair = "take now_ns as an argument; the server reads the clock once a turn"
    if name.endswith(".pxd"):
        for number, line in enumerate(text.splitlines(), 1):
            if CLOCKS.search(line.partition("#")[0]):
                yield f"{name}:{number}: a clock: {repair}"
        return
    for node in nodes(text):
        if isinstance(node, ast.Name) and CLOCKS.fullmatch(node.id):
            yield f"{name}:{node.lineno}: a clock: {repair}"
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if CLOCKS.fullmatch(node.attr) or (owner, node.attr) in CLOCK_CALLS:
                yield f"{name}:{node.lineno}: a clock: {repair}"


def casts_of_objects_are_checked(name: str, text: str) -> Complaints:
    if name in WITH_POINTERS:
        return
    for node in nodes(text):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "cython.cast":
            target, value = node.args
            is_object = isinstance(target, ast.Name) and target.id[0].isupper() and target.id not in ENUMS
            if is_object and not node.keywords and not ast.unparse(value).endswith(".item"):
                yield f"{name}:{node.lineno}: {ast.unparse(node)}: add typecheck=True, so that a mistake is a TypeError"


def nothing_is_unfinished(name: str, text: str) -> Complaints:
    for number, line in enumerate(text.splitlines(), 1):
        if found := UNFINISHED.search(line):
            yield f"{name}:{number}: {found[0]}: finish it, or leave it out and write an issue"


def imports_of(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Every import and cimport of a file: its line and the module that it names, `cython.cimports.` left out."""
    if name.endswith(".pxd"):
        for number, line in enumerate(text.splitlines(), 1):
            code = line.partition("#")[0].strip()
            if found := re.match(r"from\s+(\S+)\s+cimport\s+(.*)", code):
                names = [part.split()[0] for part in found[2].strip("()").split(",") if part.strip()]
                yield from ((number, f"{found[1]}.{each}") for each in names or ["*"])
            elif found := re.match(r"cimport\s+(\S+)", code):
                yield number, found[1]
            elif found := re.match(r'cdef\s+extern\s+from\s+"<?((?:sys/|time|unistd|pthread|signal)[^>"]*)', code):
                yield number, "posix." + found[1]
        return
    for node in nodes(text):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.removeprefix("cython.cimports.")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "").removeprefix("cython.cimports.")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def pure_packages_are_pure(name: str, text: str) -> Complaints:
    for number, module in imports_of(name, text):
        if module.startswith("."):
            yield f"{name}:{number}: {module}: name the module from beanpole on, so that the layers can be checked"
        if name.startswith(PURE) and any(module == each or module.startswith(each + ".") for each in C_IMPURE):
            yield f"{name}:{number}: {module}: no I/O, clock or thread here; do it in the server"


@functools.cache
def pattern(text: str, below: str = r"(\..*)?") -> re.Pattern[str]:
    """Return a pattern of import-linter as one of `re`, which takes what is below a module too."""
    return re.compile(re.escape(text).replace(r"\*\*", ".+").replace(r"\*", "[^.]+") + below)


def is_forbidden(contract: dict[str, Any], importer: str, module: str) -> bool:
    """Whether a contract of import-linter, of one of the two types that are used here, forbids an import."""
    for allowed in contract.get("ignore_imports", []):
        source, target = allowed.split(" -> ")
        if pattern(source, "").fullmatch(importer) and pattern(target).fullmatch(module):
            return False
    if contract["type"] == "forbidden":
        below = r"(\..*)?" if contract.get("as_packages", True) else ""
        return any(pattern(source, below).fullmatch(importer) for source in contract["source_modules"]) and any(
            pattern(target).fullmatch(module) for target in contract["forbidden_modules"]
        )
    places = {
        f"{contract['containers'][0]}.{package}": (level, package)
        for level, layer in enumerate(contract["layers"])
        for package in re.split(" [|:] ", layer)
    }
    ours, theirs = (
        next((place for each, place in places.items() if f"{name}.".startswith(f"{each}.")), None)
        for name in (importer, module)
    )
    return bool(ours and theirs and ours != theirs and ours[0] >= theirs[0])


def layers_hold_for_cimport(name: str, text: str) -> Complaints:
    importer = name.removeprefix("src/").rpartition(".")[0].replace("/", ".").removesuffix(".__init__")
    for number, module in imports_of(name, text):
        for contract in PROJECT["tool"]["importlinter"]["contracts"]:
            if is_forbidden(contract, importer, module):
                yield f"{name}:{number}: imports {module}, but {contract['name']}: move the code, or pass the value in"


# --- The files --------------------------------------------------------------------------------------------------------


RULES = {
    functions_fit_a_screen: ("", (".py",)),
    files_fit_a_head: ("", (".py", ".pxd")),
    modules_say_what_they_are_for: ("", (".py", ".pxd")),
    only_the_server_reads_the_clock: ("src/", (".py", ".pxd")),
    casts_of_objects_are_checked: ("src/", (".py",)),
    nothing_is_unfinished: ("", (".py", ".pxd")),
    pure_packages_are_pure: ("src/", (".py", ".pxd")),
    layers_hold_for_cimport: ("src/", (".py", ".pxd")),
}
"""Where each rule holds: below which folder, in files of which kinds."""

IN_A_PATTERN = {"{": "(?:", ",": "|", "}": ")", "*": ".*"}
"""What ruff's patterns of files are as regular expressions."""


def test_every_file_keeps_the_rules() -> None:
    complaints: list[str] = []
    kept = set()
    for path in tracked(".py", ".pxd"):
        name, text = path.as_posix(), (ROOT / path).read_text()
        for rule, (folder, suffixes) in RULES.items():
            if name.startswith(folder) and path.suffix in suffixes:
                complaints += rule(name, text)
                kept.add(rule)
    assert not complaints, "\n" + "\n".join(complaints)
    assert kept == RULES.keys(), "a rule finds no file to check"


def test_compiled_modules_are_known_to_ruff() -> None:
    compiled = [path.with_suffix(".py") for path in sources(".pxd") if (ROOT / path).with_suffix(".py").exists()]
    patterns = [
        re.compile("".join(IN_A_PATTERN.get(each, re.escape(each)) for each in pattern))
        for pattern, codes in PROJECT["tool"]["ruff"]["lint"]["per-file-ignores"].items()
        if "F821" in codes
    ]
    lacking = [path.as_posix() for path in compiled if not any(each.fullmatch(path.as_posix()) for each in patterns)]
    assert not lacking, f"add to the compiled modules in [tool.ruff.lint.per-file-ignores]: {', '.join(lacking)}"


@pytest.mark.xdist_group("alone")
def test_groups_of_tests_are_kept_together(request: pytest.FixtureRequest) -> None:
    """With pytest 9.2, xdist 3.8 forgets groups without a word, and always those that are marked too late."""
    if getattr(request.config.option, "loadgroup", False):
        grouped = [item.nodeid for item in request.session.items if any(item.iter_markers("xdist_group"))]
        assert request.node.nodeid in grouped
        assert [name for name in grouped if "@" not in name] == []


def test_every_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    malformed = [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.!+_-]*", line)]
    assert not malformed, f"constraints.txt takes name==version and nothing else: {malformed}"
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    projects = [PROJECT["project"], tomllib.loads((ROOT / "ids/pyproject.toml").read_text())["project"]]
    wanted = [
        each
        for project in projects
        for group in (project["dependencies"], *project["optional-dependencies"].values())
        for each in group
    ]
    lacking = {re.split(r"[^A-Za-z0-9._-]", each)[0].lower().replace("_", "-") for each in wanted} - pinned
    assert not lacking, f"pin in constraints.txt: {', '.join(sorted(lacking))}"


# --- The rules find what they forbid ----------------------------------------------------------------------------------

ENGINE = "src/beanpole/engine/state/job.py"
HEADER = "src/beanpole/engine/state/job.pxd"

FOUND = [
    (functions_fit_a_screen, ENGINE, "def f():\n" + "    pass\n" * FUNCTION_LINES_MAX),
    (files_fit_a_head, ENGINE, "\n" * (FILE_LINES + 1)),
    (files_fit_a_head, ENGINE, "class Engine:\n" + "    x = 1\n" * FILE_LINES_MAX),
    (modules_say_what_they_are_for, ENGINE, "import ast\n"),
    (modules_say_what_they_are_for, HEADER, "cimport cython\n"),
    (only_the_server_reads_the_clock, ENGINE, "import time\nnow = time.time()\n"),
    (only_the_server_reads_the_clock, ENGINE, "from time import monotonic\nmonotonic()\n"),
    (only_the_server_reads_the_clock, HEADER, "from posix.time cimport clock_gettime\n"),
    (casts_of_objects_are_checked, ENGINE, "cython.cast(Job, each)\n"),
    (nothing_is_unfinished, ENGINE, "raise NotImplemented" + "Error\n"),
    (nothing_is_unfinished, ENGINE, "# TO" + "DO: later\n"),
    (pure_packages_are_pure, ENGINE, "from cython.cimports.posix.time import timespec\n"),
    (pure_packages_are_pure, ENGINE, "from .heap import Heap\n"),
    (pure_packages_are_pure, HEADER, "cimport posix.unistd\n"),
    (pure_packages_are_pure, HEADER, 'cdef extern from "<sys/socket.h>":\n'),
    (layers_hold_for_cimport, ENGINE, "from cython.cimports.beanpole.server.turn import Turn\n"),
    (layers_hold_for_cimport, ENGINE, "from beanpole.protocol import decoder\n"),
    (layers_hold_for_cimport, ENGINE, "import socket\n"),
    (layers_hold_for_cimport, ENGINE, "from cython.cimports.beanpole.engine.policies.attempts import die\n"),
    (layers_hold_for_cimport, HEADER, "from beanpole.engine.engine cimport Engine\n"),
    (layers_hold_for_cimport, HEADER, "from beanpole.protocol.decoder cimport Decoder\n"),
    (layers_hold_for_cimport, "src/beanpole/log/log.py", "from beanpole.server.app import Server\n"),
    (layers_hold_for_cimport, "src/beanpole/log/log.py", "from beanpole.log.files.disk import File\n"),
    (layers_hold_for_cimport, "src/beanpole/client/sync.py", "from beanpole.server.app import Server\n"),
]


@pytest.mark.parametrize(("rule", "name", "text"), FOUND)
def test_rule_finds_what_it_forbids(rule: Callable[[str, str], Complaints], name: str, text: str) -> None:
    assert list(rule(name, text))


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (files_fit_a_head, ENGINE, "class Engine:\n" + "    x = 1\n" * (FILE_LINES_MAX - 1)),
        (only_the_server_reads_the_clock, "src/beanpole/server/app.py", "import time\ntime.monotonic_ns()\n"),
        (only_the_server_reads_the_clock, HEADER, "# not clock_gettime: see the server\n"),
        (casts_of_objects_are_checked, ENGINE, "cython.cast(Job, each, typecheck=True)\n"),
        (casts_of_objects_are_checked, ENGINE, "cython.cast(Job, heap.entries[0].item)\n"),
        (pure_packages_are_pure, "src/beanpole/server/epoll.pxd", "cimport posix.unistd\n"),
        (layers_hold_for_cimport, ENGINE, "from cython.cimports.beanpole.protocol.commands import Command\n"),
        (layers_hold_for_cimport, "src/beanpole/log/log.py", "from beanpole.engine.state.records import Records\n"),
    ],
)
def test_rule_allows_what_is_right(rule: Callable[[str, str], Complaints], name: str, text: str) -> None:
    assert not list(rule(name, text))
