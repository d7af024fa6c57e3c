"""No command that stands in a body is ever run.

A server that does not know a command, or can't read its line, must not take the body behind it for commands. Of the
body's commands each would leave a trace: the first job is gone or buried, there is another tube, or another job. Our
clients are driven against a server with extensions, one without, and beanstalkd; lines that no client sends go to the
engine itself.
"""

import asyncio
import contextlib
import inspect
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from inspect import Parameter
from typing import Any

import pytest

from beanpole import AsyncClient, BeanpoleError, Client
from beanpole.client.putting import PutOptions
from beanpole.client.scheduling import ScheduleOptions
from beanpole.protocol.extensions import EXTENSIONS, KIND_NAMES, Kind
from beanpole.testing import FakeServer
from beanpole.testing.world import World
from tests.servers import HOST, beanstalkd_server
from tests.unit.client.peer import Maker, maker

SENTINEL = b"sentinel"
"""The body of job 1."""

BODY = (
    b"delete 1\r\nbury 1 0\r\nreserve-with-timeout 0\r\nuse pwned\r\nput 0 0 60 1\r\nx\r\n"
    b"delete-many 1\r\nclear-tube default\r\nmove-jobs default ready 9 to=pwned\r\nkick 1\r\ndelete 1\r\n"
)
"""The text of commands, of which none may be run. It has no line end where a size that lost digits would put one."""

WITH_BODY = [
    (
        verb,
        [KIND_NAMES[kind].decode() for kind in words],
        [KIND_NAMES[kind].decode() for kind in options if kind != left_out],
    )
    for verb, words, options in EXTENSIONS
    for left_out in ((Kind.AT, Kind.DELAY) if Kind.AT in options else (None,))
    if any(KIND_NAMES[kind] == b"bytes" for kind in words)
]
"""The extensions with a body: their verb, the words behind it and their options, of which two are never together."""

TEXT = BODY.decode()
NOBODY = 2**63
"""An id that no job has."""

WITHOUT_METHOD = {b"list-extensions", b"cancel-reserve", b"get-schedule", b"list-schedules", b"keep-session"}
WITHOUT_METHOD |= {b"auth", b"list-rights"}
"""The extensions that clients use by themselves, or by a method that is not called so."""

METHODS = [verb.decode().replace("-", "_") for verb, _, _ in EXTENSIONS if verb not in WITHOUT_METHOD]
METHODS += ["keep", "set_schedule_text", "schedule", "schedules", "all_schedules", "resume_schedule"]
"""The methods of clients that are made for one extension."""

GIVEN: dict[str, object] = {
    "body": BODY,
    "reason": TEXT,
    "rules": "attempts: 7",
    "job": NOBODY,
    "jobs": [NOBODY],
    **dict.fromkeys(("tube", "to", "pattern"), "other"),
    "state": "buried",
    "states": ["buried"],
    **dict.fromkeys(("delay", "expire"), 1000.5),
    "timeout": 0,
    "key": "k",
    "name": "n",
    "taken": "replace",
    "until": "reserve",
    "dead": True,
    "order": "next",
    "fields": ["session", "reason"],
    "every": 1000.5,
    "at": datetime(2100, 1, 1, tzinfo=UTC),
    "document": b"cron: @daily\n\n" + BODY,
}
"""What a program says as an argument of a method, by its name; any other is a text, `a`, or a number, 7."""

GIVEN_TO = {
    ("put_job", "at"): None,  # beside a delay it is refused
    ("clear_tube", "tube"): "empty",
    ("move_jobs", "tube"): "empty",
    **{("set_schedule", each): None for each in ("cron", "at", "weeks", "except_")},
    **{("set_schedule", each): 9 for each in ("spread", "late", "delay", "expire", "ttr", "pri")},
    **{("set_schedule", each): "2100-01-01T00:00:00" for each in ("start", "end")},
    ("set_schedule", "zone"): "Europe/Berlin",
    ("set_schedule", "overlap"): "allow",
    ("set_schedule", "misfire"): "skip",
}
"""What it says instead to a method: an older server would have to touch the jobs that others have put, and some lines
of a schedule contradict others.
"""

Arguments = dict[str, object]


def everything(name: str) -> Arguments:
    """All arguments of a method."""
    return {
        each: GIVEN_TO.get((name, each), given(parameter)) for each, parameter in signature(name).parameters.items()
    }


def given(parameter: Parameter) -> object:
    """What a program says as an argument."""
    return GIVEN.get(parameter.name, "a" if "str" in str(parameter.annotation) else 7)


