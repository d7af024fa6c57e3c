"""The process around a server: its user, limits and ready file, its reports to systemd, and what ``stats`` shows."""

import contextlib
import os
import pwd
import resource
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import beanpole
from beanpole.errors import ExitCode, StartError
from beanpole.server import listener
from beanpole.server.logs import Logger

if TYPE_CHECKING:
    from pathlib import Path

    from beanpole.server.turn import Turn

DESCRIPTORS_MIN = 40
"""File descriptors without which a server does not start: its own, those that it keeps free, and a few clients."""


class ProcessFacts:
    """The part of ``stats`` that only the process knows."""

    def __init__(self) -> None:
        system = os.uname()
        self.constant = {
            "pid": str(os.getpid()),
            "id": os.urandom(8).hex(),
            "hostname": system.nodename,
            "os": system.version,
            "platform": system.machine,
            "beanpole-version": beanpole.__version__,
        }
        self.parts: list[Callable[[], Mapping[str, str]]] = []
        """What else says something of the process."""
        self.turn: Turn | None = None
        """The turns of the server: the facts are read once in each. None: they are read at every call."""
        self.said_in = -1
        self.said: dict[str, str] = {}

    def __call__(self) -> Mapping[str, str]:
        if self.turn is not None and self.turn.number == self.said_in:
            return self.said
        usage = resource.getrusage(resource.RUSAGE_SELF)
        found = {"rusage-utime": f"{usage.ru_utime:.6f}", "rusage-stime": f"{usage.ru_stime:.6f}"} | self.constant
        for part in self.parts:
            found.update(part())
        if self.turn is not None:
            self.said_in, self.said = self.turn.number, found
        return found


def become_user(name: str) -> None:
    """Give up root's rights for a user's. Raises StartError: there is no such user, or we may not become it."""
    try:
        user = pwd.getpwnam(name)
        if os.geteuid() != user.pw_uid:
            os.initgroups(name, user.pw_gid)
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
    except KeyError as error:
        raise StartError(f"unknown user: {name}", ExitCode.UNKNOWN_USER) from error
    except PermissionError as error:
        raise StartError(f"cannot become user {name}: only root can", ExitCode.UNKNOWN_USER) from error


def raise_descriptor_limit() -> int:
    """Allow as many open files as the system lets us; return how many.

    Raises StartError: they are too few for a server.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < DESCRIPTORS_MIN:
        advice = f"the server needs {DESCRIPTORS_MIN}; raise it (ulimit -n, LimitNOFILE=)"
        raise StartError(f"cannot start with a limit of {hard} open files: {advice}", ExitCode.FAILED)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def open_descriptor_count() -> int:
    with os.scandir("/proc/self/fd") as found:
        return sum(1 for _ in found)


def notify_systemd(state: str) -> None:
    """Send systemd a state (sd_notify(3)); nothing happens when it did not start us."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
            notifier.connect("\0" + path[1:] if path.startswith("@") else path)
            notifier.send(state.encode())


def write_ready_file(path: "Path", addresses: list[str]) -> tuple[int, int]:
    """Write the addresses, a line each, in one step: whoever sees the file sees all of it. Return its `identity`.

    The unfinished file is a new one and no link is followed: it may stand in a directory that others can write to.
    Raises StartError: it can't be written.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        with unfinished.open("x") as file:
            file.write("".join(f"{address}\n" for address in addresses))
        written = listener.identity(str(unfinished))
        unfinished.replace(path)
    except OSError as error:
        raise StartError(f"cannot write the ready file {path}: {error.strerror}", ExitCode.FAILED) from error
    return written


def report_ready(
    path: "Path | None",
    addresses: list[str],
    listeners: list[socket.socket],
    logger: Logger,
    *,
    has_users: bool = False,
) -> tuple[int, int]:
    """Report that clients are answered: to the ready file, the log and systemd. Return the file's `identity`, if any.

    Without users it is said that other machines reach the server, if they do.

    Raises StartError: the ready file can't be written.
    """
    written = (0, 0) if path is None else write_ready_file(path, addresses)
    logger.info("listening", addresses=addresses, pid=os.getpid(), version=beanpole.__version__)
    if not has_users and any(map(listener.is_off_loopback, listeners)):
        effect = "whoever reaches these addresses can take and delete jobs: there is no password"
        advice = "listen on this machine alone, with -l 127.0.0.1, keep others out by a firewall, or give --access"
        logger.warning("open to other machines", effect=effect, advice=advice)
    notify_systemd("READY=1")
    return written


def remove_ready_file(path: "Path", addresses: list[str] | None = None) -> None:
    """Remove the file, so that nobody takes it for that of a running server; with addresses, only if it has them.

    Another server may have written it since. That it can't be removed is no reason to fail.
    """
    with contextlib.suppress(OSError):
        if addresses is None or path.read_text() == "".join(f"{address}\n" for address in addresses):
            path.unlink()
