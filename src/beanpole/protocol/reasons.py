"""What failures are grouped by: the first line of what a worker said, without what differs from job to job.

The server counts by it as jobs fail (``stats-failures``), and a client finds by it the jobs of a group in a list, so
both have it from here.
"""

import re

ERROR_CHARS = 200
"""Characters of a line that count."""

WORD = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # a UUID
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    r"|[A-Za-z]*+[0-9][0-9A-Za-z]*(?:[.,:][0-9]+)*[A-Za-z]*)"
)
"""What may differ from job to job in one and the same error: a word with a digit, or a moment."""

NAME = re.compile(r"(?![0-9a-fA-F]{8}|[0-9A-Za-z]{16}|.*[0-9]{6})")
"""What begins a word that begins with a letter and is a name, as `utf8` or `x509`: not a hash or an id."""

CODE_DIGITS = 5  # digits that a number has at most that says what went wrong, and so counts

BEFORE_CODE = ("http", "http error", "httperror", "errno", "status", "code", "signal")
"""What stands before such a number: `HTTP 503`, `[Errno 111]`, `exit code 137`."""

BEFORE_CHARS = 16  # characters in which that is looked for

STATUS = re.compile(r"[1-5][0-9]{2} [A-Z][a-z]")  # such a number with its words: `410 Gone`


def first_line(text: str) -> str:
    """Return the first line that is not empty, with one space for each stretch of white space; else nothing."""
    for line in text.lstrip().splitlines():
        if shown := " ".join(line.split()):
            return shown[:ERROR_CHARS]
    return ""


def error_of(line: str) -> str:
    """Return a first line with an ellipsis for each number, id and moment; codes of errors stay."""
    return WORD.sub(what_counts, line)


def what_counts(found: re.Match[str]) -> str:
    """Return a word with a digit if it says what went wrong; an ellipsis if it is about one job."""
    word, start = found[0], found.start()
    if not word[0].isdecimal() and NAME.match(word):
        return word
    if len(word) > CODE_DIGITS or not word.isdecimal():
        return "…"
    before = found.string[max(start - BEFORE_CHARS, 0) : start]
    is_of_kind = before[-1:] == "-" and before[-3:-1].isalpha() and before[-3:-1].isupper()  # ORA-00942
    is_code = is_of_kind or before.rstrip(" :=#").lower().endswith(BEFORE_CODE) or STATUS.match(found.string, start)
    return word if is_code else "…"
