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
from cython.cimports.beanpole.protocol.buffer import append, consume, shrink
from cython.cimports.beanpole.server.eventqueue import send_now
from cython.cimports.libc import errno
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy

from beanpole.server import limits

if TYPE_CHECKING:  # a front without TLS does not load it: its errors are known by their numbers
    import ssl

UNSENT_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_UNSENT_BYTES_MAX)
TLS_UPDATE_COST_NS = cython.declare(int64_t, limits.TLS_UPDATE_COST_NS)
TLS_RECORD_COST_NS = cython.declare(int64_t, limits.TLS_RECORD_COST_NS)
WANT_READ = cython.declare(cython.int, 2)
"""The number of ssl.SSLWantReadError."""

PIECE_BYTES = cython.declare(cython.Py_ssize_t, limits.TLS_PIECE_BYTES)
HEADER_BYTES = cython.declare(cython.Py_ssize_t, 5)
RECORD_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TLS_RECORD_BYTES_MAX)
"""With a longer one OpenSSL ends the connection when it sees the header."""

UNSENT_BYTES_KEPT = cython.declare(cython.Py_ssize_t, 512)

GATHER_BYTES = cython.declare(cython.Py_ssize_t, 65_536)
"""Bytes of ciphertext that leave together; more would be more memory for a connection that does not read."""

TEXT_BYTES_MAX = cython.declare(cython.Py_ssize_t, 16_384)
"""That a record has (RFC 8446, 5.1)."""

plain_array = bytearray(TEXT_BYTES_MAX)  # what was decrypted last, of any connection
plain_view = cython.declare(cython.uchar[:], plain_array)
plain = cython.declare(cython.p_char, cython.cast(cython.p_char, cython.address(plain_view[0])))


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

    def __dealloc__(self):
        free(self.kept.data)
        free(self.unsent.data)

    # --- what comes ---------------------------------------------------------------------------------------------------

    def receive(self, fd, target, room, text_max, cost_max_ns):
        """Receive what the peer said, as recv(2) does; of the socket once, and only if no whole record is kept.

        0: the peer has sent a close_notify. -1: errno says why; EINTR is for records that had no text, or have not come
        whole yet, ECONNRESET for a FIN without a close_notify, EBADMSG for what is not what the peer sent. Records that
        have more text than `text_max`, or cost more than `cost_max_ns`, stay for the next call. The `room` bytes at
        `target` take the ciphertext, and then the text, which is shorter, in its place.
        """
        kept = cython.address(self.kept)
        data: cython.p_char = kept.data + kept.start
        end: cython.Py_ssize_t = kept.size - kept.start
        at: cython.Py_ssize_t = 0
        taken: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        self.cost_ns = 0
        self.has_more = True
        is_due: cython.bint = self.is_due()
        if not is_due:
            if end:
                memcpy(target, data, end)
            size = posix.recv(fd, target + end, room - end, posix.MSG_DONTWAIT)
            if size <= 0:
                if size == 0:
                    errno.errno = errno.ECONNRESET
                return -1
            self.has_more = size == room - end
            data = target
            end += size
            kept.start = kept.size = 0
        while self.cost_ns < cost_max_ns or at == 0:
            size = record_bytes(data + at, end - at)
            if size == 0 or taken + min(size, TEXT_BYTES_MAX) > text_max or self.ended or self.failed:
                break
            at += size
            size = self.decrypt(data + at - size, size)
            if size < 0:
                break
            memcpy(target + taken, plain, size)
            taken += size
            self.cost_ns += TLS_RECORD_COST_NS if size else TLS_UPDATE_COST_NS
        if is_due:
            consume(kept, at, 0)
        elif at < end:
            append(kept, data + at, end - at)
        else:
            shrink(kept, 0)
        self.has_more |= self.is_due()
        if self.unsent.size:  # OpenSSL has answered by itself
            size = self.send_unsent(fd)
            if size < 0 and taken == 0:
                return -1
            self.failed |= size > UNSENT_BYTES_MAX
        if taken or self.ended:
            return taken
        errno.errno = errno.EBADMSG if self.failed else errno.EINTR
        return -1

    def decrypt(self, data, size):
        """Decrypt a record into `plain`; return how many bytes that gave, -1: none, as TLS has `ended` or `failed`.

        0: it was none of the client's bytes, but a KeyUpdate, for instance.
        """
        at: cython.Py_ssize_t = 0
        try:
            while True:
                piece: cython.Py_ssize_t = min(size - at, PIECE_BYTES)
                self.write_incoming(data[at : at + piece])
                at += piece
                try:
                    piece = self.read_plain(TEXT_BYTES_MAX, plain_array)
                    break
                except OSError as error:
                    if error.errno != WANT_READ:
                        raise
                    if at == size:
                        self.collect()
                        return 0
        except OSError:
            self.failed = True
            self.collect()
            return -1
        self.ended = piece == 0
        return piece or -1

    def is_due(self):
        """Whether `receive` has something to do or to say without a further byte."""
        kept = cython.address(self.kept)
        return self.ended or self.failed or record_bytes(kept.data + kept.start, kept.size - kept.start) > 0

    # --- what is sent -------------------------------------------------------------------------------------------------

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

        Return how many bytes were taken, -1: nobody takes them, and errno says why. While something stays, that is one
        byte less than there is in it, so that who sends is not done.
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
                self.write_plain(data[taken : taken + piece])
                self.collect()
            except OSError:
                errno.errno = errno.EBADMSG
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

    def finish(self, fd, is_whole):
        """Send what stayed, as no more comes; behind it that this is all, if it is, and TLS has not failed."""
        if is_whole and not self.failed:
            self.end_output()
        return self.send_unsent(fd) if self.unsent.size else 0


def record_bytes(data, there):
    """Return how many bytes the record has that begins here, its header included; 0: it is not all there."""
    if there < HEADER_BYTES:
        return 0
    header = cython.cast(cython.pointer(cython.const[cython.uchar]), data)
    size: cython.Py_ssize_t = HEADER_BYTES + (header[3] << 8 | header[4])
    if size > RECORD_BYTES_MAX:
        return HEADER_BYTES
    return size if size <= there else 0
