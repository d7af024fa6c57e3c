"""How a child process is started, how it has ended, and how soon another is started in its place.

A child has a lifeline: descriptors whose other ends only its parent has. When they close, because the parent stops or
has died, the child ends by itself; so none is left over, whatever happens to the parent.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Sequence
from typing import Any

FIRST_FD = 3  # where the descriptors that a program is given begin, behind standard error

NOT_PASSED_ON = ("BEANPOLE_", "LISTEN_", "NOTIFY_SOCKET", "PG")
"""How variables begin that are the server's own: settings of it and of PostgreSQL, with passwords, and systemd's."""


def spawn(command: list[str], descriptors: Sequence[int]) -> int:
    """Start a program that is a part of the server, and return its id: the first word is its path.

    It has copies of these descriptors as 3, 4 and so on, our standard output and error, nothing to read, no signal of
    our terminal, and no variable that sets up a server. Raises OSError: it can't be started.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith(NOT_PASSED_ON)}
    actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    with contextlib.ExitStack() as copies:
        for number, fd in enumerate(descriptors, FIRST_FD):
            # Behind all numbers that the program knows its own by, as these are given one after the other.
            copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FD + len(descriptors))
            copies.callback(os.close, copy)
            actions.append((os.POSIX_SPAWN_DUP2, copy, number))
        return os.posix_spawn(command[0], command, environment, file_actions=actions, setpgroup=0)


def keep_to_ourselves() -> None:
    """Let no descriptor be inherited but the standard ones: whoever started us may have left some open."""
    with os.scandir("/proc/self/fd") as found:
        descriptors = [int(each.name) for each in found]
    for fd in descriptors:
        if fd >= FIRST_FD:
            with contextlib.suppress(OSError):  # that of the folder itself is closed by now
                os.set_inheritable(fd, False)


class Child:
    """A process that runs, on a loop: its descriptor is readable when it has ended."""

    def __init__(self, pid: int, loop: asyncio.AbstractEventLoop) -> None:
        self.pid = pid
        self.loop = loop
        self.ended: asyncio.Future[str] = loop.create_future()  # in words, how it has ended
        self.fd = os.pidfd_open(pid)
        loop.add_reader(self.fd, self.note_end)

    def note_end(self) -> None:
        """Find out how it has ended."""
        self.loop.remove_reader(self.fd)
        os.close(self.fd)
        self.ended.set_result(ended_by(self.pid))

    async def end(self, within_s: float) -> str:
        """Wait for the end, as the lifeline is closed, and return how it came; kill a process that takes longer."""
        await asyncio.wait([self.ended], timeout=within_s)
        if not self.ended.done():
            os.kill(self.pid, signal.SIGKILL)
        return await self.ended


def ended_by(pid: int) -> str:
    """Return in words how a process that has ended did."""
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # whoever started us lets the system forget children
        return "it is gone"
    return f"exit code {code}" if code >= 0 else name_of(-code)


def name_of(number: int) -> str:
    """Return what a signal is called; those for programs of one's own have no name each."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def pause_after(failures: int, first_s: float, most_s: float) -> float:
    """Return how long to wait after so many failures in a row: twice as long after each."""
    return min(most_s, first_s * 2.0 ** (failures - 1)) if failures else 0.0
