"""The socket: one JSON object in a datagram, one reply in a datagram.

A turn takes all that the kernel has, many datagrams a system call, serves for a millisecond, and sends all replies. As
long as a turn is enough, datagrams are served in the order in which they came. When it is not, or more have come than
one call brings, they wait in `fair`, which serves their sources in turn; the loop serves the database and HTTP between
two turns. A flood is so taken from the kernel, where everybody would wait behind it, and waits behind its own.

Whatever arrives, the next datagram is read: an error of the socket or of a request is only counted. Dropped without a
word is what comes from the address of this very socket, which would be answered for ever; what has waited longer than
its client does; and what its source has no room for. What a datagram says, the service knows.
"""

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.beanpole_ids import posix
from cython.cimports.beanpole_ids.fair import Fair
from cython.cimports.beanpole_ids.origin import Origin
from cython.cimports.beanpole_ids.outbox import Outbox
from cython.cimports.libc.errno import EAGAIN
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcmp, memcpy

from beanpole_ids import limits
from beanpole_ids.origin import to_text

if TYPE_CHECKING:
    from beanpole_ids.service import Service

COUNT = cython.declare(cython.int, limits.RECEIVE_COUNT)
RECEIVES_MAX = cython.declare(cython.int, 128)  # system calls of a turn: a flood is taken faster than it comes
RECEIVE_NS = cython.declare(int64_t, 2_000_000)  # then no further call is made, but for as long as other work took
ORIGINS_MAX = cython.declare(cython.Py_ssize_t, 4_096)  # addresses of which is remembered whether they are trusted
QUEUED_BYTES = cython.declare(cython.Py_ssize_t, 256)  # memory that a waiting request takes besides its own
REPLY_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.REPLY_BYTES_MAX)

REQUEST_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.REQUEST_BYTES_MAX)

DATA_BYTES = cython.declare(cython.Py_ssize_t, limits.REQUEST_BYTES_MAX + 1)
"""Bytes that are received of a datagram: one that has them all is too long."""

