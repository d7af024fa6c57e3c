"""What a golden script can be run against: the engine with a virtual clock, or a real server in real time."""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from tests.servers import REPLY_TIMEOUT_S, Server, beanpole_server, beanstalkd_server

if TYPE_CHECKING:
    from beanpole.testing.world import World

SETTLE_S = 0.015
"""How long a real server is given to send what it must not send, or to notice a FIN.

Too short on a slow machine means that a mistake is found at a later line of the script, not a false alarm: servers
handle what happens to them in order.
"""


class Target(Protocol):
    """The operations of a script. `more` is b"" when nothing comes."""

    def connect(self, name: str) -> None: ...
    def send(self, name: str, data: bytes) -> None: ...
    def more(self, name: str, *, expected: bool) -> bytes: ...
    def half_close(self, name: str) -> None: ...
    def disconnect(self, name: str) -> None: ...
    def is_closed(self, name: str) -> bool: ...
    def advance(self, seconds: float) -> None: ...
    def drain(self) -> None: ...


class EngineTarget:
    """The engine: time is exact and costs nothing, and the invariants are checked after each step."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.connect = world.connect
        self.drain = world.drain
        self.is_closed = world.is_closed

    def send(self, name: str, data: bytes) -> None:
        self.world.send(name, data)
        self.world.check()

    def more(self, name: str, *, expected: bool) -> bytes:
        del expected  # What the engine has not answered by now it never will.
        return self.world.output(name)

    def half_close(self, name: str) -> None:
        self.world.half_close(name)
        self.world.check()

    def disconnect(self, name: str) -> None:
        self.world.disconnect(name)
        self.world.check()

    def advance(self, seconds: float) -> None:
        self.world.advance(round(seconds * 1e9))
        self.world.check()


class ServerTarget:
    """A server process: replies are awaited, and time passes only where the script says so."""

    def __init__(self, server: Server, patience_s: float = REPLY_TIMEOUT_S) -> None:
        self.server = server
        self.patience_s = patience_s
        self.drain = server.drain
        self.sockets: dict[str, socket.socket] = {}

    def connect(self, name: str) -> None:
        self.sockets[name] = self.server.connect()

    def send(self, name: str, data: bytes) -> None:
        self.sockets[name].sendall(data)

    def more(self, name: str, *, expected: bool) -> bytes:
        patience_s = self.patience_s if expected else SETTLE_S
        readable, _, _ = select.select([self.sockets[name]], [], [], patience_s)
        return self.sockets[name].recv(1 << 20) if readable else b""

    def half_close(self, name: str) -> None:
        self.sockets[name].shutdown(socket.SHUT_WR)

    def disconnect(self, name: str) -> None:
        self.sockets.pop(name).close()
        time.sleep(SETTLE_S)

    def is_closed(self, name: str) -> bool:
        try:
            return self.sockets[name].recv(1) == b""
        except ConnectionResetError:  # Closed as well: by a server that had not read all that was sent.
            return True

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """Closes what the script has left open."""
        for connection in self.sockets.values():
            connection.close()


@contextmanager
def open_target(kind: str, body_bytes_max: int, patience_s: float = REPLY_TIMEOUT_S) -> Iterator[Target]:
    """A fresh target: "engine", "beanpole" or "beanstalkd"; a server that owes a reply is waited for so long."""
    if kind == "engine":
        from beanpole.testing.world import World  # noqa: PLC0415 - the other targets must not need the compiled engine

        yield EngineTarget(World(body_bytes_max))
        return
    open_server = {"beanpole": beanpole_server, "beanstalkd": beanstalkd_server}[kind]
    with open_server("-z", str(body_bytes_max)) as server:
        target = ServerTarget(server, patience_s)
        try:
            yield target
        finally:
            target.close()
