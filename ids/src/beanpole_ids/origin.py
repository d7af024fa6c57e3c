"""Who has sent a datagram or asks over HTTP: an address, and whether it is known to be the client's."""

import socket
from typing import TYPE_CHECKING

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import int64_t

from beanpole_ids import limits

if TYPE_CHECKING:
    from beanpole_ids.cookie import Cookies

COOKIE_S = cython.declare(cython.double, limits.COOKIE_S)

MAPPED = bytes(10) + b"\xff\xff"
"""What an address of IPv4 begins with in IPv6."""


@cython.cclass
class Origin:
    """A client's address without its port."""

    def __init__(self, key: bytes, text: str, cookies: "Cookies | None") -> None:
        """`cookies`: those of the service, which know whom to trust; None: the address is proven, as by TCP."""
        self.key = key
        self.source = source_of(key)
        self.text = text
        self.name = text.encode()
        self.is_trusted = cookies is None or cookies.is_trusted(text)
        self.cookies = cookies
        self.hour = -1
        self.good = b""

    def has_shown(self, cookie, size, monotonic_s):
        """Whether that is a cookie of this address, of this hour or the one before; see `Cookies.is_good`.

        How long it takes says nothing of the right one.
        """
        hour: int64_t = cython.cast(int64_t, monotonic_s // COOKIE_S)
        if hour != self.hour:
            self.good, self.hour = b"".join(self.cookies.all_good(self.text)), hour
        if size == 0 or PyBytes_GET_SIZE(self.good) != 2 * size:
            return False
        good: cython.p_char = PyBytes_AS_STRING(self.good)
        now: cython.int = 0
        before: cython.int = 0
        i: cython.Py_ssize_t
        for i in range(size):
            now |= good[i] ^ cookie[i]
            before |= good[size + i] ^ cookie[i]
        return now == 0 or before == 0


def source_of(key: bytes) -> bytes:
    """Return what one client has of the addresses: its own of IPv4, and of IPv6 a network of 64 bits."""
    return key[:8] if len(key) == 16 and not key.startswith(MAPPED) else key


def to_text(key: bytes) -> str:
    """Return an address as people write it. One of IPv4 in IPv6 is written as such, as that is whose it is."""
    if not key:
        return ""
    if len(key) == 16 and key.startswith(MAPPED):
        key = key[12:]
    return socket.inet_ntop(socket.AF_INET if len(key) == 4 else socket.AF_INET6, key)
