"""Our own configuration: a TOML file, whose rules were all tried out."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beanpole.ids import limits
from beanpole.ids.errors import RuleError
from beanpole.ids.rules.reader import Table, read_rule, unique
from beanpole.ids.rules.rule import Rule
from beanpole.limits import IDS_PORT_DEFAULT


@dataclass(frozen=True, slots=True)
class Config:
    """All that a configuration says."""

    rules: Mapping[str, Rule]
    database: str
    """The address of the database, as SQLAlchemy has it."""

    host: str = "127.0.0.1"
    port: int = IDS_PORT_DEFAULT
    http: tuple[str, int] | None = None
    """Where HTTP is served, host and port; None: nowhere."""

    step: int = 1
    offset: int = 0
    """The number of this node, from 0; `step` is how many there are."""

    ahead_s_max: int = limits.CLOCK_AHEAD_S_MAX


def read_own(found: dict[str, Any], folder: Path) -> Config:
    """Read our own configuration."""
    table = Table(found, "the configuration")
    step, offset = table.take("step", int, 1), table.take("offset", int, 0)
    zone = table.take("time_zone", str, "UTC")
    rules = [read_rule(Table(each, "a rule"), folder, step, offset, zone) for each in table.take("rule", list, [])]
    host, port = address(table.take("listen", str, f"127.0.0.1:{IDS_PORT_DEFAULT}"))
    http = read_http(table)
    config = Config(
        rules=unique(rules),
        database=with_whole_path(table.take("database", str, "sqlite:///ids.db"), folder),
        host=host,
        port=port,
        http=http,
        step=step,
        offset=offset,
        ahead_s_max=table.take("clock_ahead_s_max", int, limits.CLOCK_AHEAD_S_MAX),
    )
    table.end()
    return config


def read_http(table: Table) -> tuple[str, int] | None:
    """Read where HTTP is served: both forms of a configuration may have a table ``http``."""
    found = table.optional("http", dict)
    if found is None:
        return None
    http = Table(found, "http")
    place = address(http.take("listen", str, f"127.0.0.1:{limits.HTTP_PORT_DEFAULT}"))
    http.end()
    return place


def with_whole_path(database: str, folder: Path) -> str:
    """Return the address of a database; a file counts from the configuration's folder.

    A server may be started in another folder. It would find another file, and numbers would start again.
    """
    kind, slashes, path = database.partition(":///")
    is_file = kind.partition("+")[0] == "sqlite" and path and not path.startswith(":memory:")
    return f"{kind}{slashes}{folder.resolve() / path}" if is_file else database


def address(text: str) -> tuple[str, int]:
    """Split ``HOST:PORT`` or ``[IPV6]:PORT``."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise RuleError(f"listen must be HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
