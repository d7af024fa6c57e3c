"""Addresses, and which connection has which tubes."""

import socket
import threading
import time

import pytest

from benchmarks.bench.dial import SetupError, allow_descriptors, converse, make_tubes, tubes_of
from benchmarks.bench.plan import Group


def test_which_connection_has_which_tubes() -> None:
    for group, wanted in (
        (Group(connections=3), [[b"main-own-0"], [b"main-own-1"], [b"main-own-2"]]),
        (Group(connections=4, tubes=2), [[b"main-0"], [b"main-1"], [b"main-0"], [b"main-1"]]),
        (Group(connections=2, tubes=5), [[b"main-0", b"main-2", b"main-4"], [b"main-1", b"main-3"]]),
    ):
        assert [tubes_of(group, index) for index in range(group.connections)] == wanted


def test_wrong_answer_is_named() -> None:
    ours, peer = socket.socketpair()
    with ours, peer:
        peer.sendall(b"USING a\r\nNOT_FOUND\r\n")
        with pytest.raises(SetupError, match="NOT_FOUND"):
            converse(ours, [b"use a\r\n", b"watch a\r\n"], [b"USING", b"WATCHING"], time.monotonic() + 10)


def test_closed_connection_is_named() -> None:
    ours, peer = socket.socketpair()
    with ours:
        peer.close()
        with pytest.raises((SetupError, BrokenPipeError)):
            converse(ours, [b"use a\r\n"], [b"USING"], time.monotonic() + 10)


def test_setup_ends_at_its_deadline() -> None:
    ours, peer = socket.socketpair()
    with ours, peer, pytest.raises(SetupError, match="too slow"):
        converse(ours, [b"use a\r\n"], [b"USING"], time.monotonic() - 1)


def test_make_tubes_asks_for_a_use_and_a_put_each() -> None:
    ours, peer = socket.socketpair()
    received = bytearray()

    def answer() -> None:
        while piece := peer.recv(65536):
            received.extend(piece)
            lines = [line.split()[0] for line in piece.split(b"\r\n") if line.startswith((b"use", b"put"))]
            names = [line for line in piece.split(b"\r\n") if line.startswith(b"use")]
            replies = {b"put": b"INSERTED 1\r\n", b"use": b"USING " + names[0].split()[1] + b"\r\n"}
            peer.sendall(b"".join(replies[verb] for verb in lines))

    thread = threading.Thread(target=answer)
    thread.start()
    with ours:
        make_tubes(ours, 3, time.monotonic() + 10)
    thread.join()
    peer.close()
    assert received.count(b"put 1024 0 86400 8\r\nxxxxxxxx\r\n") == 3
    assert received.endswith(b"use default\r\n")


def test_more_descriptors_than_allowed_are_refused() -> None:
    with pytest.raises(SetupError, match="ulimit"):
        allow_descriptors(1 << 40)
