"""Input in every shape: byte by byte, all at once, without end, urgent, slow, and big."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.process import Client, Process, healthy, serving
from tests.servers import REPLY_TIMEOUT_S

MIB = 1 << 20
BIG = 10_000_000
"""Bytes of a body over what one turn reads by far."""


def test_line_without_end_is_swallowed() -> None:
    with healthy() as process, process.connect() as client, process.connect() as other:
        before = process.rss_bytes()
        piece = b"x" * MIB
        for _ in range(100):
            client.send(piece)
            other.ask(b"use other\r\n", b"USING other\r\n")
            grown = process.rss_bytes() - before
            assert grown < 4 * MIB, f"a line without end takes {grown} bytes"
        client.ask(b"x\r\nuse after\r\n", b"BAD_FORMAT\r\nUSING after\r\n")


def test_body_over_the_limit_is_swallowed() -> None:
    with healthy() as process, process.connect() as client:
        before = process.rss_bytes()
        client.send(b"put 0 0 10 %d\r\n" % (50 * MIB))
        piece = b"delete 1\r\n".ljust(MIB, b"x")
        for _ in range(50):
            client.send(piece)
        client.ask(b"??use after\r\n", b"JOB_TOO_BIG\r\nUSING after\r\n")
        assert process.rss_bytes() - before < 4 * MIB


@pytest.mark.parametrize(("flags", "size", "pieces"), [((), 65535, 997), (("-z", str(BIG)), BIG, 250)])
def test_body_of_the_largest_size_arrives_slowly(flags: tuple[str, ...], size: int, pieces: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"e" * (size % 256)
    data = b"put 0 0 100 %d\r\n%b\r\n" % (size, body)
    step = len(data) // pieces
    with healthy(*flags) as process, process.connect() as client, process.connect() as other:
        before = process.rss_bytes()
        for at in range(0, len(data), step):
            client.send(data[at : at + step])
            if at + step < len(data):
                other.ask(b"peek 1\r\n", b"NOT_FOUND\r\n")
            assert process.rss_bytes() - before < 2 * size + 4 * MIB
        client.expect(b"INSERTED 1\r\n")
        other.ask(b"reserve\r\n", b"RESERVED 1 %d\r\n%b\r\n" % (size, body))
        other.ask(b"delete 1\r\n", b"DELETED\r\n")
        client.ask(b"put 0 0 100 %d\r\n" % (size + 1) + bytes(size + 3), b"JOB_TOO_BIG\r\n")


def test_memory_of_big_bodies_is_given_back() -> None:
    with healthy("-z", str(BIG)) as process, process.connect() as client:
        for number in range(1, 6):
            client.send(b"put 0 0 100 %d\r\n" % BIG + bytes(BIG) + b"\r\nreserve\r\n")
            client.expect(b"INSERTED %d\r\n" % number)
            client.expect(b"RESERVED %d %d\r\n" % (number, BIG) + bytes(BIG) + b"\r\n")
            client.ask(b"delete %d\r\n" % number, b"DELETED\r\n")
            if number == 1:
                before = process.rss_bytes()
        assert process.rss_bytes() - before < BIG


def test_urgent_data_does_not_hold_up_what_follows(process: Process) -> None:
    with process.connect() as client:
        with process.frozen():
            client.send(b"use a\r\n")
            client.socket.send(b"!", socket.MSG_OOB)
            client.send(b"use b\r\n")
        client.expect(b"USING a\r\nUSING b\r\n")


def test_urgent_data_alone_does_not_spin(process: Process) -> None:
    with process.connect() as client, process.connect() as other:
        client.socket.send(b"!", socket.MSG_OOB)
        started = process.cpu_ticks()
        other.ask(b"reserve-with-timeout 1\r\n", b"TIMED_OUT\r\n")
        assert process.cpu_ticks() - started <= 20
        client.ask(b"use a\r\n", b"USING a\r\n")
        for _ in range(100):
            client.send(b"use")
            client.socket.send(b"!", socket.MSG_OOB)
            client.ask(b" a\r\n", b"USING a\r\n")


@contextmanager
def unix_client() -> Iterator[tuple[Process, Client]]:
    """A server and a client to it over a Unix socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "socket")
        with serving("-l", f"unix:{path}") as process, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(REPLY_TIMEOUT_S)
            connection.connect(str(path))
            yield process, Client(connection)


def test_unix_client_may_pass_descriptors_that_nobody_takes() -> None:
    with unix_client() as (process, client):
        client.ask(b"use a\r\n", b"USING a\r\n")
        before = process.descriptor_count()
        with Path(os.devnull).open("rb") as file, process.frozen():
            for _ in range(3):
                socket.send_fds(client.socket, [b"use a\r\n"], [file.fileno()])
                client.send(b"use b\r\n")
        client.expect(b"USING a\r\nUSING b\r\n" * 3)
        assert process.descriptor_count() == before


def test_unix_clients_may_share_a_socket() -> None:
    with unix_client() as (process, client):
        with process.frozen():
            client.send(b"use a\r\n")
            child = os.fork()
            if child == 0:
                client.send(b"use b\r\n")
                os._exit(0)
            os.waitpid(child, 0)
            client.send(b"use c\r\n")
        client.expect(b"USING a\r\nUSING b\r\nUSING c\r\n")
