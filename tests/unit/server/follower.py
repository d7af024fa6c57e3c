"""A node that passes clients on, with real sockets: the test plays the clients and the leader, and runs the turns."""

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from beanpole.server.forward import QUESTION, ForwardTransport, hello

HOST = "127.0.0.1"
WAIT_S = 30.0
ANSWER = b"UNKNOWN_COMMAND\r\n"
FIRST_LINE = hello("0123456789abcdef", 7)


class Follower:
    """A node that passes clients on, and the leader's listening socket."""

    def __init__(self, leader: socket.socket, listener: socket.socket, **given: int) -> None:
        self.leader = leader
        self.listener = listener
        self.address = listener.getsockname()
        self.refusals: list[None] = []
        self.transport = ForwardTransport(self, self, on_refused=lambda: self.refusals.append(None), **given)  # type: ignore[arg-type]
        self.transport.lead_to(socket.AF_INET, leader.getsockname(), FIRST_LINE, [listener.fileno()])
        self.ends: list[socket.socket] = []
        self.wants_turn = False
        self.turns = 0
        self.paused: list[str] = []

    # --- what the transport asks of the loop and the observer ---

    def call_soon(self, _run: Callable[[], None]) -> None:
        self.wants_turn = True

    def accept_paused(self, reason: str) -> None:
        self.paused.append(reason)

    # --- what a test does ---

    def lead_to(self, leader: socket.socket) -> None:
        self.leader = leader
        self.transport.lead_to(socket.AF_INET, leader.getsockname(), FIRST_LINE, [self.listener.fileno()])

    def turn(self, wait_s: float = 0.0) -> None:
        """Runs a turn if there is something to do, or something comes in time."""
        if self.wants_turn or select.select([self.transport], [], [], wait_s)[0]:
            self.wants_turn = False
            self.turns += 1
            self.transport.run()

    def until(self, condition: Callable[[], object], *others: "Follower") -> None:
        """Runs turns until a condition holds."""
        give_up_at = time.monotonic() + WAIT_S
        while not condition():
            for each in (self, *others):
                each.turn(0.002)
            assert time.monotonic() < give_up_at, "waited in vain"

    def connect(self) -> "End":
        """A new client."""
        connection = socket.socket(self.listener.family)
        connection.connect(self.address)
        return End(self, connection)

    def accept(self) -> "End":
        """The leader's end of the next client that is passed on; its first line is read, and answered."""
        end = End(self, self.accepted())
        end.expect(FIRST_LINE + QUESTION)
        end.send(ANSWER)
        return end

    def accepted(self) -> socket.socket:
        """The leader's end of the next client that is passed on."""
        self.until(lambda: select.select([self.leader], [], [], 0)[0])
        return self.leader.accept()[0]

    def pair(self) -> "tuple[End, End]":
        """A client that has sent an empty line, and the leader's end of it, which has received that."""
        client = self.connect()
        client.send(b"\r\n")
        leader = self.accept()
        leader.expect(b"\r\n")
        return client, leader

    def is_empty(self) -> bool:
        return self.transport.pair_count == 0


class End:
    """A client, or the leader's end for one: it neither blocks nor waits, but runs the follower's turns."""

    def __init__(self, follower: Follower, connection: socket.socket) -> None:
        self.follower = follower
        self.socket = connection
        self.socket.setblocking(False)
        follower.ends.append(connection)
        self.received = bytearray()
        self.ended = False

    def send(self, data: bytes) -> None:
        """Sends everything."""
        view = memoryview(data)

        def is_sent() -> bool:
            nonlocal view
            view = view[self.send_some(view) :]
            return not view

        self.follower.until(is_sent)

    def send_some(self, data: bytes | memoryview) -> int:
        try:
            return self.socket.send(data[:262_144])
        except BlockingIOError:
            return 0

    def fill(self) -> int:
        """Receives what is there."""
        try:
            piece = self.socket.recv(1 << 20)
        except BlockingIOError:
            return 0
        except ConnectionResetError:
            piece = b""
        self.ended = self.ended or not piece
        self.received += piece
        return len(piece)

    def expect(self, data: bytes) -> None:
        """Receives exactly this next."""

        def is_there() -> bool:
            self.fill()
            return len(self.received) >= len(data) or self.ended

        self.follower.until(is_there)
        assert self.received[: len(data)] == data
        del self.received[: len(data)]

    def expect_end(self) -> None:
        """Receives the end, and nothing before."""
        self.follower.until(lambda: not self.fill() and self.ended)
        assert not self.received

    def reset(self) -> None:
        """Closes with a RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def listening(backlog: int = 128) -> socket.socket:
    """A listening socket."""
    listener = socket.socket()
    listener.bind((HOST, 0))
    listener.listen(backlog)
    listener.setblocking(False)
    return listener


@contextmanager
def following(listener: socket.socket | None = None, **given: int) -> Iterator[Follower]:
    with ExitStack() as stack:
        leader = stack.enter_context(listening())
        follower = Follower(leader, stack.enter_context(listener or listening()), **given)
        try:
            yield follower
        finally:
            follower.transport.stop()
            for each in follower.ends:
                each.close()
        assert follower.is_empty()
