"""The command line of each action: run by a shell, it does what the console does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from beanpole.console.actions.action import Action, Filter, Given, Group, Ids, Pattern, Target, Tube
from beanpole.console.actions.runs import Run
from beanpole.errors import NotFoundError
from tests.e2e.console.acting import World, act, client_of, ids_in
from tests.servers import REPLY_TIMEOUT_S, Server, beanpole_server, beanstalkd_server

if TYPE_CHECKING:
    from beanpole.client import Client

Servers = tuple[Server, Server]
Jobs = dict[str, list[int]]
"""Ids by what was done to them."""

About = Target | tuple[str, ...] | None
"""What an action is about: jobs by what was done to them; None: all that are ready."""

STATES = ("ready", "delayed", "buried")


@pytest.fixture(scope="module")
def ours() -> Iterator[Servers]:
    """Two servers to which all tests do the same, so that ids are the same."""
    with beanpole_server() as one, beanpole_server() as other:
        yield one, other


@pytest.fixture(scope="module")
def theirs() -> Iterator[Servers]:
    """Two of beanstalkd."""
    with beanstalkd_server() as one, beanstalkd_server() as other:
        yield one, other


def fill(client: "Client[bytes]", tube: str, *, dies: bool) -> Jobs:
    """Puts jobs into a tube and brings them into the states."""
    jobs = {
        "ready": client.put_many([b"one", b"it's a needle", b"three"], 5, tube=tube),
        "delayed": client.put_many([b"late", b"later"], 6, 1_000, tube=tube),
        "buried": client.put_many([b"bad", b"worse"], 7, tube=tube),
    }
    for id in jobs["buried"]:
        client.reserve_job(id)
        client.bury(id, 7)
    if dies:
        client.set_rules(tube, {"attempts": 1, "dead": f"{tube}-dead"})
        jobs["dead"] = client.put_many([b"dead", b"as dead"], tube=tube)
        for id in jobs["dead"]:
            client.fail_job(client.reserve_job(id), "Error: a needle")
        client.set_rules(tube, {"attempts": 3, "dead": f"{tube}-dead"})
    return jobs


def seen(client: "Client[bytes]", tube: str) -> object:
    """How it is with a tube, the tube of its dead, and the one into which jobs are moved."""
    found: list[object] = []
    for name in (tube, f"{tube}-dead", f"{tube}-to"):
        for state in STATES:
            for id in ids_in(client, name, state):
                stats = client.stats_job(id)
                key = client.list_jobs(name, state, 1, after=id - 1).jobs[0].key
                found.append((name, state, id, stats.pri, stats.ttr, stats.delay > 0, key, client.peek(id).body))
        try:
            found.append(client.stats_tube(name).pause)
        except NotFoundError:
            found.append(None)
    if "list-rules" in client.features():
        found += [(each.pattern, each.text) for each in client.list_rules() if each.pattern.startswith(tube)]
    return found


def same(servers: Servers, tube: str, verb: str, about: About, given: Given) -> None:
    """Does an action by the console at one server and by a shell at the other, and compares what there is then."""
    after: list[object] = []
    for server, is_console in zip(servers, (True, False), strict=True):
        with client_of(server) as client:
            jobs = fill(client, tube, dies="fail-job" in client.features())
            before = seen(client, tube)
            action = Action(verb, "queue", target_of(tube, about, jobs), given)
            if is_console:
                done = act(server, partial(run, action=action))
                assert done.done, done
                assert not +done.refused, done
            else:
                shell(act(server, partial(line, action=action)))
            after.append(seen(client, tube))
            assert after[-1] != before, "nothing was done"
    assert after[0] == after[1]


def target_of(tube: str, about: About, jobs: Jobs) -> Target:
    """The target of an action."""
    if isinstance(about, tuple):
        return Ids(tuple(id for name in about for id in jobs[name]))
    return about or Filter(tube, "ready")


async def run(world: World, action: Action) -> Run:
    """Does an action by the console."""
    return await world.run(action.verb, action.target, action.given)


async def line(world: World, action: Action) -> str:
    """Its command line."""
    return (await world.dry(action.verb, action.target, action.given)).command_line


def shell(command: str) -> None:
    """Runs a command line as somebody does who has copied it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=REPLY_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def text(body: bytes) -> Given:
    """A new body."""
    return Given(body=body)


