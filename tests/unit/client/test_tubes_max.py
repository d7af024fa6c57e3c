"""A server that has as many tubes as it may have: it ends the connection, and both clients say why, and go on."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from beanpole import ConnectionLostError, OutOfMemoryError, TooManyTubesError
from beanpole.testing import FakeServer
from tests.unit.client.peer import Maker, maker

WHY = "OUT_OF_MEMORY: there are as many tubes as --tubes-max, or the limit of a space, allows"


@pytest.fixture(params=[False, True], ids=["with extensions", "without"])
def server(request: pytest.FixtureRequest) -> Iterator[FakeServer]:
    """A server with the only tube that it may have besides `default`."""
    with FakeServer(tubes_max=2, old=request.param, patience=0) as server, maker("sync") as make:
        make(server.address).use("full")
        yield server


REFUSED: list[tuple[str, Callable[[Any], Any]]] = [
    ("use more", lambda client: client.use("more")),
    ("watch more", lambda client: client.watch("more")),
    ("put into more", lambda client: client.put("x", tube="more")),
    ("put into more", lambda client: client.put_many(["x", "y"], tube="more")),
    ("peek-ready in more", lambda client: client.peek_ready(tube="more")),
]


@pytest.mark.parametrize(("what", "run"), REFUSED)
def test_a_refused_tube_is_named_and_nothing_else_is_done(
    make: Maker, server: FakeServer, what: str, run: Callable[[Any], Any]
) -> None:
    client = make(server.address)
    client.put("mine")
    held = client.reserve(timeout=0)
    with pytest.raises(TooManyTubesError) as caught:
        run(client)
    assert str(caught.value) == f"{what}: {WHY}"
    assert (caught.value.command, caught.value.tube) == (what.partition(" ")[0], "more")
    assert server.tubes() == ["default", "full"]
    assert [job.state for job in server.jobs()] == ["ready"], "the connection is closed, so it holds no job"
    client.use("default")
    assert client.is_lost(held)


def test_a_client_goes_on_when_it_wants_another_tube(make: Maker, server: FakeServer) -> None:
    """Until then it puts nothing, for what it was told to use is not what it used before."""
    client = make(server.address, use="full", watch=["full", "default"])
    with pytest.raises(OutOfMemoryError):
        client.watch("more")
    assert client.put("x") == 1
    assert client.reserve(timeout=0).id == 1
    for refused in (lambda: client.use("more"), lambda: client.put("y"), client.stats):
        with pytest.raises(TooManyTubesError, match=r"^use more: "):
            refused()
    client.use("full")
    assert client.put("y") == 2
    assert {job.tube for job in server.jobs()} == {"full"}


def test_a_connection_that_can_not_begin_says_why(make: Maker, server: FakeServer) -> None:
    """The tubes that a client asks for from the start; it does not try for as long as its patience lasts."""
    for options, what in (({"use": "more"}, "use"), ({"watch": ["more", "other"]}, "watch")):
        client = make(server.address, **options)
        for _ in range(2):
            with pytest.raises(TooManyTubesError, match=f"^{what} more: {WHY}"):
                client.put("x")
    assert not server.jobs()


def test_in_a_pipeline_nothing_behind_a_refused_tube_is_done(make: Maker, server: FakeServer) -> None:
    client = make(server.address)
    pipeline = client.pipeline(raise_errors=False)
    done, refused, behind = pipeline.put("a"), pipeline.use("more"), pipeline.put("b")
    with pytest.raises(TooManyTubesError, match=r"^use more: "):
        pipeline.flush()
    assert done.result() == 1
    with pytest.raises(TooManyTubesError):
        refused.result()
    with pytest.raises(ConnectionLostError):
        behind.result()
    assert [job.text for job in server.jobs()] == ["a"]
    pipeline = make(server.address).pipeline()
    put = pipeline.put("c", tube="more")
    with pytest.raises(TooManyTubesError, match=r"^put into more: "):
        pipeline.flush()
    with pytest.raises(TooManyTubesError):
        put.result()
    assert [job.text for job in server.jobs()] == ["a"]


def test_the_refusal_is_read_before_the_end_of_the_connection(make: Maker) -> None:
    """A server that closes without having read all that was sent resets the connection."""

    def refuse() -> None:
        with listener.accept()[0] as connection:
            connection.recv(10)
            connection.sendall(b"OUT_OF_MEMORY\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        refused = thread.submit(refuse)
        with pytest.raises(TooManyTubesError, match=r"^put into more: "):
            make(listener.getsockname()).put("x" * 30_000_000, tube="more")
        refused.result()


def test_a_move_to_a_refused_tube_leaves_the_job(make: Maker) -> None:
    """Where a client moves jobs one by one, and has reserved the first for that."""
    with FakeServer(tubes_max=1, old=True) as server:
        client = make(server.address)
        client.put("x")
        with pytest.raises(TooManyTubesError):
            client.move_jobs("default", "ready", "more")
        assert [(job.tube, job.state) for job in server.jobs()] == [("default", "ready")]
