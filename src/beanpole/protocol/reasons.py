"""What failures are grouped by: the first line of what a worker said, without what differs from job to job.

The server counts by it as jobs fail (``stats-failures``), and a client finds by it the jobs of a group in a list, so
both have it from here.
"""

import re

ERROR_CHARS = 200
"""Characters of a line that count."""

PASSING = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # a UUID
    r"|0x[0-9a-fA-F]+"  # an address in memory
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    r"|(?<![0-9A-Za-z])(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}(?![0-9A-Za-z])"  # a hash
    r"|[0-9]{6,}"  # an id
)
"""What differs from job to job in one and the same error, and says nothing of it.

Numbers of up to five digits stay: they are codes (`ORA-00942`, `HTTP 503`) and durations (`timeout after 31 s`).
"""


def first_line(text: str) -> str:
    """Return the first line that is not empty, with one space for each stretch of white space; else nothing."""
    for line in text.lstrip().splitlines():
        if shown := " ".join(line.split()):
            return shown[:ERROR_CHARS]
    return ""


def error_of(line: str) -> str:
    """Return a first line with an ellipsis for each number and id that differs from job to job."""
    return PASSING.sub("…", line)
