"""TOML of files that people write: the library's parser, and in which line a key stands, which that doesn't say."""

import re
import tomllib
from typing import Any

from beanpole.errors import LineError

PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


QUOTES = "; a name with other signs than letters, digits, _ and - stands in quotes"


def parse(text: str) -> dict[str, Any]:
    """Return what stands in a file, by its keys.

    Raises:
        LineError: it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = PLACE.search(str(error))
        line = text.count("\n") + 1 if place is None or place[1] is None else int(place[1])
        hint = QUOTES if "end of a table declaration" in str(error) else ""
        raise LineError(line, f"this is no TOML: {PLACE.sub('', str(error))}{hint}") from None


def line_of(text: str, *path: str) -> int:
    """Return the number of the line where a key stands, which is there.

    It is the line behind the longest beginning of the file that is TOML and lacks the key.
    """
    lines = text.split("\n")
    before, behind = 0, len(lines)  # a prefix that lacks it; from here on, every one that parses has it
    while behind - before > 1:
        middle = at = (before + behind) // 2
        while at < behind and (has := has_key("\n".join(lines[:at]), path)) is None:
            at += 1
        if at < behind and not has:
            before = at
        else:
            behind = middle
    return before + 1


def has_key(text: str, path: tuple[str, ...]) -> bool | None:
    """Whether a beginning of a file has a key; None: it ends in the middle of something."""
    try:
        found: Any = tomllib.loads(text)
    except ValueError:
        return None
    for each in path:
        if each not in found:
            return False
        found = found[each]
    return True
