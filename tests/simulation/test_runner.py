"""Work in the background that is done, but of which the loop has not yet heard, is found by who waits for it.

A segment on its way back to the pool of a full disk is such work: who did not find it would ask the disk for another.
The simulated runner must do as the one of the server does.
"""

import asyncio
from collections.abc import Iterator

import pytest

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
