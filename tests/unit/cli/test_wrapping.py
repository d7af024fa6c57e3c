"""Sentences are wrapped between words on a terminal, and nowhere else."""

import fcntl
import io
import json
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest

from beanpole.cli.wrapping import json_text, wrapped

TEXT = "the first line is long enough to be wrapped somewhere\n    evidence: one of the lines that stand further in"


@contextmanager
def terminal(columns: int) -> Iterator[TextIO]:
    """A terminal of so many columns; 0: one that does not say."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w") as file:
        yield file


@pytest.mark.parametrize("columns", [40, 50, 79])
def test_lines_fit_and_say_the_same(columns: int) -> None:
    with terminal(columns) as file:
        lines = wrapped(TEXT, file).split("\n")
    assert max(map(len, lines)) <= columns
    assert " ".join(" ".join(lines).split()) == " ".join(TEXT.split())
    assert all(line.startswith("  ") for line in lines[1:])


def test_what_fits_stays() -> None:
    with terminal(80) as file:
        assert wrapped(TEXT, file) == TEXT
        assert wrapped("\n", file) == "\n"
    with terminal(0) as file:
        assert wrapped(TEXT, file) == TEXT


def test_words_stay_whole() -> None:
    address = "beanstalk://" + "x" * 60
    with terminal(10) as file:
        assert address in wrapped(f"it is at {address}, which is not there", file)


def test_a_file_gets_lines_as_they_are() -> None:
    assert wrapped(TEXT * 10, io.StringIO()) == TEXT * 10


@pytest.mark.parametrize("said", ["\x9b31m", "\u202etxt.exe", "\x1b[1m", "\udcff", "\x7f"])
def test_json_has_nothing_that_a_terminal_obeys(said: str) -> None:
    text = json_text({"grün": said})
    assert text.isprintable()
    assert text.startswith('{"grün": "\\u')
    assert json.loads(text) == {"grün": said}
