"""The load generator: what it asks, what it refuses, and some hundred operations against real servers."""

import importlib.util
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from beanpole.errors import UnexpectedReplyError
from benchmarks.bench import server
from benchmarks.bench.dial import dial, open_group
from benchmarks.bench.load import Load, LoadError
from benchmarks.bench.plan import Group


@pytest.fixture(params=["ours", "theirs"])
def running(request: pytest.FixtureRequest) -> Iterator[server.Server]:
    """Each of the servers that the benchmark compares."""
    command = server.OURS if request.param == "ours" else server.THEIRS
    present = importlib.util.find_spec("beanpole.__main__") if request.param == "ours" else shutil.which(command[0])
    if not present:
        pytest.skip(f"{request.param}: there is no such server here")
    with server.running(command) as started:
        yield started


def ready_jobs(address: server.Address) -> tuple[int, int, int]:
    """Ready jobs, reserved jobs, and puts so far, as the server counts them."""
    with dial(address) as sock:
        sock.sendall(b"stats\r\n")
        answer = b""
        while not answer.endswith(b"\r\n") or b"\r\n" not in answer[:-2]:
            answer += sock.recv(65536)
    stats = dict(line.split(b": ") for line in answer.split(b"\n") if b": " in line)
    return int(stats[b"current-jobs-ready"]), int(stats[b"current-jobs-reserved"]), int(stats[b"cmd-put"])


@pytest.mark.parametrize(
    "group",
    [
        Group(),
        Group(connections=5, in_flight=7, body_bytes=8),
        Group(connections=3, in_flight=2, body_bytes=60_000),
        Group(connections=4, in_flight=3, tubes=1),
        Group(connections=4, in_flight=3, tubes=2),
        Group(connections=2, in_flight=3, tubes=7),
        Group(connections=3, in_flight=16, body_bytes=0, programme="pd"),
        Group(connections=2, in_flight=10, held=25),
    ],
    ids=str,
)
def test_cycle_leaves_nothing_but_what_is_held(running: server.Server, group: Group) -> None:
    with closing(Load()) as load:
        load.add(group, open_group(group, running.address, time.monotonic() + 30))
        load.fill_held(30)
        load.run(30, commands_max=600)
        ready, reserved, puts = ready_jobs(running.address)
        assert load.commands >= 600
        assert load.groups[0].latencies.count == load.commands
        assert (ready, reserved) == (0, group.held * group.connections)
        assert puts > reserved


def test_put_only_leaves_every_job(running: server.Server) -> None:
    group = Group(connections=2, in_flight=10, programme="p")
    with closing(Load()) as load:
        load.add(group, open_group(group, running.address, time.monotonic() + 30))
        load.run(30, commands_max=400)
        assert ready_jobs(running.address) == (load.commands, 0, load.commands)


def test_cpu_time_by_letter(running: server.Server) -> None:
    group = Group(in_flight=10, held=20)
    with closing(Load()) as load:
        load.add(group, open_group(group, running.address, time.monotonic() + 30))
        load.fill_held(30)
        load.run(30, commands_max=600, cpu_pid=running.pid)
        letters = load.cpu_by_letter()
        assert set(letters) == {"p", "r", "d"}
        assert sum(commands for _, commands in letters.values()) == load.commands
        assert all(cpu_ns > 0 for cpu_ns, _ in letters.values())


def test_groups_are_counted_apart(running: server.Server) -> None:
    groups = (
        Group(connections=3),
        Group(body_bytes=9_000, in_flight=4, name="big"),
        Group(2, programme="", name="idle"),
    )
    with closing(Load()) as load:
        for group in groups:
            load.add(group, open_group(group, running.address, time.monotonic() + 30))
        load.run(30, commands_max=600)
        counts = [state.latencies.count for state in load.groups]
        assert counts[0] > 0
        assert counts[1] > 0
        assert counts[2] == 0
        assert sum(counts) == load.commands


@pytest.fixture
def pair() -> Iterator[tuple[Load, socket.socket]]:
    """A load of one connection that puts, reserves and deletes, and the other end of it."""
    ours, peer = socket.socketpair()
    with peer, closing(Load(stall_s=0.3)) as load:
        load.add(Group(body_bytes=3), [(ours, [])])
        yield load, peer


def test_conversation_by_hand(pair: tuple[Load, socket.socket]) -> None:
    load, peer = pair
    peer.sendall(b"INSERTED 41\r\n")
    with pytest.raises(LoadError, match="waits for 1 RESERVED"):
        load.run(10)
    assert peer.recv(1000) == b"put 1024 0 86400 3\r\nxxx\r\nreserve\r\n"


def test_delete_names_the_reserved_job() -> None:
    ours, peer = socket.socketpair()
    load = Load()  # with the usual patience: the other end is a thread, which may wait for its turn
    load.add(Group(body_bytes=3), [(ours, [])])
    received: list[bytes] = []
    answers = {b"pu": b"INSERTED 41\r\n", b"re": b"RESERVED 18446744073709551615 3\r\nabc\r\n", b"de": b"DELETED\r\n"}

    def answer() -> None:
        while piece := peer.recv(1000):
            received.append(piece)
            peer.sendall(answers[piece[:2]])

    thread = threading.Thread(target=answer)
    thread.start()
    load.run(10, commands_max=3)
    load.close()
    thread.join()
    peer.close()
    assert received[1:] == [b"reserve\r\n", b"delete 18446744073709551615\r\n"]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"DRAINING\r\n", "got DRAINING, expected INSERTED"),
        (b"DELETED\r\n", "got DELETED, expected INSERTED"),
        (b"INSERTED 1\r\nINSERTED 2\r\n", "got INSERTED, expected nothing"),
        (b"RESERVED 1 4\r\nabcd\r\n", "got RESERVED with a body of 4 bytes, expected INSERTED"),
        (b"INSERTED x\r\n", "INSERTED x"),
    ],
)
def test_wrong_reply_ends_the_run(pair: tuple[Load, socket.socket], reply: bytes, message: str) -> None:
    load, peer = pair
    peer.sendall(reply)
    with pytest.raises((LoadError, UnexpectedReplyError), match=message):
        load.run(10)


def test_closed_connection_ends_the_run(pair: tuple[Load, socket.socket]) -> None:
    load, peer = pair
    peer.shutdown(socket.SHUT_WR)
    with pytest.raises(LoadError, match="closed a connection"):
        load.run(10)


def test_silent_server_ends_the_run(pair: tuple[Load, socket.socket]) -> None:
    with pytest.raises(LoadError, match=r"no reply for 0\.3 s: connection 0 waits for 1 INSERTED"):
        pair[0].run(10)


@pytest.mark.parametrize("group", [Group(programme="x"), Group(in_flight=0), Group(held=-1), Group(programme="d")])
def test_load_that_cannot_be_driven_is_refused(group: Group) -> None:
    with pytest.raises(ValueError, match="programme"):
        Load().add(group, [])


def test_cpu_by_letter_needs_one_busy_connection() -> None:
    with pytest.raises(ValueError, match="one busy connection"):
        Load().run(1, 0, 1)
