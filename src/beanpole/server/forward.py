"""Clients of a node that does not lead: what they send goes to the leader, and what it answers comes back.

Bytes are passed as they are, in both directions. While one side does not take what is sent to it, nothing is read from
the other. A client's FIN is passed as a FIN: what it has sent still runs. When the leader ends a connection, what it
has sent is passed on and the client closed.

A client's end reaches the leader as a FIN, however it came. This node's own reaches it as a RST, as does its death: the
leader takes that for no end of the client's, whose session may return (docs/protocol.md, keep-session).

A client that the leader did not take waits, as nothing of it was read, and so do those that come after it: until the
leader is reached again, or another, or this node leads and takes them over.

The leader is sent one line first, which says of which cluster and epoch it must be, and a question: a node that no
longer leads closes, and so does one that dies. Nothing of a client is read before the leader's answer has come. A
client that begins with such a line is a node that takes this one for the leader, and is closed. That is found out
before anything is connected for it: else two nodes that take each other for the leader would go on for ever.

Sockets are watched as in :mod:`beanpole.server.epoll`: edge-triggered, behind one descriptor. What is read at once from
a socket is bounded, and so is what a turn reads from those that have more; who sends little does not wait for them.
"""

import asyncio
import socket
from collections.abc import Callable
from struct import pack
from typing import TYPE_CHECKING

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.server.eventqueue import EventQueue
from cython.cimports.libc.errno import EAGAIN, ECONNABORTED, EINPROGRESS, EINTR, EMFILE
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free, malloc

from beanpole.server import limits

if TYPE_CHECKING:
    from beanpole.server.observer import Observer

FORWARD_CONNECT_NS = 2_000_000_000
"""Nanoseconds that connecting to the leader may take for a client: longer than one lost packet costs."""

ACCEPTS_PER_TURN = cython.declare(cython.int, limits.ACCEPTS_PER_TURN)
FORWARD_BYTES = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_PER_TURN)
FORWARD_BYTES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.FORWARD_BYTES_PER_TURN)

HELLO = b"beanpole-forward "  # what the first line begins with; the cluster's id and the epoch follow
QUESTION = b"\r\n"  # a command that does nothing, is counted nowhere, and is answered in a word
ANSWER = cython.declare(bytes, b"UNKNOWN_COMMAND\r\n")  # that word
RESET = pack("ii", 1, 0)
"""SO_LINGER of a connection that the system ends by a RST; see socket(7)."""

NO_RESET = pack("ii", 0, 0)  # the same of one that it ends by a FIN

EVENTS = cython.declare(cython.uint, posix.EPOLLIN | posix.EPOLLOUT | posix.EPOLLPRI | posix.EPOLLRDHUP | posix.EPOLLET)


def hello(cluster: str, epoch: int) -> bytes:
    return HELLO + f"{cluster} {epoch}\r\n".encode()


@cython.cclass
class Side:
    """One end: a client, or the leader for it. The fields stand in ``forward.pxd``."""


