"""What a front says of a client for which it opens a channel: who it is, as the front has verified it (docs/link.md).

Whose that is says the server, from its own files: a front, a router and a node that follows need none.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from beanpole.protocol.limits import LINK_OPEN_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Evidence:
    """A client, and what it has shown where it came in; empty: it has not shown that."""

    peer: str = ""
    """Its address, as ``list-sessions`` shows it."""
    way: str = "tcp"
    """How it came: ``tcp``, ``unix``, ``tls``."""
    user: str = ""
    """The user that its listener names."""
    uid: str = ""
    """The name of the system's user at the other end of a Unix socket, else the number."""
    certificates: tuple[str, ...] = ()
    """The names of its certificate."""
    until: float | None = None
    """When that ends, in seconds since 1970."""

    def text(self) -> bytes:
        """Return the payload of OPEN. Names that are not printable ASCII are left out, as they count as none.

        Raises ValueError: it would be longer than a payload may be.
        """
        text = place_text(self.peer, self.way) + "".join(f"{key} {value}\n" for key, value in self.rows()).encode()
        if len(text) > LINK_OPEN_BYTES_MAX:
            raise ValueError(f"what its certificate says takes {len(text)} bytes, more than {LINK_OPEN_BYTES_MAX}")
        return text

    def rows(self) -> Iterator[tuple[str, str]]:
        for key in ("user", "uid"):
            if getattr(self, key):
                yield key, getattr(self, key)
        for name in self.certificates:
            if name.isascii() and name.isprintable():
                yield "certificate", name
        if self.until is not None:
            yield "until", str(int(self.until))


def place_text(peer: str, way: str) -> bytes:
    """Return the payload of OPEN for a client that has shown nothing but where it has come from."""
    return f"peer {peer}\nway {way}\n".encode()


def read_evidence(about: bytes) -> Evidence:
    """Read the payload of OPEN, which is lines of UTF-8; a key that is not known is passed over."""
    rows = [line.partition(" ")[::2] for line in about.decode().splitlines()]
    texts = {key: value for key, value in rows if key in ("peer", "way", "user", "uid")}
    until = [value for key, value in rows if key == "until" and value.isdecimal() and len(value) < 16]
    names = tuple(value for key, value in rows if key == "certificate")
    return Evidence(**texts, certificates=names, until=float(until[0]) if until else None)
