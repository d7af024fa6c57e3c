"""Passing clients to the leader: real sockets, a leader that the test plays, and turns that the test runs."""

import contextlib
import gc
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from beanpole.server import limits
from beanpole.server.forward import HELLO, QUESTION, hello
from tests.unit.server.follower import ANSWER, FIRST_LINE, WAIT_S, End, Follower, following, listening


@pytest.fixture
def follower() -> Iterator[Follower]:
    with following() as made:
        yield made


def test_bytes_go_both_ways(follower: Follower) -> None:
    client, leader = follower.pair()
    client.send(b"put 0 0 60 1\r\nx\r\n")
    leader.expect(b"put 0 0 60 1\r\nx\r\n")
    leader.send(b"INSERTED 1\r\n")
    client.expect(b"INSERTED 1\r\n")


@pytest.mark.parametrize("command", [b"bury 1 2\r\n", b"beanpole-forwar\r\n", b"b\r\n", b"\r\n", b"peek 1\r\n"])
def test_a_command_that_comes_byte_by_byte(follower: Follower, command: bytes) -> None:
    client = follower.connect()
    for at in range(len(command)):
        client.send(command[at : at + 1])
        follower.turn(0.01)
    leader = follower.accept()
    leader.expect(command)
    client.send(command)  # what comes later is not looked at
    leader.expect(command)


@pytest.mark.parametrize("sent", [HELLO, FIRST_LINE + b"peek 1\r\n"])
@pytest.mark.parametrize("piece_bytes", [1, 1000])
def test_a_node_that_takes_us_for_the_leader_is_closed(follower: Follower, sent: bytes, piece_bytes: int) -> None:
    client = follower.connect()
    with contextlib.suppress(ConnectionError):
        for at in range(0, len(sent), piece_bytes):
            client.send(sent[at : at + piece_bytes])
            follower.turn(0.01)
    client.expect_end()
    assert follower.is_empty()
    with pytest.raises(BlockingIOError):
        follower.leader.accept()


def test_two_that_take_each_other_for_the_leader() -> None:
    """They don't go on for ever: each closes the other, and the client waits as long as it may."""
    with following(wait_ns=20_000_000) as one, following() as other:
        one.transport.lead_to(socket.AF_INET, other.address, hello("c", 2), [one.listener.fileno()])
        other.transport.lead_to(socket.AF_INET, one.address, hello("c", 1), [other.listener.fileno()])
        client = one.connect()
        client.send_some(b"peek 1\r\n")
        one.until(lambda: one.refusals, other)
        assert not other.refusals

        def has_ended() -> bool:
            one.transport.go_on()
            return not client.fill() and client.ended

        one.until(has_ended, other)
        one.until(lambda: one.is_empty() and other.is_empty(), other)


def test_what_begins_like_the_line_of_a_node_and_ends_is_passed_on(follower: Follower) -> None:
    client = follower.connect()
    client.send(b"bean")
    follower.turn(0.01)
    client.socket.shutdown(socket.SHUT_WR)
    leader = follower.accept()
    leader.expect(b"bean")
    leader.expect_end()


@pytest.mark.parametrize("who", ["client", "leader"])
def test_one_that_does_not_read_holds_up_nobody_else(follower: Follower, who: str) -> None:
    ends = follower.pair()
    deaf, loud = ends if who == "client" else ends[::-1]
    sent = bytearray()
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 0.1:  # so long, nothing more is taken
        size = loud.send_some(b"%08d" % len(sent) * 8192)
        if size:
            sent += (b"%08d" % len(sent) * 8192)[:size]
            quiet_since = time.monotonic()
        follower.turn()
    client, leader = follower.pair()
    client.send(b"peek 1\r\n")
    leader.expect(b"peek 1\r\n")
    leader.send(b"NOT_FOUND\r\n")
    client.expect(b"NOT_FOUND\r\n")
    turns = follower.turns
    follower.turn(0.05)
    assert follower.turns <= turns + 1, "it spins while one end does not read"
    deaf.expect(bytes(sent))
    loud.send(b"more")
    deaf.expect(b"more")


