"""TLS as a filter without a socket: ciphertext that came in, what the peer said out, and the other way.

OpenSSL works on two buffers in memory, and is asked through :mod:`ssl`: one record in, one read; one piece of output
in, one record out. Never more at once, as such a buffer keeps its largest size for ever. Where a record ends is in its
header, which is not encrypted, so that only a read of a long one finds that there is nothing yet.

A close_notify is to TLS what a FIN is to TCP: no more bytes come, replies do go on. Handshakes are no business of this
module: a filter begins behind one.
"""

import contextlib
from typing import TYPE_CHECKING

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.protocol.buffer import append, consume, reserve, shrink
from cython.cimports.beanpole.server.eventqueue import send_now
from cython.cimports.libc.errno import EAGAIN, EINTR
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy

from beanpole.server import limits

if TYPE_CHECKING:  # a front without TLS does not load it: its errors are known by their numbers
    import ssl

UNSENT_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_UNSENT_BYTES_MAX)
TLS_UPDATE_COST_NS = cython.declare(int64_t, limits.TLS_UPDATE_COST_NS)
TLS_RECORD_COST_NS = cython.declare(int64_t, limits.TLS_RECORD_COST_NS)
SHARE_COST_NS = cython.declare(int64_t, limits.SHARE_COST_NS)
WANT_READ = cython.declare(cython.int, 2)
"""The number of ssl.SSLWantReadError."""

PIECE_BYTES = cython.declare(cython.Py_ssize_t, limits.TLS_PIECE_BYTES)
HEADER_BYTES = cython.declare(cython.Py_ssize_t, 5)
SEALED_BYTES_MAX = cython.declare(cython.Py_ssize_t, 16_384 + 2_048)
"""Bytes of a record (RFC 5246, 6.2.3): with a longer one OpenSSL ends the connection when it sees the header."""

UNSENT_BYTES_KEPT = cython.declare(cython.Py_ssize_t, 512)

GATHER_BYTES = cython.declare(cython.Py_ssize_t, 65_536)
"""Bytes of ciphertext that leave together; more would be more memory for a connection that does not read."""

plain_array = bytearray(16_384)  # what a record has at most (RFC 8446, 5.1)
"""What was decrypted last, of any connection: its decoder copies what it keeps."""

plain_bytes = len(plain_array)
plain_view = cython.declare(cython.uchar[:], plain_array)
plain = cython.cast(cython.p_char, cython.address(plain_view[0]))


@cython.cclass
class Filter:
    """TLS of one connection, from the end of its handshake on. The fields stand in ``tlsfilter.pxd``."""

    def __init__(self, tls: "ssl.SSLObject", incoming: "ssl.MemoryBIO", outgoing: "ssl.MemoryBIO", came: bytes = b""):
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
                except OSError as error:
                    if error.errno != WANT_READ:
                        raise
                    if self.at == stop:
                        self.collect()
                        return 0
        except OSError:
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

    def receive(self, fd, target, room, buffer, size):
        """Decrypt into `target`, which has `room`, what has come for a link; receive once if no whole record is there.

        Return how many bytes that gave, -1: no more come; `cost_ns` is what the records cost. What would cost more than
        a share stays for the next call, which `is_due` says. `buffer`, of `size`, is free to be overwritten.
        """
        came: cython.Py_ssize_t
        self.cost_ns = 0
        if not self.is_due():
            empty: cython.bint = self.at == self.end
            came = posix.recv(fd, buffer if empty else self.room(size), size, posix.MSG_DONTWAIT)
            self.dry = came < size
            if came <= 0:
                return 0 if came < 0 and (last_error == EAGAIN or last_error == EINTR) else -1
            if empty:
                self.borrow(buffer, came)
            else:
                self.extend(came)
        taken: cython.Py_ssize_t = 0
        while room - taken >= plain_bytes and self.cost_ns < SHARE_COST_NS:
            came = self.next()
            if came < 0:
                break
            memcpy(target + taken, plain, came)
            taken += came
            self.cost_ns += TLS_RECORD_COST_NS if came else TLS_UPDATE_COST_NS
        self.settle()
        if self.unsent.size and (self.send_unsent(fd) < 0 or self.unsent.size - self.unsent.start > UNSENT_BYTES_MAX):
            self.failed = True
        return taken if taken or not (self.ended or self.failed) else -1

    def is_due(self):
        """Whether `receive` has something to do or to say without a further byte."""
        return self.ended or self.failed or self.whole() > 0

    # --- what is sent -------------------------------------------------------------------------------------------------

    def seal(self, data, size):
        """Add a piece of output to `unsent`, encrypted. Raises OSError: TLS has failed."""
        self.write_plain(data[:size])
        return self.collect()

    def sealed(self, text: bytes) -> bytes:
        """Return the only text that is sent, encrypted, for who has the socket. Raises OSError: TLS has failed."""
        self.write_plain(text)
        return self.read_outgoing()

    def collect(self):
        """Add to `unsent` what OpenSSL wants to be sent."""
        said: bytes = self.read_outgoing()
        return append(cython.address(self.unsent), said, len(said))

    def send(self, fd, data, size):
        """Send at once what the kernel takes, a record at a time; what it does not take stays, encrypted.

        Return how many bytes were taken, -1: nobody takes them. While something stays, that is one byte less than
        there is in it, so that who sends is not done.
        """
        taken: cython.Py_ssize_t = self.owed
        left: cython.Py_ssize_t
        if self.unsent.size:
            left = self.send_unsent(fd)
            if left:
                return min(left, 0)
        while taken < size:
            piece: cython.Py_ssize_t = min(size - taken, PIECE_BYTES)
            try:
                self.seal(data + taken, piece)
            except OSError:
                return -1
            taken += piece
            if taken == size and self.is_last:
                self.end_output()  # not at the end: the kernel may have no place for it then
            if taken == size or self.unsent.size - self.unsent.start >= GATHER_BYTES:
                left = self.send_unsent(fd)
                if left:
                    self.owed = 1
                    return -1 if left < 0 else taken - 1
        self.owed = 0
        return taken

    def send_unsent(self, fd):
        """Send what stayed; return how many bytes stay yet, -1: nobody takes them."""
        unsent = cython.address(self.unsent)
        sent: cython.Py_ssize_t = send_now(fd, unsent.data + unsent.start, unsent.size - unsent.start)
        if sent < 0:
            return -1
        consume(unsent, sent, UNSENT_BYTES_KEPT)
        return unsent.size - unsent.start

    def end_output(self):
        """Say by a close_notify that no more is sent."""
        with contextlib.suppress(OSError):  # which says that the peer has not ended its side
            self.ssl_object.unwrap()
        return self.collect()
