"""What becomes of a front's clients while there is no link, and when one ends."""

import random
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from beanpole.protocol import limits
from beanpole.protocol.link import frame
from tests.servers import HOST
from tests.unit.front.house import CLOSE, DATA, DRAIN, FIN, OPEN, PIECE, PING, ROOM, House, joined, served

WAIT_NS = 10_000_000_000


# --- Without a link ---------------------------------------------------------------------------------------------------


@pytest.fixture
def lonely() -> Iterator[House]:
    """A house without a link, whose clock stands still."""
    now_ns = 1
    with served(linked=False, wait_ns=WAIT_NS, clock=lambda: now_ns) as found:

        def pass_time(ns: int) -> None:
            nonlocal now_ns
            now_ns += ns
            found.run()

        found.pass_time = pass_time  # type: ignore[attr-defined]
        yield found


def test_clients_wait_for_a_link_and_nothing_of_them_is_read(lonely: House) -> None:
    first, second = lonely.connect(), lonely.connect()
    first.sendall(b"stats\r\n")
    lonely.run()
    assert (lonely.front.client_count, lonely.front.waiting_count) == (2, 2)
    lonely.attach()
    frames = lonely.frames()
    assert [each[:2] for each in frames] == [(1, OPEN), (2, OPEN), (1, DATA)]
    assert frames[0][2].decode().splitlines()[0] == f"peer {HOST}:{first.getsockname()[1]}"
    second.sendall(b"quit\r\n")
    assert lonely.frames() == [(2, DATA, b"quit\r\n")]


def test_client_that_has_waited_long_enough_is_closed(lonely: House) -> None:
    first = lonely.connect()
    lonely.pass_time(WAIT_NS - 1)  # type: ignore[attr-defined]
    second = lonely.connect()
    assert lonely.front.client_count == 2
    lonely.pass_time(1)  # type: ignore[attr-defined]
    assert first.recv(1) == b""
    assert lonely.front.client_count == 1
    lonely.attach()
    assert [each[:2] for each in lonely.frames()] == [(1, OPEN)]
    second.sendall(b"x")
    assert lonely.frames() == [(1, DATA, b"x")]


def test_client_that_goes_while_it_waits_is_one_only_if_it_has_said_something(lonely: House) -> None:
    gone, said = lonely.connect(), lonely.connect()
    gone.close()
    said.sendall(b"put 0 0 1 1\r\nx\r\n")
    said.shutdown(socket.SHUT_WR)
    lonely.run()
    assert lonely.front.client_count == 1
    lonely.attach()
    assert [each[:2] for each in lonely.frames()] == [(1, OPEN), (1, DATA), (1, FIN)]


def test_client_of_which_nothing_was_read_outlives_a_link(house: House) -> None:
    fresh, known = house.connect(), house.connect()
    known.sendall(b"x")
    house.frames()
    house.link.close()
    house.run()
    assert known.recv(100) == b""
    assert house.ends == [("ended", 2)]
    assert house.front.waiting_count == house.front.client_count == 1
    house.attach()
    fresh.sendall(b"y")
    assert [each[:2] for each in house.frames()] == [(1, OPEN), (1, DATA)]


def test_link_may_follow_from_within_the_end_of_one(house: House) -> None:
    house.connect()
    house.frames()
    house.front.on_link_end = lambda *_: house.attach(frame(0, PING, b"\0"))
    house.link.close()
    house.run(1)
    assert [each[:2] for each in house.frames()] == [(1, OPEN), (0, PING)]


def test_closed_link_is_not_reported_and_its_clients_are_closed(house: House) -> None:
    client = house.connect()
    client.sendall(b"x")
    house.frames()
    house.front.close_link()
    assert (client.recv(1), house.ends, house.front.client_count) == (b"", [], 0)
    assert house.link.recv(1) == b""


def test_waiting_clients_are_given_up_with_all_that_they_have_sent(lonely: House) -> None:
    client = lonely.connect()
    client.sendall(b"stats\r\n")
    lonely.run()
    [(fd, is_unix, *_)] = lonely.front.take_waiting()
    with socket.socket(fileno=fd) as taken:
        assert (taken.recv(100), is_unix, lonely.front.client_count) == (b"stats\r\n", False, 0)
        lonely.run()


