"""The poller: every client socket behind one descriptor, served in turns.

An epoll descriptor is itself readable when any of the sockets in it is, so the asyncio loop watches that one descriptor
and calls :meth:`Poller.run` once for a whole batch of ready sockets. A turn:

1. Read the clock, once.
2. Let the engine do what is due.
3. For each ready socket: one ``recv``, decode, apply. Sessions that others woke run what they have buffered.
4. Give the log the records of the turn.
5. One ``send`` for each connection whose replies are durable; the others are held until the log says so.

Sockets are watched edge-triggered: nothing has to be switched off while a session waits or its client does not read, so
a command costs one ``recv`` and one ``send``. The price is to remember what may still be readable. The next deadline is
a timer descriptor in the same epoll. What one connection may do in a turn is bounded; the rest waits for the next one.
"""

import errno
from typing import TYPE_CHECKING

import cython
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.session import Session
from cython.cimports.beanpole.server import posix
from cython.cimports.beanpole.server.connection import Connection
from cython.cimports.beanpole.server.eventqueue import EventQueue
from cython.cimports.libc.errno import EAGAIN, ECONNABORTED, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc

from beanpole import limits

if TYPE_CHECKING:
    from beanpole.log.log import Log
    from beanpole.server.app import Observer

EVENTS_PER_TURN = cython.declare(cython.int, limits.EVENTS_PER_TURN)
ACCEPTS_PER_TURN = cython.declare(cython.int, limits.ACCEPTS_PER_TURN)
ACCEPT_TELL_NS = cython.declare(int64_t, limits.ACCEPT_TELL_NS)
ACCEPT_RETRY_NS = cython.declare(int64_t, limits.ACCEPT_RETRY_NS)
COMMANDS_PER_TURN = cython.declare(cython.int, limits.COMMANDS_PER_TURN)
RECEIVE_BYTES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_PER_TURN)
HEAP_BLOCK_BYTES_MAX = cython.declare(cython.int, limits.HEAP_BLOCK_BYTES_MAX)
HEAP_BYTES_KEPT = cython.declare(cython.int, limits.HEAP_BYTES_KEPT)
CLIENT_EVENTS = cython.declare(cython.uint, posix.EPOLLIN | posix.EPOLLPRI | posix.EPOLLRDHUP | posix.EPOLLET)


