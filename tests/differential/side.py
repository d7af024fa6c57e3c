"""One of those who take part in a conversation: a server, or the engine in its world, which answers first.

The engine without sockets tells how many replies will come; from a server exactly as many are awaited, and what it
sends beyond them is noticed. So nothing waits for longer than it takes, and nothing is missed.
"""

import select
import socket
import struct
import time
from typing import TYPE_CHECKING

from tests.differential.differences import normal_reply
from tests.servers import REPLY_TIMEOUT_S

if TYPE_CHECKING:
    from beanpole.testing.world import World
    from tests.servers import Server

ID_DIGITS = 14
"""Ids are sent with leading zeros, so that a command is as long for every server."""

MISSING_S = REPLY_TIMEOUT_S
"""How long a reply may take before it counts as missing."""

ROUND_TRIPS = 3
"""After as many answers to somebody else, a server has handled what it had received before."""

OBSERVER = "observer"
"""A connection that is always there: it looks at the servers between conversations, and tells when they are done."""

NOTHING = b"UNKNOWN_COMMAND\r\n"
"""The answer to an empty line, which no statistic counts and the observer never gets for anything else."""

Part = bytes | int
"""A piece of what a client sends: bytes, or a job, by its number in the conversation."""


def split_replies(received: bytes) -> tuple[list[bytes], bytes]:
    """Complete replies, and the rest."""
    replies = []
    while b"\r\n" in received:
        head, _, _ = received.partition(b"\r\n")
        size = len(head) + 2
        word, *numbers = head.split(b" ")
        if word in (b"OK", b"FOUND", b"RESERVED"):
            size += int(numbers[-1]) + 2
        if len(received) < size:
            break
        replies.append(received[:size])
        received = received[size:]
    return replies, received


class Side:
    """What all sides have: the ids of the conversation's jobs, and replies that nobody asked for yet."""

    normal = staticmethod(normal_reply)

    def __init__(self, name: str) -> None:
        self.name = name
        self.ids: list[int] = []
        self.received: dict[str, bytes] = {}

    def rendered(self, parts: list[Part]) -> bytes:
        """What this side is sent. A job that does not exist yet has an id that never will."""
        return b"".join(part if isinstance(part, bytes) else b"%0*d" % (ID_DIGITS, self.id_of(part)) for part in parts)

    def id_of(self, job: int) -> int:
        return self.ids[job] if job < len(self.ids) else 999_999_999_999

    def take_replies(self) -> dict[str, list[str]]:
        """All replies by connection, normalised, and `closed` at the end of a connection."""
        split = {name: split_replies(received) for name, received in self.received.items()}
        heads = [reply.split() for replies, _ in split.values() for reply in replies]
        self.ids += [int(head[1]) for head in heads if head[:1] == [b"INSERTED"]]
        ordinals = {id: job for job, id in enumerate(self.ids)}
        taken = {}
        for name, (replies, rest) in split.items():
            taken[name] = [self.normal(reply, ordinals) for reply in replies] + ([repr(rest)] if rest else [])
            if self.is_closed(name):
                taken[name].append("closed")
            self.received[name] = b""
        return taken

    def is_closed(self, name: str) -> bool:
        """Whether the server has closed the connection."""
        raise AssertionError(f"{self.name} must know whether {name} is closed")


class WorldSide(Side):
    """The engine in its world."""

    def __init__(self, world: "World") -> None:
        super().__init__("engine")
        self.world = world
        self.connect(OBSERVER)

    def connect(self, name: str) -> None:
        self.world.connect(name)
        self.received[name] = b""

    def send(self, name: str, data: bytes) -> None:
        if not self.world.is_closed(name):
            self.world.send(name, data)
        self.gather()

    def gather(self) -> None:
        """Takes the replies of all connections: a step may have woken others, and so may what ends after it."""
        self.world.end_leaving()
        for other in self.received:
            self.received[other] += self.world.output(other)

    def half_close(self, name: str) -> None:
        self.world.half_close(name)
        self.gather()

    def reset(self, name: str) -> None:
        self.world.disconnect(name)
        del self.received[name]
        self.gather()

    disconnect = reset

    def is_closed(self, name: str) -> bool:
        return self.world.is_closed(name)

    def waits(self, name: str) -> bool:
        """Whether the connection's reserve is unanswered."""
        return bool(self.world.connections[name].session.waiting)

    def holds(self, name: str) -> int:
        """How many jobs the connection has reserved."""
        return int(self.world.connections[name].session.reserved_count)


class ServerSide(Side):
    """A server process."""

    def __init__(self, server: "Server") -> None:
        super().__init__(server.name)
        self.server = server
        self.sockets: dict[str, socket.socket] = {}
        self.ended: set[str] = set()
        self.connect(OBSERVER)

    def connect(self, name: str) -> None:
        self.sockets[name] = self.server.connect()
        self.received[name] = b""
        self.ended.discard(name)

    def send(self, name: str, data: bytes) -> None:
        try:
            self.sockets[name].sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.ended.add(name)
        self.settle()

    def half_close(self, name: str) -> None:
        self.sockets[name].shutdown(socket.SHUT_WR)
        self.settle()

    def reset(self, name: str) -> None:
        """Cuts the connection, where a plain close looks like a half-close at first."""
        self.sockets[name].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.disconnect(name)

    def disconnect(self, name: str) -> None:
        self.sockets.pop(name).close()
        del self.received[name]
        self.settle()

    def settle(self) -> None:
        """Returns when the server has handled what it was sent."""
        for _ in range(ROUND_TRIPS):
            self.sockets[OBSERVER].sendall(b"\r\n")
            while not self.received[OBSERVER].endswith(NOTHING):
                self.receive(OBSERVER)
            self.received[OBSERVER] = self.received[OBSERVER].removesuffix(NOTHING)

    def receive(self, name: str) -> None:
        """Receives what has come; the end of the connection is noted."""
        try:
            piece = self.sockets[name].recv(1 << 16)
        except ConnectionResetError:
            piece = b""
        self.received[name] += piece
        if not piece:
            self.ended.add(name)
            assert name != OBSERVER, f"{self.name} has closed the connection of the observer"

    def wait_for(self, counts: dict[str, int], closed: set[str]) -> None:
        """Returns when each connection has its replies, or its end; or when they are overdue."""
        give_up_at = time.monotonic() + MISSING_S
        while time.monotonic() < give_up_at:
            short = [
                name
                for name, received in self.received.items()
                if name not in self.ended and (name in closed or len(split_replies(received)[0]) < counts.get(name, 0))
            ]
            if not short:
                break
            for name in self.readable(short, MISSING_S):
                self.receive(name)
        self.settle()
        for name in self.readable([name for name in self.received if name not in self.ended], 0):
            self.receive(name)

    def readable(self, names: list[str], timeout_s: float) -> list[str]:
        ready, _, _ = select.select([self.sockets[name] for name in names], [], [], timeout_s)
        return [name for name in names if self.sockets[name] in ready]

    def is_closed(self, name: str) -> bool:
        return name in self.ended

    def close(self) -> None:
        """Closes all connections."""
        for connection in self.sockets.values():
            connection.close()