def variants(name: str) -> Iterator[Arguments]:
    """The arguments of a method: none left out, each left out, each alone, and the text of a stranger in its place."""
    arguments = everything(name)
    parameters = signature(name).parameters
    needed = {each for each in arguments if parameters[each].default is Parameter.empty}
    if "timeout" in arguments:
        needed.add("timeout")  # without which it waits for a job
    if name == "set_schedule":
        needed.add("every")  # without which nothing is sent
    least = {each: arguments[each] for each in needed}
    yield arguments
    for each, value in arguments.items():
        yield least | {each: value}
        yield from (least | {each: wrong} for wrong in (TEXT, [TEXT], BODY))
        if each != "timeout":
            yield {other: value for other, value in arguments.items() if other != each}


def signature(name: str) -> inspect.Signature:
    """The parameters of a method."""
    found = inspect.signature(getattr(Client, name))
    named = ScheduleOptions if name == "set_schedule" else PutOptions
    options = [Parameter(each, Parameter.KEYWORD_ONLY, default=None) for each in named.__annotations__]
    parameters: list[Parameter] = []
    for each in list(found.parameters.values())[1:]:
        parameters += options if each.kind is Parameter.VAR_KEYWORD else [each]
    return found.replace(parameters=parameters)


def call(client: Any, name: str, arguments: Arguments) -> None:  # noqa: ANN401 - a client of either kind
    """Calls a method; whatever it says of its arguments, or of its server, it does not matter here."""
    bound = inspect.BoundArguments(signature(name), OrderedDict(arguments))
    method = getattr(client, name)
    with contextlib.suppress(BeanpoleError, TypeError, AttributeError):  # the last two for arguments of a wrong type
        method(*bound.args, **bound.kwargs)


PUTS: list[Arguments] = [
    {"body": BODY, "key": "k"},
    {"body": BODY, "priority": 5, "delay": 9.5, "tube": "other", "key": "k2", "taken": "replace", "expire": 60},
    {"body": BODY, "delay": 1000.5},
    {"body": BODY, "tube": TEXT},
    {"body": BODY, "at": 5e9},
    {"body": BODY, "at": 5e9, "key": "k3", "taken": "replace", "within": 9},
    {"body": BODY, "once": "t", "once_for": 9},
    {"body": BODY, "once": TEXT},
    {"body": BODY, "retry": True},
]
"""Arguments of put, which is a put-job with most of them."""


def untouched(server: Client[bytes]) -> bool:
    """Whether no command of the body was run."""
    stats = server.stats_job(1)
    quiet = server.stats()
    return (
        server.peek(1).body == SENTINEL
        and (stats.state, stats.tube, stats.reserves, stats.buries) == ("ready", "default", 0, 0)
        and "pwned" not in server.tubes()
        and quiet.cmd_bury == quiet.cmd_kick == 0
    )


@pytest.fixture(scope="module", params=["with extensions", "without", "beanstalkd"])
def observer(request: pytest.FixtureRequest) -> Iterator[Client[bytes]]:
    """A client of each server, which has put job 1."""
    with contextlib.ExitStack() as stack:
        if request.param == "beanstalkd":
            address: tuple[str, int] = (HOST, stack.enter_context(beanstalkd_server()).port)
        else:
            address = stack.enter_context(FakeServer(old=request.param != "with extensions")).address
        client = stack.enter_context(Client(address, None))
        assert client.put(SENTINEL, 0) == 1
        yield client


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    """Makes clients of each kind."""
    with maker(request.param) as made:
        yield made


@pytest.mark.parametrize("name", ["put", *METHODS])
def test_clients_hand_over_no_command(observer: Client[bytes], make: Maker, name: str) -> None:
    for arguments in PUTS if name == "put" else variants(name):
        client = make((observer.address.host, observer.address.port), None, watch="idle")
        call(client, name, dict(arguments))
        client.close()
    assert untouched(observer)


# --- Lines that no client of ours sends -------------------------------------------------------------------------------

VALUES = {
    "bytes": b"%d" % len(BODY),
    **dict.fromkeys(("id", "ids"), b"2"),
    **dict.fromkeys(("tube", "to", "pattern"), b"default"),
    **dict.fromkeys(("state", "states"), b"buried"),
    **dict.fromkeys(("timeout", "seconds", "delay", "expire"), b"9.5"),
    "key": b"k",
    "taken": b"replace",
    "until": b"delete",
    "dead": b"now",
    "order": b"next",
}
"""A value for each argument of a line, by its name; for any other a number."""

