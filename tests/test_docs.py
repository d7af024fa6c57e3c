"""What the documentation says is so: the commands of the README run; no limit, verb, flag or variable goes unsaid."""

import importlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import click
import pytest

import beanpole
from beanpole import testing
from beanpole.cli.main import cli
from beanpole.client.job import KINDS as JOB_FIELDS
from beanpole.protocol import commands, extensions
from benchmarks import charts, reproduce
from benchmarks.bench.rows import ROWS
from benchmarks.bench.tables import TABLES
from tests.cli_reference import commands as cli_commands
from tests.servers import REPLY_TIMEOUT_S, START_TIMEOUT_S, STOP_TIMEOUT_S, peer

pytestmark = pytest.mark.repository

ROOT = Path(__file__).resolve().parent.parent
PORT = "11300"
"""The port of the documentation. Tests write the port of their own server in its place."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND_TIMEOUT_S = 200.0


def blocks(language: str) -> list[str]:
    """The fenced blocks of the README in a language, without those that tests/e2e/test_readme.py runs."""
    first, found, rest = (ROOT / "README.md").read_text().partition("## Install\n")
    text = first.partition("## The first fifteen minutes\n")[2].partition("### 2.")[0] + found + rest
    return [text for name, text in BLOCK.findall(text) if name == language]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def environment(**more: str) -> dict[str, str]:
    """Our environment without what an outer `make` tells an inner one, and with some more."""
    return {key: value for key, value in os.environ.items() if key not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}} | more


def run(command: list[str], **more: str) -> str:
    """What a command prints, after it has succeeded in the root of the project."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=COMMAND_TIMEOUT_S,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}"
    return done.stdout


@contextmanager
def make_serve(folder: Path, block: int = 0, **more: str) -> Iterator[str]:
    """The port of the server that one of the README's commands starts; the flags choose ports that are free."""
    ready_file, messages = folder / "ready", folder / "messages"
    flags = more or {
        "SERVE_FLAGS": f"-l 127.0.0.1 -p 0 --ready-file {ready_file}",
        "HTTP_FLAGS": "--http 127.0.0.1:0",
    }
    run(["make", "build"])
    with messages.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", blocks("sh")[block]],
            cwd=ROOT,
            env=environment(**flags),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not ready_file.exists():
            assert process.poll() is None, f"the server ended:\n{messages.read_text(errors='replace')}"
            assert time.monotonic() < give_up_at, f"no server yet:\n{messages.read_text(errors='replace')}"
            time.sleep(0.01)
        yield ready_file.read_text().split()[0].rpartition(":")[2]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(STOP_TIMEOUT_S)


# --- The README -------------------------------------------------------------------------------------------------------


def test_readme_has_the_commands_that_are_tested() -> None:
    assert [block.split()[:2] for block in blocks("sh")] == [
        ["make", "serve"],
        ["printf", "'put"],
        ["make", "serve-ids"],
        ["make", "test"],
    ]
    assert len(blocks("python")) == 1
    assert {name for name, _ in BLOCK.findall((ROOT / "README.md").read_text())} <= {"sh", "python", "text"}


def test_readme_make_serve_and_first_job(tmp_path: Path) -> None:
    peer("nc")
    with make_serve(tmp_path) as port:
        printed = run(["bash", "-c", blocks("sh")[1].replace(PORT, port)])
        assert printed == blocks("text")[0]


