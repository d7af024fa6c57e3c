"""A start in a directory that fails, and what an operator is told of a full disk."""

import asyncio
import threading
from pathlib import Path

import pytest

from beanpole.errors import StartError
from beanpole.server.directory import LOG_FULL_REPORT_NS, SpaceObserver, open_directory
from beanpole.server.logs import open_logger
from beanpole.server.settings import Settings


class Told:
    """A logger that keeps the names of its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def error(self, event: str, **_: object) -> None:
        self.lines.append(event)

    def info(self, event: str, **_: object) -> None:
        self.lines.append(event)


def test_last_line_about_a_full_disk_is_true_in_the_end() -> None:
    now_ns = 0
    told = Told()
    observer = SpaceObserver(told, lambda: now_ns)  # type: ignore[arg-type]
    observer.log_full("No space left on device")
    observer.log_has_space()
    for _ in range(10):
        observer.log_full("No space left on device")
    assert told.lines == ["disk full", "disk has space"], "not more often than once in a while"
    now_ns = LOG_FULL_REPORT_NS
    for _ in range(10):
        observer.log_full("No space left on device")
    assert told.lines == ["disk full", "disk has space", "disk full"]
    observer.log_has_space()
    observer.log_has_space()
    assert told.lines[3:] == ["disk has space"]


def test_start_that_fails_ends_its_threads(tmp_path: Path) -> None:
    for number in (1, 3):
        (tmp_path / f"segment.{number:010}").write_bytes(b"no header" * 10)
    loop = asyncio.new_event_loop()
    before = set(threading.enumerate())
    with pytest.raises(StartError, match=r"segment\.0000000001"):
        open_directory(tmp_path, Settings(), dict, open_logger("text"), loop)
    assert set(threading.enumerate()) <= before
    loop.close()
