"""What a front does between its clients and the server."""

import mmap
import socket
import struct
from contextlib import ExitStack, closing

import pytest

from beanpole.front.limits import YIELD_NS
from beanpole.protocol.link import frame
from tests.servers import HOST, REPLY_TIMEOUT_S
from tests.unit.front.house import CLOSE, DATA, FIN, OPEN, PIECE, PING, ROOM, ROOM_BYTES, House, joined, served


def test_client_is_opened_and_its_bytes_go_both_ways(house: House) -> None:
    client = house.connect()
    host, port = client.getsockname()
    assert house.frames() == [(1, OPEN, f"peer {host}:{port}\nway tcp\n".encode())]
    client.sendall(b"use a\r\n")
    assert house.frames() == [(1, DATA, b"use a\r\n")]
    house.send((1, DATA, b"USING "), (1, DATA, b"a\r\n"))
    assert client.recv(100) == b"USING a\r\n"


def test_client_of_a_unix_socket_is_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as stack:
        listener.bind(str(tmp_path_factory.mktemp("s") / "s"))
        listener.listen()
        house = stack.enter_context(closing(House(listener)))
        client = house.connect()
        assert house.frames() == [(1, OPEN, b"peer unix\nway unix\n")]
        client.sendall(b"x" * 70_000)  # it comes in pieces, though all of it is there
        assert joined(house.frames()) == b"x" * 70_000


def test_no_more_is_read_from_a_client_than_the_server_takes(house: House) -> None:
    client, other = house.connect(), house.connect()
    house.frames()
    client.setblocking(False)
    body = b"x" * (ROOM_BYTES + 1000)
    sent = client.send(body)
    found = joined(house.frames())
    while sent < len(body):
        sent += client.send(body[sent:])
        found += joined(house.frames())
    assert len(found) == ROOM_BYTES
    other.sendall(b"stats\r\n")
    assert house.frames() == [(2, DATA, b"stats\r\n")]
    house.send((1, ROOM, (600).to_bytes(4, "little")))
    assert len(joined(house.frames())) == 600
    house.send((1, ROOM, (1000).to_bytes(4, "little")))
    assert len(joined(house.frames())) == 400


def test_who_sends_little_waits_for_no_more_than_a_piece_of_those_who_send_much(house: House) -> None:
    many, other = [house.connect() for _ in range(60)], house.connect()
    house.frames()
    for each in many:
        each.setblocking(False)
        each.send(b"x" * ROOM_BYTES)
    house.run(20)  # the link takes no more
    other.sendall(b"stats\r\n")
    found = house.frames()
    before = found[: found.index((61, DATA, b"stats\r\n"))]
    behind = [channel for channel, _, data in found if channel != 61 and len(data) == PIECE]
    assert sum(len(data) for *_, data in before) < 0.8 * 60 * PIECE, "as it would be if each had its turn"
    assert set(behind) == set(range(1, 61)), "nobody starves"


def test_client_that_reads_nothing_gets_no_more_room_and_holds_up_nobody(house: House) -> None:
    slow, other = house.connect(slow=True), house.connect()
    house.frames()
    room, sent = ROOM_BYTES, 0
    while room >= PIECE:
        house.send((1, DATA, b"y" * PIECE))
        room, sent = room - PIECE, sent + PIECE
        for channel, kind, value in house.frames():
            assert (channel, kind) == (1, ROOM)
            room += int.from_bytes(value, "little")
    house.send((2, DATA, b"USING a\r\n"))
    assert other.recv(100) == b"USING a\r\n"
    while sent:
        sent -= len(slow.recv(PIECE))
        house.run()
    assert {(channel, kind) for channel, kind, _ in house.frames()} == {(1, ROOM)}


def test_end_of_a_client_is_told_as_it_came(house: House) -> None:
    half, gone = house.connect(), house.connect()
    house.frames()
    half.sendall(b"reserve\r\n")
    half.shutdown(socket.SHUT_WR)
    assert house.frames() == [(1, DATA, b"reserve\r\n"), (1, FIN, b"")]
    house.send((1, DATA, b"TIMED_OUT\r\n"), (1, CLOSE))
    assert half.recv(100) == b"TIMED_OUT\r\n"
    assert half.recv(100) == b""
    gone.sendall(b"put 0 0 1 1\r\n")
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    gone.close()
    assert house.frames() == [(1, CLOSE, b"\0"), (2, DATA, b"put 0 0 1 1\r\n"), (2, CLOSE, b"\0")]
    assert house.front.client_count == 0


