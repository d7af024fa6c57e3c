"""A start in a directory that fails."""

import asyncio
import threading
from pathlib import Path

import pytest

from beanpole.errors import StartError
from beanpole.server.directory import open_directory
from beanpole.server.logs import open_logger
from beanpole.server.observer import Observer
from beanpole.server.settings import Settings


def test_start_that_fails_ends_its_threads(tmp_path: Path) -> None:
    for number in (1, 3):
        (tmp_path / f"segment.{number:010}").write_bytes(b"no header" * 10)
    loop = asyncio.new_event_loop()
    before = set(threading.enumerate())
    with pytest.raises(StartError, match=r"segment\.0000000001"):
        open_directory(tmp_path, Settings(), dict, Observer(open_logger("text")), loop)
    assert set(threading.enumerate()) <= before
    loop.close()
