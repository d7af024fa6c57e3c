"""The socket of a client that speaks TLS, which a :class:`beanpole.server.tlsfilter.Filter` reads and writes.

A record costs much more than its bytes, and one of a single byte, or of none, as much as a long one: each is charged to
the share that its connection has of a turn (:mod:`beanpole.server.turn`), and what came behind that waits for the next.

A FIN without a close_notify is a lost connection.
"""

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.server.connection import Connection
from cython.cimports.beanpole.server.epoll import Socket
from cython.cimports.beanpole.server.tlsfilter import Filter, plain
from cython.cimports.libc.errno import EAGAIN, EINTR
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t

from beanpole.server import limits

RECEIVE_BYTES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_PER_TURN)
RECEIVE_BYTES_FIRST = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_FIRST)
AHEAD_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_AHEAD_BYTES_MAX)
INPUT_BYTE_COST_NS = cython.declare(int64_t, limits.INPUT_BYTE_COST_NS)
UNSENT_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_UNSENT_BYTES_MAX)
TLS_UPDATE_COST_NS = cython.declare(int64_t, limits.TLS_UPDATE_COST_NS)
TLS_RECORD_COST_NS = cython.declare(int64_t, limits.TLS_RECORD_COST_NS)

CLIENT_EVENTS = cython.declare(cython.uint, posix.EPOLLIN | posix.EPOLLPRI | posix.EPOLLRDHUP | posix.EPOLLET)


@cython.cclass
class TlsSocket(Socket):
    """The socket of a client that speaks TLS. The fields stand in ``tls.pxd``."""

    def __init__(self, tls: Filter):
        self.tls = tls
        self.reads_ahead = True
        self.readable = tls.end > 0

    def wake(self, now_ns, connection):
        """Read once if no whole record is there, and run what it brings, record by record."""
        tls = self.tls
        if tls.ended or tls.failed:
            self.readable = False
            return 0
        if not self.takes(connection):
            return 0
        if tls.whole():
            return self.run_records(now_ns, connection)
        size: cython.Py_ssize_t
        room: cython.Py_ssize_t = RECEIVE_BYTES_FIRST if connection.light else RECEIVE_BYTES_PER_TURN
        empty: cython.bint = tls.at == tls.end
        target: cython.p_char = self.epoll.read_buffer if empty else tls.room(room)
        size = posix.recv(self.fd, target, room, posix.MSG_DONTWAIT)
        if size > 0:
            self.readable = size == room or self.hung_up or self.thorough
            if empty:
                tls.borrow(target, size)
            else:
                tls.extend(size)
            return self.run_records(now_ns, connection)
        self.readable = False
        if size == 0:
            self.gone = True
        elif last_error == EINTR:
            self.readable = True
        elif last_error != EAGAIN:
            self.gone = True
        return 0

    def takes(self, connection):
        """Whether there is room for what comes: a session that waits has to hear that its client ends, so far."""
        return connection.hungry or (
            connection.session.waiting and connection.decoder.end - connection.decoder.at < AHEAD_BYTES_MAX
        )

    def run_records(self, now_ns, connection):
        """Run what records bring, while the connection has something left of its share and takes input."""
        tls = self.tls
        decoder = connection.decoder
        size: cython.Py_ssize_t
        byte_count: cython.Py_ssize_t = 0
        ran: cython.bint = False
        while self.takes(connection) and not connection.finished and (connection.share_ns > 0 or not ran):
            size = tls.next()
            if size < 0:
                break
            ran = True
            connection.share_ns -= TLS_RECORD_COST_NS if size else TLS_UPDATE_COST_NS
            byte_count += size
            if size:
                decoder.borrow(plain, size)
                if self.fresh and not self.greeted(connection):
                    return 0
                connection.run(now_ns)
        tls.settle()
        connection.share_ns -= byte_count * INPUT_BYTE_COST_NS  # at last: a body must not end this at its first record
        if tls.unsent.size and not self.blocked and tls.send_unsent(self.fd) < 0:  # what OpenSSL answers by itself
            self.gone = True
        if tls.unsent.size - tls.unsent.start > UNSENT_BYTES_MAX:
            self.gone = True
        if tls.failed:
            self.gone = True
        elif tls.ended:
            self.readable = False
            return connection.stop_input(now_ns)
        elif tls.whole():
            self.readable = True
        return 0

    def take_filter(self):
        """Return what reads and writes it, for a link."""
        self.tls.settle()
        return self.tls

    def send(self, data, size):
        """Send at once what the kernel takes."""
        connection: Connection = cython.cast(Connection, self.epoll.by_fd[self.fd], typecheck=True)
        out = connection.session.out
        self.tls.is_last = connection.finished and size == out.buffer.size - out.buffer.start
        taken: cython.Py_ssize_t = self.tls.send(self.fd, data, size)
        if 0 <= taken < size:
            self.epoll.watch_fd(self.fd, CLIENT_EVENTS | posix.EPOLLOUT, posix.EPOLL_CTL_MOD)
        return taken

    def close(self):
        """Say that no more is sent, or what was wrong, and close the socket."""
        tls = self.tls
        if self.fd >= 0:
            if not self.gone and not tls.failed:
                tls.end_output()
            if tls.unsent.size:
                tls.send_unsent(self.fd)
        return Socket.close(self)