def test_channel_is_used_again_when_both_ends_have_closed_it(house: House) -> None:
    first = house.connect()
    first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    first.close()
    second = house.connect()
    assert [each[:2] for each in house.frames()] == [(1, OPEN), (1, CLOSE), (2, OPEN)]
    # What the server has sent before it knew is passed over.
    house.send((1, DATA, b"lost"), (1, ROOM, b"\1\0\0\0"), (1, CLOSE), (2, DATA, b"x"))
    assert second.recv(100) == b"x"
    third = house.connect()
    assert [each[:2] for each in house.frames()] == [(1, OPEN)]
    house.send((1, DATA, b"y"))
    assert third.recv(100) == b"y"


def test_server_closes_a_client_after_all_that_it_has_to_read(house: House) -> None:
    slow = house.connect(slow=True)
    house.frames()
    house.send(*[(1, DATA, b"z" * PIECE)] * (ROOM_BYTES // PIECE), (1, CLOSE))
    house.connect()
    # Its number is free, though it has not read all; that could wait for something else to be sent.
    assert [each[:2] for each in house.frames()][-2:] == [(1, CLOSE), (1, OPEN)]
    got = 0
    while piece := slow.recv(PIECE):
        got += len(piece)
        house.run()
    assert got == ROOM_BYTES
    assert house.front.client_count == 1


def test_ping_is_answered(house: House) -> None:
    house.send((0, PING, b"\0"), (0, PING, b"\1"))
    assert house.frames() == [(0, PING, b"\1")]


WRONG: dict[str, bytes] = {
    "kind 9": frame(1, 9),
    "kind 1": frame(1, OPEN),
    "channel of PING": frame(1, PING, b"\0"),
    "size of DATA": frame(1, DATA, b""),
    "DATA of no channel": frame(2, DATA, b"x"),
    "CLOSE of no channel": frame(1, CLOSE) + frame(1, CLOSE),
    "ROOM of 0": frame(1, ROOM, bytes(4)),
    "ROOM without end": frame(1, ROOM, b"\xff\xff\xff\x7f"),
}


@pytest.mark.parametrize("reason", WRONG)
def test_wrong_frame_ends_the_link(house: House, reason: str) -> None:
    house.connect()
    house.link.send(WRONG[reason])
    house.run()
    assert ([each for each, _ in house.ends], house.front.link.is_open) == ([reason], False)


def test_more_than_there_is_room_for_ends_the_link(house: House) -> None:
    house.connect(slow=True)
    while house.front.link.is_open:
        house.send((1, DATA, b"x" * 1000))
    assert house.ends == [("DATA without room", 1)]


def test_what_came_behind_the_first_line_is_not_lost() -> None:
    with served(frame(0, PING, b"\0")) as house:
        assert house.frames() == [(0, PING, b"\1")]


def test_end_of_the_link_ends_the_front_and_what_came_before_is_passed_on(house: House) -> None:
    client = house.connect()
    house.link.send(frame(1, DATA, b"BYE\r\n"))
    house.link.close()
    house.front.run()
    assert client.recv(100) == b"BYE\r\n"
    assert client.recv(100) == b""
    assert house.ends == [("ended", 1)]


def test_one_client_too_many_waits_for_a_place() -> None:
    with served(connections_max=2) as house:
        clients = [house.connect() for _ in range(3)]
        assert house.front.client_count == 2
        assert house.observer.pauses == ["EMFILE"]
        clients[0].close()
        assert len(house.frames()) == 3
        house.send((1, CLOSE))
        assert [each[:2] for each in house.frames()] == [(1, CLOSE), (1, OPEN)]


def test_front_that_has_more_clients_leaves_new_ones_to_others_for_a_while() -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    now_ns = 1
    with socket.create_server((HOST, 0)) as listener, ExitStack() as stack:
        houses = [House(listener, memory=memory, number=each, front_count=2, clock=lambda: now_ns) for each in range(2)]
        for house in houses:
            stack.enter_context(closing(house))
        clients = [houses[0].connect() for _ in range(8)]
        first = houses[0].front
        assert first.client_count == 3
        now_ns += YIELD_NS - 1
        houses[0].run()
        assert first.client_count == 3
        now_ns += 1
        houses[0].run()
        assert first.client_count == 4  # nobody else has taken it: they hang
        houses[1].run()
        assert houses[1].front.client_count == len(clients) - 4


def test_front_that_does_not_run_counts_for_nothing() -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    memory[:8] = b"\xff" * 8
    with served(memory=memory, number=1, front_count=2, clock=lambda: 1) as house:
        clients = [house.connect() for _ in range(8)]
        assert house.front.client_count == len(clients)


def test_frames_are_counted_with_what_they_have_waited(house: House) -> None:
    client = house.connect()
    client.sendall(b"x")
    house.frames()
    frames, waited_ns = struct.unpack_from("=qq", house.memory, 8)
    assert frames == 1
    assert 0 < waited_ns < REPLY_TIMEOUT_S * 1e9
