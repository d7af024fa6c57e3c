"""Replies on their way out: those of a turn are sent together, and the kernel decides when it takes no more.

A reply is written into memory that is ready for the system call. What the kernel does not take is kept until the socket
is writable, within a bound, and later replies line up behind it.
"""

from collections import deque

import cython
from cython.cimports.beanpole_ids import posix
from cython.cimports.libc.errno import EAGAIN, EINTR
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcpy

from beanpole_ids import limits

COUNT = cython.declare(cython.uint, limits.RECEIVE_COUNT)
BYTES = cython.declare(cython.Py_ssize_t, 262_144)  # sent by one call: as many usual replies, or the longest
REPLY_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.REPLY_BYTES_MAX)
KEPT_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.SOCKET_BYTES)
assert BYTES >= 2 * limits.REPLY_BYTES_MAX, "the longest reply has room behind others"


@cython.cclass
class Outbox:
    """The replies of a socket that are not sent yet."""

    def __init__(self, fd: cython.int) -> None:
        self.fd = fd
        self.kept = deque()
        self.memory = cython.cast(cython.p_char, calloc(1, BYTES))
        self.headers = cython.cast(cython.pointer[posix.mmsghdr], calloc(COUNT, cython.sizeof(posix.mmsghdr)))
        self.parts = cython.cast(cython.pointer[posix.iovec], calloc(COUNT, cython.sizeof(posix.iovec)))
        self.addresses = cython.cast(
            cython.pointer[posix.sockaddr_storage], calloc(COUNT, cython.sizeof(posix.sockaddr_storage))
        )
        if not self.memory or not self.headers or not self.parts or not self.addresses:
            raise MemoryError
        index: cython.uint
        for index in range(COUNT):
            self.headers[index].msg_hdr.msg_name = cython.address(self.addresses[index])
            self.headers[index].msg_hdr.msg_iov = cython.address(self.parts[index])
            self.headers[index].msg_hdr.msg_iovlen = 1

    def __dealloc__(self) -> None:
        free(self.memory)
        free(self.headers)
        free(self.parts)
        free(self.addresses)

    def room(self):
        """Return memory for `limits.REPLY_BYTES_MAX` bytes of a reply; `add` makes it one, and nothing is kept else."""
        if self.count == COUNT or self.used + REPLY_BYTES_MAX > BYTES:
            self.flush()
        return self.memory + self.used

    def add(self, size, address, address_size):
        """Send what has been written to `room` with the next flush."""
        part: cython.pointer[posix.iovec] = cython.address(self.parts[self.count])
        part.iov_base = self.memory + self.used
        part.iov_len = size
        memcpy(cython.address(self.addresses[self.count]), address, address_size)
        self.headers[self.count].msg_hdr.msg_namelen = address_size
        self.count += 1
        self.used += (size + 7) & ~7
        return 0

    def flush(self):
        """Send what has been added; whether something is kept, which `send_kept` sends when the socket is writable."""
        at: cython.uint = 0
        sent: cython.int
        while at < self.count and not self.kept:
            sent = posix.sendmmsg(
                self.fd, cython.address(self.headers[at]), self.count - at, posix.MSG_DONTWAIT | posix.MSG_NOSIGNAL
            )
            if sent > 0:
                at += sent
            elif last_error == EAGAIN:
                break
            elif last_error != EINTR:  # the first one can't be sent: its receiver is gone or has no address
                self.failed_count += 1
                at += 1
        if at < self.count:
            self.keep(at)
        self.count = 0
        self.used = 0
        return bool(self.kept)

    def keep(self, first):
        """Keep what has been added from the first that was not sent."""
        index: cython.uint
        for index in range(first, self.count):
            size: cython.Py_ssize_t = self.parts[index].iov_len
            if self.kept_bytes + size > KEPT_BYTES_MAX:
                self.failed_count += 1
                continue
            self.kept_bytes += size
            reply: bytes = cython.cast(cython.p_char, self.parts[index].iov_base)[:size]
            header: cython.pointer[posix.msghdr] = cython.address(self.headers[index].msg_hdr)
            address: bytes = cython.cast(cython.p_char, header.msg_name)[: header.msg_namelen]
            self.kept.append((reply, address))
        return 0

    def send_kept(self):
        """Send what the kernel did not take before; whether something is kept still."""
        reply: bytes
        address: bytes
        while self.kept:
            reply, address = self.kept[0]
            name: cython.pointer[cython.const[posix.sockaddr]] = cython.cast(
                cython.pointer[cython.const[posix.sockaddr]], cython.cast(cython.p_char, address)
            )
            sent: cython.Py_ssize_t = posix.sendto(
                self.fd,
                cython.cast(cython.p_char, reply),
                len(reply),
                posix.MSG_DONTWAIT | posix.MSG_NOSIGNAL,
                name,
                len(address),
            )
            if sent < 0 and last_error == EAGAIN:
                return True
            if sent < 0:
                self.failed_count += 1
            self.kept.popleft()
            self.kept_bytes -= len(reply)
        return False

    def close(self) -> None:
        """Send what the kernel takes at once; the rest is lost, and counted."""
        self.flush()
        self.send_kept()
        self.failed_count += len(self.kept)
        self.kept.clear()
        self.kept_bytes = 0
