"""Whether the tests notice mistakes: `python -m tests.mutants`, or `make mutants`.

It makes small mistakes in the engine, the log, the cluster and the turns, one at a time, in a copy of the checkout:
another comparison, another operator, a condition that is always true, a number that is one more, a line that is left
out. Each is compiled, if its module is, and tried with the tests that are likeliest to notice. A mutant is killed when
a test fails, when it can't be compiled, and when the tests take too long; one that survives is a line of the output,
and either changes nothing that anybody can see, or lacks a test.

The choice depends on the seed and on the text of the lines, not on where they stand: a line that moves to another file
or another function stays chosen, so that figures before and after a change of the house can be compared.
"""

import argparse
import ast
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("src/beanpole")

TESTS_TIMEOUT_S = 600.0
"""How long the tests of a mutant may take: one that makes them wait for ever is noticed, too."""


class Group(NamedTuple):
    """Sources, and the tests that are likeliest to notice a mistake in them, the quickest first."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


GROUPS = {
    "engine": Group(
        ("engine/**/*.py",),
        ("tests/unit/engine", "tests/model", "tests/unit/server/test_turn.py", "tests/scripts/test_scripts.py"),
    ),
    "log": Group(
        ("log/*.py", "log/files/*.py"),
        (
            "tests/unit/log",
            "tests/simulation/test_order.py",
            "tests/simulation/test_bytes.py",
            "tests/simulation/test_seeds.py",
        ),
    ),
    "cluster": Group(
        ("log/postgres/*.py", "server/cluster*.py"),
        ("tests/unit/log/postgres", "tests/unit/server", "tests/simulation/cluster"),
    ),
    "turn": Group(
        ("server/turn.py", "server/connection.py"),
        ("tests/unit/server", "tests/e2e/test_endings.py", "tests/e2e/test_output.py", "tests/scripts/test_scripts.py"),
    ),
}

NEEDS_A_DATABASE = {
    "pgstore.py",
    "connection.py",
    "schema.py",
    "admin.py",
    "transfer.py",
    "verify.py",
    "repair.py",
    "tasks.py",
    "hosts.py",
}
"""Files of the cluster that only tests with a database reach, which take too long for this."""

COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS: dict[type[ast.operator], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}


class Mutant(NamedTuple):
    """One mistake."""

    group: str
    path: Path
    line: int
    """Its number, from 1."""
    before: str
    after: str
    """The whole line."""

    def rank(self, seed: int, at: int) -> str:
        """Return where it stands among all, by its text: the lowest are chosen. `at` counts those of the same text."""
        return hashlib.sha256(f"{seed} {self.before.strip()} {self.after.strip()} {at}".encode()).hexdigest()


def mistakes(line: str, node: ast.AST) -> Iterator[str]:
    """Yield what becomes of a line with each mistake that can be made at a node that stands on it."""
    start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
    head, text, tail = line[:start], line[start:end], line[end:]
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield f"{head}{left} {COMPARED[type(node.ops[0])]} {right}{tail}"
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        old, new = OPERATORS[type(node.op)]
        if text.count(f" {old}") == 1:
            yield head + text.replace(f" {old}", f" {new}") + tail
    elif isinstance(node, ast.BoolOp):
        old, new = (" and ", " or ") if isinstance(node.op, ast.And) else (" or ", " and ")
        if text.count(old) == 1:
            yield head + text.replace(old, new) + tail
    elif isinstance(node, ast.If | ast.While) and node.test.lineno == node.test.end_lineno == node.lineno:
        first, last = node.test.col_offset, node.test.end_col_offset
        yield f"{line[:first]}not ({line[first:last]}){line[last:]}"
    elif isinstance(node, ast.Constant) and type(node.value) is int and text.isdigit():
        yield f"{head}{node.value + 1}{tail}"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield f"{head}pass{tail}"


def mutants(root: Path) -> Iterator[Mutant]:
    """Yield every mistake that can be made in the functions of the groups, outside of declarations and assertions."""
    for name, group in GROUPS.items():
        for path in sorted({path for each in group.sources for path in (root / PACKAGE).glob(each)}):
            if path.name in {"check.py", "limits.py", "errors.py", "__init__.py"} or (
                name == "cluster" and path.name in NEEDS_A_DATABASE
            ):
                continue
            text = path.read_text()
            lines = text.splitlines()
            for function in (
                each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            ):
                for statement in function.body:
                    yield from in_statement(name, path.relative_to(root), lines, statement)


def in_statement(group: str, path: Path, lines: list[str], statement: ast.stmt) -> Iterator[Mutant]:
    if isinstance(statement, ast.Assert | ast.AnnAssign | ast.Raise | ast.FunctionDef | ast.ClassDef):
        return
    for node in ast.walk(statement):
        line = getattr(node, "lineno", 0)
        is_compound = isinstance(node, ast.If | ast.While)
        if not line or not (is_compound or line == node.end_lineno):  # type: ignore[attr-defined]
            continue
        before = lines[line - 1]
        if "cython." in before or "assert " in before or not before.isascii():
            continue
        for after in mistakes(before, node):
            if after != before:
                yield Mutant(group, path, line, before, after)


def choice(root: Path, seed: int, count: int) -> list[Mutant]:
    """Return as many mutants of each group, in an order of their own."""
    ranked: dict[str, list[tuple[str, Mutant]]] = {name: [] for name in GROUPS}
    seen: Counter[tuple[str, str, str]] = Counter()
    chosen_lines: set[tuple[Path, int, str]] = set()
    for each in mutants(root):
        if (each.path, each.line, each.after) in chosen_lines:
            continue
        chosen_lines.add((each.path, each.line, each.after))
        key = (each.group, each.before.strip(), each.after.strip())
        ranked[each.group].append((each.rank(seed, seen[key]), each))
        seen[key] += 1
    shares = [sorted(each)[: -(-count // len(GROUPS))] for each in ranked.values()]
    found = sorted(pair for share in shares for pair in share)
    return [mutant for _, mutant in found[:count]]


class Copy:
    """A copy of the checkout, in which mistakes are made."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = folder / "checkout"
        kept = shutil.ignore_patterns(
            ".git", ".venv", "node_modules", "site", "dist", "__pycache__", ".*_cache", ".hypothesis"
        )
        shutil.copytree(root, self.root, ignore=kept, symlinks=True)
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def compile(self) -> bool:
        """Compile what has changed; return whether that is possible."""
        command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        return (
            subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, check=False).returncode
            == 0
        )

    def fails(self, tests: tuple[str, ...]) -> str:
        """Return why tests fail; empty: they pass."""
        there = [each for each in tests if (self.root / each).exists()]
        options = [
            "-x",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "--no-header",
            "--durations=0",
            "-m",
            "not database and not repository",
        ]
        command = [sys.executable, "-m", "pytest", *options, *there]
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command, cwd=self.root, env=self.environment, stdout=output, stderr=output, start_new_session=True
            )
            try:
                code = process.wait(TESTS_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return "takes too long"
            assert code not in {4, 5}, "pytest was called wrongly, or finds no tests"
            output.seek(0)
            said = output.read().decode(errors="replace").splitlines()
        failed = [line for line in said if line.startswith(("FAILED", "ERROR"))]
        return "" if code == 0 else (failed or said or [f"ended with {code}"])[-1 if not failed else 0][:160]

    def judge(self, mutant: Mutant) -> str:
        """Return how a mutant was noticed; empty: it was not. The copy is then as it was."""
        path = self.root / mutant.path
        text, times = path.read_text(), path.stat()
        built = {each: each.read_bytes() for each in path.parent.glob(f"{path.stem}.*.so")}
        lines = text.splitlines(keepends=True)
        lines[mutant.line - 1] = mutant.after + "\n"
        path.write_text("".join(lines))
        try:
            if built and not self.compile():
                return "can't be compiled"
            return self.fails(GROUPS[mutant.group].tests)
        finally:
            path.write_text(text)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            for each, data in built.items():  # newer than all that it is made of: nothing is compiled again
                each.write_bytes(data)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Try mutants, and print what became of each; the last line says how many were killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=60, help="how many mutants are made (60)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="which (some others each time)")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout, which must be built (this one)")
    parser.add_argument("--only", choices=GROUPS, help="only those of one group")
    parser.add_argument("--from", type=int, default=0, dest="first", help="leave out so many (0)")
    parser.add_argument("--list", action="store_true", help="print them, and try none")
    given = parser.parse_args()
    chosen = [each for each in choice(given.root, given.seed, given.count) if given.only in (None, each.group)][
        given.first :
    ]
    say(f"seed {given.seed}, {len(chosen)} mutants")
    killed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = None if given.list else Copy(given.root, Path(folder))
        for each in chosen:
            place = f"{each.group} {each.path}:{each.line}\n  - {each.before.strip()}\n  + {each.after.strip()}"
            if copy is None:
                say(place)
                continue
            began = time.monotonic()
            why = copy.judge(each)
            killed += bool(why)
            say(f"{'killed  ' if why else 'SURVIVED'} {place}\n  {why} ({time.monotonic() - began:.0f} s)")
    if not given.list:
        say(f"{killed} of {len(chosen)} killed, seed {given.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
