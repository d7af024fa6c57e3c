"""The socket of a client that speaks TLS, which a :class:`beanpole.server.tlsfilter.Filter` reads and writes.

A record costs much more than its bytes, and one of a single byte, or of none, as much as a long one: each is charged to
the share that its connection has of a turn (:mod:`beanpole.server.turn`), and what came behind that waits for the next.

A FIN without a close_notify is a lost connection.
"""

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.server.connection import Connection
from cython.cimports.beanpole.server.epoll import Socket
from cython.cimports.beanpole.server.tlsfilter import Filter

from beanpole.server import limits

AHEAD_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_AHEAD_BYTES_MAX)
CLIENT_EVENTS = cython.declare(cython.uint, posix.EPOLLIN | posix.EPOLLPRI | posix.EPOLLRDHUP | posix.EPOLLET)


@cython.cclass
class TlsSocket(Socket):
    """The socket of a client that speaks TLS. The fields stand in ``tls.pxd``."""

    def __init__(self, tls: Filter):
        self.tls = tls
        self.reads_ahead = True
        self.readable = tls.is_due()

    def wake(self, now_ns, connection):
        """Do so as others; of a session that waits so far that its client is heard to end."""
        if not connection.hungry and connection.decoder.end - connection.decoder.at >= AHEAD_BYTES_MAX:
            return 0
        Socket.wake(self, now_ns, connection)
        if self.readable and connection.session.waiting:
            self.epoll.turn.add_queue(connection)
        return 0

    def receive(self, connection, target, room):
        """Do what recv(2) does, at the cost of what is left of the connection's share; a record is decrypted always."""
        size: cython.Py_ssize_t = self.tls.receive(self.fd, target, room, room, connection.share_ns)
        connection.share_ns -= self.tls.cost_ns
        self.readable = self.tls.has_more or self.hung_up or self.thorough
        return size

    def take_filter(self):
        """Return what reads and writes it, for a link."""
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
        if self.fd >= 0:
            self.tls.finish(self.fd, not self.gone)
        return Socket.close(self)