def test_readme_make_serve_ids(tmp_path: Path) -> None:
    """It begins with the rules of the examples, and keeps what stands in its folder."""
    data = tmp_path / "data"
    data.mkdir()
    rules = (ROOT / "ids/examples/rules.toml").read_text()
    assert 'listen = "127.0.0.1:11310"' in rules
    (data / "rules.toml").write_text(re.sub("127.0.0.1:1131[01]", "127.0.0.1:0", rules))
    flags = f"--ready-file {tmp_path / 'ready'}"
    with (
        make_serve(tmp_path, 2, IDS_DATA=str(data), IDS_FLAGS=flags) as port,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        client.settimeout(REPLY_TIMEOUT_S)
        client.connect(("127.0.0.1", int(port)))
        client.send(b'{"action":"get","app_name":"shop","rule_name":"order"}')
        assert b'"code":0' in client.recv(4096)
        assert (data / "ids.db").exists()
    printed = run(["make", "--dry-run", "serve-ids"])
    assert "cp ids/examples/rules.toml beanpole-ids-data" in printed
    assert "beanpole-ids serve beanpole-ids-data/rules.toml" in printed


def test_readme_first_job_in_python(tmp_path: Path) -> None:
    with make_serve(tmp_path) as port:
        printed = run([sys.executable, "-W", "error", "-c", blocks("python")[0].replace(PORT, port)])
        assert printed == "to: you@example.org\n"


def test_readme_make_test() -> None:
    """The command runs as it stands; PYTEST only makes it collect a few tests instead of running all within a test."""
    printed = run(["bash", "-c", blocks("sh")[3]], PYTEST="--collect-only --quiet --ignore-glob=tests/[!st]*")
    assert "test_readme_make_test" in printed


def test_make_serve_default_is_the_documented_address() -> None:
    printed = run(["make", "--dry-run", "serve"])
    assert f"serve -l 127.0.0.1 -p {PORT}" in printed


def test_readme_links_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / name).read_text())
        missing = [target for target in targets if not target.startswith("https:") and not (ROOT / target).exists()]
        assert not missing, f"{name} links to {missing}"


# --- The reference pages ----------------------------------------------------------------------------------------------


def limits_by_package() -> dict[str, ModuleType]:
    """The modules of limits, each by the package that it belongs to: `beanpole` itself, or one below it."""
    files = (ROOT / "src" / "beanpole").rglob("limits.py")
    names = {each.parent.name: ".".join(each.relative_to(ROOT / "src").with_suffix("").parts) for each in files}
    return {folder: importlib.import_module(name) for folder, name in names.items()}


def test_every_documented_limit_has_its_value() -> None:
    documented = dict(re.findall(r"^\| `([a-z]*\.?[A-Z_]+)` \| ([\d.]+) \|", page("limits.md"), re.MULTILINE))
    actual = {
        f"{folder}.{name}".removeprefix("beanpole."): str(value)
        for folder, module in limits_by_package().items()
        for name, value in vars(module).items()
        if name.isupper()
    }
    wrong = {name: value for name, value in documented.items() if actual.get(name) != value}
    assert documented
    assert not wrong, "repair the table of docs/limits.md"


def test_every_verb_is_documented() -> None:
    text = page("protocol.md")
    verbs = [text.decode().strip() for text, *_ in commands.COMMANDS + extensions.EXTENSIONS]
    lacking = [
        verb
        for verb in verbs
        if not re.search(rf"^{re.escape(verb)}( (to=)?<[a-z]+>)*( \.\.\.)?⏎$", text, re.MULTILINE)
    ]
    assert not lacking, f"docs/protocol.md does not show how to say {lacking}"


def test_every_field_of_a_job_is_one_that_servers_send() -> None:
    text = page("protocol.md")
    unknown = [name for name in JOB_FIELDS if f" {name}=<" not in text and f"`{name}`" not in text]
    assert not unknown, f"docs/protocol.md knows no {unknown} of a job"


def test_every_name_is_in_the_python_reference() -> None:
    shown = set(re.findall(r"^::: ([\w.]+)", page("reference.md"), re.MULTILINE))
    names = {each.rpartition(".")[2] for each in shown}
    public = {name: getattr(beanpole, name) for name in beanpole.__all__ if not name.startswith("DEFAULT_")}
    classes = public | {name: getattr(testing, name) for name in testing.__all__}
    lacking = [name for name, it in classes.items() if it.__name__ not in names and it.__module__ not in shown]
    assert not lacking, f"docs/reference.md does not show {lacking}"


def test_the_guide_to_the_cluster_names_the_files_of_the_example() -> None:
    for name in ("haproxy.cfg", "haproxy-leader.cfg", "beanpole-leads", "keepalived.conf"):
        assert (ROOT / "examples/cluster" / name).exists()
        assert f"`examples/cluster/{name}`" in page("cluster.md"), f"docs/cluster.md does not name {name}"


def test_other_pages_lead_to_what_a_client_does_at_a_restart() -> None:
    """One page says it, which tests/e2e/client/test_restart.py holds, and tests/e2e/test_systemd.py for sockets."""
    assert "\n## When the connection breaks\n" in page("client.md")
    assert "](client.md#when-the-connection-breaks)" in page("install.md")


