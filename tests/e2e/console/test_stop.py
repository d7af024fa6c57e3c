"""A console stops at once, whoever looks at it."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.e2e.console.process import Console, connected, console, url_of
from tests.servers import STOP_TIMEOUT_S, beanpole_server

STREAM = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


@contextmanager
def looked_at(served: Console) -> Iterator[None]:
    """Twenty pages are live, and have had their first state."""
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(served.port)) for _ in range(20)]
        for client in clients:
            client.sendall(STREAM)
            read = b""
            while b"event: state" not in read:
                piece = client.recv(65_536)
                assert piece, read
                read += piece
        yield


def test_a_console_stops_with_pages_open() -> None:
    with beanpole_server() as server, console("--url", url_of(server, "one")) as served:
        with looked_at(served):
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(STOP_TIMEOUT_S) == 0
        lines = served.messages.read_text().splitlines()
        assert "console stopped" in lines[-1]
        assert not [line for line in lines if '"error"' in line]
