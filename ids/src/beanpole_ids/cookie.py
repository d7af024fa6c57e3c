"""Cookies: a client proves that it receives what is sent to its address.

The source of a datagram can be forged, and whoever sits there gets the reply. So a reply that is much larger than its
request, or has many numbers, goes only to an address of a trusted network, or to one that has sent back the cookie of
an earlier reply, as in DNS (RFC 7873). A cookie is a keyed hash of the address and the hour: nothing is stored for it.
"""

import hmac
import secrets
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address
from typing import Self

from beanpole_ids import limits
from beanpole_ids.rules.limit import Network

SOURCES_CACHED = 4_096  # addresses whose networks are remembered: looking takes microseconds


class Cookies:
    """The cookies of a node, and the networks that need none. The key is made at each start."""

    def __init__(self, trusted: Iterable[Network], monotonic_s: Callable[[], float]) -> None:
        self.trusted = tuple(trusted)
        self.monotonic_s = monotonic_s
        self.is_trusted = lru_cache(SOURCES_CACHED)(self._is_trusted)
        """Return whether an IP address, as text, is in a trusted network."""

        self._key = secrets.token_bytes(32)

    def trusting(self, trusted: Iterable[Network]) -> Self:
        """Return an object for other networks, with the same cookies. What the old one said may be wrong now."""
        changed = type(self)(trusted, self.monotonic_s)
        changed._key = self._key  # noqa: SLF001 - of our own class
        return changed

    def _is_trusted(self, source: str) -> bool:
        try:
            address = ip_address(source)
        except ValueError:
            return False
        if isinstance(address, IPv6Address):
            address = address.ipv4_mapped or address
        return any(address in network for network in self.trusted)

    def make(self, source: str) -> str:
        return self._of(source, self._hour())

    def is_good(self, cookie: object, source: str) -> bool:
        """Return whether that is a cookie of the address, of this hour or the one before."""
        if not isinstance(cookie, str) or not cookie.isascii():
            return False
        return any(hmac.compare_digest(cookie.encode(), each) for each in self.all_good(source))

    def all_good(self, source: str) -> list[bytes]:
        """Return the cookies of an address: of this hour and of the one before."""
        hour = self._hour()
        return [self._of(source, each).encode() for each in (hour, hour - 1)]

    def _hour(self) -> int:
        return int(self.monotonic_s() // limits.COOKIE_S)

    def _of(self, source: str, hour: int) -> str:
        return blake2b(f"{hour} {source}".encode(), digest_size=8, key=self._key).hexdigest()
