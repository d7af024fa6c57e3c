"""The names of the log's files."""

import re

SPARE = re.compile(r"spare\.(\d+)(\.unfinished)?")

IMPORT = "import"
"""What stands in place of ``segment`` while a log of beanstalkd's is taken over."""


def segment_name(number: int, prefix: str = "segment") -> str:
    """Return the name of a segment; names sort as numbers do."""
    return f"{prefix}.{number:010d}"


def segment_number(name: str, prefix: str = "segment") -> int | None:
    """Return the number of a segment by its name; None: it is none.

    There is one name for each number: a file with more zeros in front is somebody's copy, and no part of the log.
    """
    match = re.fullmatch(rf"{prefix}\.([0-9]{{10}}|[1-9][0-9]{{10,}})", name)
    return int(match[1]) if match else None


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


def is_spare(name: str) -> bool:
    """Whether a file is a spare, finished or not."""
    return spare_number(name) is not None
