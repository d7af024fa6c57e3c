"""A front's end of a link (docs/link.md): its socket, the frames that come, and those that are to be sent."""

import os

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.protocol.buffer import consume
from cython.cimports.beanpole.protocol.link import Kind, add_number
from cython.cimports.beanpole.server.eventqueue import send_now
from cython.cimports.libc.errno import EAGAIN, EBADMSG, ECONNRESET, EINTR, EPIPE, ETIMEDOUT
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free

from beanpole.front import limits
from beanpole.protocol.limits import LINK_SILENCES_MAX

OUT_BYTES_KEPT = cython.declare(cython.Py_ssize_t, limits.OUT_BYTES_KEPT)
NEVER = cython.declare(int64_t, 2**63 - 1)
SILENCES_MAX = cython.declare(cython.int, LINK_SILENCES_MAX)


@cython.cclass
class LinkSocket:
    """One link after the other. The fields stand in ``linksocket.pxd``."""

    def __cinit__(self):
        self.fd = -1
        self.reason = ""

    def __dealloc__(self):
        free(self.out.data)

    def open(self, queue, fd, reader, tls):
        """Carry frames over a connected socket, which is closed here; -1: whoever has the other end moves them.

        `reader` may have what came behind the first lines, `tls` ciphertext. Raises OSError: the socket can't be
        watched.
        """
        assert self.reader is None, "there is a link already"
        if fd >= 0:
            try:
                queue.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_ADD)
            except OSError:
                posix.close(fd)
                raise
        self.queue = queue
        self.fd = fd
        self.is_open = True
        self.reader = reader
        self.heard = True
        self.silence_count = 0
        self.tls = tls
        if tls is not None and tls.is_due():
            self.read()
        return 0

    def note(self, events):
        """Take note of what happened to the socket, and receive once; return whether something came."""
        if events & posix.EPOLLOUT:
            self.blocked = False
            self.queue.watch_fd(self.fd, posix.EPOLLIN, posix.EPOLL_CTL_MOD)
        if not events & ~posix.EPOLLOUT:
            return False
        size: cython.Py_ssize_t = self.read()
        reason: cython.int = EPIPE if size == 0 else last_error
        if size > 0 or reason == EINTR:
            self.heard = True
        elif reason == ECONNRESET or reason == EPIPE:
            self.close("ended")
        elif reason == EBADMSG:
            self.close("TLS")
        elif reason != EAGAIN:
            self.close("silent" if reason == ETIMEDOUT else os.strerror(reason))
        return size > 0

    def read(self):
        """Do what recv(2) does. No record is left for which there would be no event."""
        reader: FrameReader = self.reader
        target: cython.p_char = reader.room()
        room: cython.Py_ssize_t = reader.free_bytes()
        size: cython.Py_ssize_t
        if self.tls is None:
            size = posix.recv(self.fd, target, room, posix.MSG_DONTWAIT)
        else:
            size = self.tls.receive(self.fd, target, room, room, NEVER)
        if size > 0:
            self.bytes_received += size
            reader.end += size
        return size

    def next(self):
        """Find the next frame, and answer each PING. False: it has not all come, or the link has ended."""
        reader: FrameReader = self.reader
        while self.is_open and reader.next():
            if reader.kind != Kind.PING:
                return True
            if reader.value == 0:
                add_number(cython.address(self.out), 0, Kind.PING, 1)
        if self.is_open and reader.mistake is not None:
            self.close(reader.mistake)
        elif self.is_open and self.tls is not None and (self.tls.ended or self.tls.failed):
            self.close("ended" if self.tls.ended else "TLS")
        return False

    def flush(self):
        """Send what there is to be sent."""
        out = cython.address(self.out)
        size: cython.Py_ssize_t = out.size - out.start
        if size <= self.idle_bytes or self.blocked or self.fd < 0:
            return 0
        self.idle_bytes = 0
        sent: cython.Py_ssize_t
        if self.tls is None:
            sent = send_now(self.fd, out.data + out.start, size)
        else:
            sent = self.tls.send(self.fd, out.data + out.start, size)
        self.bytes_sent += max(sent, 0)
        if sent < 0:
            # What the server has sent before its end is passed on: the next turn reads that.
            sent = size
        consume(out, sent, OUT_BYTES_KEPT)
        if sent < size:
            self.blocked = True
            self.queue.watch_fd(self.fd, posix.EPOLLIN | posix.EPOLLOUT, posix.EPOLL_CTL_MOD)
        return 0

    def check_silence(self):
        """Ask for a sign of life if there was none since the last call; end the link if there was none for long."""
        self.silence_count = 0 if self.heard else self.silence_count + 1
        self.heard = False
        if self.silence_count >= SILENCES_MAX:
            return self.close("silent")
        return add_number(cython.address(self.out), 0, Kind.PING, 0) if self.silence_count else 0

    def close(self, reason):
        """End the link. What has come before is read yet."""
        self.reason = reason
        self.is_open = False
        if self.fd >= 0:
            self.queue.close_fd(self.fd)
            self.fd = -1
        return 0

    def let_go(self):
        """Forget what a link had to send that has ended."""
        self.queue = self.reader = self.tls = None
        self.blocked = False
        self.idle_bytes = 0
        consume(cython.address(self.out), self.out.size - self.out.start, OUT_BYTES_KEPT)
        return 0
