"""An engine with two clients, and a clock, for tests that say bytes and look at the replies."""

from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection

SECOND_NS = 10**9
TURNS_MAX = 1_000


class Queue:
    """An engine at a moment, a client `a`, and a client `b` that asks for other things."""

    def __init__(self, now_ns: int = SECOND_NS, *, body_bytes_max: int = 65535) -> None:
        self.now_ns = now_ns
        self.engine = Engine(body_bytes_max=body_bytes_max, now_ns=now_ns)
        self.a, self.b = self.connect(), self.connect()

    def connect(self) -> Connection:
        return Connection(self.engine, self.now_ns)

    def ask(self, data: bytes, client: Connection | None = None) -> bytes:
        """The replies to commands, over as many turns as they take."""
        client = client or self.a
        client.receive(self.now_ns, data)
        replies = client.take_output()
        for _ in range(TURNS_MAX):
            if not client.pending and not client.choked:
                return replies
            client.resume(self.now_ns)
            replies += client.take_output()
        raise AssertionError("a command does not come to its end")

    def tick(self, seconds: float = 0) -> None:
        self.now_ns += round(seconds * SECOND_NS)
        self.engine.tick(self.now_ns)
