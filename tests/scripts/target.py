"""What a golden script can be run against: the engine with a virtual clock, or a real server in real time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from beanpole.conformance.run import ServerTarget, Target
from beanpole.conformance.script import Script
from tests.servers import REPLY_TIMEOUT_S, beanpole_server, beanstalkd_server

if TYPE_CHECKING:
    from beanpole.testing.world import World

SETTLE_S = 0.015
"""How long a server beside us is given to send what it must not send, or to notice a FIN."""


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


@contextmanager
def open_target(kind: str, script: Script, patience_s: float = REPLY_TIMEOUT_S) -> Iterator[Target]:
    """A fresh target: "engine", "beanpole" or "beanstalkd"; a server that owes a reply is waited for so long."""
    if kind == "engine":
        from beanpole.testing.world import World  # noqa: PLC0415 - the other targets must not need the compiled engine

        yield EngineTarget(World(script.body_bytes_max, script.tubes_max))
        return
    open_server = {"beanpole": beanpole_server, "beanstalkd": beanstalkd_server}[kind]
    options = ["-z", str(script.body_bytes_max)]
    if "tubes-max" in script.settings:
        options += ["--tubes-max", str(script.tubes_max)]
    with open_server(*options) as server:
        target = ServerTarget(server.connect, server.drain, patience_s, SETTLE_S)
        try:
            yield target
        finally:
            target.close()
