"""A transport of bytes in memory."""

from beanpole.engine.state.user import User
from beanpole.server.connection import Connection, Transport
from beanpole.server.turn import Turn


class MemoryTransport(Transport):
    """A client whose bytes are in memory: it feeds a piece each time it is woken, and takes what it has room for."""

    def __init__(self, turn: Turn, room: int = 1 << 30, user: User | None = None, served: int = 0) -> None:
        self.turn = turn
        self.room = room
        self.pieces: list[bytes] = []
        self.output = b""
        self.woken_count = 0
        self.closed = False
        self.connection = turn.open(1, self, user=user, served=served)

    def arrive(self, *pieces: bytes) -> None:
        """Input is there; the next turns feed it."""
        self.pieces += pieces
        self.readable = True
        self.turn.ready(self.connection)

    def take(self, room: int) -> None:
        """The client reads so many bytes more."""
        self.room = room
        self.blocked = False
        self.turn.ready(self.connection)

    def wake(self, now_ns: int, connection: Connection) -> int:
        """Feed the next piece."""
        self.woken_count += 1
        piece = self.pieces.pop(0)
        self.readable = bool(self.pieces)
        connection.feed(now_ns, piece)
        return 0

    def send_bytes(self, data: bytes) -> int:
        """Take what there is room for."""
        taken = data[: self.room]
        self.room -= len(taken)
        self.output += taken
        return len(taken)

    def close(self) -> int:
        """Remember it."""
        self.closed = True
        return 0
