"""Where a server is: a host and a port, the path of a unix socket, or several of them for the nodes of a cluster."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

from beanpole import limits
from beanpole.errors import ArgumentError

NODE = re.compile(r"(?P<host>[^\s:/?#@\[\]]+|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\])(:(?P<port>[0-9]{1,5}))?")
"""A host, which is a name, an IPv4 address or an IPv6 address in brackets; and its port."""

SCHEME = "beanstalk://"
TLS_SCHEME = "beanstalks://"

VARIABLE = "BEANPOLE_URL"  # the variable that says where the server is when nobody else does

FORMS = "beanstalk://HOST:PORT, beanstalks://HOST:PORT, HOST:PORT, HOST, unix:PATH or a path with a slash"
"""How an address is written; of a cluster with commas."""


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
    tls: bool = False
    """Whether what is said there is encrypted, and the name of the server verified."""

    def __post_init__(self) -> None:
        """Raises ArgumentError for what can't be an address."""
        host: object = self.host
        port: object = self.port
        if not (isinstance(host, str) and host and isinstance(port, int) and 0 < port < 65536):
            raise ArgumentError(f"a host is a name and a port a number from 1 to 65535, not {host!r} and {port!r}")

    @classmethod
    def of(cls, given: "OneAddress | Sequence[OneAddress]") -> Self:
        """The address that is meant by a host, ``host:port``, a pair of these, a URL, or the path of a unix socket.

        A text without a slash is a host; its port is 11300 unless it says another, or 11400 behind ``beanstalks://``.
        A list is one server with several addresses, as ``beanstalk://a:11300,b:11300`` and ``a,b:11300`` are. Raises
        ArgumentError for anything else.
        """
        match given:
            case Address():
                return cls(given.host, given.port, given.path, given.others, given.tls)
            case (str() as host, int() as port):
                return cls(host, port)
            case str() if "://" in given or given.startswith("unix:"):
                return cls.from_url(given)
            case str() if "/" in given and "\0" not in given:
                return cls(path=given)
            case str() if given:
                return cls._of_nodes(given, given)
            case [_, *_] if not isinstance(given, tuple):
                return cls._first_of([one for each in given for one in cls.of(each).each()])
        raise ArgumentError(f"an address is {FORMS}, a pair of host and port, or a list of these, not {given!r}")

    @classmethod
    def default(cls) -> Self:
        """The address that the variable BEANPOLE_URL has, or else ``127.0.0.1:11300``.

        Raises ArgumentError if the variable has none.
        """
        given = os.environ.get(VARIABLE)
        try:
            return cls.of(given) if given else cls()
        except ArgumentError as error:
            raise ArgumentError(f"the variable {VARIABLE}: {error}") from None

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Reads ``beanstalk://host:port`` (the port is 11300 if there is none) or ``unix:path``.

        ``beanstalks://host:port`` is the same over TLS (the port is 11400 if there is none).
        The nodes of a cluster are separated by commas: ``beanstalk://a:11300,b:11300``.
        """
        if url.startswith("unix:"):
            path = "/" + url[5:].lstrip("/") if url.startswith("unix:/") else url[5:]
            if not path.strip("/"):
                raise ArgumentError(f"unix: is followed by the path of a socket: {url!r}")
            return cls(path=path)
        scheme = next((each for each in (SCHEME, TLS_SCHEME) if url.startswith(each)), None)
        if scheme is None:
            raise ArgumentError(f"a URL is beanstalk://HOST:PORT, beanstalks://HOST:PORT or unix:PATH, not {url!r}")
        return cls._of_nodes(url.removeprefix(scheme).removesuffix("/"), url, scheme)

    @classmethod
    def _of_nodes(cls, text: str, given: str, scheme: str = SCHEME) -> Self:
        nodes = [each.strip().removeprefix(scheme) for each in text.split(",")]
        return cls._first_of([cls._of_node(each, given, tls=scheme == TLS_SCHEME) for each in nodes])

    @classmethod
    def _of_node(cls, text: str, given: str, *, tls: bool) -> Self:
        found = NODE.fullmatch(text)
        port = int((found and found["port"]) or (limits.TLS_PORT_DEFAULT if tls else limits.PORT_DEFAULT))
        if "@" in text:  # nobody's log shall have it
            raise ArgumentError("no user, password or token stands in an address: a token is in a file of its own")
        if found is None or not 0 < port < 65536:
            hint = "; an IPv6 address stands in brackets" if text.count(":") > 1 and "]" not in text else ""
            raise ArgumentError(f"{given!r} is no address: {FORMS}{hint}")
        return cls(found["host"].strip("[]"), port, tls=tls)

    @classmethod
    def _first_of(cls, nodes: Sequence[Self]) -> Self:
        if len({node.tls for node in nodes}) > 1:
            raise ArgumentError("of the nodes of one server all have TLS, beanstalks://, or none has it")
        return replace(nodes[0], others=tuple(nodes[1:]))

    def each(self) -> Sequence[Self]:
        """This address and the others, each by itself."""
        return [replace(self, others=()), *cast("tuple[Self, ...]", self.others)]

    @property
    def scheme(self) -> str:
        """What its URL begins with, unless it is a path."""
        return TLS_SCHEME if self.tls else SCHEME

    def __str__(self) -> str:
        if self.others:
            first, *rest = map(str, self.each())
            return ",".join([first, *(each.removeprefix(self.scheme) for each in rest)])
        if self.path:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}{host}:{self.port}"


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


UNTRUSTED = (
    "the server's certificate is not from a CA that is trusted here: name the file of its CA (--ca, BEANPOLE_CA)"
)
OTHER_NAME = "the server's certificate is for other names: connect by one of those"

CERTIFICATE_FAULTS = {
    9: "the server's certificate is not valid yet, or the clock of this machine is wrong",
    10: "the server's certificate has expired, or the clock of this machine is wrong",
    **dict.fromkeys((2, 18, 19, 20, 21), UNTRUSTED),
    **dict.fromkeys((62, 64), OTHER_NAME),
}
"""What is wrong with a certificate, by OpenSSL's number (X509_V_ERR)."""

