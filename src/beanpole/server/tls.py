"""TLS as a filter without a socket, and the socket of a client that speaks it.

A filter turns ciphertext that came into what the client said, and replies into ciphertext to be sent. OpenSSL works on
two buffers in memory, and is asked through :mod:`ssl`: one record in, one read; one piece of output in, one record out.
Never more at once, as such a buffer keeps its largest size for ever. Where a record ends is in its header, which is not
encrypted, so that only a read of a long one finds that there is nothing yet.

A record costs much more than its bytes, and one of a single byte, or of none, as much as a long one: each is charged to
the share that its connection has of a turn (:mod:`beanpole.server.turn`), and what came behind that waits for the next.

A close_notify is to TLS what a FIN is to TCP: no more bytes come, replies do go on. A FIN without one is a lost
connection. Handshakes are no business of this module: a filter begins behind one.
"""

import contextlib
import ssl

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.protocol.buffer import append, consume, reserve, shrink
from cython.cimports.beanpole.server.epoll import Socket
from cython.cimports.beanpole.server.eventqueue import send_now
from cython.cimports.libc.errno import EAGAIN, EINTR
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free

from beanpole.server import limits

RECEIVE_BYTES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_PER_TURN)
RECEIVE_BYTES_FIRST = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_FIRST)
AHEAD_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_AHEAD_BYTES_MAX)
INPUT_BYTE_COST_NS = cython.declare(int64_t, limits.INPUT_BYTE_COST_NS)
TLS_UPDATE_COST_NS = cython.declare(int64_t, limits.TLS_UPDATE_COST_NS)
TLS_RECORD_COST_NS = cython.declare(int64_t, limits.TLS_RECORD_COST_NS)

HEADER_BYTES = cython.declare(cython.Py_ssize_t, 5)
SEALED_BYTES_MAX = cython.declare(cython.Py_ssize_t, 16_384 + 2_048)
"""Bytes of a record (RFC 5246, 6.2.3): with a longer one OpenSSL ends the connection when it sees the header."""

PIECE_BYTES = cython.declare(cython.Py_ssize_t, 8_192)
"""Bytes that a buffer of OpenSSL is given at once; it takes a third more, twice for a connection."""

UNSENT_BYTES_MAX = cython.declare(cython.Py_ssize_t, 131_072)
"""Bytes of ciphertext that wait: replies are half of it at most, the rest are answers to KeyUpdates, unread."""

UNSENT_BYTES_KEPT = cython.declare(cython.Py_ssize_t, 512)

GATHER_BYTES = cython.declare(cython.Py_ssize_t, 65_536)
"""Bytes of ciphertext that leave together; more would be more memory for a connection that does not read."""

plain_array = bytearray(16_384)  # what a record has at most (RFC 8446, 5.1)
"""What was decrypted last, of any connection: its decoder copies what it keeps."""

plain_bytes = len(plain_array)
plain_view = cython.declare(cython.uchar[:], plain_array)
plain = cython.declare(cython.p_char, cython.cast(cython.p_char, cython.address(plain_view[0])))

CLIENT_EVENTS = cython.declare(cython.uint, posix.EPOLLIN | posix.EPOLLPRI | posix.EPOLLRDHUP | posix.EPOLLET)


