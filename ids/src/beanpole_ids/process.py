"""What the process says to others: its ready file, and systemd."""

import contextlib
import os
import socket
from pathlib import Path

from beanpole_ids.errors import ExitCode, StartError


def notify_systemd(state: str) -> None:
    """Send systemd a state (sd_notify(3)); nothing happens when it did not start us."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
            notifier.connect("\0" + path[1:] if path.startswith("@") else path)
            notifier.send(state.encode())


def write_ready_file(path: Path, addresses: list[str]) -> None:
    """Write the addresses, a line each, in one step: whoever sees the file sees all of it.

    The unfinished file is a new one and no link is followed: it may stand in a directory that others can write to.

    Raises:
        StartError: it can't be written.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        with unfinished.open("x") as file:
            file.write("".join(f"{address}\n" for address in addresses))
        unfinished.replace(path)
    except OSError as error:
        raise StartError(f"cannot write the ready file {path}: {error.strerror}", ExitCode.FAILED) from error
