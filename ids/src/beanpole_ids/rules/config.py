"""Our own configuration: a TOML file, whose rules were all tried out; and the parts that both forms have."""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from beanpole_ids import limits
from beanpole_ids.errors import RuleError
from beanpole_ids.rules.limit import TRUSTED, Limit, Network, read_limits, read_networks, read_new_names
from beanpole_ids.rules.reader import Around, Table, read_rule, unique
from beanpole_ids.rules.rule import Rule

PORT_MAX = 65535
LOOPBACK: tuple[Network, ...] = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1"))
NO_RULES: Mapping[str, Rule] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Http:
    """How HTTP is served."""

    host: str = "127.0.0.1"
    port: int = limits.HTTP_PORT_DEFAULT
    names: frozenset[str] = frozenset()  # names besides addresses and localhost by which clients may call the service
    reload_from: tuple[Network, ...] = LOOPBACK  # networks whose clients may reload the rules
    connections_per_source: int = limits.HTTP_CONNECTIONS_PER_SOURCE_DEFAULT
    """Connections that one address may have at a time."""


@dataclass(frozen=True, slots=True)
class Config:
    """All that a configuration says."""

    rules: Mapping[str, Rule]
    database: str  # the address of the database, as SQLAlchemy has it
    host: str = "127.0.0.1"
    port: int = limits.PORT_DEFAULT
    http: Http | None = None  # how HTTP is served; None: not at all
    step: int = 1
    offset: int = 0  # the number of this node, from 0; `step` is how many there are
    is_leased: bool = False  # whether a start takes the first number that no other node has. Until then `offset` is 0
    processes: int = 1
    """How many processes serve this node's numbers. Each is a node to the rules and the database: `step` and `offset`
    are already those of this process."""

    shared_port: int = 0  # the port that the first of them has got, where `port` is 0
    ahead_s_max: int = limits.CLOCK_AHEAD_S_MAX
    new_names_per_s: int = limits.NEW_NAMES_PER_S  # names that an address may use first, in a second
    limits: tuple[Limit, ...] = ()  # who gets how many numbers
    audit_log: str = ""  # the path of the audit log, which the day and ``.log`` follow; empty: there is none
    trusted_networks: tuple[Network, ...] = TRUSTED  # whose addresses are believed without a cookie


def read_own(
    found: dict[str, Any], folder: Path, leased: int = 0, process: int = 0, known: Mapping[str, Rule] = NO_RULES
) -> Config:
    """Read our own configuration; otherwise as `ids.config.load`."""
    table = Table(found, "the configuration")
    is_numbered, is_leased = "offset" in found, found.get("offset") == "lease"
    step, offset = table.take("step", int, 1), leased if is_leased else found.get("offset", 0)
    table.rest.pop("offset", None)
    if type(offset) is not int:
        raise RuleError(f'offset must be a whole number or "lease", not {offset!r}')
    processes = read_processes(table, is_leased=is_leased)
    if processes > 1 and not 0 <= offset < step:
        raise RuleError(f"offset must be 0 to {step - 1} with step {step}, not {offset}")
    step, offset = step * processes, offset * processes + process
    zone = table.take("time_zone", str, "UTC")
    around = Around(folder, step, offset, zone, known)
    rules = unique([read_rule(Table(each, "a rule"), around) for each in table.take("rule", list, [])])
    host, port = address(table.take("listen", str, f"127.0.0.1:{limits.PORT_DEFAULT}"))
    config = Config(
        rules=rules,
        database=with_whole_path(table.take("database", str, "sqlite:///ids.db"), folder),
        host=host,
        port=port,
        http=read_http(table, process),
        step=step,
        offset=offset,
        is_leased=is_leased,
        processes=processes,
        ahead_s_max=table.take("clock_ahead_s_max", int, limits.CLOCK_AHEAD_S_MAX),
        limits=read_limits(table, rules, zone),
        trusted_networks=read_networks(table),
        new_names_per_s=read_new_names(table),
        audit_log=read_audit_log(table, "audit_log", folder),
    )
    table.end()
    if not is_numbered:
        refuse_unnumbered(config)
    return config


def read_processes(table: Table, *, is_leased: bool) -> int:
    processes = table.count("processes", 1, limits.PROCESSES_MAX)
    if processes > 1 and is_leased:
        raise RuleError('processes share the numbers of one offset: write a number, not offset = "lease"')
    return processes


def read_audit_log(table: Table, key: str, folder: Path) -> str:
    """Read the path of the audit log, which counts from the configuration's folder."""
    path = table.take(key, str, "")
    return str(folder.resolve() / path) if path else ""


def refuse_unnumbered(config: Config) -> None:
    """Refuse numbers that contain their node's if nobody has said which one it is.

    With databases of their own, two nodes that were both 0 by default would make the same numbers.
    """
    for rule in config.rules.values():
        if rule.counting.layout_kind.startswith("snowflake "):
            raise RuleError(
                f"rule {rule.name!r}: a snowflake contains the number of its node: write offset = 0 if there is one "
                'node; with more, another offset for each, or offset = "lease" if they share a database'
            )


def with_whole_path(database: str, folder: Path) -> str:
    """Return the address of a database; a file counts from the configuration's folder.

    A server may be started in another folder. It would find another file, and numbers would start again.
    """
    kind, slashes, path = database.partition(":///")
    is_file = kind.partition("+")[0] == "sqlite" and path and not path.startswith(":memory:")
    return f"{kind}{slashes}{folder.resolve() / path}" if is_file else database


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
    """Return a list of strings. Raises RuleError: it is none."""
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