@cython.cclass
class ForwardTransport(EventQueue):
    """All clients of a node that does not lead. The fields stand in ``forward.pxd``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        observer: "Observer",
        connections_max: cython.Py_ssize_t = 2**31,
        connect_ns: int64_t = FORWARD_CONNECT_NS,
        wait_ns: int64_t = limits.CLUSTER_WAIT_S * 1_000_000_000,
        on_refused: Callable[[], None] = lambda: None,
    ):
        self.loop = loop
        self.observer = observer
        self.connections_max = connections_max
        self.connect_ns = connect_ns
        self.wait_ns = wait_ns
        self.on_refused = on_refused
        self.by_fd = []
        self.queue = []
        self.connecting = []
        self.hello = b""
        self.read_buffer = cython.cast(cython.p_char, malloc(FORWARD_BYTES))
        if self.read_buffer is cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.read_buffer)

    # --- where to -----------------------------------------------------------------------------------------------------

    def lead_to(self, family: int, address: tuple[str, int], first_line: bytes, listeners: list[int]) -> None:
        """Pass clients to the leader at an address from here on; those that were passed elsewhere are closed."""
        self.wait()
        self.target = (family, address)
        self.hello = first_line + QUESTION
        for fd in listeners:
            listener = socket.socket(fileno=fd)
            self.listen(fd, listener.family == socket.AF_UNIX)
            listener.detach()
        self.go_on()

    def go_on(self) -> None:
        """Pass on those that wait: the leader is reached."""
        self.held = False
        for each in self.by_fd:
            if each is not None:
                side: Side = cython.cast(Side, each, typecheck=True)
                if side.fresh and side.readable:
                    self.enqueue(side)
        self.run_soon()

    def wait(self) -> None:
        """Close every client that was passed on, and take none: there is no leader that is known. The others wait."""
        self.close_clients(False)

    def stop(self) -> None:
        """Close every client, and take none."""
        self.close_clients(True)

    def close_clients(self, fresh):
        """Close the clients that were passed on, and those of which nothing was read where that is asked for."""
        self.stop_accepting()
        self.target = None
        for each in self.by_fd:
            if each is not None:
                side: Side = cython.cast(Side, each, typecheck=True)
                if not side.is_client:
                    continue
                if not fresh and side.other is not None and not side.other.connected:
                    self.refused(side.other)
                elif fresh or not side.fresh:
                    self.drop(side)
        self.connecting = []
        return 0

    def take_waiting(self) -> list[tuple[int, bool]]:
        """Give up the clients of which nothing was read; return their descriptors, and which are Unix sockets."""
        found = []
        for each in self.by_fd:
            if each is not None:
                side: Side = cython.cast(Side, each, typecheck=True)
                if side.fresh:
                    found.append((side.fd, side.thorough))
        for fd, _ in found:
            self.watch_fd(fd, 0, posix.EPOLL_CTL_DEL)
            side = cython.cast(Side, self.by_fd[fd], typecheck=True)
            side.fd = -1
            self.by_fd[fd] = None
            self.pair_count -= 1
        return found

    # --- turns --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Pass on what has come."""
        events: posix.epoll_event[256]
        i: cython.int
        fd: cython.int
        self.requested = False
        self.left_bytes = FORWARD_BYTES_PER_TURN
        knocking: list = []
        count: cython.int = posix.epoll_wait(self.epoll_fd, events, 256, 0)
        for i in range(count):
            fd = events[i].data.fd
            if 0 <= fd < len(self.by_fd) and self.by_fd[fd] is not None:
                self.note(cython.cast(Side, self.by_fd[fd], typecheck=True), events[i].events)
            elif fd in self.listeners:
                knocking.append(fd)
        if self.queue:
            self.serve_queue()
        # New clients come last: see EpollTransport.poll.
        for fd in knocking:
            self.accept(fd)
        if self.connecting or self.accept_retry_ns:
            self.look_at_clock()
        self.run_soon()

    def run_soon(self):
        """Ask for another turn if there is more to read."""
        if self.queue and not self.requested:
            self.requested = True
            self.loop.call_soon(self.run)
        return 0

    def serve_queue(self):
        """Read from those that had more, each once, until the turn has passed on enough."""
        queue, self.queue = self.queue, []
        at: cython.Py_ssize_t = 0
        while at < len(queue) and self.left_bytes > 0:
            side: Side = cython.cast(Side, queue[at], typecheck=True)
            side.queued = False
            self.pump(side)
            at += 1
        self.queue = queue[at:] + self.queue
        return 0

    def look_at_clock(self):
        """Give up connections that take too long, and accept again; arm the timer for what comes next."""
        now_ns: int64_t = posix.monotonic_ns()
        at: cython.Py_ssize_t = 0
        due_ns: int64_t = -1
        while at < len(self.connecting):
            side: Side = cython.cast(Side, self.connecting[at], typecheck=True)
            if side.fd >= 0 and not side.reached:
                if side.since_ns + self.connect_ns > now_ns:
                    due_ns = side.since_ns + self.connect_ns
                    break
                self.refused(side)
            at += 1
        del self.connecting[:at]
        return self.wake_by(now_ns, due_ns)

    def note(self, side, events):
        """Take note of what happened to a socket, and pass on what that allows."""
        if events & (posix.EPOLLERR | posix.EPOLLHUP) and not side.connected:
            return self.refused(side)
        if events & ~posix.EPOLLOUT:
            side.readable = True
        if events & posix.EPOLLPRI:
            side.thorough = True
        if events & (posix.EPOLLRDHUP | posix.EPOLLHUP | posix.EPOLLERR):
            side.hung_up = True  # what came before is read first, also before a RST
        if events & posix.EPOLLOUT:
            side.reached = True
            if side.unsent is not None:
                unsent: bytes = side.unsent
                side.unsent = None
                self.give(side, unsent, len(unsent))
        self.pump_or_queue(side)
        return self.pump_or_queue(side.other) if side.other is not None else 0

    def pump_or_queue(self, side):
        """Read from a side now, unless it waits for its next turn, or the turn has passed on enough."""
        if side.queued:
            return 0
        if self.left_bytes > 0:
            return self.pump(side)
        return self.enqueue(side)

    def enqueue(self, side):
        if not side.queued:
            side.queued = True
            self.queue.append(side)
        return 0

    def pump(self, side):
        """Read once from one side and send to the other, if that takes more."""
        if side.fd < 0 or not side.readable or side.ended:
            return 0
        if side.fresh:
            return self.look_at_first(side)
        if not side.connected:
            return self.take_answer(side)
        other: Side = side.other
        if not other.connected or other.unsent is not None:
            return 0
        size: cython.Py_ssize_t = posix.recv(side.fd, self.read_buffer, FORWARD_BYTES, posix.MSG_DONTWAIT)
        if size > 0:
            self.left_bytes -= size
            side.readable = size == FORWARD_BYTES or side.hung_up or side.thorough
            self.give(other, self.read_buffer, size)
            return self.enqueue(side) if side.fd >= 0 and side.readable else 0
        if size == 0:
            side.ended = True
            return self.finish(other)
        if last_error == EINTR:
            return self.enqueue(side)
        if last_error == EAGAIN:
            side.readable = False
            return 0
        return self.lose_client(side) if side.is_client else self.drop(side)

    def look_at_first(self, side):
        """Connect to the leader for a client that has sent something, but close a node that takes us for the leader."""
        found: cython.char[32]
        size: cython.Py_ssize_t = posix.recv(side.fd, found, min(len(HELLO), 32), posix.MSG_DONTWAIT | posix.MSG_PEEK)
        if size < 0 and (last_error == EAGAIN or last_error == EINTR):
            side.readable = False
            return 0
        if size <= 0:
            return self.drop(side)
        if found[:size] == HELLO[:size]:
            if size == len(HELLO):
                return self.drop(side)
            if not side.hung_up:
                side.readable = False  # the next byte makes it readable again, and tells what this is
                return 0
        return 0 if self.held or self.target is None else self.connect(side)

    def take_answer(self, far):
        """Take the leader's answer to the question, and pass on its client when all of it has come."""
        found: cython.char[32]
        left: cython.Py_ssize_t = len(ANSWER) - far.word_bytes
        size: cython.Py_ssize_t = posix.recv(far.fd, found, left, posix.MSG_DONTWAIT)
        if size < 0 and (last_error == EAGAIN or last_error == EINTR):
            far.readable = last_error == EINTR
            return self.enqueue(far) if far.readable else 0
        if size <= 0:
            return self.refused(far)
        if found[:size] != ANSWER[far.word_bytes : far.word_bytes + size]:
            return self.drop(far)
        far.word_bytes += size
        far.connected = size == left
        self.enqueue(far)
        return self.pump_or_queue(far.other)

    def give(self, side, data, size):
        """Send bytes to a side, and keep what the kernel does not take."""
        sent: cython.Py_ssize_t
        while True:
            sent = posix.send(side.fd, data, size, posix.MSG_NOSIGNAL | posix.MSG_DONTWAIT)
            if sent >= 0 or last_error == EAGAIN:
                break
            if last_error != EINTR:
                if side.is_client:
                    return self.lose_client(side)
                # The leader has closed; what it sent before that is passed on, then this ends as well.
                side.other.ended = side.readable = side.hung_up = True
                return self.enqueue(side)
        sent = max(sent, 0)
        if sent < size:
            side.unsent = data[sent:size]
            return 0
        return self.finish(side) if side.other.ended else 0

    def finish(self, side):
        """What came for a side has ended: say so as soon as all of it is sent."""
        if side.unsent is not None:
            return 0
        if side.is_client or posix.shutdown(side.fd, posix.SHUT_WR) < 0:
            return self.drop(side)
        return 0

    # --- coming and going ---------------------------------------------------------------------------------------------

    def accept(self, listener):
        """Accept clients, and connect to the leader for each."""
        for _ in range(ACCEPTS_PER_TURN):
            if self.pair_count >= self.connections_max:
                return self.pause_accepting(self.now(), EMFILE)
            fd: cython.int = posix.accept4(listener, cython.NULL, cython.NULL, posix.SOCK_NONBLOCK | posix.SOCK_CLOEXEC)
            if fd < 0:
                if last_error == EAGAIN:
                    return 0
                if last_error == ECONNABORTED or last_error == EINTR:
                    continue
                return self.pause_accepting(self.now(), EMFILE)
            if not self.join(fd, self.listeners[listener]):
                return self.pause_accepting(self.now(), EMFILE)
        return 0

    def join(self, client, is_unix):
        """Take a client; False: it can't be watched, and is closed."""
        side: Side = self.add(client)
        side.is_client = side.connected = side.fresh = True
        side.thorough = is_unix
        self.pair_count += 1
        return self.watch(side)

    def connect(self, side):
        """Connect to the leader for a client."""
        family, address = self.target
        try:
            upstream = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError:
            self.drop(side)
            return self.pause_accepting(self.now(), EMFILE)
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        upstream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        upstream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        refusal: cython.int = upstream.connect_ex(address)
        far: Side = self.add(upstream.detach())
        side.fresh = False
        side.other, far.other = far, side
        far.since_ns = posix.monotonic_ns()
        far.unsent = self.hello
        if refusal != 0 and refusal != EINPROGRESS:
            return self.refused(far)
        self.connecting.append(far)
        return 0 if self.watch(far) else self.pause_accepting(self.now(), EMFILE)

    def refused(self, far):
        """Let a client wait that the leader did not take, and all others of which nothing was read."""
        side: Side = far.other
        fd: cython.int = far.fd
        far.fd = -1
        far.other = far.unsent = side.other = None
        self.by_fd[fd] = None
        self.close_fd(fd)
        side.fresh = side.readable = True
        side.ended = False
        now_ns: int64_t = posix.monotonic_ns()
        if side.since_ns == 0:
            side.since_ns = now_ns
        elif now_ns - side.since_ns > self.wait_ns:
            return self.drop(side)
        if not self.held:
            self.held = True
            self.on_refused()
        return 0

    def watch(self, side):
        """Watch a side; False: the system can't, and it is closed."""
        try:
            self.watch_fd(side.fd, EVENTS, posix.EPOLL_CTL_ADD)
        except OSError:
            self.drop(side)
            return False
        return True

    def add(self, fd):
        """Return the side of a descriptor."""
        if fd >= len(self.by_fd):
            self.by_fd.extend([None] * (fd + 1 - len(self.by_fd)))
        side: Side = Side()
        side.fd = fd
        self.by_fd[fd] = side
        return side

    def lose_client(self, side):
        """Close both sides as the client has ended its connection: the leader is told by a FIN."""
        if side.other is not None:
            upstream = socket.socket(fileno=side.other.fd)
            upstream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_RESET)
            upstream.detach()
        return self.drop(side)

    def drop(self, side):
        """Close both sides. Closing again does nothing."""
        if side.fd < 0:
            return 0
        self.pair_count -= 1
        for each in (side, side.other):
            if each is None:
                continue
            end: Side = cython.cast(Side, each, typecheck=True)
            fd: cython.int = end.fd
            end.fd = -1
            end.other = end.unsent = None  # the two must not keep each other alive
            self.by_fd[fd] = None
            self.close_fd(fd)
        return self.resume_accepting()
