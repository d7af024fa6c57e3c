"""Where a server is: a host and a port, or the path of a unix socket."""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from beanpole import limits
from beanpole.errors import ArgumentError

HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]]+):\d+")
"""What is not taken for the path of a socket, though a file could have this name: write ``./name:1`` or ``unix:``."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server. With a path, host and port mean nothing."""

    host: str = "127.0.0.1"
    port: int = limits.PORT_DEFAULT
    path: str = ""

    def __post_init__(self) -> None:
        """Raises ArgumentError for what can't be an address."""
        host: object = self.host
        port: object = self.port
        if not (isinstance(host, str) and host and isinstance(port, int) and 0 < port < 65536):
            raise ArgumentError(f"a host is a name and a port a number from 1 to 65535, not {host!r} and {port!r}")

    @classmethod
    def of(cls, given: "Address | tuple[str, int] | str") -> Self:
        """The address that is meant by a pair of host and port, a URL, ``host:port``, or the path of a unix socket.

        Raises ArgumentError for anything else.
        """
        match given:
            case Address():
                return cls(given.host, given.port, given.path)
            case (host, port):
                return cls(host, port)
            case str() if "://" in given or given.startswith("unix:"):
                return cls.from_url(given)
            case str() if HOST_AND_PORT.fullmatch(given):
                return cls.from_url("beanstalk://" + given)
            case str() if given:
                return cls(path=given)
        raise ArgumentError(
            f"an address is beanstalk://host:port, host:port, unix:path, a pair of host and port, or the path of a unix"
            f" socket, not {given!r}"
        )

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Reads ``beanstalk://host:port`` (the port is 11300 if there is none) or ``unix:path``."""
        if url.startswith("unix:"):
            path = "/" + url[5:].lstrip("/") if url.startswith("unix:/") else url[5:]
            if not path.strip("/"):
                raise ArgumentError(f"unix: is followed by the path of a socket: {url!r}")
            return cls(path=path)
        try:
            parts = urlsplit(url)
            port = limits.PORT_DEFAULT if parts.port is None else parts.port
        except ValueError as error:
            raise ArgumentError(f"{url!r}: {error}") from None
        rest = (parts.path.strip("/"), parts.query, parts.fragment, parts.username)
        if parts.scheme != "beanstalk" or not parts.hostname or any(rest):
            raise ArgumentError(f"beanstalk://host:port or unix:path, not {url!r}")
        return cls(parts.hostname, port)

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"beanstalk://{host}:{self.port}"
