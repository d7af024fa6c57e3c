"""How a child process is started, how it has ended, and how soon another is started in its place.

A child has a lifeline: descriptors whose other ends only its parent has. When they close, because the parent stops or
has died, the child ends by itself; so none is left over, whatever happens to the parent.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

FIRST_FD = 3  # where the descriptors that a program is given begin, behind standard error


def spawn(command: list[str], environment: Mapping[str, str], descriptors: Sequence[int]) -> int:
    """Start a program and return its id: the first word is its path.

    It has these descriptors as 3, 4 and so on, our standard output and error, nothing to read, and no signal of our
    terminal. Each of the descriptors must stand behind all those numbers. Raises OSError: it can't be started.
    """
    assert min(descriptors, default=FIRST_FD) >= FIRST_FD + len(descriptors) or not descriptors
    return os.posix_spawn(
        command[0],
        command,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            *((os.POSIX_SPAWN_DUP2, fd, FIRST_FD + at) for at, fd in enumerate(descriptors)),
        ],
        setpgroup=0,
    )


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
