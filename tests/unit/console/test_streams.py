"""Live pages by a clock that passes at once: newest wins, beats, ends, and how often servers are asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
from starlette.exceptions import HTTPException

from beanpole.console.sampler import Sampler
from beanpole.console.servers import Server, see
from beanpole.console.settings import Settings, Source
from beanpole.console.streams import BEAT, Pace, Streams, event_stream
from beanpole.errors import ConnectionLostError
from tests.unit.console.instant import UNIX_S, clock, instant
from tests.unit.console.made import stats
from tests.unit.console.test_serving import Log

if TYPE_CHECKING:
    from starlette.types import Message

    from beanpole.client import AsyncClient, Stats

SCOPE: dict[str, Any] = {"type": "http"}


class Asked:
    """A client of a server without tubes, which counts how often it is asked, and may be away."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.is_away = False

    async def stats(self) -> "Stats":
        self.times.append(asyncio.get_running_loop().time())
        if self.is_away:
            raise ConnectionLostError("nobody is there")
        return stats(current_tubes=0)

    async def features(self) -> frozenset[str]:
        return frozenset()

    async def tubes(self) -> list[str]:
        return []

    async def close(self) -> None:
        """There is nothing to close."""


class Browser:
    """What takes a stream, at its own speed."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.times: list[float] = []
        self.may_take = asyncio.Event()
        self.may_take.set()
        self.is_gone = asyncio.Event()

    async def receive(self) -> "Message":
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: "Message") -> None:
        if message["type"] == "http.response.body" and message["body"]:
            self.texts.append(message["body"])
            self.times.append(asyncio.get_running_loop().time())
            await self.may_take.wait()

    def states(self) -> list[Any]:
        found = [json.loads(each.decode().split("\ndata: ")[1]) for each in self.texts if each != BEAT]
        return [each.get("blocks", each.get("reason")) for each in found]


class World:
    """A server, its sampler, and a page whose state a test sets."""

    def __init__(self) -> None:
        self.client, self.clock = Asked(), clock()
        source = Source("a", None)
        self.sampler = Sampler(source, cast("AsyncClient[bytes]", self.client), Settings(()), Log(), self.clock)
        self.server = Server(source, Settings(()), self.sampler)
        self.streams, self.made, self.state = Streams(most=2), 0, "first"
        self.failure: Exception | None = None
        self.is_of_server = False
        self.answer = asyncio.Event()
        self.answer.set()

    async def make(self) -> dict[str, str]:
        self.made += 1
        await self.answer.wait()
        if self.failure is not None:
            raise self.failure
        if self.is_of_server:
            return {"main": "away" if (await see(self.server)).is_away else "there"}
        return {"main": self.state}

    @asynccontextmanager
    async def open(self, browser: Browser, life_s: float = 900) -> AsyncIterator["asyncio.Task[None]"]:
        """A stream, while its sampler runs."""
        answer = event_stream(self.streams, [self.sampler], self.make, self.clock.unix_s, Pace(life_s=life_s))
        task = asyncio.create_task(answer(SCOPE, browser.receive, browser.send))
        await asyncio.sleep(0.5)
        try:
            yield task
        finally:
            browser.is_gone.set()
            browser.may_take.set()
            await task

    @asynccontextmanager
    async def sampled(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.sampler.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@instant
async def test_server_is_asked_each_second_only_while_a_page_is_live() -> None:
    world = World()
    async with world.sampled():
        await asyncio.sleep(25)
        async with world.open(Browser()):
            await asyncio.sleep(4)
        await asyncio.sleep(20)
    assert world.client.times == pytest.approx([0, 10, 20, 25, 26, 27, 28, 29, 39, 49])


@instant
async def test_state_is_sent_when_it_has_changed_and_else_a_beat() -> None:
    world, browser = World(), Browser()
    async with world.sampled(), world.open(browser):
        await asyncio.sleep(32)
        world.state = "second"
        await asyncio.sleep(2)
    assert browser.states() == [{"main": "first"}, {"main": "second"}]
    assert [each == BEAT for each in browser.texts] == [False, True, True, False]
    assert browser.times[:3] == pytest.approx([0, 15, 30], abs=1)
    assert b'"at":1000000000.000' in browser.texts[0]


@instant
async def test_beats_come_though_the_server_is_away() -> None:
    world, browser = World(), Browser()
    async with world.open(browser):  # nothing takes samples
        await asyncio.sleep(50)
    assert browser.texts[1:] == [BEAT] * 3


@instant
async def test_browser_that_takes_nothing_gets_the_newest_alone() -> None:
    world, browser = World(), Browser()
    browser.may_take.clear()
    async with world.sampled(), world.open(browser):
        for number in range(20):
            world.state = f"state {number}"
            await asyncio.sleep(1)
        assert world.made == 1
        browser.may_take.set()
        await asyncio.sleep(1.5)
    assert browser.states() == [{"main": "first"}, {"main": "state 19"}]


@instant
async def test_page_says_why_it_can_not_be_made_and_goes_on() -> None:
    world, browser = World(), Browser()
    async with world.sampled(), world.open(browser):
        for failure in (HTTPException(404, "there is no such tube"), ConnectionLostError("it went away"), None):
            world.failure = failure
            await asyncio.sleep(2)
    assert browser.states() == [{"main": "first"}, "there is no such tube", "it went away", {"main": "first"}]


@instant
async def test_fault_of_a_page_ends_its_stream_and_is_seen() -> None:
    world = World()
    world.failure = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        async with world.open(Browser()):
            await asyncio.sleep(1)
    assert world.streams.count == 0


@instant
async def test_there_are_only_so_many_streams() -> None:
    world = World()
    async with world.open(Browser()), world.open(Browser()):
        with pytest.raises(HTTPException, match="2 pages are live already") as refused:
            world.streams.check()
        assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "10"})
    world.streams.check()


@instant
async def test_stream_ends_after_its_time() -> None:
    world = World()
    async with world.sampled(), world.open(Browser(), life_s=60) as task:
        await task
        assert asyncio.get_running_loop().time() == pytest.approx(60, abs=2)


@instant
async def test_server_that_is_away_brings_its_last_sample_and_since_when() -> None:
    world = World()
    await asyncio.sleep(5)
    world.client.is_away = True
    seen = await see(world.server)
    assert (seen.sample, seen.is_away, seen.away_since) == (None, True, UNIX_S + 5)
    world.client.is_away = False
    seen = await see(world.server)
    sample = seen.sample
    assert sample is not None
    assert not seen.is_away
    await asyncio.sleep(7)
    world.client.is_away = True
    await see(world.server)
    await asyncio.sleep(3)
    seen = await see(world.server)
    assert (seen.sample, seen.away_since, seen.reason) == (sample, UNIX_S + 12, "nobody is there")
    world.client.is_away = False
    await asyncio.sleep(3)
    assert (await see(world.server)).away_since is None


@instant
async def test_live_page_hears_at_once_that_the_server_is_away_and_back() -> None:
    world, browser = World(), Browser()
    world.is_of_server = True
    async with world.sampled(), world.open(browser):
        for is_away in (True, False):
            world.client.is_away = is_away
            await asyncio.sleep(3)
    assert browser.states() == [{"main": "there"}, {"main": "away"}, {"main": "there"}]


@instant
async def test_page_that_takes_long_says_so_and_asks_only_once() -> None:
    world, browser = World(), Browser()
    world.answer.clear()
    async with world.sampled(), world.open(browser):
        await asyncio.sleep(10)
        assert world.made == 1
        world.answer.set()
        await asyncio.sleep(2)
    assert browser.states() == ["no answer within 2 s", {"main": "first"}]


@instant
async def test_browser_that_goes_ends_what_was_asked_for_it() -> None:
    world = World()
    world.answer.clear()
    async with world.open(Browser()):
        await asyncio.sleep(10)
    assert len(asyncio.all_tasks()) == 1
