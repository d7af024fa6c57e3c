"""The sockets of all clients behind one descriptor.

A turn serves a whole batch of ready sockets. A server alone waits here: :meth:`EpollTransport.serve` runs turns until
asyncio has something to do (:mod:`beanpole.server.loop`). An epoll descriptor is itself readable when any of the
sockets in it is, so the loop of a node watches that one descriptor, and calls :meth:`EpollTransport.run`.

Sockets are watched edge-triggered: nothing has to be switched off while a session waits or its client does not read, so
a command costs one ``recv`` and one ``send``. The price is to remember what may still be readable. The next deadline is
a timer descriptor in the same epoll.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.protocol.extensions import USERS_SERVED
from cython.cimports.beanpole.server.connection import Connection, Transport
from cython.cimports.beanpole.server.eventqueue import GREETING_BYTES, EventQueue, Greeter, greets, send_now
from cython.cimports.beanpole.server.turn import Turn
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.libc.errno import EAGAIN, EINTR, EMFILE
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free, malloc

from beanpole.server import limits
from beanpole.server.listener import peer_text

if TYPE_CHECKING:
    from beanpole.server.observer import Observer

EVENTS_PER_TURN = cython.declare(cython.int, limits.EVENTS_PER_TURN)
ACCEPTS_PER_TURN = cython.declare(cython.int, limits.ACCEPTS_PER_TURN)
RECEIVE_BYTES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_PER_TURN)
RECEIVE_BYTES_FIRST = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_FIRST)
LINK_RECORDS_COST_NS = cython.declare(int64_t, limits.LINK_RECORDS_COST_NS)
INPUT_BYTE_COST_NS = cython.declare(int64_t, limits.INPUT_BYTE_COST_NS)
HEAP_BLOCK_BYTES_MAX = cython.declare(cython.int, limits.HEAP_BLOCK_BYTES_MAX)
LINGER_S = cython.declare(cython.double, limits.LINGER_S)
HEAP_BYTES_KEPT = cython.declare(cython.int, limits.HEAP_BYTES_KEPT)
assert limits.EVENTS_PER_TURN <= 512, "poll() has memory for 512 events"
CLIENT_EVENTS = cython.declare(cython.uint, posix.EPOLLIN | posix.EPOLLPRI | posix.EPOLLRDHUP | posix.EPOLLET)


@cython.cclass
class Socket(Transport):
    """The socket of one client."""

    def wake(self, now_ns, connection):
        """Read once and run what came."""
        size: cython.Py_ssize_t
        decoder = connection.decoder
        # What comes while a session waits lies there for long: it is copied, so that it takes no more than it is.
        empty: cython.bint = decoder.at == decoder.end or not connection.hungry
        room: cython.Py_ssize_t = RECEIVE_BYTES_FIRST if connection.light else RECEIVE_BYTES_PER_TURN
        target: cython.p_char = self.epoll.read_buffer if empty else decoder.room(room)
        size = self.receive(connection, target, room)
        if size > 0:
            if empty:
                decoder.borrow(target, size)
            else:
                decoder.extend(size)
            if self.fresh and not self.greeted(connection):
                return 0
            connection.share_ns -= size * INPUT_BYTE_COST_NS
            return connection.run(now_ns)
        if size < 0 and last_error == EINTR:
            return 0
        self.readable = False
        if size == 0:
            return connection.stop_input(now_ns)
        if last_error != EAGAIN:
            self.gone = True
        return 0

    def receive(self, connection, target, room):
        """Do what recv(2) does; of what that gives, `readable` is whether there may be more."""
        size: cython.Py_ssize_t = posix.recv(self.fd, target, room, posix.MSG_DONTWAIT)
        self.readable = size == room or (size < 0 and last_error == EINTR) or self.hung_up or self.thorough
        return size

    def greeted(self, connection):
        """Look at what has come first; return whether it is for the decoder, and not a link."""
        if not (self.is_link(connection) if self.entry is None else self.meet(connection)):
            return True
        self.become_link(connection)
        return False

    def is_link(self, connection):
        """Whether what has come begins as a link does; while too little has come, it is input that waits for more."""
        decoder = connection.decoder
        there: cython.Py_ssize_t = decoder.end - decoder.at
        found: cython.bint = greets(decoder.input + decoder.at, there)
        self.fresh = found and there < GREETING_BYTES
        return found and not self.fresh

    def become_link(self, connection):
        """Give up the socket, with what has come, for a link; the session that was opened for it ends."""
        decoder = connection.decoder
        came: bytes = decoder.input[decoder.at : decoder.end]
        decoder.at = decoder.end
        decoder.settle()
        said: bytes = connection.take_output()  # that it is authenticated
        fd: cython.int = self.fd
        self.fd = -1
        self.gone = True
        self.epoll.by_fd[fd] = None
        self.epoll.socket_count -= 1
        self.epoll.open_link(self.epoll, fd, came, said, self.take_filter(), self.entry)
        return 0

    def take_filter(self):
        """Return what encrypts the socket, for a link; None: nothing does."""

    def send(self, data, size):
        """Send at once what the kernel takes."""
        sent: cython.Py_ssize_t = send_now(self.fd, data, size)
        if 0 <= sent < size:
            self.epoll.watch_fd(self.fd, CLIENT_EVENTS | posix.EPOLLOUT, posix.EPOLL_CTL_MOD)
        return sent

    def peer(self) -> str:
        """Return the address of the client."""
        return "console" if self.own else peer_text(self.fd)

    def linger(self, connection):
        """Close the connection a moment later."""
        self.epoll.loop.call_later(LINGER_S, self.epoll.release, connection)
        return True

    def close(self):
        """Close the socket."""
        fd: cython.int = self.fd
        self.fd = -1
        return self.epoll.forget(fd)


@cython.cclass
class Carrier:
    """What carries many connections over one descriptor (:mod:`beanpole.server.link`)."""

    def note(self, now_ns, events):
        """Take note of what happened to the descriptor: read, and let connections be served in this turn."""
        return 0

    def end_turn(self, now_ns):
        """Send what the turn has brought. Called when the carrier stands in `EpollTransport.carried`."""
        return 0

    def read_deferred(self, now_ns):
        """Read what is encrypted. Called when the carrier stood in `EpollTransport.deferred`, first of all."""
        return 0


@cython.cclass
class EpollTransport(EventQueue):
    """All client sockets of a server. The fields stand in ``epoll.pxd``."""

    def __init__(
        self,
        turn: Turn,
        loop: asyncio.AbstractEventLoop,
        observer: Observer,
        connections_max: cython.Py_ssize_t = 2**31,
        clock: Callable[[], int] | None = None,
        wall_clock: Callable[[], int] | None = None,
    ):
        self.turn = turn
        self.loop = loop
        self.observer = observer
        self.by_fd = []
        self.carriers = {}
        self.carried = []
        self.deferred = []
        self.link_targets = {("-", 0)}
        self.sockets_max = 2**31
        self.connections_max = connections_max
        self.clock = clock
        self.wall_clock = wall_clock
        turn.run_soon = self.run_soon
        posix.mallopt(posix.M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES_MAX)
        posix.mallopt(posix.M_TRIM_THRESHOLD, HEAP_BYTES_KEPT)
        self.read_buffer = cython.cast(cython.p_char, malloc(RECEIVE_BYTES_PER_TURN))
        if self.read_buffer is cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.read_buffer)

    # --- turns --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run a turn with every socket that is ready."""
        self.run_turn(0)

    def run_turn(self, wait_ms):
        """Wait until a socket is ready, at most `wait_ms` milliseconds, below 0 for ever; then run a turn with each."""
        events: posix.epoll_event[512]
        count: cython.int
        if self.turn.stopped:
            self.interrupted = True
            return 0
        with cython.nogil:
            count = posix.epoll_wait(self.epoll_fd, events, EVENTS_PER_TURN, wait_ms)
        if count < 0 and last_error == EINTR:
            PyErr_CheckSignals()
            self.interrupted = True
            return 0
        now: int64_t = self.read_clocks()
        self.comings_left = ACCEPTS_PER_TURN
        self.records_left_ns = LINK_RECORDS_COST_NS
        self.turn.begin(now)
        self.note_events(now, events, count)
        self.turn.finish(now)
        self.arm(now)
        self.end_turn()
        return self.call_readers() if self.readable is not None else 0

    def is_busy(self):
        return self.turn.requested

    def run_soon(self) -> None:
        if self.loop_fd >= 0:
            self.turn.requested = True
        else:
            self.loop.call_soon(self.run)

    def send_held(self) -> None:
        """Send what the log has made durable. The log calls this when its durable index moves."""
        if self.turn.stopped:
            return
        now: int64_t = self.read_clocks()
        self.turn.send_held(now)
        self.arm(now)
        self.end_turn()

    def read_clocks(self):
        """Return the time on the engine's clock, and tell the engine how far the wall clock is ahead of that.

        So a wall clock that is set is seen by the next turn.
        """
        now: int64_t = self.now()
        wall: int64_t = posix.wall_ns() if self.wall_clock is None else cython.cast(int64_t, self.wall_clock())
        self.turn.engine.wall_lead_ns = wall - now
        return now

    def end_turn(self):
        """Send what is carried, count how long the turn took, and report it if that was long."""
        if self.carried:
            self.end_carried()
        if self.deferred:
            self.end_deferred()
        slow = self.turn.note_end(self.now())
        if slow is not None:
            self.observer.turn_slow(slow)
        return 0

    def end_carried(self):
        """Let those carriers send that have something to send."""
        carried, self.carried = self.carried, []
        for each in carried:
            cython.cast(Carrier, each, typecheck=True).end_turn(self.turn.began_ns)
        return 0

    def end_deferred(self):
        """Let those carriers read whose records cost much, each in turn, until that is enough for this turn of all."""
        while self.deferred and self.records_left_ns > 0:
            cython.cast(Carrier, self.deferred.pop(0), typecheck=True).read_deferred(self.turn.began_ns)
        return self.turn.request()

    def note_events(self, now_ns, events, count):
        """Take note of what happened to which socket, and accept new clients."""
        i: cython.int
        fd: cython.int
        knocking: list = None
        by_fd = self.by_fd
        for i in range(count):
            fd = events[i].data.fd
            if 0 <= fd < len(by_fd) and by_fd[fd] is not None:
                self.note(now_ns, cython.cast(Connection, by_fd[fd], typecheck=True), events[i].events)
            elif fd in self.listeners:
                knocking = [fd] if knocking is None else [*knocking, fd]
            elif fd in self.carriers:
                cython.cast(Carrier, self.carriers[fd], typecheck=True).note(now_ns, events[i].events)
            else:
                self.note_own(fd)
        # New clients come last: one may be given the descriptor of a client that this very turn dropped, and must not
        # be served with what happened to that.
        if knocking is not None:
            for fd in knocking:
                self.accept(now_ns, fd)
        return 0

    def note(self, now_ns, connection, events):
        """Take note of what happened to a socket; its connection is served in this turn, or one of the next."""
        socket: Socket = cython.cast(Socket, connection.transport, typecheck=True)
        if events & ~posix.EPOLLOUT:
            socket.readable = True
        if events & posix.EPOLLPRI:
            socket.thorough = True
        if events & (posix.EPOLLRDHUP | posix.EPOLLHUP | posix.EPOLLERR) and not socket.hung_up:
            socket.hung_up = True
            self.turn.engine.half_close(now_ns, connection.session)
        if events & posix.EPOLLERR or (events & posix.EPOLLHUP and connection.choked):
            # A client that has reset its connection reads no reply: what it sent last still runs, as it does when a
            # producer closes without reading, but not what is left after that.
            socket.gone = True
        if events & posix.EPOLLOUT and socket.blocked:
            socket.blocked = False
            self.watch_fd(socket.fd, CLIENT_EVENTS, posix.EPOLL_CTL_MOD)
        return self.turn.add_arrived(connection)

    def arm(self, now_ns):
        """Let the timer fire when the engine or a paused listener has something to do."""
        return self.wake_by(now_ns, self.turn.engine.deadline())

    # --- coming and going ---------------------------------------------------------------------------------------------

    def accept(self, now_ns, listener):
        """Accept what waits at a listening socket."""
        fd: cython.int
        i: cython.int
        for i in range(ACCEPTS_PER_TURN):
            if (
                self.turn.engine.session_count + len(self.strangers) >= self.connections_max
                or self.socket_count + len(self.carriers) + len(self.strangers) >= self.sockets_max
            ):
                if i > 0:
                    return 0  # whether another waits says the next turn: nobody has to make room for none
                if not self.make_room(now_ns):
                    return self.pause_accepting(now_ns, EMFILE)
            fd = self.accept_from(now_ns, listener)
            if fd < 0:
                return 0
            if listener in self.greeters:
                cython.cast(Greeter, self.greeters[listener], typecheck=True).meet(now_ns, fd, listener)
                continue
            try:
                self.join(now_ns, fd, self.listeners[listener], False)
            except OSError as error:
                return self.pause_accepting(now_ns, error.errno)
        return 0

    def has_no_place(self):
        return self.turn.engine.session_count >= self.connections_max

    def has_crowd(self):
        """Whether somebody has a connection who has not shown who it is."""
        return self.guard is not None and self.guard.crowd.count > 0

    def make_room(self, now_ns):
        """Close one that is no client yet, or has not shown who it is, for another; False: there is none."""
        if EventQueue.make_room(self, now_ns):
            return True
        if not self.has_crowd():
            return False
        self.guard.push_out()
        return True

    def join(self, now_ns, fd, thorough, own, socket=None):
        """Serve a connected socket, by a :class:`Socket` if that is given; it is closed if it can't be watched."""
        if fd >= len(self.by_fd):
            self.by_fd.extend([None] * (fd + 1 - len(self.by_fd)))
        if socket is None:
            socket = Socket()
        socket.epoll = self
        socket.fd = fd
        socket.own = own
        socket.fresh = not own and (self.open_link is not None or socket.entry is not None)
        self.socket_count += not own
        socket.thorough = thorough
        connection: Connection = self.open(now_ns, socket, own)
        self.by_fd[fd] = connection
        try:
            self.watch_fd(fd, CLIENT_EVENTS, posix.EPOLL_CTL_ADD)
        except OSError:
            self.turn.drop(now_ns, connection)
            raise
        if self.observe_connections and not own:
            self.observer.connection_opened(fd)
        if socket.readable:  # before there was a socket: what came behind a handshake
            self.turn.ready(connection)
        return connection

    def open(self, now_ns, socket, own):
        """Open a connection for a socket, of the user whose it is."""
        entry = socket.entry
        if entry is None:
            return self.turn.open(now_ns, socket, own, None, USERS_SERVED if own else 0)
        entry.connection = self.turn.open(now_ns, socket, own, entry.user, entry.served)
        return entry.connection

    def adopt(self, fd: cython.int) -> Connection:
        """Serve a connected socket of the server's own, which is closed here: it is no client, and always has a place.

        Raises OSError: it can't be watched.
        """
        return self.join(self.now(), fd, True, True)

    def take(self, fd: cython.int, thorough: cython.bint, socket: Socket = None) -> None:
        """Serve a client that was accepted elsewhere, and of which nothing was read; it is closed if it can't be.

        `socket` is what reads it; None: a plain one.
        """
        with contextlib.suppress(OSError):
            self.join(self.now(), fd, thorough, False, socket)

    def entries(self) -> list[Any]:
        """Return the entries of all clients and links, where there are users."""
        found = [
            cython.cast(Connection, each, typecheck=True).transport.entry for each in self.by_fd if each is not None
        ]
        for each in self.carriers.values():
            found += each.entries()
        return [each for each in found if each is not None]

    def release(self, connection: Connection) -> None:
        """Close what was adopted. Closing again does nothing."""
        self.turn.end(self.now(), connection)

    def forget(self, fd):
        """Close a socket."""
        if fd < 0:
            return 0
        connection: Connection = cython.cast(Connection, self.by_fd[fd], typecheck=True)
        self.by_fd[fd] = None
        self.close_fd(fd)
        entry = cython.cast(Socket, connection.transport, typecheck=True).entry
        if entry is not None:
            entry.closed()
        if not connection.session.own:
            self.socket_count -= 1
            if self.observe_connections:
                self.observer.connection_closed(fd)
        return self.resume_accepting()

    def link_facts(self) -> dict[str, str]:
        """Return what ``stats`` says of links, by key; nothing where there has never been one."""
        if not self.carried_bytes_received:
            return {}
        links = self.carriers.values()
        return {
            "links": str(len(links)),
            "link-channels": str(sum(each.channel_count for each in links)),
            "link-bytes-received": str(self.carried_bytes_received),
            "link-bytes-sent": str(self.carried_bytes_sent),
            "link-map-epoch": str(min((each.map_epoch for each in links if each.map_epoch), default=0)),
        }

    def close_all(self) -> None:
        """Close every connection. What could not be sent at once is lost, but no reply leaves before it is durable."""
        self.close_each(True)

    def close_clients(self) -> None:
        """Close every connection that is not the server's own. Until clients are taken, no time to return runs."""
        self.turn.engine.stop_taking_clients()
        self.close_each(False)

    def take_clients(self) -> None:
        """Let the times start over in which sessions may return: clients are taken from now on."""
        self.turn.engine.take_clients(self.now())

    def close_each(self, own):
        """Close every client's connection, and with `own` the server's as well."""
        now: int64_t = self.now()
        for each in list(self.carriers.values()):
            each.close_at_once()
        for each in self.by_fd:
            if each is not None:
                connection: Connection = cython.cast(Connection, each, typecheck=True)
                if own or not connection.session.own:
                    connection.transport.cut = True
                    self.turn.drop(now, connection)
                    connection.transport.close()  # whether or not its jobs are all back
        return 0