WRONG = [b"", b"x", b"-1", b" ", b"1 1", b"=", b"\0", b"\xff", b"18446744073709551616", b"a" * 300, b"a" * 9000]
"""Values that hardly anything can have."""


def lines(verb: bytes, words: list[str], options: list[str]) -> Iterator[bytes]:
    """A line as it should be, cut at each byte behind the verb, with each part missing, doubled, unknown or wrong."""
    parts = [verb, *(VALUES.get(name, b"7") for name in words)]
    chosen = [name.encode() + b"=" + VALUES.get(name, b"7") for name in options]
    whole = b" ".join(parts + chosen)
    yield whole
    yield from (whole[:size] for size in range(len(verb), len(whole)))
    for i in range(1, len(parts + chosen)):
        all_parts = parts + chosen
        yield b" ".join(all_parts[:i] + all_parts[i + 1 :])
        yield b" ".join([*all_parts[:i], all_parts[i], *all_parts[i:]])
        name, sign, _ = all_parts[i].rpartition(b"=")
        for value in WRONG:
            yield b" ".join([*all_parts[:i], name + sign + value, *all_parts[i + 1 :]])
    yield whole + b" new=1"
    yield whole + b" "
    yield b" ".join(parts) + b" body=" + BODY[:8]


@pytest.mark.parametrize(("verb", "words", "options"), WITH_BODY, ids=[verb.decode() for verb, _, _ in WITH_BODY])
@pytest.mark.parametrize("step", [0, 1])
def test_no_line_of_an_extension_runs_its_body(verb: bytes, words: list[str], options: list[str], step: int) -> None:
    """Whole, and byte by byte: the body is stored, swallowed, or the connection ends."""
    for line in lines(verb, words, options):
        world = World()
        for name in ("observer", "client"):
            world.connect(name)
        world.send("observer", b"put 0 0 60 8\r\nsentinel\r\nput 1 0 60 5\r\nother\r\n")
        data = line + b"\r\n" + BODY + b"\r\n"
        for at in range(0, len(data), step or len(data)):
            if not world.is_closed("client"):
                world.send("client", data[at : at + (step or len(data))])
        assert world.output("client").count(b"\r\n") <= 1, line
        world.output("observer")
        world.send("observer", b"peek 1\r\nlist-tubes\r\nstats-job 1\r\n")
        seen = world.output("observer")
        assert b"FOUND 1 8\r\nsentinel\r\n" in seen, line
        assert b"pwned" not in seen, line
        assert b"state: ready" in seen, line
        world.check()


@pytest.mark.parametrize(("verb", "words", "options"), WITH_BODY, ids=[verb.decode() for verb, _, _ in WITH_BODY])
@pytest.mark.parametrize("ends", ["disconnect", "half_close"])
def test_no_part_of_a_body_is_run(verb: bytes, words: list[str], options: list[str], ends: str) -> None:
    """The connection ends within the body, at each byte."""
    line = next(lines(verb, words, options))
    world = World()
    world.connect("observer")
    world.send("observer", b"put 0 0 60 8\r\nsentinel\r\nput 1 0 60 5\r\nother\r\n")
    for size in range(len(BODY) + 2):
        world.connect("client")
        world.send("client", line + b"\r\n" + (BODY + b"\r\n")[:size])
        getattr(world, ends)("client")
        if ends == "half_close":
            assert world.output("client") == b""
            assert world.is_closed("client")
            world.disconnect("client")
    world.output("observer")
    world.send("observer", b"list-tubes\r\nlist-jobs default ready 9\r\nstats\r\n")
    seen = world.output("observer")
    assert b"JOBS 2\r\nJOB 1 0 tube=default state=ready" in seen
    assert b"pwned" not in seen
    assert b"\ncmd-delete: 0\n" in seen


def test_a_client_may_be_cancelled_at_any_moment() -> None:
    """What a task has sent of a line is sent as a whole; the next command of the client is none of the body's."""

    async def scene(address: tuple[str, int]) -> None:
        async with AsyncClient(address, None) as client:
            for turns in range(12):
                task = asyncio.create_task(client.put_job(BODY, delay=1000))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                assert await client.tube_used() == "default"

    with FakeServer() as server, Client(server.address, None) as watcher:
        assert watcher.put(SENTINEL, 0) == 1
        asyncio.run(asyncio.wait_for(scene(server.address), 20))
        assert untouched(watcher)
