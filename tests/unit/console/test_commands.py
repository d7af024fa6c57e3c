"""The command line of each action: what it is, and that the program and a shell read it so."""

import shlex
import subprocess
from typing import TYPE_CHECKING, cast

import click
import pytest

from beanpole.cli.main import cli
from beanpole.client import Address
from beanpole.console.actions.action import Action, Filter, Given, Group, Ids, Named, Pattern, Target, Tube
from beanpole.console.actions.commands import ACTION_BODY_SHOWN_BYTES, ACTION_IDS_SHOWN, command_line, url_of
from beanpole.console.settings import Source
from tests.unit.console.screens.made import MadeServer

if TYPE_CHECKING:
    from beanpole.console.servers import Server

URL = "--url beanstalk://127.0.0.1:11300"
OURS = frozenset({"snooze-job", "change-job.tube"})
JOB, A = Ids((1,)), Tube("a")
MANY = Ids(tuple(range(1, 401)))

LINES: list[tuple[str, Target, Given, str]] = [
    ("delete", Ids((1, 2)), Given(), f"beanpole delete {URL} 1 2"),
    ("delete", MANY, Given(), f"xargs beanpole delete {URL} < IDS"),
    ("change", MANY, Given(body=b"x"), f"xargs beanpole change --body=x {URL} < IDS"),
    ("kick", Ids(MANY.ids[:ACTION_IDS_SHOWN]), Given(), f"beanpole kick {URL} 1 2 3 4 5 6 7 8 9 10"),
    ("kick", JOB, Given(), f"beanpole kick {URL} 1"),
    ("bury", JOB, Given(priority=3), f"beanpole bury --priority=3 {URL} 1"),
    ("snooze", JOB, Given(delay=500, priority=4), f"beanpole snooze --delay=500 --priority=4 {URL} 1"),
    ("move", JOB, Given(to="there"), f"beanpole change --tube=there {URL} 1"),
    (
        "change",
        JOB,
        Given(delay=1_200.25, ttr=9, expire=5),
        f"beanpole change --delay=1200.25 --ttr=9 --expire=5 {URL} 1",
    ),
    ("change", JOB, Given(body=b"it's"), f"""beanpole change '--body=it'"'"'s' {URL} 1"""),
    ("change", JOB, Given(body=b"-"), f"printf %s - | beanpole change --body=- {URL} 1"),
    ("change", JOB, Given(body=b"\xff%"), f"printf '\\377\\045' | beanpole change --body=- {URL} 1"),
    ("clear", A, Given(), f"beanpole clear {URL} --yes a"),
    ("clear", A, Given(states=("buried", "delayed")), f"beanpole clear {URL} --yes --state=buried --state=delayed a"),
    (
        "put",
        A,
        Given(body=b"-x", priority=1, ttr=7),
        f"printf %s -x | beanpole put {URL} --tube a --priority=1 --ttr=7",
    ),
    (
        "put",
        A,
        Given(body=b"x", key="k'1", taken="replace", until="reserve", delay=1_000.5),
        f"printf %s x | beanpole put {URL} --tube a '--key=k'\"'\"'1' --taken=replace --until=reserve --delay=1000.5",
    ),
    ("put", A, Given(body=b"", expire=900), f"printf %s '' | beanpole put {URL} --tube a --expire=900"),
    (
        "put",
        A,
        Given(body=b"x" * (ACTION_BODY_SHOWN_BYTES + 1)),
        f"cat BODY | beanpole put {URL} --tube a",
    ),
    ("pause", A, Given(seconds=600), f"beanpole pause {URL} --for 600 a"),
    ("resume", A, Given(), f"beanpole resume {URL} a"),
    ("pause", A, Given(group="a b", seconds=60), f"beanpole pause {URL} --for 60 '--group=a b' a"),
    (
        "set-rules",
        Pattern("a*"),
        Given(rules="attempts: 7\nrate: 5/s\n"),
        f"beanpole rules set {URL} 'a*' 'attempts: 7' 'rate: 5/s'",
    ),
    ("set-rules", Pattern("a"), Given(rules=""), f"beanpole rules set {URL} a < /dev/null"),
    ("drop-rules", Pattern("a"), Given(), f"beanpole rules drop {URL} a"),
    ("fire-schedule", Named("a"), Given(at=5.5), f"beanpole schedule fire {URL} --at=1970-01-01T00:00:05.500Z a"),
    ("pause-schedule", Named("a"), Given(), f"beanpole schedule pause {URL} a"),
    ("resume-schedule", Named("a"), Given(), f"beanpole schedule resume {URL} a"),
    ("drop-schedule", Named("a"), Given(), f"beanpole schedule drop {URL} a"),
    (
        "set-schedule",
        Named("a"),
        Given(lines="cron: 0 3 * * *\nexcept: 2026-12-25 2026-12-26\npri: 7\n", body=b"-x"),
        f"beanpole schedule set {URL} '--cron=0 3 * * *' --except=2026-12-25 --except=2026-12-26 --pri=7 -- a -x",
    ),
    (
        "set-schedule",
        Named("a"),
        Given(lines="every: 600", body=b"\xff"),
        f"printf '\\377' | beanpole schedule set {URL} --every=600 -- a -",
    ),
]


