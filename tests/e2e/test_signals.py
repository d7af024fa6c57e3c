"""Signals: an orderly end that answers what was received, and draining."""

import os
import signal
import socket
from contextlib import ExitStack

import pytest

from tests.e2e.process import Client, healthy, serving, wait_until
from tests.servers import HOST


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), (signal.SIGINT,), (signal.SIGTERM, signal.SIGINT)])
def test_stop_signal_answers_what_was_received(numbers: tuple[signal.Signals, ...]) -> None:
    with serving() as process, ExitStack() as stack:
        clients = [stack.enter_context(process.connect()) for _ in range(20)]
        with process.frozen():
            for client in clients:
                client.send(b"put 0 0 60 1\r\nx\r\nreserve\r\nlist-tube-used\r\n")
            for number in numbers:
                process.signal(number)
        assert process.wait_exit() == 0
        assert process.events("stopping")[0]["reason"] in [number.name for number in numbers]
        ids = set()
        for client in clients:
            inserted, reserved, *rest = client.rest().splitlines(keepends=True)
            assert inserted.startswith(b"INSERTED ")
            assert reserved.startswith(b"RESERVED ")
            assert rest == [b"x\r\n", b"USING default\r\n"]
            ids.add(int(inserted.split()[1]))
        assert ids == set(range(1, 21))


def test_stop_signal_ends_a_server_with_waiting_and_choked_clients() -> None:
    with serving() as process, process.connect() as waiting, process.connect() as choked, process.connect() as half:
        choked.send(b"put 0 0 60 60000\r\n" + bytes(60_000) + b"\r\n" + b"peek 1\r\n" * 1000)
        waiting.send(b"watch nothing\r\nignore default\r\nreserve\r\n")
        half.send(b"put 0 0 60 100\r\nhalf")
        wait_until(lambda: process.statistic("current-waiting") == 1, "one client waits")
        process.signal(signal.SIGTERM)
        assert process.wait_exit() == 0
        assert waiting.rest() == b"WATCHING 2\r\nWATCHING 1\r\n"
        assert half.rest() == b""


def test_port_is_free_at_once_after_the_end() -> None:
    with serving() as first:
        port = first.port
        with first.connect() as client:
            client.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
            first.signal(signal.SIGTERM)
            assert first.wait_exit() == 0
            with serving("-l", HOST, "-p", str(port), listen=False) as second, second.connect() as again:
                assert second.port == port
                again.ask(b"peek 1\r\n", b"NOT_FOUND\r\n")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port), timeout=5)


def test_drain_signal_refuses_puts_and_nothing_else() -> None:
    with healthy() as process, process.connect() as client:
        client.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
        assert not process.events("draining")
        process.signal(signal.SIGUSR1)
        wait_until(lambda: process.events("draining"), "the server says that it drains")
        client.ask(b"put 0 0 60 1\r\nx\r\n", b"DRAINING\r\n")
        client.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
        client.ask(b"release 1 0 0\r\n", b"RELEASED\r\n")
        process.signal(signal.SIGUSR1)
        wait_until(lambda: len(process.events("draining")) == 2, "the second signal is noticed")
        with process.connect() as other:
            other.ask(b"put 0 0 60 1\r\nx\r\n", b"DRAINING\r\n")
            other.ask(b"delete 1\r\n", b"DELETED\r\n")


def test_closed_standard_error_neither_stops_the_server_nor_makes_it_deaf() -> None:
    """Whoever reads the log may end before the server does: `beanpole serve 2>&1 | head -1`."""
    reader, writer = os.pipe()
    with serving("-V", standard_error=writer) as process:
        os.close(writer)
        os.close(reader)
        for _ in range(3):
            with process.connect() as client:
                client.ask(b"use a\r\n", b"USING a\r\n")
        process.signal(signal.SIGUSR1)
        with process.connect() as client:
            wait_until(lambda: drains(client), "the server drains")
        process.signal(signal.SIGTERM)
        assert process.wait_exit() == 0


def drains(client: Client) -> bool:
    """Whether the server of a client drains."""
    client.send(b"stats\r\n")
    return b"\ndraining: true\n" in client.body()