STRIDE = cython.declare(cython.Py_ssize_t, (limits.REQUEST_BYTES_MAX // 4096 + 1) * 4096 + 64)
"""Bytes between two datagrams in memory: a line of the cache more than pages, so that not all have the same lines."""

ANY = frozenset({"0.0.0.0", "::"})  # noqa: S104 - the names of every address, not one that is bound
"""What a socket is bound to that is bound to all addresses."""

ANCILLARY_BYTES = cython.declare(cython.Py_ssize_t, 64)
"""Bytes for what the kernel says of a datagram: a head of 16, and the time."""


@cython.freelist(64)
@cython.cclass
class Answer:
    """Sends the reply to a datagram, now or later."""

    def __call__(self, reply: bytes) -> None:
        """Send the reply; one that does not fit or is not accepted is lost, as any datagram may be."""
        self.datagrams.send(self, reply)


@cython.freelist(64)
@cython.cclass
class Waiting:
    """A datagram that waits to be served."""


@cython.cclass
class Datagrams:
    """The UDP socket of a service."""

    def __init__(
        self, service: "Service", turn_us: cython.longlong = limits.TURN_US, late_ms: cython.longlong = limits.LATE_MS
    ) -> None:
        """`turn_us`: how long a turn serves, one datagram at least. `late_ms`: after how long a datagram is dropped."""
        self.service = service
        self.receive = service.receive
        self.fast = service.fast
        self.dropped = service.dropped
        self.turn_ns = turn_us * 1_000
        self.late_ns = late_ms * 1_000_000
        self.fd = -1
        self.fair = Fair()
        self.origins = {}
        self.memory = cython.cast(cython.p_char, calloc(COUNT, STRIDE))
        self.ancillary = cython.cast(cython.p_char, calloc(COUNT, ANCILLARY_BYTES))
        self.headers = cython.cast(cython.pointer[posix.mmsghdr], calloc(COUNT, cython.sizeof(posix.mmsghdr)))
        self.parts = cython.cast(cython.pointer[posix.iovec], calloc(COUNT, cython.sizeof(posix.iovec)))
        self.addresses = cython.cast(
            cython.pointer[posix.sockaddr_storage], calloc(COUNT, cython.sizeof(posix.sockaddr_storage))
        )
        if not self.memory or not self.ancillary or not self.headers or not self.parts or not self.addresses:
            raise MemoryError
        index: cython.int
        for index in range(COUNT):
            self.parts[index].iov_base = self.memory + index * STRIDE
            self.parts[index].iov_len = DATA_BYTES
            header: cython.pointer[posix.msghdr] = cython.address(self.headers[index].msg_hdr)
            header.msg_name = cython.address(self.addresses[index])
            header.msg_iov = cython.address(self.parts[index])
            header.msg_iovlen = 1
            header.msg_control = self.ancillary + index * ANCILLARY_BYTES

    def __dealloc__(self) -> None:
        free(self.memory)
        free(self.ancillary)
        free(self.headers)
        free(self.parts)
        free(self.addresses)

    @property
    def failed_count(self) -> int:
        """Datagrams that could not be served or answered."""
        return self.error_count + (self.outbox.failed_count if self.outbox is not None else 0)

    # --- The socket ---------------------------------------------------------------------------------------------------

    def open(self, host: str, port: int, *, is_shared: bool = False) -> tuple[Any, ...]:
        """Bind an address, and serve what comes; return the address.

        `is_shared`: other processes of ours bind the same address; each client's datagrams come to one of them.

        Raises OSError: it can't be bound.
        """
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        try:
            if is_shared:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            found.bind(address)
            self.attach(found)
        except BaseException:
            found.close()
            raise
        bound: tuple[Any, ...] = found.getsockname()
        return bound

    def attach(self, found: socket.socket) -> None:
        """Serve what comes to a socket that is bound, until `close`. Ask for large buffers."""
        found.setblocking(False)
        # Root may have more than net.core.rmem_max; the ordinary option is bounded by that.
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF, posix.SO_RCVBUFFORCE, posix.SO_SNDBUFFORCE):
            with contextlib.suppress(OSError):
                found.setsockopt(socket.SOL_SOCKET, option, limits.SOCKET_BYTES)
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, posix.SO_TIMESTAMPNS, 1)
        if found.family != socket.AF_UNIX:
            self.port = socket.htons(found.getsockname()[1])
        self.socket = found
        self.fd = found.fileno()
        self.outbox = Outbox(self.fd)
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.fd, self.on_readable)

    def fileno(self) -> int:
        return self.fd

    def close(self) -> None:
        """Send what the kernel accepts at once, and close the socket. What waits to be served is dropped."""
        self.loop.remove_reader(self.fd)
        self.loop.remove_writer(self.fd)
        self.outbox.close()
        self.fd = -1
        self.socket.close()

    # --- A turn -------------------------------------------------------------------------------------------------------

    def on_readable(self) -> None:
        """Serve what has come, unless a turn is due, which does."""
        if not self.goes_on:
            self.turn()

    def go_on(self) -> None:
        """Serve what waits."""
        self.goes_on = False
        if self.fd >= 0:
            self.turn()

    def turn(self):
        """Take what the kernel has, serve for a while, and send. The time that numbers show is read once."""
        got: cython.int
        self.read_clock()
        now_ns: int64_t = posix.monotonic_ns()
        # As long as the rest of the loop has taken, so that the kernel's buffer does not fill up. If nothing waited, it
        # may have slept since, and a flood that begins then must not hold HTTP up for as long.
        rest_ns: int64_t = now_ns - self.left_ns if self.left_ns else 0
        receive_end_ns: int64_t = now_ns + max(RECEIVE_NS, rest_ns)
        self.end_ns = now_ns + self.turn_ns
        if self.service.cookies is not self.cookies:  # a reload may have changed who is trusted
            self.cookies = self.service.cookies
            self.forget_origins()
        self.in_turn = True
        try:
            for _ in range(RECEIVES_MAX):
                got = self.fill()
                if got > 0:
                    self.take(got)
                if got != COUNT or posix.monotonic_ns() >= receive_end_ns:
                    break
            self.serve_waiting()
        finally:
            self.in_turn = False
        self.flush()
        self.left_ns = 0
        if self.fair.count:
            self.left_ns = posix.monotonic_ns()
            self.goes_on = True
            self.loop.call_soon(self.go_on)
        return 0

    def read_clock(self):
        """Read the time for requests that are served without the service; it refuses them if the time is wrong."""
        self.is_fast = self.fast is not None
        if self.is_fast:
            try:
                self.now_s, self.monotonic_s = self.service.now_s(), self.service.monotonic_s()
            except Exception:  # noqa: BLE001 - the service reads it too, and says what is wrong
                self.is_fast = False
        return 0

    def fill(self):
        """Receive into memory; return how many datagrams have come, or -1: there was an error, which is counted."""
        index: cython.int
        for index in range(COUNT):
            header: cython.pointer[posix.msghdr] = cython.address(self.headers[index].msg_hdr)
            header.msg_namelen = cython.sizeof(posix.sockaddr_storage)
            header.msg_controllen = ANCILLARY_BYTES
        got: cython.int = posix.recvmmsg(self.fd, self.headers, COUNT, posix.MSG_DONTWAIT, cython.NULL)
        if got < 0 and last_error == EAGAIN:
            return 0
        if got < 0:  # the receiver of an earlier reply is gone
            self.error_count += 1
        return got

    def take(self, count):
        """Serve datagrams that have come if they are all there are, and time is left; else let them wait."""
        wall_ns: int64_t = posix.wall_ns()
        is_straight: cython.bint = count < COUNT and not self.fair.count
        index: cython.int
        for index in range(count):
            header: cython.pointer[posix.msghdr] = cython.address(self.headers[index].msg_hdr)
            address: cython.pointer[posix.sockaddr_storage] = cython.address(self.addresses[index])
            stamp_ns: int64_t = stamp_of(header)
            data: cython.p_char = self.memory + index * STRIDE
            size: cython.Py_ssize_t = self.headers[index].msg_len
            if is_straight and not (stamp_ns and wall_ns - stamp_ns > self.late_ns):
                self.serve(data, size, address, header.msg_namelen)
                is_straight = posix.monotonic_ns() < self.end_ns
            elif is_straight:
                self.dropped["late"] += 1
            else:
                self.enqueue(data, size, address, header.msg_namelen, stamp_ns)
        return 0

    def enqueue(self, data, size, address, address_size, stamp_ns):
        """Let a datagram wait for the turn of its source, if there is room."""
        origin: Origin = self.origin(address, address_size)
        port: object = port_of(address)
        if origin.source is not origin.key:
            port = origin.key, port
        waiting: Waiting = Waiting.__new__(Waiting)
        memcpy(cython.address(waiting.address), address, address_size)
        waiting.address_size = address_size
        waiting.stamp_ns = stamp_ns
        if self.fair.add(origin.source, port, waiting, size + QUEUED_BYTES):
            waiting.data = data[:size]
        else:
            self.dropped["crowded"] += 1
        return 0

    def serve_waiting(self):
        """Serve what waits, the next of whose turn it is, until the turn ends; one at least."""
        waiting: Waiting | None
        wall_ns: int64_t = posix.wall_ns()
        now_ns: int64_t = posix.monotonic_ns()
        self.end_ns = now_ns + self.turn_ns  # receiving has its own time
        while self.fair.count:
            waiting = self.fair.take()
            if waiting.stamp_ns and wall_ns - waiting.stamp_ns > self.late_ns:
                self.dropped["late"] += 1
            else:
                data: bytes = waiting.data
                self.serve(data, len(data), cython.address(waiting.address), waiting.address_size)
            before_ns: int64_t = now_ns
            now_ns = posix.monotonic_ns()
            self.fair.charge(now_ns - before_ns)
            if now_ns >= self.end_ns:
                break
        return 0

    def serve(self, data, size, address, address_size):
        """Answer a datagram, or let the service do so."""
        origin: Origin = self.origin(address, address_size)
        try:
            if self.port and port_of(address) == self.port and self.is_own(origin):
                self.dropped["own address"] += 1
                return 0
            if self.is_fast and size <= REQUEST_BYTES_MAX:
                written: cython.Py_ssize_t = self.fast.serve(
                    data, size, self.outbox.room(), self.now_s, self.monotonic_s, origin
                )
                if written:
                    self.outbox.add(written, address, address_size)
                    return 0
            answer: Answer = Answer.__new__(Answer)
            answer.datagrams = self
            memcpy(cython.address(answer.address), address, address_size)
            answer.address_size = address_size
            self.receive(data[:size], answer, origin.text, is_trusted=origin.is_trusted)
        except Exception as error:  # noqa: BLE001 - of ours, and counted: it ends nothing but its request
            self.error_count += 1
            self.service.record_failure(error)
        return 0

    # --- Addresses ----------------------------------------------------------------------------------------------------

    def origin(self, address, address_size):
        """Return who an address is, without its port."""
        start: cython.Py_ssize_t
        size: cython.Py_ssize_t
        origin: Origin | None
        if address.ss_family == posix.AF_INET:
            start, size = 4, 4
        elif address.ss_family == posix.AF_INET6:
            start, size = 8, 16
        else:
            start, size = 0, 0
        raw: cython.pointer[cython.const[cython.char]] = (
            cython.cast(cython.pointer[cython.const[cython.char]], address) + start
        )
        origin = self.last_origin
        if (
            origin is not None
            and len(origin.key) == size
            and not memcmp(cython.cast(cython.p_char, origin.key), raw, size)
        ):
            return origin
        key: bytes = raw[:size]
        origin = self.origins.get(key)
        if origin is None:
            if len(self.origins) >= ORIGINS_MAX:
                self.forget_origins()
            origin = self.origins[key] = Origin(key, to_text(key), self.cookies)
        self.last_origin = origin
        return origin

    def forget_origins(self):
        """Find out again who is trusted."""
        self.origins.clear()
        self.last_origin = None
        return 0

    def is_own(self, origin):
        """Whether an address is one of this socket; a reply to it would come back here, if the port is the same too.

        If the socket is bound to all addresses, the kernel says which are its own: it uses an address to reach itself.
        """
        own: str = self.socket.getsockname()[0]
        text: str = socket.inet_ntop(self.socket.family, origin.key)
        if own not in ANY:
            return text == own
        with socket.socket(self.socket.family, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
            probe.connect((text, 9))
            return probe.getsockname()[0] == text
        return False

    # --- Replies ------------------------------------------------------------------------------------------------------

    def send(self, answer, reply):
        """Send a reply at the end of the turn, or soon."""
        size: cython.Py_ssize_t = len(reply)
        if self.fd < 0 or size > REPLY_BYTES_MAX:
            self.error_count += 1
            return 0
        memcpy(self.outbox.room(), cython.cast(cython.p_char, reply), size)
        self.outbox.add(size, cython.address(answer.address), answer.address_size)
        if not self.in_turn and not self.flushes:
            self.flushes = True
            self.loop.call_soon(self.flush_soon)
        return 0

    def flush_soon(self) -> None:
        """Send the replies to requests that have waited for the database."""
        self.flushes = False
        if self.fd >= 0:
            self.flush()

    def flush(self):
        """Send what is answered; if the kernel does not take it all, also when it does."""
        if self.outbox.flush() and not self.is_writing:
            self.is_writing = True
            self.loop.add_writer(self.fd, self.on_writable)
        return 0

    def on_writable(self) -> None:
        """Send what the kernel did not take."""
        if not self.outbox.send_kept():
            self.is_writing = False
            self.loop.remove_writer(self.fd)


@cython.cfunc
@cython.inline
def port_of(address: cython.pointer[cython.const[posix.sockaddr_storage]]) -> cython.ushort:
    """Return the port of an address, as it stands there: in the same place for IPv4 and IPv6."""
    return cython.cast(cython.pointer[cython.const[cython.ushort]], address)[1]


@cython.cfunc
@cython.inline
def stamp_of(header: cython.pointer[posix.msghdr]) -> int64_t:
    """Return when the kernel received a datagram, in nanoseconds of its wall clock; 0: it does not say."""
    ancillary: cython.pointer[posix.cmsghdr] = posix.CMSG_FIRSTHDR(header)
    stamp: posix.timespec
    if not ancillary or ancillary.cmsg_level != posix.SOL_SOCKET or ancillary.cmsg_type != posix.SCM_TIMESTAMPNS:
        return 0
    memcpy(cython.address(stamp), posix.CMSG_DATA(ancillary), cython.sizeof(posix.timespec))
    return stamp.tv_sec * cython.cast(int64_t, 1_000_000_000) + stamp.tv_nsec
