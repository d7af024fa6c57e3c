"""Handshakes of TLS, in a thread of their own: each takes as long as a thousand commands.

Whoever comes to a listener for TLS is a descriptor, and no more, until a whole ClientHello has come. Then it waits for
the thread, which takes those of one source, an IPv4 address or 64 bits of an IPv6 one, in turn with those of others.
Those that have begun are limited in number. Where there is no place for another, the oldest of the source that has most
goes: to refuse the newcomer would let a few sources keep everybody else out. A handshake has a few seconds from accept
to its end. Only then there is a session.

The server's loop has the sockets; the thread has what is between `inbox` and `outbox`. So no object of TLS is ever in
two threads. If the loop closes a socket while the thread works on its handshake, the handshake is dropped when the
thread returns it.
"""

import asyncio
import itertools
import os
import queue
import ssl
import threading
from collections import deque
from collections.abc import Callable

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.server.eventqueue import EventQueue, Greeter, Stranger, send_now
from cython.cimports.beanpole.server.tlsfilter import Filter, record_bytes
from cython.cimports.libc.errno import EAGAIN, EINTR
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t

from beanpole.protocol.limits import ALPN
from beanpole.server import limits
from beanpole.server.sources import Sources, source_of
from beanpole.server.tlscontext import Certificate, ServerContext, certificate_of

HELLO_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_HELLO_BYTES_MAX)
HANDSHAKE_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_HANDSHAKE_BYTES_MAX)
HANDSHAKES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_HANDSHAKES_MAX)
HANDSHAKES_AHEAD = cython.declare(cython.Py_ssize_t, limits.TLS_HANDSHAKES_AHEAD)
HANDSHAKE_NS = cython.declare(int64_t, limits.TLS_HANDSHAKE_S * 1_000_000_000)
PATIENCE_NS = cython.declare(int64_t, limits.TLS_PATIENCE_NS)
EVENTS = cython.declare(cython.uint, posix.EPOLLIN | posix.EPOLLRDHUP | posix.EPOLLET)

buffer_array = bytearray(limits.TLS_HELLO_BYTES_MAX)  # what was read last
buffer_view = cython.declare(cython.uchar[:], buffer_array)
buffer = cython.declare(cython.p_char, cython.cast(cython.p_char, cython.address(buffer_view[0])))

OUTCOMES = (
    "ok",
    "timeout",  # it took too long
    "pushed-out",  # another needed its place
    "gone",  # the client has closed
    "plain",  # it was no TLS
    "alpn",  # the client speaks other protocols
    "version",
    "cipher",
    "certificate",  # the client's: none, or not good
    "refused",  # by the client: it does not know our certificate, for instance
    "protocol",  # anything else that is against the rules
    "full",  # there were too many connections when it was done
    "closed",  # by the server, which stops
)

REASONS = (
    ("ALERT", "refused"),  # the client's, whatever it is about
    ("CERTIFICATE", "certificate"),
    ("CERT_", "certificate"),
    ("VERSION", "version"),
    ("UNSUPPORTED_PROTOCOL", "version"),
    ("NO_PROTOCOLS", "version"),
    ("CIPHER", "cipher"),
    ("SUITABLE", "cipher"),
    ("SHARED", "cipher"),
)
"""What OpenSSL's name of a failure has in it, and the outcome that this is; the first that fits."""

DECODE_ERROR = 50  # an alert: RFC 8446, 6
NO_APPLICATION_PROTOCOL = 120  # another: RFC 7301
APPLICATION_PROTOCOLS = 16  # an extension: RFC 7301


def read_hello(came: bytes) -> bytes | None:
    """Return the ClientHello that records begin with; empty: it is not all there; None: they begin otherwise."""
    hello = b""
    at = 0
    for _ in range(limits.TLS_HELLO_RECORDS_MAX):
        header = came[at : at + 5]
        if not b"\x16\x03".startswith(header[:2]):
            return None
        if len(header) < 5:
            return b""
        size = header[3] << 8 | header[4]
        hello += came[at + 5 : at + 5 + size]
        needed = 4 + int.from_bytes(hello[1:4], "big")
        if size == 0 or (hello and hello[0] != 1) or needed > HELLO_BYTES_MAX:
            return None
        if needed <= len(hello):
            return hello[:needed]
        at += 5 + size
        if at > len(came):
            return b""
    return None


