"""One answer at a time: it is shared, kept for a second, and nobody waits for a server that is silent."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from beanpole.console import limits
from beanpole.console.single_flight import ANSWER_MS, MS, AwayError, SharedAnswer
from tests.unit.console.instant import in_loop

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND_NS = 1000 * MS


class World:
    """A clock that a test sets, and a server that answers when it is told to."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.asked = 0
        self.answers: asyncio.Queue[Callable[[], int]] = asyncio.Queue()
        self.latest = SharedAnswer(self.ask, lambda: self.now_ns)

    async def ask(self) -> int:
        self.asked += 1
        return (await self.answers.get())()


def fails() -> int:
    raise ConnectionResetError("the server went away")


@in_loop
async def test_an_answer_is_kept_for_a_second() -> None:
    world = World()
    world.answers.put_nowait(lambda: 1)
    world.answers.put_nowait(lambda: 2)
    assert await world.latest.get() == 1
    world.now_ns = limits.FRESH_MS * MS - 1
    assert await world.latest.get() == 1
    world.now_ns += 1
    assert await world.latest.get() == 2
    assert world.asked == 2


@in_loop
async def test_an_answer_from_before_a_change_is_not_kept() -> None:
    world = World()
    for answer in (lambda: 1, lambda: 2, lambda: 3):
        world.answers.put_nowait(answer)
    assert await world.latest.get() == 1
    world.latest.outdate()
    assert await world.latest.get() == 2
    assert await world.latest.get() == 2
    world.now_ns = limits.FRESH_MS * MS
    asking = asyncio.create_task(world.latest.get())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    world.latest.outdate()  # what is under way has asked before this
    assert await asking == 3
    world.answers.put_nowait(lambda: 4)
    assert await world.latest.get() == 4


@in_loop
async def test_those_who_ask_at_once_share_an_answer() -> None:
    world = World()
    asking = [asyncio.create_task(world.latest.get()) for _ in range(10)]
    await asyncio.sleep(0)
    world.answers.put_nowait(lambda: 7)
    assert await asyncio.gather(*asking) == [7] * 10
    assert world.asked == 1


@in_loop
async def test_a_silent_server_is_away_and_comes_back_on_the_same_question() -> None:
    world = World()
    asking = asyncio.create_task(world.latest.get())
    await asyncio.sleep(0)
    world.now_ns = ANSWER_MS * MS
    with pytest.raises(AwayError, match="no answer within 1 s"):  # at once: the second is over
        await world.latest.get()
    world.answers.put_nowait(lambda: 3)
    assert await asking == 3
    assert await world.latest.get() == 3
    assert world.asked == 1


@in_loop
async def test_a_server_that_answers_bit_by_bit_is_there() -> None:
    world = World()
    asking = asyncio.create_task(world.latest.get())
    await asyncio.sleep(0)
    world.now_ns = 3 * SECOND_NS
    world.latest.heard()
    world.now_ns += SECOND_NS // 2
    other = asyncio.create_task(world.latest.get())
    await asyncio.sleep(0)
    world.answers.put_nowait(lambda: 4)
    assert await asking == await other == 4


@in_loop
async def test_a_failure_is_a_server_that_is_away_and_is_tried_again() -> None:
    world = World()
    world.answers.put_nowait(fails)
    with pytest.raises(AwayError, match="the server went away"):
        await world.latest.get()
    world.answers.put_nowait(lambda: 5)
    assert await world.latest.get() == 5


@in_loop
async def test_a_question_from_before_serves_only_those_who_asked_before() -> None:
    world = World()
    before = asyncio.create_task(world.latest.get())
    await asyncio.sleep(0)
    world.latest.outdate()
    after = [asyncio.create_task(world.latest.get()) for _ in range(2)]
    await asyncio.sleep(0)
    world.answers.put_nowait(lambda: 1)
    assert await before == 1
    world.answers.put_nowait(lambda: 2)
    assert await asyncio.gather(*after) == [2, 2]
    assert world.asked == 2


@in_loop
async def test_a_stop_ends_what_is_under_way() -> None:
    world = World()
    asking = asyncio.create_task(world.latest.get())
    await asyncio.sleep(0)
    await world.latest.stop()
    with pytest.raises(AwayError, match="the console stops"):
        await asking
