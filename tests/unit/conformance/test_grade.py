"""How bad a failure is: by the replies that a client gets, and by where they stand in the conversation."""

from pathlib import Path

import pytest

from beanpole.conformance.replies import Grade, grade_of, heads
from beanpole.conformance.run import Run
from beanpole.conformance.script import read_script


def test_heads_are_the_words_of_replies_without_their_bodies() -> None:
    said = b"INSERTED 1\r\nRESERVED 1 9\r\nDELETED\r\n\r\nOK 4\r\nOK\r\n\r\nJOBS 1\r\nJOB 1 2 tube=t\r\nab\r\nTIMED"
    assert heads(said) == [b"INSERTED", b"RESERVED", b"OK", b"JOBS", b"JOB", b"TIMED"]


@pytest.mark.parametrize(
    ("wanted", "got", "grade"),
    [
        ("INSERTED", "", Grade.LOST),
        ("INSERTED BURIED", "INSERTED", Grade.LOST),
        ("INSERTED", "INSERTED UNKNOWN_COMMAND", Grade.LOST),
        ("INSERTED BURIED", "BURIED INSERTED", Grade.LOST),
        ("RESERVED", "RESERVED", Grade.ORDER),
        ("RESERVED", "TIMED_OUT", Grade.ORDER),
        ("NOT_FOUND", "FOUND", Grade.ORDER),
        ("BURIED", "RELEASED", Grade.WORDS),
        ("JOB_TOO_BIG", "BAD_FORMAT", Grade.WORDS),
        ("INSERTED RESERVED", "BURIED RESERVED", Grade.WORDS),
        ("WATCHING", "WATCHING", Grade.WORDS),
    ],
)
def test_replies_in_step_are_less_bad(wanted: str, got: str, grade: Grade) -> None:
    assert grade_of(wanted.encode().split(), got.encode().split()) is grade


class Said:
    """A target that says to a connection what a test wants, whatever it is sent."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def connect(self, name: str) -> None:
        """Open a connection."""

    def send(self, name: str, data: bytes) -> None:
        """Send bytes."""

    def more(self, name: str, *, expected: bool) -> bytes:
        """Receive what comes, one piece each time; b"": nothing does now."""
        del name, expected
        return self.pieces.pop(0) if self.pieces else b""

    def half_close(self, name: str) -> None:
        """Send a FIN."""

    def disconnect(self, name: str) -> None:
        """Close a connection."""

    def is_closed(self, name: str) -> bool:
        """Whether the server has closed a connection."""
        del name
        return False

    def advance(self, seconds: float) -> None:
        """Let time pass."""

    def drain(self) -> None:
        """Have the server drain."""


def grade(folder: Path, lines: str, *pieces: bytes) -> Grade | None:
    """How a script is graded on a server that says this."""
    path = folder / "script.txt"
    path.write_text(lines)
    problem = Run(read_script(path), Said(*pieces)).outcome()
    return None if problem is None else problem.grade


WAITS = "a> reserve\na-\n+ 1s\na< RESERVED 1 1 / x\na> quit\na is closed\n"


def test_where_a_reply_stands_decides(tmp_path: Path) -> None:
    assert grade(tmp_path, "a> touch 1 / bury 1 0\na< TOUCHED\na< BURIED\n", b"TOUCHED\r\nBURIED\r\n") is None
    assert (
        grade(tmp_path, "a> touch 1 / bury 1 0\na< TOUCHED\na< BURIED\n", b"BUR", b"IED\r\nTOUCHED\r\n") is Grade.LOST
    )
    assert grade(tmp_path, "a> touch 1\na< TOUCHED\n", b"NOT_FOUND\r\n") is Grade.WORDS
    assert grade(tmp_path, "a> touch 1\na< TOUCHED\n") is Grade.LOST
    assert grade(tmp_path, "a> touch 1\na< TOUCHED\n", b"TOUCHED\r\nBURIED\r\n") is Grade.LOST
    assert grade(tmp_path, "a> reserve\na< RESERVED 1 1 / x\n", b"RESERVED 2 1\r\nx\r\n") is Grade.ORDER
    assert grade(tmp_path, WAITS, b"RESERVED 1 1\r\nx\r\n") is Grade.ORDER, "it came too early"
    assert grade(tmp_path, WAITS, b"BAD_FORMAT\r\n") is Grade.LOST
    assert grade(tmp_path, WAITS, b"", b"RESERVED 1 1\r\nx\r\n") is Grade.LOST, "the connection is open"
    statistics = "a> stats-job 1\na< OK\n  id: 1\n"
    assert grade(tmp_path, statistics, b"OK 10\r\n---\nid: 2\n\r\n") is Grade.WORDS
    assert grade(tmp_path, statistics, b"") is Grade.LOST