def test_a_variable_is_named_after_its_option() -> None:
    """So docs/operations.md needs no list of them; those that it names are there. An argument has no option."""
    options = [each for context in cli_commands(cli, "beanpole") for each in context.command.params if each.envvar]
    for each in options:
        if isinstance(each, click.Argument):
            continue
        assert "--" + str(each.envvar).removeprefix("BEANPOLE_").lower().replace("_", "-") in each.opts
    named = set(re.findall(r"`(BEANPOLE_[A-Z_]+)`", page("operations.md")))
    assert named
    assert named <= {each.envvar for each in options}


# --- The figures ------------------------------------------------------------------------------------------------------


def test_the_charts_and_tables_show_the_results_that_are_kept() -> None:
    repair = "run python -m benchmarks.charts"
    assert page("performance.md") == charts.page(page("performance.md")), repair
    for path, svg in charts.pictures().items():
        assert (ROOT / path).read_text() == svg, f"{path}: {repair}"


def test_the_page_to_reproduce_them_names_every_figure() -> None:
    repair = "run python -m benchmarks.reproduce --write"
    assert page("reproduce.md") == reproduce.page(page("reproduce.md")), repair


def test_the_pictures_are_described_by_their_figures() -> None:
    chart = charts.cpu_chart(charts.kept_run("speed"))
    shares = [bar.text for group in chart.groups for bar in group.bars if bar.kind != "theirs"]
    for text in ((ROOT / "README.md").read_text(), page("performance.md")):
        line = next(line for line in text.splitlines() if "cpu.svg" in line)
        assert re.findall(r"[\d.]+ %", line)[1:] == shares, f"describe cpu.svg by {shares}: {line}"


def test_a_chart_compares_what_one_run_has_measured() -> None:
    """Another server has bars when it was measured beside the two, and in every row."""
    row = {"ours": 1.0, "theirs": 4.0}
    rows = [row | {"name": name, "against": 2.0} for name in charts.IN_FLIGHT]

    def bars(rows: list[dict[str, object]], **machine: str) -> list[tuple[str, str, str]]:
        groups = charts.cpu_chart({"machine": machine, "rows": rows}).groups
        return [(bar.kind, bar.name, bar.text) for bar in groups[0].bars]

    two = [("theirs", "beanstalkd", "100 %"), ("ours", "Beanpole", "25 %")]
    assert bars(rows, against="fork") == [two[0], ("against", "fork", "50 %"), two[1]]
    assert bars([row | {"name": name} for name in charts.IN_FLIGHT]) == two
    assert bars([*rows[:2], row | {"name": rows[2]["name"]}], against="fork") == two
    head, _, line, *_ = charts.table({"machine": {"against": "fork"}, "rows": rows}).splitlines()
    assert head == "| What | Beanpole | beanstalkd | Ratio | fork | Ratio |"
    assert line.endswith("| 1.00 | 4.00 | 0.25 × | 2.00 | 0.50 × |")


def test_a_run_of_the_benchmark_is_kept_by_its_medians() -> None:
    rows: list[dict[str, object]] = [
        {
            "name": row.name,
            "title": row.title,
            "ours": 2.0,
            "theirs": 4.0,
            "own_ratio": None,
            "against": 3.0,
            "samples": {},
        }
        for row in ROWS
    ]
    machine = {"date": "today"}
    other = {"name": "durable-disk", "ours": 1.0}
    kept = charts.keep({"machine": machine, "rows": [other, *(row | {"their_own_ratio": 1.5} for row in rows)]})
    assert list(kept) == ["speed"], "a table is kept when all its rows were measured"
    assert kept["speed"]["machine"] == machine
    assert [row["name"] for row in kept["speed"]["rows"]] == [row.name for row in ROWS]
    assert kept["speed"]["rows"][0] == {
        "name": ROWS[0].name,
        "ours": 2.0,
        "theirs": 4.0,
        "against": 3.0,
        "their_own_ratio": 1.5,
    }
    assert {row.name for name in charts.HEADS for row in TABLES[name]} == set(charts.WHAT)


def test_each_threat_names_the_tests_of_what_defends_from_it() -> None:
    table = page("access.md").partition("## Threats")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows
    for threat, defence, tested, *_ in rows:
        named = re.findall(r"`(tests/[^`]+\.py)`", tested)
        assert named or defence == "nothing", threat
        for each in named:
            assert (ROOT / each).exists(), each