@cython.cclass
class Poller(EventQueue):
    """All client sockets of a server. The fields stand in ``poller.pxd``."""

    def __init__(
        self,
        engine: Engine,
        log: Log,
        loop: asyncio.AbstractEventLoop,
        observer: Observer,
        one_reply_per_send: cython.bint = False,
        connections_max: cython.Py_ssize_t = 2**31,
    ):
        self.engine = engine
        self.log = log
        self.loop = loop
        self.observer = observer
        self.one_reply_per_send = one_reply_per_send
        self.by_fd = []
        self.listeners = {}
        self.connections_max = connections_max
        self.queue = []
        self.touched = []
        self.held = []
        posix.mallopt(posix.M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES_MAX)
        posix.mallopt(posix.M_TRIM_THRESHOLD, HEAP_BYTES_KEPT)
        self.read_buffer = cython.cast(cython.p_char, malloc(RECEIVE_BYTES_PER_TURN))
        if self.read_buffer is cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.read_buffer)

    # --- a turn -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run one turn."""
        self.scheduled = False
        if self.stopped:
            return
        self.turn_once()
        if self.queue and not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.run)

    def turn_once(self):
        """Serve every ready socket, then send what is durable."""
        events: posix.epoll_event[512]
        i: cython.int
        fd: cython.int
        now: int64_t = self.now()
        self.turn += 1
        self.engine.tick(now)
        queue = self.queue
        if queue:
            self.queue = []
            for connection in queue:
                cython.cast(Connection, connection).queued = False
                self.serve(now, cython.cast(Connection, connection))
        knocking: list = None
        count: cython.int = posix.epoll_wait(self.epoll_fd, events, EVENTS_PER_TURN, 0)
        for i in range(count):
            fd = events[i].data.fd
            if fd < len(self.by_fd) and self.by_fd[fd] is not None:
                self.handle(now, cython.cast(Connection, self.by_fd[fd]), events[i].events)
            elif fd in self.listeners:
                knocking = [fd] if knocking is None else [*knocking, fd]
        # New clients come last: one may be given the descriptor of a client that this very turn dropped, and must not
        # be served with what happened to that.
        if knocking is not None:
            for fd in knocking:
                self.accept(now, fd)
        if self.engine.woken:
            self.serve_woken(now)
        return self.commit(now)

    def handle(self, now_ns, connection, events):
        """Take note of what happened to a socket, and serve it."""
        if events & ~posix.EPOLLOUT:
            connection.readable = True
        if events & posix.EPOLLPRI:
            connection.thorough = True
        if events & (posix.EPOLLRDHUP | posix.EPOLLHUP | posix.EPOLLERR) and not connection.hung_up:
            connection.hung_up = True
            self.engine.half_close(now_ns, connection.session)
        if events & posix.EPOLLOUT and connection.blocked:
            connection.blocked = False
            self.watch_fd(connection.fd, CLIENT_EVENTS, posix.EPOLL_CTL_MOD)
        self.serve(now_ns, connection)
        if events & (posix.EPOLLHUP | posix.EPOLLERR) and not connection.hungry and not connection.pending:
            self.drop(now_ns, connection)
        return 0

    def serve(self, now_ns, connection):
        """Run what a connection has buffered, then what one read brings."""
        if connection.closed:
            return 0
        if connection.turn != self.turn:
            connection.turn = self.turn
            connection.commands_left = COMMANDS_PER_TURN
        if not connection.hungry and not connection.finished:
            connection.run(now_ns)
        if connection.hungry and connection.readable and not connection.finished:
            self.receive(now_ns, connection)
            if connection.closed:
                return 0
        if connection.pending or (connection.hungry and connection.readable and not connection.finished):
            self.enqueue(connection)
        return self.touch(connection)

    def receive(self, now_ns, connection):
        """Read once from a socket and run what came."""
        size: cython.Py_ssize_t
        decoder = connection.decoder
        empty: cython.bint = decoder.at == decoder.end
        target: cython.p_char = self.read_buffer if empty else decoder.room(RECEIVE_BYTES_PER_TURN)
        size = posix.recv(connection.fd, target, RECEIVE_BYTES_PER_TURN, posix.MSG_DONTWAIT)
        if size > 0:
            connection.readable = size == RECEIVE_BYTES_PER_TURN or connection.hung_up or connection.thorough
            if empty:
                decoder.borrow(target, size)
            else:
                decoder.extend(size)
            return connection.run(now_ns)
        if size == 0:
            connection.readable = False
            return connection.stop_input(now_ns)
        if last_error == EAGAIN or last_error == EINTR:
            connection.readable = last_error == EINTR
            return 0
        return self.drop(now_ns, connection)

    def serve_woken(self, now_ns):
        """Let the sessions that got a reply from others go on, and those that they wake in turn.

        This ends: a session that goes on uses up its share of commands for the turn.
        """
        while self.engine.woken:
            for session in self.engine.take_woken():
                owner = cython.cast(Session, session).owner
                if owner is not None:
                    cython.cast(Connection, owner).end_reply()
                    self.serve(now_ns, cython.cast(Connection, owner))
        return 0

    def touch(self, connection):
        """Put a connection on the list of those to send for."""
        if not connection.touched:
            connection.touched = True
            self.touched.append(connection)
        return 0

    def enqueue(self, connection):
        """Serve a connection again in the next turn, without an event."""
        if not connection.queued:
            connection.queued = True
            self.queue.append(connection)
        return 0

    # --- persist, then send -------------------------------------------------------------------------------------------

    def commit(self, now_ns):
        """Give the log the turn's records, send what is durable, and set the timer."""
        if self.engine.records.index != self.appended_index:
            self.appended_index = self.engine.records.index
            self.log.append()
        touched = self.touched
        if touched:
            durable_index: uint64_t = self.log.durable_index
            self.touched = []
            for connection in touched:
                cython.cast(Connection, connection).touched = False
                self.flush(now_ns, cython.cast(Connection, connection), durable_index)
        return self.arm(now_ns)

    def release(self) -> None:
        """Send what was held, as far as it is durable now. The log calls this when its durable index moves."""
        if self.stopped:
            return
        now: int64_t = self.now()
        durable_index: uint64_t = self.log.durable_index
        held = self.held
        self.held = []
        for connection in held:
            cython.cast(Connection, connection).is_held = False
            self.flush(now, cython.cast(Connection, connection), durable_index)
        if self.engine.woken:
            self.serve_woken(now)
        self.commit(now)
        if self.queue and not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.run)

    def flush(self, now_ns, connection, durable_index):
        """Send what a connection may send; then close it if it is finished."""
        if connection.closed:
            return 0
        out = connection.session.out
        left: cython.Py_ssize_t = connection.sendable(durable_index)
        size: cython.Py_ssize_t
        asked: cython.Py_ssize_t
        while left and not connection.blocked:
            asked = left
            if connection.reply_ends:
                asked = min(asked, connection.reply_ends[0] - connection.sent_bytes)
            size = posix.send(connection.fd, out.data + out.sent, asked, posix.MSG_NOSIGNAL | posix.MSG_DONTWAIT)
            if size < 0:
                if last_error == EINTR:
                    continue
                if last_error != EAGAIN:
                    return self.drop(now_ns, connection)
                size = 0
            connection.sent(size)
            left -= size
            if size < asked:
                connection.blocked = True
                self.watch_fd(connection.fd, CLIENT_EVENTS | posix.EPOLLOUT, posix.EPOLL_CTL_MOD)
            elif connection.reply_ends:
                connection.reply_ends.pop(0)
        return self.settle(now_ns, connection)

    def settle(self, now_ns, connection):
        """Do what follows from what was sent: hold, close, or go on with commands that waited for room."""
        if connection.held is not None and not connection.is_held:
            connection.is_held = True
            self.held.append(connection)
        if connection.finished and connection.session.out.size == 0:
            return self.drop(now_ns, connection)
        if connection.choked and not connection.blocked and connection.held is None:
            self.enqueue(connection)
        return 0

    def arm(self, now_ns):
        """Let the timer fire when the engine or a paused listener has something to do."""
        due: int64_t = self.engine.deadline()
        if self.accept_retry_ns:
            if self.accept_retry_ns <= now_ns:
                self.resume_accepting()
            elif due < 0 or self.accept_retry_ns < due:
                due = self.accept_retry_ns
        return self.wake_by(now_ns, due)

    # --- coming and going ---------------------------------------------------------------------------------------------

    def listen(self, fd: cython.int, is_unix: cython.bint) -> None:
        """Accept connections from a listening socket, which stays the caller's to close."""
        self.listeners[fd] = is_unix
        self.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_ADD)

    def accept(self, now_ns, listener):
        """Accept what waits at a listening socket."""
        connection: Connection
        fd: cython.int
        i: cython.int
        for i in range(ACCEPTS_PER_TURN):
            if self.engine.session_count >= self.connections_max:
                return self.pause_accepting(now_ns, EMFILE)
            fd = posix.accept4(listener, cython.NULL, cython.NULL, posix.SOCK_NONBLOCK | posix.SOCK_CLOEXEC)
            if fd < 0:
                if last_error == EMFILE or last_error == ENFILE or last_error == ENOBUFS or last_error == ENOMEM:
                    return self.pause_accepting(now_ns, last_error)
                if last_error == ECONNABORTED or last_error == EINTR:
                    continue
                return 0
            if fd >= len(self.by_fd):
                self.by_fd.extend([None] * (fd + 1 - len(self.by_fd)))
            connection = Connection(self.engine, now_ns, self.one_reply_per_send)
            connection.fd = fd
            connection.thorough = self.listeners[listener]
            self.by_fd[fd] = connection
            try:
                self.watch_fd(fd, CLIENT_EVENTS, posix.EPOLL_CTL_ADD)
            except OSError as error:
                self.drop(now_ns, connection)
                return self.pause_accepting(now_ns, error.errno)
            if self.observe_connections:
                self.observer.connection_opened(fd)
        return 0

    def pause_accepting(self, now_ns, reason):
        """Leave new clients in the backlog while the process is out of descriptors; those that are there go on."""
        for fd in self.listeners:
            self.watch_fd(fd, 0, posix.EPOLL_CTL_MOD)
        self.accept_retry_ns = now_ns + ACCEPT_RETRY_NS
        if now_ns >= self.accept_tell_ns:
            self.accept_tell_ns = now_ns + ACCEPT_TELL_NS
            self.observer.accept_paused(errno.errorcode[reason])
        return 0

    def resume_accepting(self):
        """Accept again."""
        self.accept_retry_ns = 0
        for fd in self.listeners:
            self.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_MOD)
        return 0

    def drop(self, now_ns, connection):
        """Close a connection and forget it. Nothing happens when that is done already."""
        if connection.closed:
            return 0
        connection.close(now_ns)
        self.by_fd[connection.fd] = None
        posix.close(connection.fd)
        if self.observe_connections:
            self.observer.connection_closed(connection.fd)
        connection.fd = -1
        if self.accept_retry_ns:
            self.resume_accepting()
        if self.engine.woken and not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.run)
        return 0

    def stop(self) -> None:
        """Run no more turns and send nothing more: something failed, and nothing can be promised."""
        self.stopped = True

    def stop_accepting(self) -> None:
        """Accept no more connections."""
        for fd in self.listeners:
            self.watch_fd(fd, 0, posix.EPOLL_CTL_DEL)
        self.listeners.clear()
        self.accept_retry_ns = 0

    def close_all(self) -> None:
        """Close every connection. What could not be sent at once is lost, but no reply leaves before it is durable."""
        now: int64_t = self.now()
        for connection in self.by_fd:
            if connection is not None:
                self.drop(now, cython.cast(Connection, connection))
