"""The table ``http`` of a configuration: where HTTP is served, and for whom."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from beanpole_ids import limits
from beanpole_ids.errors import RuleError
from beanpole_ids.rules.limit import Network
from beanpole_ids.rules.reader import Table

PORT_MAX = 65535

LOOPBACK: tuple[Network, ...] = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1"))


@dataclass(frozen=True, slots=True)
class Http:
    """How HTTP is served."""

    host: str = "127.0.0.1"
    port: int = limits.HTTP_PORT_DEFAULT
    names: frozenset[str] = frozenset()
    """Names besides addresses and localhost by which clients may call the service."""

    reload_from: tuple[Network, ...] = LOOPBACK
    """Networks whose clients may reload the rules."""

    connections_per_source: int = limits.HTTP_CONNECTIONS_PER_SOURCE_DEFAULT
    """Connections that one address may have at a time."""


def read_http(table: Table, process: int = 0) -> Http | None:
    """Read how HTTP is served: both forms of a configuration may have a table ``http``; None: it is not.

    Each process of a node has a port of its own, from that of the configuration on.

    Raises RuleError: the table makes no sense.
    """
    found = table.optional("http", dict)
    if found is None:
        return None
    http = Table(found, "http")
    host, port = address(http.take("listen", str, f"127.0.0.1:{limits.HTTP_PORT_DEFAULT}"))
    if port and port + process > PORT_MAX:
        raise RuleError(f"http: process {process} would have port {port + process}, and {PORT_MAX} is the last")
    names = [name.lower().removesuffix(".") for name in texts(http, "names", ())]
    try:
        networks = tuple(ipaddress.ip_network(each) for each in texts(http, "reload_from", LOOPBACK))
    except ValueError as error:
        raise RuleError(f"http: reload_from must be a list of networks as 10.0.0.0/8: {error}") from error
    count = http.take("connections_per_source", int, limits.HTTP_CONNECTIONS_PER_SOURCE_DEFAULT)
    if not 1 <= count <= limits.HTTP_CONNECTIONS_MAX:
        raise RuleError(f"http: connections_per_source must be 1 to {limits.HTTP_CONNECTIONS_MAX}, not {count}")
    http.end()
    return Http(host, port and port + process, frozenset(names), networks, count)


def texts(table: Table, key: str, default: Iterable[object]) -> list[str]:
    """Return a list of strings.

    Raises RuleError: it is none.
    """
    found: list[object] = table.take(key, list, [str(each) for each in default])
    if not all(type(each) is str and each for each in found):
        raise RuleError(f"{table.what}: {key} must be a list of strings, not {found!r}")
    return [str(each) for each in found]


def address(text: str) -> tuple[str, int]:
    """Split ``HOST:PORT`` or ``[IPV6]:PORT``."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > PORT_MAX:
        raise RuleError(f"listen must be HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
