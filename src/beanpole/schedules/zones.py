"""Time zones by their IANA name, from the system's files or else from the package `tzdata`.

A zone is read when it is first used. `zoneinfo` keeps those that are in use and a few more; of names that don't exist
nothing is remembered. New zone data counts from the next start on.
"""

import contextlib
import re
import struct
import zoneinfo
from importlib import import_module
from pathlib import Path
from zoneinfo import ZoneInfo

NAME_CHARS_MAX = 64
"""Characters of a zone's name: twice those of the longest that there is."""

NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
"""What becomes a path: no part of it is `.` or `..`, and it does not begin with a slash."""

OTHERS = ("posix/", "right/", "posixrules", "localtime")
"""What lies among the zones and is none: copies, one of them with leap seconds, and the zone of the machine."""


VERSION_CHARS_MAX = 32
"""Characters of what the data say of their version, as 2025b."""


class ZoneError(ValueError):
    """There is no such zone, or this machine's data lacks it."""


def zone(name: str) -> ZoneInfo:
    """Return a time zone.

    Raises:
        ZoneError: there is none of that name.
    """
    if len(name) > NAME_CHARS_MAX or not NAME.fullmatch(name) or name.startswith(OTHERS):
        raise ZoneError(f"{name[:NAME_CHARS_MAX]!a} can't be the name of a time zone, as Europe/Berlin is")
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError, EOFError, struct.error):
        raise ZoneError(f"there is no time zone {name!a} in the data of this machine") from None


def data_version() -> str:
    """Return the version of the zone data of this machine, as 2025b; empty: there are none, or they don't say it."""
    for folder in map(Path, zoneinfo.TZPATH):
        if (folder / "Etc" / "UTC").exists():  # zones are taken from here
            for name in ("tzdata.zi", "+VERSION"):
                with contextlib.suppress(OSError), (folder / name).open(encoding="ascii", errors="replace") as file:
                    return file.readline(2 * VERSION_CHARS_MAX).removeprefix("# version ").strip()[:VERSION_CHARS_MAX]
            return ""
    with contextlib.suppress(ImportError):
        return str(import_module("tzdata").IANA_VERSION)
    return ""