def test_a_fin_of_the_client_is_a_fin_for_the_leader(follower: Follower) -> None:
    client, leader = follower.pair()
    client.send(b"reserve\r\n")
    client.socket.shutdown(socket.SHUT_WR)
    leader.expect(b"reserve\r\n")
    leader.expect_end()
    leader.send(b"TIMED_OUT\r\n")
    leader.socket.close()
    client.expect(b"TIMED_OUT\r\n")
    client.expect_end()
    assert follower.is_empty()


def test_an_end_goes_behind_what_was_not_taken_yet(follower: Follower) -> None:
    client, leader = follower.pair()
    data = b"x" * 30_000_000
    view = memoryview(data)
    for _ in range(200):
        view = view[client.send_some(view) :]
        follower.turn(0.001)
    client.send_some(b"")
    client.socket.shutdown(socket.SHUT_WR)
    leader.expect(data[: len(data) - len(view)])
    leader.expect_end()


def test_the_leader_that_closes_closes_the_client(follower: Follower) -> None:
    client, leader = follower.pair()
    client.send(b"quit\r\n")
    leader.expect(b"quit\r\n")
    leader.send(b"last")
    leader.socket.close()
    client.expect(b"last")
    client.expect_end()
    assert follower.is_empty(), "a client that does not close itself keeps two descriptors"


def test_what_the_leader_said_before_its_rst_arrives(follower: Follower) -> None:
    client, leader = follower.pair()
    client.send(b"unread")
    leader.follower.turn(0.01)
    leader.send(b"INSERTED 1\r\n")
    leader.reset()
    client.expect(b"INSERTED 1\r\n")
    client.expect_end()
    assert follower.is_empty()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_goes_while_it_waits_closes_the_leaders_side(follower: Follower, how: str) -> None:
    client, leader = follower.pair()
    client.send(b"reserve\r\n")
    leader.expect(b"reserve\r\n")
    if how == "reset":
        client.reset()
    else:
        client.socket.close()
    leader.expect_end()
    leader.socket.close()
    follower.until(follower.is_empty)


def test_what_a_client_sent_before_its_rst_is_passed_on(follower: Follower) -> None:
    client, leader = follower.pair()
    client.socket.send(b"put 0 0 60 0\r\n\r\n")
    client.reset()
    leader.expect(b"put 0 0 60 0\r\n\r\n")
    leader.expect_end()
    assert follower.is_empty()


@pytest.mark.parametrize(("who", "ends_by_reset"), [("client", False), ("node", True)])
def test_the_leader_can_tell_who_ended_a_connection(follower: Follower, who: str, ends_by_reset: bool) -> None:
    client, leader = follower.pair()
    client.send(b"reserve\r\n")
    leader.expect(b"reserve\r\n")
    if who == "client":
        client.reset()
        follower.until(follower.is_empty)
    else:
        follower.transport.stop()
    leader.socket.settimeout(WAIT_S)
    if ends_by_reset:
        with pytest.raises(ConnectionResetError):
            leader.socket.recv(1)
    else:
        assert leader.socket.recv(1) == b""


@pytest.mark.parametrize("how", ["close", "half-close", "reset"])
def test_a_client_that_goes_before_it_has_sent_anything(follower: Follower, how: str) -> None:
    client = follower.connect()
    follower.until(lambda: follower.transport.pair_count)
    if how == "close":
        client.socket.close()
    elif how == "reset":
        client.reset()
    else:
        client.socket.shutdown(socket.SHUT_WR)
        client.expect_end()
    follower.until(follower.is_empty)
    with pytest.raises(BlockingIOError):
        follower.leader.accept()


def refuse(follower: Follower) -> socket.socket:
    """Let the leader refuse connections; return what will listen in its place."""
    address = follower.leader.getsockname()
    follower.leader.close()
    follower.leader = socket.socket()
    follower.leader.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    follower.leader.bind(address)
    follower.leader.setblocking(False)
    return follower.leader