def offers_others_only(hello: bytes) -> bool:
    """Whether a ClientHello names protocols (ALPN), and ours is none of them.

    A server of another protocol may have the same name, and certificate: what is said to one must not get to the other.
    """
    try:
        at = 4 + 2 + 32  # behind the header, the version and the random
        at += 1 + hello[at]
        at += 2 + int.from_bytes(hello[at : at + 2], "big")
        at += 1 + hello[at] + 2
        while at < len(hello):
            kind, size = int.from_bytes(hello[at : at + 2], "big"), int.from_bytes(hello[at + 2 : at + 4], "big")
            at += 4
            if kind == APPLICATION_PROTOCOLS:
                names, size = [], at + size
                at += 2
                while at < size:
                    names.append(hello[at + 1 : at + 1 + hello[at]])
                    at += 1 + hello[at]
                return ALPN.encode() not in names
            at += size
    except IndexError:  # OpenSSL says what is wrong
        pass
    return False


def outcome_of(error: Exception) -> str:
    reason = getattr(error, "reason", None) or ""
    return next((outcome for part, outcome in REASONS if part in reason), "protocol")


@cython.cclass
class Handshake(Stranger):
    """One that is no client yet. The fields stand in ``handshakes.pxd``."""

    def wake(self, now_ns):
        self.readable = True
        return 0 if self.waits_for_thread else self.read(now_ns)

    def read(self, now_ns):
        """Read what has come, until the thread has something to do."""
        size: cython.Py_ssize_t
        while self.fd >= 0 and not self.waits_for_thread and self.readable:
            size = min(HANDSHAKE_BYTES_MAX - self.came_bytes, HELLO_BYTES_MAX)
            if size <= 0:
                return self.all.end(self, "protocol")
            size = posix.recv(self.fd, buffer, size, posix.MSG_DONTWAIT)
            if size > 0:
                self.came += buffer[:size]
                self.came_bytes += size
                self.advance(now_ns)
            elif size < 0 and last_error == EAGAIN:
                self.readable = False
            elif size == 0 or last_error != EINTR:
                return self.all.end(self, "gone")
        return 0

    def advance(self, now_ns):
        """Let the thread go on if what it needs has come."""
        if self.tls is not None:
            return self.all.give(self) if record_bytes(self.came, len(self.came)) else 0
        hello = read_hello(self.came)
        if hello is None:
            is_plain: cython.bint = not self.came.startswith(b"\x16\x03"[: len(self.came)])
            self.said = b"" if is_plain else alert(DECODE_ERROR)
            return self.all.end(self, "plain" if is_plain else "protocol")
        if not hello:
            return 0
        if offers_others_only(hello):
            self.said = alert(NO_APPLICATION_PROTOCOL)
            return self.all.end(self, "alpn")
        self.waits_for_thread = True
        self.all.ready.setdefault(self.source, {})[self] = None
        return self.all.begin(now_ns)

    def step(self):
        """Go on as far as what has come allows, a record at a time: what comes behind the handshake is not its own."""
        if self.tls is None:
            self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self.tls = self.context.context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        came: bytes = self.came
        data: cython.p_char = came
        at: cython.Py_ssize_t = 0
        while not self.outcome:
            size: cython.Py_ssize_t = record_bytes(data + at, len(came) - at)
            if size == 0:
                break
            self.incoming.write(came[at : at + size])
            at += size
            try:
                self.tls.do_handshake()
                self.certificate = certificate_of(self.tls)
                self.outcome = "ok"
            except ssl.SSLWantReadError:
                pass
            except Exception as error:  # noqa: BLE001 - whatever a client brings about must not end the thread
                self.outcome = outcome_of(error)
        self.came = came[at:]
        self.said = self.outgoing.read()
        return 0


