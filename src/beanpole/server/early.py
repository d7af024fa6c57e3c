"""Listen before anything else is imported: most of a start is imports, and clients need not wait for them to connect.

A server without a directory has nothing that could refuse its clients later, so the kernel may take their connections
at once. Arguments that are not plain cost nothing but the early start. With a directory the port stays closed until the
jobs are back; a Unix socket waits too, for its file must not be left over when the arguments prove wrong.
"""

import getopt
from collections.abc import Mapping
from typing import TYPE_CHECKING

from beanpole import limits
from beanpole.errors import StartError
from beanpole.server import limits as server_limits
from beanpole.server import listener

if TYPE_CHECKING:
    import socket

SHORT = "l:p:z:u:cnV"
LONG = (
    "listen= port= body-bytes-max= user= ready-file= log-format= tubes-max= schedules-max= once-max= connections-max="
    " verbose one-reply-per-send http= http-host= http-hide-bodies metrics-tubes= legacy-metrics"
)
"""The options that don't keep a server from listening early."""

VARIABLES = (
    "BEANPOLE_LISTEN",
    "BEANPOLE_PORT",
    "BEANPOLE_DATA_DIR",
    "BEANPOLE_CLUSTER",
    "BEANPOLE_CONFIG",
    "BEANPOLE_HTTP_TOKEN_FILE",
    "LISTEN_PID",
)
"""What says in the environment where to listen, or that it has to wait."""

CONSOLE_NEEDS = ("jinja2", "msgspec", "starlette", "uvicorn", "prometheus_client")
"""What the extra ``console`` installs, by the names under which it is imported."""

opened: list["socket.socket"] = []  # the sockets that listen already


def wanted(arguments: list[str], environment: Mapping[str, str]) -> tuple[tuple[str, ...], int] | None:
    """Return the addresses and the port of `beanpole serve` with these arguments; None: that is not plain."""
    try:
        options, rest = getopt.getopt(arguments, SHORT, LONG.split())
    except getopt.GetoptError:
        return None
    addresses = tuple(value for name, value in options if name in {"-l", "--listen"})
    ports = [value for name, value in options if name in {"-p", "--port"}] or [str(limits.PORT_DEFAULT)]
    plain = all(each.isascii() and each.isdigit() and int(each) <= 65535 for each in ports)
    waits = any(map(environment.get, VARIABLES)) or any(each.startswith(listener.UNIX) for each in addresses)
    if any(name == "--http" for name, _ in options) or environment.get("BEANPOLE_HTTP"):
        waits = waits or bool(missing())  # then the command line refuses it, and nothing may be bound
    return (addresses, int(ports[-1])) if plain and not waits and not rest else None


def missing() -> str:
    """Return the name of a library that the console lacks; empty: there is none. Nothing is imported for that."""
    from importlib.util import find_spec  # noqa: PLC0415 - only for those who want a console

    return next((name for name in CONSOLE_NEEDS if find_spec(name) is None), "")


def listen(arguments: list[str], environment: Mapping[str, str]) -> None:
    """Listen as `beanpole serve` with these arguments will, if that is plain."""
    found = wanted(arguments, environment)
    if found is None:
        return
    try:
        opened.extend(listener.open_all(*found))
    except StartError:  # The command line will see the same, and say it.
        return
    for each in opened:
        each.listen(server_limits.BACKLOG)
