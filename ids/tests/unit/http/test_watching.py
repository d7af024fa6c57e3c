"""Health and metrics of a service whose store a test holds up, breaks or loses."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from beanpole_ids.errors import ClockAheadError, LeaseLostError, StorageError
from beanpole_ids.http.metrics import Metrics, Page
from beanpole_ids.http.watching import Health
from beanpole_ids.rules.config import Config
from beanpole_ids.rules.sequence import Clock, Key
from beanpole_ids.storage.threaded import BUCKETS_S, Measured
from tests.unit.test_service import World, in_a_world, settle

Story = Callable[["Watched"], Awaitable[None]]


class Watched(World):
    """A service whose store is watched; the clock stands still unless a test moves it."""

    def __init__(self, folder: Path, config: Config | None = None) -> None:
        super().__init__(folder, config)
        self.measured = self.service.counters.store = Measured(self.store, lambda: self.seconds)
        self.health = Health(self.service, self.measured)
        self.metrics = Metrics(self.service, self.measured, Clock(0, 0), 7, "1.0", lambda: 3)

    async def samples(self) -> dict[str, float]:
        """What is told without labels, or of the rule `day`."""
        text = (await self.metrics.page()).decode()
        return {
            sample.name.removeprefix("beanpole_ids_"): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.labels.get("rule", "day") == "day" and sample.labels.get("outcome", "success") == "success"
        }


def play(folder: Path, story: Story) -> None:
    """Plays a test in a world of its own."""

    async def main() -> None:
        world = Watched(folder)
        await story(world)
        world.store.open.set()
        world.keeper.cancel()

    asyncio.run(main())


in_a_watched_world = partial(in_a_world, play=play)


@in_a_watched_world
async def test_healthy(world: Watched) -> None:
    assert await world.health.reasons() == []
    world.service.counters.begin_stop()
    assert await world.health.reasons() == ["stopping"]


@in_a_watched_world
async def test_clock_that_is_ahead(world: Watched) -> None:
    world.error = ClockAheadError(7200)
    (reason,) = await world.health.reasons()
    assert reason.startswith("clock: it has jumped ahead by 7200 s")


@in_a_watched_world
async def test_storage_is_asked_again_after_a_moment(world: Watched) -> None:
    world.store.error = StorageError("storage: gone")
    assert await world.health.reasons() == ["storage: gone"]
    world.store.error = None
    assert await world.health.reasons() == ["storage: gone"]
    world.seconds += 2
    assert await world.health.reasons() == []
    world.store.error = LeaseLostError("storage: taken over")
    assert await world.health.reasons() == []
    world.seconds += 2
    assert await world.health.reasons() == ["storage: taken over"]
    assert len(world.store.reserves) == 3


@in_a_watched_world
async def test_failure_that_a_request_finds_shows_at_once(world: Watched) -> None:
    assert await world.health.reasons() == []
    world.store.error = StorageError("storage: gone")
    assert (await world.ask())["code"] == -3
    assert await world.health.reasons() == ["storage: gone"]


@in_a_watched_world
async def test_many_checks_of_a_storage_that_does_not_answer_are_one_question(world: Watched) -> None:
    world.store.open.clear()
    found = await asyncio.gather(*(world.health.reasons() for _ in range(50)))
    assert found == [["storage: it does not answer"]] * 50
    assert len(world.store.reserves) == 1
    world.store.open.set()
    await settle()
    assert await world.health.reasons() == []
    assert len(world.store.reserves) == 1


@in_a_watched_world
async def test_reservations_are_counted_by_how_long_they_take(world: Watched) -> None:
    for took_s in (0.0, BUCKETS_S[0], 0.002, 60.0):
        world.store.open.clear()
        call = asyncio.create_task(world.measured.reserve([]))
        await settle()
        world.seconds += took_s
        world.store.open.set()
        await call
    assert world.measured.within == [2, 0, 1, *[0] * (len(BUCKETS_S) - 3), 1]
    samples = await world.samples()
    assert samples["reservation_seconds_count"] == 4
    assert samples["reservation_seconds_sum"] > 60


@in_a_watched_world
async def test_metrics_follow_a_counter(world: Watched) -> None:
    found = await world.samples()
    assert "remaining_numbers" not in found
    assert found["cycle_numbers"] == 10_000
    await world.ask(count=4)
    await world.ask(app_name="b")
    found = await world.samples()
    assert (found["requests_total"], found["numbers_total"], found["counters"]) == (2, 5, 2)
    assert (found["remaining_numbers"], found["held_numbers"]) == (9_996, 15)
    assert (found["lease_epoch"], found["unsent_replies_total"]) == (7, 3)
    world.now_s += 86_400
    found = await world.samples()
    assert (found["remaining_numbers"], found["held_numbers"]) == (10_000, 0), "a day later all are there again"
    assert found["numbers_total"] == 5


@in_a_watched_world
async def test_counters_that_are_forgotten_stay_counted(world: Watched) -> None:
    await world.ask(count=4)
    world.now_s += 10_000_000
    await world.service.counters.unload_idle()
    assert Key(b"day", b"a") not in world.service.counters.loaded
    found = await world.samples()
    assert (found["requests_total"], found["numbers_total"], found["counters"]) == (1, 4, 0)


@in_a_watched_world
async def test_many_counters_are_looked_at_in_slices(world: Watched) -> None:
    """A scrape must not hold up requests."""
    await world.ask()
    (counter,) = world.service.counters.loaded.values()
    world.service.counters.loaded |= {Key(b"day", str(each).encode()): counter for each in range(20_000)}
    turns = 0
    scrape = asyncio.create_task(world.samples())
    while not scrape.done():
        await asyncio.sleep(0)
        turns += 1
    assert scrape.result()["counters"] == 20_001
    assert turns >= 10


def test_page_is_written_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten thousand rules it held up everybody."""
    threads: list[threading.Thread] = []
    read = Page.collect

    def read_and_note(page: Page) -> Iterable[Metric]:
        threads.append(threading.current_thread())
        return read(page)

    async def story(world: Watched) -> None:
        await world.metrics.page()
        (thread,) = threads
        assert thread is not threading.current_thread()

    monkeypatch.setattr(Page, "collect", read_and_note)
    play(tmp_path, story)
