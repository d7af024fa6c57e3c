"""The names of the log's files."""

import re

# One name for each number: a second file with more zeros in front is somebody's copy, and no part of the log.
SEGMENT = re.compile(r"segment\.([0-9]{10}|[1-9][0-9]{10,})")
IMPORTED = re.compile(r"import\.([0-9]{10}|[1-9][0-9]{10,})")
SPARE = re.compile(r"spare\.(\d+)(\.unfinished)?")


def segment_name(number: int) -> str:
    """Return the name of a segment; names sort as numbers do."""
    return f"segment.{number:010d}"


def spare_name(number: int) -> str:
    """Return the name of a file of zeros that is no segment yet."""
    return f"spare.{number}"


def unfinished_name(number: int) -> str:
    """Return its name until every byte of it is zero."""
    return f"spare.{number}.unfinished"


def spare_number(name: str) -> int | None:
    """Return the number of a spare, finished or not; None: the file is none."""
    match = SPARE.fullmatch(name)
    return int(match[1]) if match else None


def segment_number(name: str) -> int | None:
    """Return the number of a segment by its name; None: it is none."""
    match = SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


def import_name(number: int) -> str:
    """Return the name of a segment that is being taken over from beanstalkd's log."""
    return f"import.{number:010d}"


def import_number(name: str) -> int | None:
    """Return the number of such a segment by its name; None: it is none."""
    match = IMPORTED.fullmatch(name)
    return int(match[1]) if match else None


def is_spare(name: str) -> bool:
    """Whether a file is a spare, finished or not."""
    return spare_number(name) is not None