def alert(code: int) -> bytes:
    """Return a fatal alert, as it is said before anything is encrypted."""
    return bytes((21, 3, 3, 0, 2, 2, code))


@cython.cclass
class Handshakes(Greeter):
    """All handshakes of a server. The fields stand in ``handshakes.pxd``."""

    def __init__(
        self,
        clients: EventQueue,
        loop: asyncio.AbstractEventLoop,
        on_done: Callable[[int, int, Filter, Certificate | None, ServerContext], object],
    ):
        """Begin none yet: `listen` does.

        `on_done` is given the time, the descriptor, which it is to close or to serve, the filter, the client's
        certificate, and the context of the listener.
        """
        self.clients = clients
        self.loop = loop
        self.on_done = on_done
        self.contexts = {}
        self.strangers = clients.strangers
        self.by_source = Sources()
        self.ready = {}
        self.asked = Sources()
        self.inbox = queue.SimpleQueue()
        self.outbox = deque()
        self.event_fd = -1
        self.counts = dict.fromkeys(OUTCOMES, 0)

    def listen(self, listener: cython.int, context: ServerContext) -> None:
        """Shake hands with those who come to a listening socket, which stays the caller's to close."""
        self.contexts[listener] = context
        self.clients.meet_by(self, listener, False)
        if self.thread is None:
            self.event_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self.clients.add_reader(self.event_fd, self.take)
            self.thread = threading.Thread(target=self.work, name="handshakes", daemon=True)
            self.thread.start()

    def stop(self) -> None:
        """End all handshakes, and the thread."""
        for each in list(self.strangers.values()):
            self.end(each, "closed")
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.thread is not None:
            self.inbox.put(None)
            self.thread.join()
            self.thread = None
            self.clients.remove_reader(self.event_fd)
            os.close(self.event_fd)

    def work(self) -> None:
        """Go on with those of the inbox: the thread's body."""
        while (handshake := self.inbox.get()) is not None:
            cython.cast(Handshake, handshake, typecheck=True).step()
            self.outbox.append(handshake)
            os.eventfd_write(self.event_fd, 1)

    # --- those who come -----------------------------------------------------------------------------------------------

    def meet(self, now_ns, fd, listener):
        """Watch a socket until it has sent a ClientHello."""
        handshake: Handshake = Handshake()
        handshake.all = self
        handshake.fd = fd
        handshake.context = self.contexts[listener]
        handshake.since_ns = now_ns
        handshake.came = handshake.said = b""
        handshake.outcome = ""
        handshake.source = source_of(fd)
        self.strangers[fd] = handshake
        self.by_source.add(handshake)
        if self.timer is None:
            self.timer = self.loop.call_later(limits.TLS_HANDSHAKE_S, self.expire)
        try:
            self.clients.watch_fd(fd, EVENTS, posix.EPOLL_CTL_ADD)
        except OSError:
            return self.end(handshake, "full")
        return 0

    def make_room(self, now_ns):
        """Close the oldest of the source that has most."""
        found = self.by_source.oldest_of_most()
        if found is not None:
            self.end(found, "pushed-out")
        return found is not None

    def expire(self) -> None:
        """Close those that took too long, a few in each turn: they came together, and so end together."""
        now_ns: int64_t = self.clients.now()
        left_ns: int64_t = 0
        for each in list(itertools.islice(self.strangers.values(), limits.EXPIRED_PER_TURN)):
            handshake: Handshake = cython.cast(Handshake, each, typecheck=True)
            left_ns = handshake.since_ns + HANDSHAKE_NS - now_ns
            if left_ns > 0:
                break
            self.end(handshake, "timeout")
        self.timer = self.loop.call_later(max(left_ns, 0) / 1e9, self.expire) if self.strangers else None
        self.begin(now_ns)

    # --- the thread's work --------------------------------------------------------------------------------------------

    def begin(self, now_ns):
        """Give the thread handshakes to begin, so many that it always has one to go on with."""
        while self.ready and self.in_thread_count < HANDSHAKES_AHEAD:
            handshake = self.next_ready(now_ns)
            if handshake is None:
                break
            self.begun_count += 1
            self.give(handshake)
        return 0

    def next_ready(self, now_ns):
        """Return the oldest of the source whose turn it is; None: it has to wait, as too many have begun."""
        victim: Handshake = None
        source: object = next(iter(self.ready))
        if self.begun_count >= HANDSHAKES_MAX:
            victim = self.asked.oldest_of_most()
            if victim is None:
                return None
            if victim.source == source and now_ns - victim.asked_ns < PATIENCE_NS:
                # One of its own, whose client has only just been asked: it waits, but others do not.
                if len(self.ready) == 1:
                    return None
                self.ready[source] = self.ready.pop(source)
                source = next(iter(self.ready))
            self.end(victim, "pushed-out")
        waiting: dict = self.ready.pop(source)
        handshake: Handshake = cython.cast(Handshake, next(iter(waiting)), typecheck=True)
        del waiting[handshake]
        if waiting:
            self.ready[source] = waiting
        return handshake

    def give(self, handshake):
        """Let the thread go on with a handshake."""
        handshake.waits_for_thread = True
        self.asked.discard(handshake)
        self.in_thread_count += 1
        self.inbox.put(handshake)
        return 0

    def take(self) -> None:
        """Take back what the thread has gone on with."""
        now_ns: int64_t = self.clients.now()
        os.eventfd_read(self.event_fd)
        while self.outbox:
            handshake: Handshake = cython.cast(Handshake, self.outbox.popleft(), typecheck=True)
            self.in_thread_count -= 1
            handshake.waits_for_thread = False
            if handshake.fd < 0:
                self.begun_count -= 1
            elif handshake.outcome == "ok":
                self.finish(now_ns, handshake)
            elif handshake.outcome:
                self.end(handshake, handshake.outcome)
            else:
                send_said(handshake)
                handshake.asked_ns = now_ns
                self.asked.add(handshake)
                handshake.read(now_ns)
        self.begin(now_ns)

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self, now_ns, handshake):
        """Give on a client, with what it has sent behind its handshake."""
        fd: cython.int = handshake.fd
        if self.clients.has_no_place():
            return self.end(handshake, "full")
        send_said(handshake)
        self.leave(handshake, "ok")
        self.clients.watch_fd(fd, 0, posix.EPOLL_CTL_DEL)
        found = Filter(handshake.tls, handshake.incoming, handshake.outgoing, handshake.came)
        self.on_done(now_ns, fd, found, handshake.certificate, handshake.context)
        return 0

    def end(self, handshake, outcome):
        """Say what is wrong, if there is something to say, and close."""
        fd: cython.int = handshake.fd
        if fd < 0:
            return 0
        if not handshake.waits_for_thread:
            send_said(handshake)
        # What was not read would let the kernel reset the connection, and what was said might get lost.
        posix.recv(fd, buffer, HELLO_BYTES_MAX, posix.MSG_DONTWAIT)
        self.leave(handshake, outcome)
        self.clients.close_fd(fd)
        return self.clients.resume_accepting()

    def leave(self, handshake, outcome):
        """Forget one that has ended; its descriptor stays open."""
        self.counts[outcome] += 1
        del self.strangers[handshake.fd]
        handshake.fd = -1
        self.by_source.discard(handshake)
        self.asked.discard(handshake)
        waiting: dict = self.ready.get(handshake.source, {})
        if handshake in waiting:
            del waiting[handshake]
            if not waiting:
                del self.ready[handshake.source]
        elif handshake.tls is not None and not handshake.waits_for_thread:
            self.begun_count -= 1
        return 0


def send_said(handshake: Handshake):
    """Send what the handshake says: the kernel has place for it, as nothing was sent before but the like."""
    said, handshake.said = handshake.said, b""
    if said:
        send_now(handshake.fd, said, len(said))