BINARY = bytes(range(256)) + b"%s \\n"
LINES = b'it\'s "one"\n\tand $two `three` \\ %d\n'

ON_BOTH: list[tuple[str, str, About, Given]] = [
    ("delete-ids", "delete", ("ready", "delayed"), Given()),
    ("kick-ids", "kick", ("delayed", "buried"), Given()),
    ("bury-ids", "bury", ("ready", "delayed"), Given(priority=3)),
    ("snooze-ids", "snooze", ("ready", "buried"), Given(delay=500, priority=4)),
    ("clear-all", "clear", Tube("clear-all"), Given()),
    ("clear-some", "clear", Tube("clear-some"), Given(states=("buried", "delayed"))),
    ("put-plain", "put", Tube("put-plain"), Given(body=b"-x", priority=1, ttr=7)),
    ("put-binary", "put", Tube("put-binary"), Given(body=BINARY, delay=100)),
    ("put-lines", "put", Tube("put-lines"), text(LINES)),
    ("put-empty", "put", Tube("put-empty"), text(b"")),
    ("pause-tube", "pause", Tube("pause-tube"), Given(seconds=600)),
]

ON_OURS: list[tuple[str, str, About, Given]] = [
    ("move-ids", "move", ("ready", "buried"), Given(to="move-ids-to")),
    ("change-ids", "change", ("ready", "delayed"), Given(priority=1, delay=1_200.25, ttr=9, expire=5_000)),
    ("change-binary", "change", ("ready", "delayed"), text(BINARY)),
    ("change-dash", "change", ("ready",), text(b"-")),
    (
        "put-key",
        "put",
        Tube("put-key"),
        Given(body=b"x", key="k'1", taken="replace", until="reserve", delay=1_000.5),
    ),
    ("put-expire", "put", Tube("put-expire"), Given(body=b"x", expire=900)),
    ("set-rules", "set-rules", Pattern("set-rules-*"), Given(rules="attempts: 7\nrate: 5/s burst 3\n")),
    ("set-none", "set-rules", Pattern("set-none"), Given(rules="")),
    ("drop-rules", "drop-rules", Pattern("drop-rules"), Given()),
]


@pytest.mark.parametrize(
    ("tube", "verb", "about", "given"), ON_BOTH + ON_OURS, ids=[each[0] for each in ON_BOTH + ON_OURS]
)
def test_of_ours(ours: Servers, tube: str, verb: str, about: About, given: Given) -> None:
    same(ours, tube, verb, about, given)


@pytest.mark.parametrize(("tube", "verb", "about", "given"), ON_BOTH, ids=[each[0] for each in ON_BOTH])
def test_of_beanstalkd(theirs: Servers, tube: str, verb: str, about: About, given: Given) -> None:
    same(theirs, tube, verb, about, given)


def test_a_resumed_tube(ours: Servers) -> None:
    for server, is_console in zip(ours, (True, False), strict=True):
        with client_of(server) as client:
            client.put(b"x", tube="resumed")
            client.pause_tube("resumed", 1_000)
            if is_console:
                act(server, lambda world: world.run("resume", Tube("resumed")))
            else:
                shell(act(server, lambda world: world.dry("resume", Tube("resumed"))).command_line)
            assert client.stats_tube("resumed").pause_time_left == 0


@pytest.mark.parametrize(
    ("verb", "about"),
    [("delete", Filter("none", "ready")), ("redrive", Ids((1,))), ("delete", Group("none", "Error: a needle"))],
)
def test_what_is_not_one_command_has_none(ours: Servers, verb: str, about: Target) -> None:
    assert not act(ours[0], lambda world: world.dry(verb, about)).command_line
