"""What a terminal shows: sentences, which would else be cut in the middle of words, how wide help may be, and JSON."""

import os
import sys
from typing import IO

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

WIDTH_MIN = 40  # a narrower terminal is not wrapped for
WIDTH_DEFAULT = 80  # of a terminal that does not say it
INDENT = "  "


def wrapped(text: str, file: IO[str] | None = None) -> str:
    """Return a text with its lines cut between words, if the file (standard output) is a terminal; else as it is.

    Lines that continue another are further in. Words are never cut, so that addresses can be copied.
    """
    file = sys.stdout if file is None else file
    if not file.isatty():
        return text
    import textwrap

    width = max(os.get_terminal_size(file.fileno()).columns or WIDTH_DEFAULT, WIDTH_MIN)
    lines = []
    for line in text.split("\n"):
        inner = line[: len(line) - len(line.lstrip())] + INDENT
        lines += textwrap.wrap(
            line, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False
        ) or [line]
    return "\n".join(lines)


def json_text(value: object) -> str:
    """Return a value as a line of JSON; what a terminal would obey, or what is no text, is escaped."""
    import json

    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
