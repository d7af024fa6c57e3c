"""Background work that is done is found by a caller that waits for it, even before the loop has heard of it.

A segment on its way back to the pool of a full disk is such work: who did not find it would ask the disk for another.
The simulated runner must do as the one of the server does.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole.log.files.disk import open_directory
from beanpole.log.files.runner import LoopRunner
from tests.simulation.disk import SimDisk
from tests.simulation.runner import Clock, SimRunner


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_simulation_finds_work_that_is_done() -> None:
    runner = SimRunner(Clock(), SimDisk().ban)
    results: list[int] = []
    runner.background(lambda: 1, results.append)
    runner.background(lambda: 2, results.append)
    runner.run_background()
    assert results == []
    assert runner.finish_background()
    assert results == [1]
    assert runner.finish_background()
    assert results == [1, 2]
    assert not runner.finish_background()
    runner.settle()
    assert results == [1, 2]


def test_loop_finds_work_that_is_done(loop: asyncio.AbstractEventLoop) -> None:
    runner = LoopRunner(loop)
    try:
        results: list[int] = []
        runner.background(lambda: 1, results.append)
        runner.background(lambda: 2, results.append)
        runner.works[-1][0].result(timeout=60)
        assert results == []
        assert runner.finish_background()
        assert results == [1]
        assert runner.finish_background()
        assert results == [1, 2]
        assert not runner.finish_background()
        loop.run_until_complete(asyncio.sleep(0))
        assert results == [1, 2]
    finally:
        runner.close()


def test_loop_says_how_long_a_sync_took(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    runner = LoopRunner(loop)
    directory = open_directory(tmp_path)
    file = directory.create("file", 4096)
    took: list[tuple[OSError | None, int]] = []
    try:
        began_ns = time.monotonic_ns()
        runner.sync([file, directory], lambda error, took_ns: took.append((error, took_ns)))
        runner.wait_for_sync()
        passed_ns = time.monotonic_ns() - began_ns
        [(error, took_ns)] = took
        assert error is None
        assert 0 < took_ns < passed_ns
    finally:
        file.close()
        runner.close()


def test_simulation_says_how_long_a_sync_took() -> None:
    class SlowDisk(SimDisk):
        def call(self, kind: str) -> None:
            super().call(kind)
            clock.now_ns += 7

    clock = Clock()
    disk = SlowDisk()
    runner = SimRunner(clock, disk.ban)
    took: list[int] = []
    runner.sync([disk], lambda _error, took_ns: took.append(took_ns))
    runner.wait_for_sync()
    assert took == [7]