def test_clients_wait_while_the_leader_refuses() -> None:
    with following() as follower, refuse(follower) as leader:
        first, second = follower.connect(), follower.connect()
        first.send(b"peek 1\r\n")
        follower.until(lambda: follower.refusals)
        second.send(b"peek 2\r\n")
        for _ in range(10):
            follower.turn(0.002)
        assert follower.transport.pair_count == 2
        assert len(follower.refusals) == 1, "each is not tried for itself"
        leader.listen()
        follower.transport.go_on()
        follower.accept().expect(b"peek 1\r\n")
        follower.accept().expect(b"peek 2\r\n")


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_goes_while_the_leader_refuses(how: str) -> None:
    """What it sent before still runs."""
    with following() as follower, refuse(follower):
        client, other = follower.connect(), follower.connect()
        client.send(b"x")
        follower.until(lambda: follower.refusals)
        getattr(client.socket if how == "close" else client, how)()
        other.socket.close()
        follower.until(lambda: follower.transport.pair_count == 1)
        follower.turn(0.01)
        assert follower.transport.pair_count == 1


def test_clients_for_whom_the_leader_is_not_reached_are_for_the_next() -> None:
    with following(connect_ns=50_000_000) as follower, listening(0) as deaf, listening() as new, ExitStack() as stack:
        for _ in range(4):  # its backlog is full, so that it ignores whoever comes
            stack.enter_context(socket.socket()).setblocking(False)
            stack.enter_context(socket.socket())
            probe = stack.enter_context(socket.socket())
            probe.setblocking(False)
            probe.connect_ex(deaf.getsockname())
        follower.leader.close()
        follower.lead_to(deaf)
        client = follower.connect()
        client.send(b"peek 1\r\n")
        follower.until(lambda: follower.refusals)
        follower.lead_to(new)
        follower.accept().expect(b"peek 1\r\n")


@pytest.mark.parametrize("said", [b"", ANSWER[:5]])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_leader_that_goes_before_it_has_answered_is_given_nothing(follower: Follower, how: str, said: bytes) -> None:
    """It may not lead any more, or have died before it took the connection."""
    client = follower.connect()
    client.send(b"peek 1\r\n")
    end = End(follower, follower.accepted())
    end.expect(FIRST_LINE + QUESTION)
    end.send(said)
    follower.turn(0.01)
    getattr(end.socket if how == "close" else end, how)()
    follower.until(lambda: follower.refusals)
    follower.transport.go_on()
    follower.accept().expect(b"peek 1\r\n")


@pytest.mark.parametrize("piece_bytes", [1, 1000])
def test_what_answers_otherwise_is_no_leader(follower: Follower, piece_bytes: int) -> None:
    client = follower.connect()
    client.send(b"peek 1\r\n")
    end = End(follower, follower.accepted())
    end.expect(FIRST_LINE + QUESTION)
    with contextlib.suppress(ConnectionError):
        for at in range(0, 15, piece_bytes):
            end.send(b"UNKNOWN_WHATEVER"[at : at + piece_bytes])
            follower.turn(0.01)
    client.expect_end()


def test_a_client_for_which_the_leader_is_connected_is_for_the_next() -> None:
    with following() as follower, listening(0) as deaf, listening() as new, ExitStack() as stack:
        for _ in range(4):
            probe = stack.enter_context(socket.socket())
            probe.setblocking(False)
            probe.connect_ex(deaf.getsockname())
        follower.leader.close()
        follower.lead_to(deaf)
        client = follower.connect()
        client.send(b"peek 1\r\n")
        follower.until(lambda: follower.transport.pair_count)
        follower.turn(0.02)
        follower.lead_to(new)
        follower.accept().expect(b"peek 1\r\n")


def test_clients_that_wait_can_be_served_elsewhere() -> None:
    with following() as follower, refuse(follower):
        client, silent = follower.connect(), follower.connect()
        client.send(b"peek 1\r\n")
        follower.until(lambda: follower.refusals and follower.transport.pair_count == 2)
        follower.transport.wait()
        taken = [socket.socket(fileno=fd) for fd, _ in follower.transport.take_waiting()]
        assert follower.is_empty()
        assert sorted(each.getpeername() for each in taken) == sorted(
            each.socket.getsockname() for each in (client, silent)
        )
        [knows] = select.select(taken, [], [], 0)[0]
        assert knows.recv(100) == b"peek 1\r\n"
        for each in taken:
            each.close()


