"""Where clients come from, and which source has most of them: it makes room where there is no place for another.

To refuse the newcomer instead would let a few sources keep everybody else out.
"""

import itertools
import socket
import struct
from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Sourced(Protocol):
    """What comes from somewhere."""

    @property
    def source(self) -> Hashable:
        """Return from where: what `source_of` says."""


Item = TypeVar("Item", bound=Sourced)


def source_of(fd: int) -> int | str:
    """Return where a connection comes from: a uid, or an address, of IPv6 the network that one customer has."""
    peer = socket.socket(fileno=fd)
    try:
        if peer.family == socket.AF_UNIX:
            return int(PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[1])
        host = str(peer.getpeername()[0])
    except OSError:
        return "gone"
    finally:
        peer.detach()
    return network_of(host)


def source_of_peer(peer: str) -> str:
    """Return where a client comes from by what a front says of it, ``HOST:PORT`` or another text: the same as above."""
    host, _, port = peer.rpartition(":")
    return network_of(host) if port.isdigit() else peer


def network_of(host: str) -> str:
    """Return an address, or of IPv6 the network that one customer has; of another text that."""
    if ":" not in host:
        return host
    try:
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except OSError:
        return host
    if packed.startswith(bytes(10) + b"\xff\xff"):  # IPv4, at a socket of both
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"


class Sources(Generic[Item]):
    """Items by source. Whatever is asked takes as long with many sources as with few."""

    def __init__(self) -> None:
        self.count = 0
        self._of: dict[Hashable, dict[Item, None]] = {}
        self._by_count: list[dict[Hashable, None]] = [
            {}
        ]  # [n]: the sources that have n; the last has some, if any does

    def __iter__(self) -> Iterator[Item]:
        return itertools.chain.from_iterable(self._of.values())

    def add(self, item: Item) -> None:
        """Take one in, the youngest of its source."""
        found = self._of.setdefault(item.source, {})
        found[item] = None
        self.count += 1
        self._move(item.source, len(found) - 1, len(found))

    def discard(self, item: Item) -> None:
        """Leave one out, if it is there."""
        found = self._of.get(item.source, {})
        if item in found:
            del found[item]
            self.count -= 1
            if not found:
                del self._of[item.source]
            self._move(item.source, len(found) + 1, len(found))

    def _move(self, source: Hashable, before: int, after: int) -> None:
        by_count = self._by_count
        if before:
            del by_count[before][source]
        if after == len(by_count):
            by_count.append({})
        if after:
            by_count[after][source] = None
        while len(by_count) > 1 and not by_count[-1]:
            by_count.pop()

    def oldest_of_most(self) -> Item | None:
        """Return the oldest of a source that has most; None: there is none."""
        return next(iter(self._of[next(iter(self._by_count[-1]))])) if self.count else None