@pytest.mark.parametrize("auth", [b"", b"auth bp_" + b"t" * 43 + b"\r\n"])
@pytest.mark.parametrize("linked", [True, False])
def test_who_asks_for_a_link_is_handed_over(*, linked: bool, auth: bytes) -> None:
    with served(linked=linked) as house:
        asked: list[tuple[int, bytes, bool, object]] = []
        house.front.on_link_asked = lambda *about: asked.append(about)
        client, other = house.connect(), house.connect()
        other.sendall(auth + b"beanpole is a word\r\n")
        client.sendall(auth + b"beanpole-link 1 - 0 0\r\n")
        house.run()
        [(fd, data, is_unix, _)] = asked
        with socket.socket(fileno=fd) as taken:
            rest = b"" if linked else taken.recv(100)
            assert (data + rest, is_unix, house.front.client_count) == (auth + b"beanpole-link 1 - 0 0\r\n", False, 1)
        if linked:
            assert {each[:2] for each in house.frames()} == {(1, OPEN), (2, OPEN), (1, CLOSE), (2, DATA)}


# --- Silence and the end ----------------------------------------------------------------------------------------------


def test_silent_server_is_asked_and_then_given_up(lonely: House) -> None:
    lonely.attach(asks=True)
    client = lonely.connect()
    client.sendall(b"x")
    second = limits.LINK_SILENCE_S * 1_000_000_000
    lonely.pass_time(second)  # type: ignore[attr-defined]
    assert [each[:2] for each in lonely.frames()] == [(1, OPEN), (1, DATA)]
    for _ in range(limits.LINK_SILENCES_MAX):
        lonely.pass_time(second)  # type: ignore[attr-defined]
        assert lonely.frames() == [(0, PING, b"\0")]
        lonely.send((0, PING, b"\1"))
        lonely.pass_time(second)  # type: ignore[attr-defined]
        assert lonely.frames() == []
    for left in reversed(range(limits.LINK_SILENCES_MAX)):
        assert not lonely.ends
        lonely.pass_time(second)  # type: ignore[attr-defined]
        assert bool(lonely.ends) == (left == 0)
    assert lonely.ends == [("silent", 1)]
    assert client.recv(1) == b""


def test_drain_takes_no_more_clients_and_tells_when_the_last_has_gone(house: House) -> None:
    gone: list[bool] = []
    house.front.on_empty = lambda: gone.append(True)
    client = house.connect()
    client.sendall(b"x")
    house.frames()
    house.front.drain()
    house.front.drain()
    assert house.frames() == [(0, DRAIN, b"")]
    with socket.socket() as late:
        late.connect(house.listener.getsockname())
        house.run()
        assert (house.front.client_count, gone) == (1, [])
    house.send((1, CLOSE))
    assert (client.recv(1), gone) == (b"", [True])


def test_drain_without_clients_is_done_at_once(lonely: House) -> None:
    gone: list[bool] = []
    lonely.front.on_empty = lambda: gone.append(True)
    waiting = lonely.connect()
    lonely.front.drain()
    lonely.run()
    assert (waiting.recv(1), gone) == (b"", [True])


def test_loop_around_it_is_asked_to_call_again_while_there_is_more(house: House) -> None:
    client = house.connect()
    house.frames()
    client.sendall(b"x" * 2 * PIECE)
    calls: list[bool] = []
    house.front.run_soon = lambda: calls.append(True)
    while not calls:
        house.front.poll()
    assert len(joined(house.frames())) == 2 * PIECE


@pytest.mark.parametrize("seed", range(20))
def test_bytes_by_chance_end_the_link_with_one_reason_or_change_nothing(seed: int) -> None:
    """What a server may send, in pieces and with some bytes changed: the front lives, and takes the next link."""
    chance = random.Random(seed)
    valid = (
        frame(1, DATA, b"USING a\r\n"),
        frame(2, DATA, b"x" * 1000),
        frame(1, ROOM, (5).to_bytes(4, "little")),
        frame(0, PING, b"\0"),
        frame(2, CLOSE),
    )
    with served() as house:
        for _ in range(30):
            if not house.front.link.is_open:
                assert len(house.ends) == 1
                house.ends.clear()
                house.attach()
            for client in house.clients[:-2]:
                client.close()
            del house.clients[:-2]
            while len(house.clients) < 2 or house.front.client_count < 2:
                house.connect()
            data = bytearray(b"".join(chance.choices(valid, k=5)))
            for _ in range(chance.randrange(3)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            for at in range(0, len(data), size := chance.choice((1, 7, len(data)))):
                with suppress(OSError):
                    house.link.send(data[at : at + size])
                house.run(1)
            house.run()
            with suppress(OSError):
                while house.link.recv(PIECE):
                    pass
