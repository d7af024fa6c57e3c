"""Files: which one it is, whatever its name is; and whether a database is where it was, or a copy of it."""

import hashlib
import os
from pathlib import Path


def identity(status: os.stat_result) -> tuple[int, int]:
    """Return what a file has as long as it exists, whatever its name is."""
    return status.st_dev, status.st_ino


def identity_at(path: str | Path) -> tuple[int, int] | None:
    """Return what the file at a path is; None: there is none."""
    try:
        return identity(os.stat(path))  # noqa: PTH116 - many times a second
    except FileNotFoundError:
        return None


def open_or_make(path: str, flags: int) -> int:
    """Open a file; make it if it is not there."""
    return os.open(path, flags | os.O_CREAT, 0o666)


def place_of(path: Path) -> str:
    """Return the machine of a file, if it is known, and the file's number in its file system."""
    return f"{machine()} {path.stat().st_ino}"


def machine() -> str:
    """Return what names this machine; empty if nothing does, as in many containers. Not its id, which is secret."""
    try:
        found = Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""
    return hashlib.blake2b(found.encode(), digest_size=8, person=b"beanpole-ids").hexdigest() if found else ""


def is_elsewhere(known: str, place: str) -> bool:
    """Return whether a database is not where it was: on another machine, if both are known, or in another file."""
    if not known or not place:
        return False
    (before, file), (machine, now) = known.split(" "), place.split(" ")
    return file != now or bool(before and machine and before != machine)
