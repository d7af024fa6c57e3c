"""Where a server is: a host and a port, or the path of a unix socket."""

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from beanpole import limits
from beanpole.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server. With a path, host and port mean nothing."""

    host: str = "127.0.0.1"
    port: int = limits.PORT_DEFAULT
    path: str = ""

    @classmethod
    def of(cls, given: "Address | tuple[str, int] | str") -> Self:
        """The address that is meant by a pair of host and port, a URL, or the path of a unix socket.

        Raises ArgumentError for a URL that is none.
        """
        if isinstance(given, Address):
            return cls(given.host, given.port, given.path)
        if isinstance(given, tuple):
            host, port = given
            return cls(host, port)
        return cls.from_url(given) if "://" in given or given.startswith("unix:") else cls(path=given)

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