TLS_FAULTS = {
    "WRONG_VERSION_NUMBER": "what listens there speaks no TLS: beanstalk:// is without",
    "UNEXPECTED_EOF_WHILE_READING": "the connection ended in the middle of the TLS handshake",
}
"""What OpenSSL's reasons mean here."""


def certificate_refusal_of(error: object) -> str:
    """That a server refuses the client's certificate, in a sentence; empty: it is not that."""
    alert = getattr(error, "reason", None) or ""
    if "ALERT" not in alert or not any(each in alert for each in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")):
        return ""
    words = alert.partition("ALERT_")[2].replace("_", " ").lower()
    return f"the server refuses the client's certificate: {words}"


def tls_reason_of(error: OSError) -> str:
    """What went wrong with TLS, in a sentence that says what to do."""
    if code := getattr(error, "verify_code", 0):
        text = getattr(error, "verify_message", "")
        return CERTIFICATE_FAULTS.get(code, f"the server's certificate is refused: {text}")
    if refused := certificate_refusal_of(error):
        return refused
    reason = getattr(error, "reason", None) or str(error)
    return TLS_FAULTS.get(reason, f"TLS: {reason.replace('_', ' ').lower()}")


def reason_of(error: OSError, *, tls: bool = False) -> str:
    """What the system says; asyncio puts words of its own, and several addresses, in place of that.

    `tls`: the connection was to have it. Who speaks none may wait for a line while we wait for the handshake, which
    asyncio does not tell from a wait for the connection.
    """
    if tls and type(error) is TimeoutError and error.errno is None:  # neither silence later, nor the system's
        return "timed out: nobody answers there, or not with TLS"
    if type(error).__module__ == "ssl":  # by its name: who has no TLS does not load it
        return tls_reason_of(error)
    if error.errno is not None and error.errno > 0:
        return f"{error.filename}: {os.strerror(error.errno)}" if error.filename else os.strerror(error.errno)
    numbers = re.findall(r"\[Errno (\d+)\]", str(error))
    return os.strerror(int(numbers[-1])) if numbers else error.strerror or str(error)