def line_of(verb: str, target: Target, given: Given, features: frozenset[str] = OURS) -> str:
    return command_line(cast("Server", MadeServer("one", None)), features, Action(verb, "one", target, given))


@pytest.mark.parametrize(("verb", "target", "given", "line"), LINES)
def test_a_line_does_the_same(verb: str, target: Target, given: Given, line: str) -> None:
    assert line_of(verb, target, given) == line
    before, _, file = line.partition(" < ")
    words = shlex.split(before.partition(" | ")[2] or before)
    words = [*words[2:], "1", "400"] if file == "IDS" else words[1:]  # as xargs calls it
    command: click.Command | None = cli
    while isinstance(command, click.Group):
        name, *words = words
        command = command.get_command(click.Context(command), name)
    assert command is not None
    command.make_context("", words)  # or it refuses them


@pytest.mark.parametrize(
    "body", [bytes(range(256)) + b"%s \\n", b'it\'s "one"\n\tand $two `three` \\ %d\n', b"-x", b""]
)
def test_a_shell_writes_the_body_byte_for_byte(body: bytes) -> None:
    written = line_of("put", A, Given(body=body)).partition(" | beanpole ")[0]
    assert subprocess.run(["/bin/sh", "-c", written], capture_output=True, check=True).stdout == body


def test_a_server_that_knows_less_has_other_commands_or_none() -> None:
    nothing = frozenset[str]()
    assert line_of("snooze", JOB, Given(delay=5), nothing) == f"beanpole release --delay=5 {URL} 1"
    assert not line_of("move", JOB, Given(to="a"), nothing)


def test_ids_and_a_body_are_not_both_read_from_standard_input() -> None:
    assert line_of("change", JOB, Given(body=b"\xff"))
    assert not line_of("change", MANY, Given(body=b"\xff"))


@pytest.mark.parametrize(
    ("verb", "about"),
    [
        ("delete", Filter("a", "ready")),
        ("redrive", JOB),
        ("delete", Group("a", "Error: a needle")),
        ("set-schedule", Named("a")),
    ],
)
def test_what_is_not_one_command_has_none(verb: str, about: Target) -> None:
    assert not line_of(verb, about, Given(lines="every: 600") if verb == "set-schedule" else Given())


@pytest.mark.parametrize(
    ("source", "url"),
    [
        (Source("shop", Address("shop", 1)), ["--url", "beanstalk://shop:1"]),
        (Source("127.0.0.1:11301", None), ["--url", "beanstalk://127.0.0.1:11301"]),
        (Source("[::1]:11300", None), ["--url", "beanstalk://[::1]:11300"]),
        (Source("unix:/run/queue", None), ["--url", "unix:/run/queue"]),
        (Source("node-a", None), []),
    ],
)
def test_a_command_line_leads_to_the_server(source: Source, url: list[str]) -> None:
    assert url_of(source) == url
