"""Clients of a node that does not lead: what they send goes to the leader, and what it answers comes back.

Bytes are passed as they are, in both directions, and an end as an end. While one side does not take what is sent to it,
nothing is read from the other. Nothing is read from a client before the leader's connection stands. The leader is sent
one line first, which says of which cluster and epoch it must be: so a node that no longer leads closes, and two nodes
that take each other for the leader can't pass a client round and round.

Sockets are watched as in :mod:`beanpole.server.epoll`: edge-triggered, behind one descriptor.
"""

import asyncio
import socket
from typing import TYPE_CHECKING

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.server.eventqueue import EventQueue, monotonic_ns
from cython.cimports.libc.errno import EAGAIN, ECONNABORTED, EINTR
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free, malloc

from beanpole.server import limits

if TYPE_CHECKING:
    from beanpole.server.app import Observer

ACCEPTS_PER_TURN = cython.declare(cython.int, limits.ACCEPTS_PER_TURN)
ACCEPT_RETRY_NS = cython.declare(int64_t, limits.ACCEPT_RETRY_NS)
FORWARD_BYTES = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_PER_TURN)
FORWARDS_PER_TURN = cython.declare(cython.int, 4)
"""Reads of one socket in a turn, so that no client holds up another."""

HELLO = b"beanpole-forward "
"""What the first line begins with; the cluster's id and the epoch follow."""

EVENTS = cython.declare(cython.uint, posix.EPOLLIN | posix.EPOLLOUT | posix.EPOLLPRI | posix.EPOLLRDHUP | posix.EPOLLET)


def hello(cluster: str, epoch: int) -> bytes:
    """Return the first line that a node sends to the leader for a client."""
    return HELLO + f"{cluster} {epoch}\r\n".encode()


@cython.cclass
class Side:
    """One end: a client, or the leader for it. The fields stand in ``forward.pxd``."""


