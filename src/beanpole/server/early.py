"""Listen before anything else is imported: most of a start is imports, and clients need not wait for them to connect.

A server without a directory has nothing that could refuse its clients later, so the kernel may take their connections
at once. The arguments are read here in the simplest way, and only to listen: what this does not understand, or what the
command line makes something else of later, costs nothing but the early start. With a directory the port stays closed
until the jobs are back; a Unix socket waits too, for its file must not be left over when the arguments prove wrong.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from beanpole import limits
from beanpole.errors import StartError
from beanpole.server import limits as server_limits
from beanpole.server import listener

if TYPE_CHECKING:
    import socket

VALUES = {"-l": "listen", "--listen": "listen", "-p": "port", "--port": "port"} | dict.fromkeys(
    ("-z", "--body-bytes-max", "-u", "--user", "--ready-file", "--log-format", "--tubes-max", "--connections-max"), ""
)
"""The options with a value, and which of them matter here."""

FLAGS = {"-c", "-n", "-V", "--verbose", "--one-reply-per-send"}
"""The options without."""

VARIABLES = ("BEANPOLE_LISTEN", "BEANPOLE_PORT", "BEANPOLE_DATA_DIR", "BEANPOLE_CONFIG", "LISTEN_PID")
"""What says in the environment where to listen, or that it has to wait."""


opened: dict[tuple[tuple[str, ...], int], list["socket.socket"]] = {}
"""The sockets that listen already, by the addresses and the port that they were opened for."""


def wanted(arguments: list[str], environment: Mapping[str, str], port: int) -> tuple[tuple[str, ...], int] | None:
    """Return the addresses and the port of `beanpole serve` with these arguments; None: that is not plain."""
    if any(environment.get(name) for name in VARIABLES):
        return None
    addresses = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument in FLAGS:
            continue
        if name not in VALUES or (equals and not name.startswith("--")):
            return None
        value = value if equals else next(rest, "")
        if VALUES[name] == "listen" and value.startswith(listener.UNIX):
            return None
        if VALUES[name] == "listen":
            addresses.append(value)
        elif VALUES[name] == "port":
            if not value.isascii() or not value.isdigit() or int(value) > 65535:
                return None
            port = int(value)
    return tuple(addresses), port


def listen(arguments: list[str], environment: Mapping[str, str]) -> None:
    """Listen as `beanpole serve` with these arguments will, if that is plain."""
    found = wanted(arguments, environment, limits.PORT_DEFAULT)
    if found is None:
        return
    try:
        sockets = listener.open_all(*found)
    except StartError:  # The command line will see the same, and say it.
        return
    opened[found] = sockets
    for each in sockets:
        each.listen(server_limits.BACKLOG)


def take(addresses: tuple[str, ...], port: int) -> list["socket.socket"]:
    """Return the sockets that listen for these settings already; close any other."""
    found = opened.pop((addresses, port), [])
    for others in opened.values():
        for each in others:
            each.close()
    opened.clear()
    return found
