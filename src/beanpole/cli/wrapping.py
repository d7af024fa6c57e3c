"""Sentences on a terminal, which would else be cut in the middle of words, and how wide help may be."""

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
