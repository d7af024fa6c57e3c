"""A queue server without sockets and without a clock: the engine, its connections, and a time that tests move.

The world does for tests what the server's turn does in production: it feeds bytes to connections, ticks the engine,
resumes the connections that somebody else's command has woken, and closes those that have quit. Nothing waits and
nothing is random, so a conversation in it has one outcome.
"""

from typing import Any

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.state.records import Records
from beanpole.engine.state.user import User
from beanpole.limits import TUBES_MAX
from beanpole.protocol.extensions import USERS_SERVED
from beanpole.server.connection import Connection

NS_PER_S = 1_000_000_000

TURNS_MAX = 100_000
"""More turns of resumed connections than this after one event are a loop: each must run a buffered command."""

TICKS_MAX = 100_000  # more ticks than this while time passes are a loop: each must serve a deadline
START_NS = 1_000 * NS_PER_S
"""When the world begins. Not 0, so that code that takes 0 for "no time" is found out."""


class World:
    """An engine and named connections to it. Every method returns when nothing more happens without new input."""

    def __init__(
        self,
        body_bytes_max: int = 65535,
        tubes_max: int = TUBES_MAX,
        *,
        extensions: bool = True,
        records: Records | None = None,
    ) -> None:
        self.engine = Engine(body_bytes_max=body_bytes_max, now_ns=START_NS, records=records, extensions=extensions)
        self.engine.tubes_max = tubes_max
        self.now_ns = START_NS
        self.connections: dict[str, Connection] = {}
        self.unread: dict[Connection, bytes] = {}  # replies on those that were closed before anybody took them
        self.resumed: list[str] = []  # whose buffered commands went on since the list was last cleared, in order

    def connect(self, name: str, user: User | None = None) -> None:
        assert name not in self.connections, f"{name} is connected already"
        served = 0 if user is None else USERS_SERVED
        self.connections[name] = Connection(self.engine, self.now_ns, user=user, served=served)

    def send(self, name: str, data: bytes) -> None:
        self.connections[name].receive(self.now_ns, data)
        self.settle(name)

    def output(self, name: str) -> bytes:
        """All replies on a connection since the last call."""
        connection = self.connections[name]
        replies = self.unread.pop(connection, b"") + connection.take_output()
        while connection.choked:  # It stopped because of replies that nobody took.
            connection.resume(self.now_ns)
            self.settle(name)
            replies += connection.take_output()
        return replies

    def half_close(self, name: str) -> None:
        """The client says that it will send no more."""
        self.connections[name].half_close(self.now_ns)
        self.settle(name)

    def disconnect(self, name: str) -> None:
        """The client is gone; what it has not read is lost."""
        self.connections.pop(name).close(self.now_ns)
        self.settle()

    def end_leaving(self) -> None:
        """Lets closed sessions give back all that they hold, as a server's next turns do, which wait for nothing."""
        for _ in range(TICKS_MAX):
            if self.engine.next_deadline_ns != self.engine.started_at_ns:
                return
            self.jump(0)
        raise AssertionError("closed sessions do not come to an end")

    def is_closed(self, name: str) -> bool:
        return self.connections[name].closed

    def drain(self) -> None:
        self.engine.draining = True

    def advance(self, duration_ns: int) -> None:
        """Lets time pass as it does for a server that is never late: a tick at every deadline on the way."""
        end_ns = self.now_ns + duration_ns
        for _ in range(TICKS_MAX):
            if not self.step(end_ns):
                return
        raise AssertionError("ticks do not move the next deadline")

    def step(self, end_ns: int) -> bool:
        """Lets time pass up to the next deadline, or to `end_ns` and returns False if there is none until then."""
        due_ns = self.engine.next_deadline_ns
        is_due = 0 <= due_ns <= end_ns
        self.jump(max(due_ns - self.now_ns, 0) if is_due else end_ns - self.now_ns)
        return is_due

    def jump(self, duration_ns: int) -> None:
        """Lets time pass unnoticed: one tick at the end, as after a stall of the server."""
        self.tick(duration_ns)
        self.settle()

    def tick(self, duration_ns: int) -> None:
        """Lets time pass, with one tick at the end, but nobody goes on yet whom it has woken: see :meth:`settle`."""
        self.now_ns += duration_ns
        self.engine.tick(self.now_ns)

    def check(self) -> None:
        check(self.engine)

    def settle(self, name: str = "") -> None:
        """Goes on with `name` and every connection that was woken, until none has anything to do."""
        if name:
            self._go_on(self.connections[name])
        for _ in range(TURNS_MAX):
            woken: list[Any] = [session.owner for session in self.engine.take_woken() if session.owner]
            if not woken:
                return
            for connection in woken:
                connection.resume(self.now_ns)
                self.resumed += [known for known, other in self.connections.items() if other is connection]
                self._go_on(connection)
        raise AssertionError("the connections wake each other without end")

    def _go_on(self, connection: Connection) -> None:
        """Goes on with one connection before anybody else, however many turns of a server that takes."""
        for _ in range(TURNS_MAX):
            self._close_finished(connection)
            if connection.closed or not connection.pending:
                return
            connection.resume(self.now_ns)
        raise AssertionError("a connection goes on without end")

    def _close_finished(self, connection: Connection) -> None:
        """Closes a connection that has quit or has no more input, before anybody else goes on."""
        if connection.finished and not connection.closed:
            self.unread[connection] = connection.take_output()
            connection.close(self.now_ns)