@cython.cclass
class ForwardTransport(EventQueue):
    """All clients of a node that does not lead. The fields stand in ``forward.pxd``."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, observer: "Observer", connections_max: cython.Py_ssize_t = 2**31
    ):
        self.loop = loop
        self.observer = observer
        self.connections_max = connections_max
        self.by_fd = []
        self.queue = []
        self.listeners = []
        self.hello = b""
        self.read_buffer = cython.cast(cython.p_char, malloc(FORWARD_BYTES))
        if self.read_buffer is cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.read_buffer)

    # --- where to -----------------------------------------------------------------------------------------------------

    def lead_to(self, family: int, address: tuple[str, int], first_line: bytes, listeners: list[int]) -> None:
        """Pass clients to the leader at an address from here on; those that were passed elsewhere are closed."""
        self.stop()
        self.target = (family, address)
        self.hello = first_line
        self.failed_since_ns = 0
        for fd in listeners:
            self.listeners.append(fd)
            self.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_ADD)

    def stop(self) -> None:
        """Close every client, and take none: there is no leader that is known."""
        for fd in self.listeners:
            self.watch_fd(fd, 0, posix.EPOLL_CTL_DEL)
        self.listeners = []
        self.accept_retry_ns = 0
        self.target = None
        for side in self.by_fd:
            if side is not None:
                self.drop(cython.cast(Side, side, typecheck=True))

    # --- turns --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Pass on what has come."""
        events: posix.epoll_event[256]
        i: cython.int
        fd: cython.int
        self.requested = False
        knocking: list = []
        queue, self.queue = self.queue, []
        count: cython.int = posix.epoll_wait(self.epoll_fd, events, 256, 0)
        for i in range(count):
            fd = events[i].data.fd
            if 0 <= fd < len(self.by_fd) and self.by_fd[fd] is not None:
                self.note(cython.cast(Side, self.by_fd[fd], typecheck=True), events[i].events)
            elif fd in self.listeners:
                knocking.append(fd)
        for side in queue:
            self.pump(cython.cast(Side, side, typecheck=True))
        for fd in knocking:
            self.accept(fd)
        if self.accept_retry_ns and self.accept_retry_ns <= monotonic_ns():
            self.accept_retry_ns = 0
            for fd in self.listeners:
                self.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_MOD)
        if self.queue and not self.requested:
            self.requested = True
            self.loop.call_soon(self.run)

    def note(self, side, events):
        """Take note of what happened to a socket, and pass on what that allows."""
        if events & posix.EPOLLERR:
            if not side.connected:
                self.failed_since_ns = self.failed_since_ns or monotonic_ns()
            return self.drop(side)
        if events & (posix.EPOLLIN | posix.EPOLLPRI | posix.EPOLLRDHUP | posix.EPOLLHUP):
            side.readable = True
        if events & posix.EPOLLOUT:
            if not side.connected:
                side.connected = True
                self.failed_since_ns = 0
            if side.unsent is not None:
                unsent: bytes = side.unsent
                side.unsent = None
                self.give(side, unsent, len(unsent))
        self.pump(side)
        return self.pump(side.other) if side.fd >= 0 else 0

    def pump(self, side):
        """Read from one side and send to the other, as far as that takes it."""
        other: Side = side.other
        size: cython.Py_ssize_t
        for _ in range(FORWARDS_PER_TURN):
            if side.fd < 0 or not side.readable or side.ended or not other.connected or other.unsent is not None:
                return 0
            size = posix.recv(side.fd, self.read_buffer, FORWARD_BYTES, posix.MSG_DONTWAIT)
            if size > 0:
                if side.fresh:
                    side.fresh = False
                    if side.is_client and self.read_buffer[: min(size, len(HELLO))] == HELLO:
                        return self.drop(side)  # a node takes us for the leader
                self.give(other, self.read_buffer, size)
            elif size == 0:
                side.ended = True
                return self.finish(other)
            elif last_error == EAGAIN:
                side.readable = False
            elif last_error != EINTR:
                return self.drop(side)
        self.queue.append(side)
        return 0

    def give(self, side, data, size):
        """Send bytes to a side, and keep what the kernel does not take."""
        sent: cython.Py_ssize_t = posix.send(side.fd, data, size, posix.MSG_NOSIGNAL | posix.MSG_DONTWAIT)
        if sent < 0:
            if last_error != EAGAIN and last_error != EINTR:
                return self.drop(side)
            sent = 0
        if sent < size:
            side.unsent = data[sent:size]
            if last_error == EINTR:
                self.queue.append(side.other)
            return 0
        return self.finish(side) if side.other.ended else 0

    def finish(self, side):
        """Tell a side that no more comes, when everything that came is sent; close when both are told."""
        if side.fd < 0 or side.unsent is not None or side.shut:
            return 0
        side.shut = True
        if posix.shutdown(side.fd, posix.SHUT_WR) < 0 or side.other.shut:
            return self.drop(side)
        return 0

    # --- coming and going ---------------------------------------------------------------------------------------------

    def accept(self, listener):
        """Accept clients, and connect to the leader for each."""
        for _ in range(ACCEPTS_PER_TURN):
            fd: cython.int = -1
            if self.pair_count < self.connections_max:
                fd = posix.accept4(listener, cython.NULL, cython.NULL, posix.SOCK_NONBLOCK | posix.SOCK_CLOEXEC)
                if fd < 0 and last_error == EAGAIN:
                    return 0
                if fd < 0 and (last_error == ECONNABORTED or last_error == EINTR):
                    continue
            if fd < 0 or self.join(fd) < 0:
                return self.pause_accepting()
        return 0

    def pause_accepting(self) -> int:
        """Leave new clients in the backlog for a while: there is no descriptor for them."""
        for fd in self.listeners:
            self.watch_fd(fd, 0, posix.EPOLL_CTL_MOD)
        now_ns: int64_t = monotonic_ns()
        self.accept_retry_ns = now_ns + ACCEPT_RETRY_NS
        self.observer.accept_paused("EMFILE")
        self.wake_by(now_ns, self.accept_retry_ns)
        return 0

    def join(self, client):
        """Connect to the leader for a client."""
        family, address = self.target
        try:
            upstream = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError:
            posix.close(client)
            self.pause_accepting()
            return 0
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        upstream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        upstream.connect_ex(address)
        near: Side = self.add(client)
        far: Side = self.add(upstream.detach())
        near.other, far.other = far, near
        near.is_client = near.connected = near.fresh = True
        far.unsent = self.hello
        self.pair_count += 1
        for side in (near, far):
            self.watch_fd(cython.cast(Side, side, typecheck=True).fd, EVENTS, posix.EPOLL_CTL_ADD)
        return 0

    def add(self, fd):
        """Return the side of a descriptor."""
        if fd >= len(self.by_fd):
            self.by_fd.extend([None] * (fd + 1 - len(self.by_fd)))
        side: Side = Side()
        side.fd = fd
        self.by_fd[fd] = side
        return side

    def drop(self, side):
        """Close both sides. Closing again does nothing."""
        if side.fd < 0:
            return 0
        self.pair_count -= 1
        for each in (side, side.other):
            end: Side = cython.cast(Side, each, typecheck=True)
            fd: cython.int = end.fd
            end.fd = -1
            end.unsent = None
            self.by_fd[fd] = None
            posix.close(fd)
        return 0