@cython.cclass
class Filter:
    """TLS of one connection, from the end of its handshake on. The fields stand in ``tls.pxd``."""

    def __init__(self, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, came: bytes = b""):
        """Go on behind a handshake over these BIOs, both empty; `came` is what the peer sent after it, encrypted."""
        assert incoming.pending + outgoing.pending == 0, "what a handshake brought is sent before this"
        self.ssl_object = tls
        self.write_incoming = incoming.write
        # Behind methods of Python's that only call these: for one command they take a seventh of what all of it does.
        self.read_plain = tls._sslobj.read
        self.write_plain = tls._sslobj.write
        self.read_outgoing = outgoing.read
        append(cython.address(self.kept), came, len(came))
        self.input = self.kept.data
        self.end = len(came)

    def __dealloc__(self):
        free(self.kept.data)
        free(self.unsent.data)

    # --- what comes ---------------------------------------------------------------------------------------------------

    def room(self, size):
        """Return where `size` bytes more of ciphertext can be written, behind what is kept; `extend` counts them."""
        assert not self.borrowed
        self.kept.start = self.at
        reserve(cython.address(self.kept), size)
        self.input = self.kept.data
        self.at = self.kept.start
        self.end = self.kept.size
        return self.kept.data + self.end

    def extend(self, size):
        self.kept.size += size
        self.end += size

    def borrow(self, data, size):
        """Take ciphertext without a copy where nothing is kept; `settle` must follow before it changes."""
        self.input = data
        self.at = 0
        self.end = size
        self.borrowed = True

    def whole(self):
        """Return how many bytes the next record has, its header included; 0: it is not all there."""
        there: cython.Py_ssize_t = self.end - self.at
        if there < HEADER_BYTES:
            return 0
        header = cython.cast(cython.pointer(cython.uchar), self.input + self.at)
        size: cython.Py_ssize_t = HEADER_BYTES + (header[3] << 8 | header[4])
        if size > HEADER_BYTES + SEALED_BYTES_MAX:
            return HEADER_BYTES
        return size if size <= there else 0

    def next(self):
        """Decrypt the next whole record into `plain`; return how many bytes that gave, -1: there is none, or no more.

        0: it was none of the client's bytes, but a KeyUpdate, for instance. Sets `ended` and `failed`.
        """
        size: cython.Py_ssize_t = 0 if self.ended or self.failed else self.whole()
        if size == 0:
            return -1
        stop: cython.Py_ssize_t = self.at + size
        try:
            while True:
                size = min(stop - self.at, PIECE_BYTES)
                self.write_incoming(self.input[self.at : self.at + size])
                self.at += size
                try:
                    size = self.read_plain(plain_bytes, plain_array)
                    break
                except ssl.SSLWantReadError:
                    if self.at == stop:
                        self.collect()
                        return 0
        except ssl.SSLError:
            self.failed = True
            self.collect()
            return -1
        self.ended = size == 0
        return size or -1

    def settle(self):
        """Keep what is left of what was borrowed; free the memory if nothing is left."""
        left: cython.Py_ssize_t = self.end - self.at
        if self.borrowed:
            self.borrowed = False
            self.kept.start = self.kept.size = 0
            if left:
                append(cython.address(self.kept), self.input + self.at, left)
            self.at = 0
            self.end = left
            self.input = self.kept.data
        elif left == 0:
            self.kept.start = self.kept.size
            shrink(cython.address(self.kept), 0)
            self.at = self.end = 0
            self.input = self.kept.data
        return 0

    # --- what is sent -------------------------------------------------------------------------------------------------

    def seal(self, data, size):
        """Add a piece of output to `unsent`, encrypted. Raises ssl.SSLError: TLS has failed."""
        self.write_plain(data[:size])
        return self.collect()

    def collect(self):
        """Add to `unsent` what OpenSSL wants to be sent."""
        said: bytes = self.read_outgoing()
        return append(cython.address(self.unsent), said, len(said))

    def end_output(self):
        """Say by a close_notify that no more is sent."""
        with contextlib.suppress(ssl.SSLError):  # which says that the peer has not ended its side
            self.ssl_object.unwrap()
        return self.collect()


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
                    break
                connection.run(now_ns)
        tls.settle()
        connection.share_ns -= byte_count * INPUT_BYTE_COST_NS  # at last: a body must not end this at its first record
        if tls.unsent.size and not self.blocked and self.send_unsent() < 0:  # what OpenSSL answers by itself
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

    def become_link(self, connection):
        """Close the connection: links don't speak TLS yet."""
        self.gone = True
        return 0

    def send(self, data, size):
        """Send at once what the kernel takes, a record at a time; what it does not take stays, encrypted.

        While something stays, one byte less is said to be taken than there is in it: so the connection is not done.
        """
        tls = self.tls
        taken: cython.Py_ssize_t = tls.owed
        left: cython.Py_ssize_t
        if tls.unsent.size:
            left = self.send_unsent()
            if left:
                return -1 if left < 0 else self.wait_for_room()
        while taken < size:
            piece: cython.Py_ssize_t = min(size - taken, PIECE_BYTES)
            try:
                tls.seal(data + taken, piece)
            except ssl.SSLError:
                return -1
            taken += piece
            if taken == size or tls.unsent.size - tls.unsent.start >= GATHER_BYTES:
                left = self.send_unsent()
                if left:
                    tls.owed = 1
                    return -1 if left < 0 else taken - 1 + self.wait_for_room()
        tls.owed = 0
        return taken

    def send_unsent(self):
        """Send what stayed; return how many bytes stay yet, -1: nobody takes them."""
        unsent = cython.address(self.tls.unsent)
        sent: cython.Py_ssize_t = send_now(self.fd, unsent.data + unsent.start, unsent.size - unsent.start)
        if sent < 0:
            return -1
        consume(unsent, sent, UNSENT_BYTES_KEPT)
        return unsent.size - unsent.start

    def wait_for_room(self):
        """Ask for an event when the kernel takes more."""
        return self.epoll.watch_fd(self.fd, CLIENT_EVENTS | posix.EPOLLOUT, posix.EPOLL_CTL_MOD)

    def close(self):
        """Say that no more is sent, or what was wrong, and close the socket."""
        tls = self.tls
        if self.fd >= 0:
            if not self.gone and not tls.failed:
                tls.end_output()
            if tls.unsent.size:
                self.send_unsent()
        return Socket.close(self)