def test_a_connection_that_is_reached_in_time_stays() -> None:
    with following(connect_ns=200_000_000) as follower:
        client, leader = follower.pair()
        time.sleep(0.25)
        follower.turn(0.05)
        client.send(b"peek 1\r\n")
        leader.expect(b"peek 1\r\n")


def test_no_more_clients_than_there_may_be() -> None:
    with following(connections_max=1) as follower:
        client, leader = follower.pair()
        late = follower.connect()
        late.send(b"late")
        follower.until(lambda: follower.paused)
        assert follower.transport.pair_count == 1
        client.socket.close()
        leader.expect_end()
        leader.socket.close()
        accepted = follower.accept()
        accepted.expect(b"late")


def test_without_descriptors_those_that_are_there_go_on(follower: Follower) -> None:
    client, leader = follower.pair()
    late = follower.connect()
    late.send_some(b"late")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()  # what tests before have left would be a second one, whenever it is found
    first_free = socket.socket()
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free.fileno() + 1, before[1]))
    try:
        first_free.close()  # one is left: enough for a client, and none for the leader's side
        follower.until(lambda: follower.paused)
        client.send(b"peek 1\r\n")
        leader.expect(b"peek 1\r\n")
        assert follower.transport.pair_count == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    late.expect_end()
    assert follower.paused == ["EMFILE"]
    follower.connect().send(b"x")
    follower.accept().expect(b"x")  # it goes on by itself


def test_a_quiet_client_is_served_beside_many_that_flood(follower: Follower) -> None:
    floods = [follower.pair() for _ in range(60)]
    client, leader = follower.pair()
    waits = []
    for _ in range(30):
        for loud, sink in floods:
            loud.send_some(b"x" * 262_144)
            sink.fill()
            sink.received.clear()
        client.socket.send(b"peek 1\r\n")
        before = follower.turns
        leader.expect(b"peek 1\r\n")
        waits.append(follower.turns - before)
    assert sorted(waits)[len(waits) // 2] <= 2, waits
    assert max(waits) <= 1 + 60 * 262_144 // limits.FORWARD_BYTES_PER_TURN + 2, waits


def test_another_leader_closes_those_of_the_one_before(follower: Follower) -> None:
    client, leader = follower.pair()
    with listening() as new:
        follower.transport.lead_to(socket.AF_INET, new.getsockname(), FIRST_LINE, [follower.listener.fileno()])
        client.expect_end()
        leader.expect_end()
        follower.leader = new
        client, leader = follower.pair()
        client.send(b"x")
        leader.expect(b"x")


def test_clients_wait_while_no_leader_is_known(follower: Follower) -> None:
    passed_on, _ = follower.pair()
    early = follower.connect()
    follower.until(lambda: follower.transport.pair_count == 2)
    follower.transport.wait()
    passed_on.expect_end()
    late = follower.connect()
    for client in (early, late):
        client.send(b"x")
    follower.turn(0.02)
    assert follower.transport.pair_count == 1
    follower.lead_to(follower.leader)
    for _ in range(2):
        follower.accept().expect(b"x")


def test_clients_that_wait_are_closed_when_nobody_is_served(follower: Follower) -> None:
    passed_on, _ = follower.pair()
    waiting = follower.connect()
    follower.until(lambda: follower.transport.pair_count == 2)
    follower.transport.stop()
    for client in (passed_on, waiting):
        client.expect_end()


def test_a_unix_socket(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.listen()
    listener.setblocking(False)
    with following(listener) as follower:
        client, leader = follower.pair()
        body = bytes(range(256)) * 4000
        client.send(body)
        client.socket.shutdown(socket.SHUT_WR)
        leader.expect(body)
        leader.expect_end()
        leader.send(body)
        leader.socket.close()
        client.expect(body)
        client.expect_end()
