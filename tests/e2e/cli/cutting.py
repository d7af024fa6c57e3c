"""A connection that is cut at a chosen command: how tests stop a verb between any two of its steps.

To the server it looks as if the verb had been killed there. Unlike a kill, it happens at a known place. Or the reply is
held back, so that the verb waits for it while a test sends a signal.
"""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.servers import HOST, REPLY_TIMEOUT_S, Server


@dataclass
class Cut:
    """What a connection came to."""

    url: str
    executed: bool
    hold: bool
    happened: bool = False
    held: threading.Event = field(default_factory=threading.Event)
    """Whether the client waits for a reply that is held back."""


@contextmanager
def cut_at(server: Server, number: int, *, executed: bool, hold: bool = False) -> Iterator[Cut]:
    """Forwards one connection up to the client's `number`-th piece, which the server gets only if `executed`.

    Then it is closed, or with `hold` nothing more comes through until the client closes it.
    """
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(REPLY_TIMEOUT_S)
        cut = Cut(f"beanstalk://{HOST}:{listener.getsockname()[1]}", executed, hold)
        thread = threading.Thread(target=_forward, args=(listener, server.port, number, cut))
        thread.start()
        yield cut
        thread.join(REPLY_TIMEOUT_S)
        assert not thread.is_alive()


def _forward(listener: socket.socket, port: int, number: int, cut: Cut) -> None:
    """Runs until either side closes, or the cut."""
    client, _ = listener.accept()
    listener.close()
    with client, socket.create_connection((HOST, port), REPLY_TIMEOUT_S) as server:
        while True:
            for each in select.select([client, server], [], [], REPLY_TIMEOUT_S)[0]:
                data = each.recv(1 << 20)
                if not data:
                    return
                if each is client:
                    number -= 1
                    cut.happened = number == 0
                if not cut.happened or cut.executed:
                    (server if each is client else client).sendall(data)
                if cut.happened:
                    if cut.executed:
                        server.recv(1 << 20)
                    if cut.hold:
                        cut.held.set()
                        with suppress(ConnectionError):
                            while client.recv(1 << 20):
                                pass
                    return
