"""Where a server is: a host and a port, the path of a unix socket, or several of them for the nodes of a cluster."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, cast
from urllib.parse import urlsplit

from beanpole import limits
from beanpole.errors import ArgumentError

HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]]+):\d+")
"""What is not taken for the path of a socket, though a file could have this name: write ``./name:1`` or ``unix:``."""

SCHEME = "beanstalk://"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server. With a path, host and port mean nothing.

    The nodes of a cluster are one server with several addresses: this one, and `others`.
    """

    host: str = "127.0.0.1"
    port: int = limits.PORT_DEFAULT
    path: str = ""
    others: "tuple[Address, ...]" = ()
    """Where the server is when it is not here: in this order, and each without others of its own."""

    def __post_init__(self) -> None:
        """Raises ArgumentError for what can't be an address."""
        host: object = self.host
        port: object = self.port
        if not (isinstance(host, str) and host and isinstance(port, int) and 0 < port < 65536):
            raise ArgumentError(f"a host is a name and a port a number from 1 to 65535, not {host!r} and {port!r}")

    @classmethod
    def of(cls, given: "OneAddress | Sequence[OneAddress]") -> Self:
        """The address that is meant by a pair of host and port, a URL, ``host:port``, or the path of a unix socket.

        A list of them is one server with several addresses, as ``beanstalk://a:11300,b:11300`` and ``a:11300,b:11300``
        are. Raises ArgumentError for anything else.
        """
        match given:
            case Address():
                return cls(given.host, given.port, given.path, given.others)
            case (str() as host, int() as port):
                return cls(host, port)
            case str() if "://" in given or given.startswith("unix:"):
                return cls.from_url(given)
            case str() if "/" not in given and HOST_AND_PORT.fullmatch(given.rpartition(",")[2]):
                return cls.from_url(SCHEME + given)
            case str() if given:
                return cls(path=given)
            case [_, *_] if not isinstance(given, tuple):
                return cls._first_of([one for each in given for one in cls.of(each).each()])
        raise ArgumentError(
            f"an address is beanstalk://host:port, host:port, unix:path, a pair of host and port, the path of a unix"
            f" socket, or a list of these, not {given!r}"
        )

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Reads ``beanstalk://host:port`` (the port is 11300 if there is none) or ``unix:path``.

        The nodes of a cluster are separated by commas: ``beanstalk://a:11300,b:11300``.
        """
        if url.startswith("unix:"):
            path = "/" + url[5:].lstrip("/") if url.startswith("unix:/") else url[5:]
            if not path.strip("/"):
                raise ArgumentError(f"unix: is followed by the path of a socket: {url!r}")
            return cls(path=path)
        first, *rest = url.split(",")
        return cls._first_of(
            [cls._of_node(first), *(cls._of_node(SCHEME + each.removeprefix(SCHEME)) for each in rest)]
        )

    @classmethod
    def _of_node(cls, url: str) -> Self:
        """Reads the URL of one address."""
        try:
            parts = urlsplit(url)
            port = limits.PORT_DEFAULT if parts.port is None else parts.port
        except ValueError as error:
            raise ArgumentError(f"{url!r}: {error}") from None
        rest = (parts.path.strip("/"), parts.query, parts.fragment, parts.username)
        if f"{parts.scheme}://" != SCHEME or not parts.hostname or any(rest):
            raise ArgumentError(f"beanstalk://host:port or unix:path, not {url!r}")
        return cls(parts.hostname, port)

    @classmethod
    def _first_of(cls, nodes: Sequence[Self]) -> Self:
        return replace(nodes[0], others=tuple(nodes[1:]))

    def each(self) -> Sequence[Self]:
        """This address and the others, each by itself."""
        return [replace(self, others=()), *cast("tuple[Self, ...]", self.others)]

    def __str__(self) -> str:
        if self.others:
            first, *rest = map(str, self.each())
            return ",".join([first, *(each.removeprefix(SCHEME) for each in rest)])
        if self.path:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}{host}:{self.port}"


OneAddress = Address | tuple[str, int] | str
"""What may be given as an address."""


class Addresses:
    """The addresses of a server, and the one that is tried next. Clients may share them, so that all go to one node."""

    def __init__(self, address: Address) -> None:
        self.server = address
        """All of them."""
        self._each = address.each()
        self._index = 0

    @property
    def current(self) -> Address:
        """The address to connect to."""
        return self._each[self._index]

    def failed(self, address: Address) -> None:
        """Goes on to the next, if this is still the current one: it refused, or a connection to it broke."""
        if address is self.current:
            self._index = (self._index + 1) % len(self._each)

    def __len__(self) -> int:
        return len(self._each)
