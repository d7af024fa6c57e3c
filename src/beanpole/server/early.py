"""Listen before anything else is imported: most of a start is imports, and clients need not wait for them to connect.

A server without a directory has nothing that could refuse its clients later, so the kernel may take their connections
at once. Arguments that are not plain cost nothing but the early start. With a directory the port stays closed until the
jobs are back; a Unix socket waits too, for its file must not be left over when the arguments prove wrong.

Plain options are read here as well, and click is not imported: that would be a fifth of the start. What is wrong, what
is to be warned of, variables and files are left to it.
"""

import getopt
import os
from collections.abc import Iterable, Mapping

from beanpole import limits
from beanpole.errors import StartError
from beanpole.server import limits as server_limits
from beanpole.server import listener
from beanpole.server.options import OPTIONS, Kind, Option

TYPE_CHECKING = False  # as in beanpole/__init__.py
if TYPE_CHECKING:
    import socket
    from typing import Any

VARIABLES = (
    "BEANPOLE_LISTEN",
    "BEANPOLE_PORT",
    "BEANPOLE_DATA_DIR",
    "BEANPOLE_ACCESS",
    "BEANPOLE_TOKENS",
    "BEANPOLE_TLS_CERT",
    "BEANPOLE_TLS_KEY",
    "BEANPOLE_CLUSTER",
    "BEANPOLE_CONFIG",
    "BEANPOLE_HTTP_TOKEN_FILE",
    "LISTEN_PID",
)
"""What says in the environment where to listen, or that it has to wait."""

CONSOLE_NEEDS = ("jinja2", "msgspec", "starlette", "uvicorn", "prometheus_client")
"""What the extra ``console`` installs, by the names under which it is imported."""

opened: list["socket.socket"] = []  # the sockets that listen already


def read(arguments: list[str]) -> list[tuple[Option, str]] | None:
    """Return the options of `beanpole serve` with these arguments, and their texts; None: click must see them."""
    by_name = {name: row for row in OPTIONS for name in row.names}
    short = "".join(name[1] + ":" * row.has_text for name, row in by_name.items() if len(name) == 2)
    long = [row.long.removeprefix("--") + "=" * row.has_text for row in OPTIONS if row.long]
    if any(each.startswith("--") and each.partition("=")[0] not in by_name for each in arguments):
        return None  # of the beginning of a name getopt would make the name
    try:
        found, rest = getopt.getopt(arguments, short, long)
    except getopt.GetoptError:
        return None
    return None if rest else [(by_name[name], text) for name, text in found]


def wanted(
    given: list[tuple[Option, str]] | None, environment: Mapping[str, str]
) -> tuple[tuple[str, ...], int] | None:
    """Return the addresses and the port of a server with these options; None: they are not plain, or have to wait."""
    if given is None or any(row.waits for row, _ in given) or any(map(environment.get, VARIABLES)):
        return None
    texts = [(row.setting, text) for row, text in given]
    addresses = tuple(text for setting, text in texts if setting == "listen")
    try:
        ports = [whole(text, 0, 65535) for setting, text in texts if setting == "port"] or [limits.PORT_DEFAULT]
    except ValueError:
        return None
    waits = any(each.startswith(listener.UNIX) or listener.says_more(each) for each in addresses)
    if any(setting == "http" for setting, _ in texts) or environment.get("BEANPOLE_HTTP"):
        waits = waits or bool(missing())  # then the command line refuses it, and nothing may be bound
    return None if waits else (addresses, ports[-1])


def settings(given: list[tuple[Option, str]] | None, environment: Iterable[str]) -> "dict[str, Any] | None":
    """Return the settings that these options change; None: click must read them, for one needs more care, or is wrong.

    Nothing is said here: whatever could be wrong or would be warned of is left to click.
    """
    if given is None or any(not row.plain for row, _ in given) or any(map(is_ours, environment)):
        return None
    found: dict[str, Any] = {}
    try:
        for row, text in given:
            value = value_of(row.kind, text)
            if row.kind == "count":
                value = found.get(row.setting, 0) + 1
            found[row.setting] = (*found.get(row.setting, ()), value) if row.shown.get("multiple") else value
    except ValueError:
        return None
    return found


def is_ours(variable: str) -> bool:
    return variable.startswith("BEANPOLE_")


def value_of(kind: Kind, text: str) -> object:
    """Return what a text says. Raises ValueError: that is wrong, or needs a closer look."""
    if isinstance(kind, list):
        return kind[kind.index(text)]
    if isinstance(kind, tuple):
        return whole(text, *kind)
    if kind == "address":
        listener.check_plain(text)
    elif kind == "body":
        return whole(text, 0, limits.BODY_BYTES_MAX_CEILING)
    elif kind in {"directory", "file"}:
        from pathlib import Path  # noqa: PLC0415 - a twentieth of the start

        if os.path.lexists(text) and not (kind == "directory" and os.access(text, os.R_OK) and Path(text).is_dir()):
            raise ValueError("it is something else")
        return Path(text)
    elif kind == "http":
        listener.split_address(text, 0)
        if text.startswith(listener.UNIX) or missing():
            raise ValueError("it can't be served")
    elif kind == "user" and not text:
        raise ValueError("there is none")
    return text or True  # that of a flag is empty


def whole(text: str, least: int, most: int | None) -> int:
    """Return a whole number. Raises ValueError: it is none, or too small or too large."""
    number = int(text) if text.isascii() and text.isdigit() else -1
    if number < least or (most is not None and number > most):
        raise ValueError("it is no number, or out of range")
    return number


def missing() -> str:
    """Return the name of a library that the console lacks; empty: there is none. Nothing is imported for that."""
    from importlib.util import find_spec  # noqa: PLC0415 - only for those who want a console

    return next((name for name in CONSOLE_NEEDS if find_spec(name) is None), "")


def listen(given: list[tuple[Option, str]] | None, environment: Mapping[str, str]) -> None:
    """Listen as a server with these options will, if that is plain."""
    found = wanted(given, environment)
    if found is None:
        return
    try:
        opened.extend(listener.open_all(*found))
    except StartError:  # The command line will see the same, and say it.
        return
    for each in opened:
        each.listen(server_limits.BACKLOG)
