"""No command that stands in a body is ever run.

A server that does not know a command, or can't read its line, must not take the body behind it for commands. Of the
body's commands each would leave a trace: the first job is gone or buried, there is another tube, or another job. Our
clients are driven against a server with extensions, one without, and beanstalkd; lines that no client sends go to the
engine itself.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beanpole import AsyncClient, Backoff, BeanpoleError, Client
from beanpole.protocol.extensions import EXTENSIONS, KIND_NAMES
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

Call = Callable[[Any], object]

CALLS: dict[str, Call] = {
    "put": lambda client: client.put(BODY, key="k"),
    "put with everything": lambda client: client.put(
        BODY, 5, 9.5, 60, tube="other", key="k2", taken="replace", until="reserve", expire=60
    ),
    "put with a fraction": lambda client: client.put(BODY, delay=1000.5),
    "put_job": lambda client: client.put_job(BODY, delay=1000, tube="other"),
    "put_job with a wrong key": lambda client: client.put_job(BODY, key=BODY.decode()),
    "put_job with a wrong tube": lambda client: client.put_job(BODY, tube=BODY.decode()),
    "put_job with a wrong delay": lambda client: client.put_job(BODY, delay=BODY.decode()),
    "change_body": lambda client: client.change_body(2, BODY),
    "fail_job": lambda client: client.fail_job(2, BODY.decode()),
    "fail_job for good": lambda client: client.fail_job(2, BODY.decode(), priority=1, delay=1.5, dead=True),
    "find_job": lambda client: client.find_job("default", BODY.decode()),
    "list_jobs": lambda client: client.list_jobs(BODY.decode(), "ready"),
    "clear_tube": lambda client: client.clear_tube(BODY.decode()),
    "touch_many": lambda client: client.touch_many([2, 2**63, BODY.decode()]),
}
"""What a program may say with a text that a stranger has sent."""


def untouched(server: Client[bytes]) -> bool:
    """Whether no command of the body was run."""
    stats = server.stats_job(1)
    quiet = server.stats()
    return (
        server.peek(1).body == SENTINEL
        and (stats.state, stats.tube, stats.reserves, stats.buries) == ("ready", "default", 0, 0)
        and "pwned" not in server.tubes()
        and quiet.cmd_delete == quiet.cmd_bury == quiet.cmd_kick == 0
    )


@pytest.fixture(scope="module", params=["with extensions", "without", "beanstalkd"])
def observer(request: pytest.FixtureRequest) -> Iterator[Client[bytes]]:
    """A client of each server, which has put job 1."""
    with contextlib.ExitStack() as stack:
        if request.param == "beanstalkd":
            address: tuple[str, int] = (HOST, stack.enter_context(beanstalkd_server()).port)
        else:
            address = stack.enter_context(FakeServer(extensions=request.param == "with extensions")).address
        client = stack.enter_context(Client(address, None))
        assert client.put(SENTINEL, 0) == 1
        yield client


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    """Makes clients of each kind."""
    with maker(request.param) as made:
        yield made


class Cut(socket.socket):
    """A socket that ends what is sent after some bytes."""

    left = 0

    def sendall(self, data: Any, _: int = 0) -> None:  # noqa: ANN401 - whatever a client sends
        self.send(data)

    def send(self, data: Any, _: int = 0) -> int:  # noqa: ANN401 - see above
        piece = bytes(data)[: self.left]
        if piece:
            super().sendall(piece)
        self.left -= len(piece)
        if self.left == 0:
            with contextlib.suppress(OSError):
                self.shutdown(socket.SHUT_WR)
        return len(data)


@pytest.mark.parametrize("name", CALLS)
def test_clients_hand_over_no_command(observer: Client[bytes], make: Maker, name: str) -> None:
    client = make((observer.address.host, observer.address.port), None)
    with contextlib.suppress(BeanpoleError, TypeError):
        CALLS[name](client)
    assert untouched(observer)


@pytest.mark.parametrize("name", ["put", "put with everything", "change_body", "fail_job for good"])
def test_clients_that_are_cut_off_hand_over_no_command(observer: Client[bytes], make: Maker, name: str) -> None:
    """At each byte, of the question as well; a server with a body of fewer bytes than it was told runs nothing."""
    where = (observer.address.host, observer.address.port)
    for size in range(1, 40 + len(BODY), 1 if make.kind == "sync" else 7):
        cut = Cut(socket.AF_INET, socket.SOCK_STREAM)
        cut.left = size
        cut.connect(where)
        client = make(cut, None, backoff=Backoff(attempts=1), timeout=20)
        with contextlib.suppress(BeanpoleError, TypeError):
            CALLS[name](client)
        client.close()
    assert untouched(observer)


# --- Lines that no client of ours sends -------------------------------------------------------------------------------

VALUES = {
    "bytes": b"%d" % len(BODY),
    **dict.fromkeys(("id", "ids"), b"2"),
    **dict.fromkeys(("tube", "to", "pattern"), b"default"),
    **dict.fromkeys(("state", "states"), b"buried"),
    **dict.fromkeys(("count", "limit", "bound", "pri", "ttr", "bodies", "after"), b"7"),
    **dict.fromkeys(("timeout", "seconds", "delay", "expire"), b"9.5"),
    "key": b"k",
    "taken": b"keep",
    "until": b"delete",
    "dead": b"now",
    "order": b"next",
}
"""A value for each argument of a line, by its name."""

WITH_BODY = [
    (verb, [KIND_NAMES[kind].decode() for kind in words], [KIND_NAMES[kind].decode() for kind in options])
    for verb, words, options in EXTENSIONS
    if any(KIND_NAMES[kind] == b"bytes" for kind in words)
]
"""The extensions with a body: their verb, the words behind it and their options."""

WRONG = [b"", b"x", b"-1", b" ", b"1 1", b"=", b"\0", b"\xff", b"18446744073709551616", b"a" * 300, b"a" * 9000]
"""Values that hardly anything can have."""


def lines(verb: bytes, words: list[str], options: list[str]) -> Iterator[bytes]:
    """A line as it should be, cut at each byte behind the verb, with each part missing, doubled, unknown or wrong."""
    parts = [verb, *(VALUES[name] for name in words)]
    given = [name.encode() + b"=" + VALUES[name] for name in options]
    whole = b" ".join(parts + given)
    yield whole
    yield from (whole[:size] for size in range(len(verb), len(whole)))
    for i in range(1, len(parts + given)):
        all_parts = parts + given
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

    with FakeServer(extensions=True) as server, Client(server.address, None) as watcher:
        assert watcher.put(SENTINEL, 0) == 1
        asyncio.run(asyncio.wait_for(scene(server.address), 20))
        assert untouched(watcher)
