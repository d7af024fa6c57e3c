"""Time zones by their IANA name, from the system's files or else from the package `tzdata`.

A zone is read when it is first used. `zoneinfo` keeps those that are in use and a few more; of names that don't exist
nothing is remembered. New zone data counts from the next start on.
"""

import re
from zoneinfo import ZoneInfo

NAME_CHARS_MAX = 64
"""Characters of a zone's name: twice those of the longest that there is."""

NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
"""What becomes a path: no part of it is `.` or `..`, and it does not begin with a slash."""

OTHERS = ("posix/", "right/", "posixrules", "localtime")
"""What lies among the zones and is none: copies, one of them with leap seconds, and the zone of the machine."""


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
    except (ValueError, OSError, LookupError):
        raise ZoneError(f"there is no time zone {name!a} in the data of this machine") from None
