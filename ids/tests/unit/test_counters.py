"""Many counters at once: how much the store is asked for, in which order, and what that does to others."""

import asyncio
from dataclasses import replace
from pathlib import Path

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.counters import ROUND_ROWS_NEW, WAITING_TURN
from beanpole_ids.errors import DatabaseLostError, StorageError
from beanpole_ids.hand import Mark
from beanpole_ids.rules.sequence import Key
from tests.unit.test_service import MIDNIGHT_S, NOBODY, World, configure, in_a_world, play, settle, until

ROWS_MAX = limits.ROUND_ROWS
ROWS_IN_USE = ROWS_MAX - ROUND_ROWS_NEW


def key_of(app: str, rule: str = "day") -> Key:
    return Key(rule.encode(), app.encode())


@in_a_world
async def test_all_that_wait_share_a_commit(world: World) -> None:
    """With a batch of 1, each number took a commit of its own."""
    await world.ask(rule_name="single")
    world.store.open.clear()
    world.send(rule_name="single")
    await settle()
    for seq in range(63):
        world.send(rule_name="single", seq=seq)
    before = len(world.store.reserves)
    world.store.open.set()
    await until(lambda: len(world.replies) == 65)
    assert [each["data"] for each in world.replies] == [f"S{number:04}" for number in range(65)]
    assert len(world.store.reserves) - before == 1
    assert world.store.marks[key_of("a", "single")].reserved == 64, "no more than was asked for"


@in_a_world
async def test_large_requests_that_wait_share_a_commit_too(world: World) -> None:
    world.store.open.clear()
    for count in (1, 7, 30, 2):
        world.send(rule_name="single", count=count)
    world.send(rule_name="single", action="monitor")
    world.store.open.set()
    await until(lambda: len(world.replies) == 5)
    assert sum(len(each["data"]) for each in world.replies[:4]) == 40
    assert len(world.store.reserves) == 1
    assert world.replies[4]["data"]["counter"] == 39


@in_a_world
async def test_what_waits_in_vain_reserves_nothing_later(world: World) -> None:
    await world.ask(rule_name="single")
    world.store.error = StorageError("storage: gone")
    for seq in range(50):
        world.send(rule_name="single", seq=seq)
    await until(lambda: len(world.replies) == 51)
    assert {each["code"] for each in world.replies[1:]} == {-3}
    world.store.error = None
    world.seconds += limits.STORE_RETRY_MS / 1000
    await world.ask(rule_name="single")
    assert world.store.marks[key_of("a", "single")].reserved <= 51, "the failed range may be durable, and no more"
    numbers = {(await world.ask(rule_name="single"))["data"] for _ in range(60)}
    assert len(numbers) == 60


@in_a_world
async def test_many_counters_are_loaded_in_one_call(world: World) -> None:
    """Each was a call of the store, one after the other."""
    world.store.marks = {key_of(str(each)): Mark(MIDNIGHT_S, 9, MIDNIGHT_S, "day UTC") for each in range(2_000)}
    for each in range(2_000):
        world.send(app_name=str(each))
    await until(lambda: len(world.replies) == 2_000)
    assert {each["data"] for each in world.replies} == {"20261124-0010"}
    assert len(world.store.loads) == -(-2_000 // ROWS_MAX)
    assert len(world.store.reserves) <= 2 * 2_000 // ROWS_IN_USE
    assert max(map(len, world.store.loads + world.store.reserves)) <= ROWS_MAX


@in_a_world
async def test_counters_in_use_come_before_new_names(world: World) -> None:
    for _ in range(10):
        await world.ask(app_name="known")  # its range is used up
    for each in range(2_000):
        world.send(app_name=f"new{each}")
    before = len(world.replies)
    world.send(app_name="known")
    await until(lambda: any(each["app_name"] == "known" for each in world.replies[before:]))
    assert len(world.store.loads) <= 2 + 1, "one round of new names, at most"
    assert len(world.replies) <= before + ROWS_MAX


@in_a_world
async def test_new_names_wait_for_a_while_and_not_for_ever(world: World) -> None:
    """However many counters in use want ranges, some rows are for those of new names."""
    apps = [f"used{each}" for each in range(600)]
    for app in apps:
        world.send(app_name=app)
    await until(lambda: len(world.replies) == len(apps))
    for app in apps:
        world.send(app_name=app, count=10)
    world.send(app_name="new")
    before = len(world.replies)
    await until(lambda: any(each["app_name"] == "new" for each in world.replies[before:]))
    assert len(world.replies) < before + len(apps)


@in_a_world
async def test_names_are_loaded_in_turn_over_sources(world: World) -> None:
    for each in range(2_000):
        world.send(source="10.0.0.1", app_name=f"many{each}")
    world.send(source="10.0.0.2", app_name="one")
    await until(lambda: any(each["app_name"] == "one" for each in world.replies))
    assert len(world.store.loads) == 1, "it is not behind those of another client"


@in_a_world
async def test_requests_for_a_counter_are_served_in_turn_over_sources(world: World) -> None:
    """A client that asked for thousands of numbers stood before all others in the line of their counter."""
    world.store.open.clear()
    for seq in range(1_000):
        world.send(source="10.0.0.1", seq=seq)
    for seq in range(1_000, 1_003):
        world.send(source="10.0.0.2", seq=seq)
    world.store.open.set()
    await until(lambda: len(world.replies) == 1_003)
    assert [each["seq"] for each in world.replies][:8] == [0, 1_000, 1, 1_001, 2, 1_002, 3, 4]


@in_a_world
async def test_what_waits_reserves_no_more_than_the_largest_batch(world: World) -> None:
    """A client that floods can't make a crash cost millions of numbers."""
    world.store.open.clear()
    for _ in range(limits.WAITING_SOURCE_MAX):
        world.send(rule_name="long", count=1_000)
    world.store.open.set()
    await until(lambda: len(world.store.marks) == 1)
    assert world.store.marks[key_of("a", "long")].reserved == limits.BATCH_MAX - 1, "numbers begin at 0"


@in_a_world
async def test_one_source_does_not_take_all_places(world: World) -> None:
    world.store.open.clear()
    for each in range(limits.WAITING_SOURCE_MAX + 1):
        world.send(source="10.0.0.1", app_name=f"n{each % 7}")
    assert [each["code"] for each in world.replies] == [-3]
    assert "too many requests wait" in world.replies[0]["message"]
    world.send(source="10.0.0.2")
    assert len(world.replies) == 1, "another may wait"
    world.store.open.set()
    await until(lambda: len(world.replies) == limits.WAITING_SOURCE_MAX + 2)
    await until(lambda: not world.service.waiting.queues)
    assert not world.service.waiting.is_full("10.0.0.1")
    assert world.service.waiting.count == 0


@in_a_world
async def test_other_work_goes_on_while_many_are_served(world: World) -> None:
    """A reply to each of ten thousand that had waited was half a second in which nothing else was done."""
    world.store.open.clear()
    for seq in range(1_000):
        world.send(seq=seq)
    world.store.open.set()
    seen = 0
    while len(world.replies) < 1_000:
        assert len(world.replies) <= seen + WAITING_TURN
        seen = len(world.replies)
        await asyncio.sleep(0)
    assert [each["seq"] for each in world.replies] == list(range(1_000))


@in_a_world
async def test_crowd_that_waits_for_a_counter_delays_no_other(world: World) -> None:
    """Until thousands of one counter were served, half a second, no other got a range: others ran out of numbers."""
    await world.ask(app_name="other")
    world.store.open.clear()
    for seq in range(3_000):
        world.send(rule_name="single", seq=seq)
    world.store.open.set()
    before = len(world.replies)
    await until(lambda: len(world.replies) > before)
    world.send(app_name="other", count=10)  # more than it has left
    seen = len(world.replies)
    await until(lambda: any(each["app_name"] == "other" for each in world.replies[seen:]))
    assert len(world.replies) < seen + 10 * WAITING_TURN
    await until(lambda: len(world.replies) == before + 3_001)
    assert [each["seq"] for each in world.replies if "seq" in each] == list(range(3_000))


def test_line_comes_to_an_end_however_fast_others_join_it(tmp_path: Path) -> None:
    """While more came in each turn of the loop than were served, all had to stand in line, and most were refused."""

    async def story(world: World) -> None:
        world.store.open.clear()
        for seq in range(1_000):
            world.send(rule_name="long", seq=seq)
        world.store.open.set()
        await until(lambda: bool(world.replies))
        for seq in range(1_000, 2_000):
            world.send(rule_name="long", seq=seq)
        assert not world.service.waiting.queues
        assert [each["seq"] for each in world.replies] == list(range(2_000))

    configure(tmp_path)
    path = tmp_path / "rules.toml"
    path.write_text(path.read_text().replace('012}"\nbatch = 1', '012}"\nbatch = 10000'))
    play(tmp_path, story, load(path))


@in_a_world
async def test_crowd_has_one_share_of_a_turn_whatever_was_done_before(world: World) -> None:
    """If the last one in another line was served as it came, just before, the crowd had two, as long as it lasted."""
    counters, served = world.service.counters, list[Key]()

    def is_served(key: Key, _error: Exception | None, _most: int) -> bool:
        served.append(key)
        return key == key_of("crowd") and len(served) < 7

    counters.on_done = is_served
    other = asyncio.create_task(counters._report({key_of("other"): None}))
    asyncio.get_running_loop().call_soon(counters.serve, key_of("other"), 1)
    crowd = asyncio.create_task(counters._report({key_of("crowd"): None}))
    await until(lambda: len(served) > 1)
    for turn in range(1, 6):
        assert served == [key_of("other")] + [key_of("crowd")] * turn
        await asyncio.sleep(0)
    await asyncio.gather(other, crowd)


@in_a_world
async def test_refusals_of_large_requests_take_no_longer_than_others(world: World) -> None:
    """They cost what their numbers would have: a stop during a flood of them took five seconds."""
    world.store.open.clear()
    world.store.error = StorageError("storage: gone")
    for seq in range(1_000):
        world.send(rule_name="long", count=1_000, seq=seq)
    world.store.open.set()
    await until(lambda: bool(world.replies))
    for _ in range(1_000 // WAITING_TURN):
        await asyncio.sleep(0)
    assert [(each["code"], each["seq"]) for each in world.replies] == [(-3, seq) for seq in range(1_000)]


@in_a_world
async def test_idle_counters_are_unloaded_in_slices(world: World) -> None:
    """A hundred thousand at once held up everybody, and the store."""
    for each in range(1_000):
        world.send(app_name=f"idle{each}")
    await until(lambda: len(world.replies) == 1_000)
    world.now_s += limits.IDLE_S + 1
    world.seconds += limits.IDLE_S + 1
    used = [(await world.ask(app_name="used"))["data"] for _ in range(10)]
    used.append((await world.ask(app_name="used"))["data"])
    await until(lambda: len(world.service.counters.loaded) == 1)
    assert len(set(used)) == 11
    assert sum(map(len, world.store.given_back)) == 1_000
    assert max(map(len, world.store.given_back)) <= ROWS_MAX
    assert world.service.counters.unloaded == {"day": (1_000, 1_000)}


@in_a_world
async def test_counter_that_is_used_while_others_are_unloaded_stays(world: World) -> None:
    for each in range(1_000):
        world.send(app_name=f"idle{each}")
    await until(lambda: len(world.replies) == 1_000)
    world.now_s += limits.IDLE_S + 1
    world.seconds += limits.IDLE_S + 1
    world.store.giving.clear()
    world.send(app_name="idle999", count=9)  # as many as are left, so it is refilled; and the keeper wakes
    await until(lambda: len(world.store.given_back) == 1)
    gone = {key.app.decode() for keys in world.store.given_back for key in keys}
    stays = next(f"idle{each}" for each in range(1_000) if f"idle{each}" not in gone | {"idle999"})
    world.send(app_name=stays)
    assert world.replies[-1]["data"] == "20261124-0001"
    world.store.giving.set()
    await until(lambda: len(world.service.counters.loaded) == 2)
    assert {key.app.decode() for key in world.service.counters.loaded} == {stays, "idle999"}


@in_a_world
async def test_stop_gives_back_in_few_transactions(world: World) -> None:
    """With 100 000 counters it took half a minute, 256 rows at a time and here and there in the table."""
    for each in range(1_000):
        world.send(app_name=str(each))
    await until(lambda: len(world.replies) == 1_000)
    world.service.counters.begin_stop()
    await world.keeper
    assert await world.service.counters.stop() == 1_000
    assert world.store.given_back == [sorted(world.store.marks)], "in the order of the primary key"
    assert {mark.reserved for mark in world.store.marks.values()} == {0}


def test_new_names_of_a_client_are_limited(tmp_path: Path) -> None:
    """Hole 22: one client could take the memory for all counters, and as many rows as it liked."""

    async def story(world: World) -> None:
        burst = 5 * limits.NEW_NAMES_BURST_S
        for each in range(burst + 50):
            world.send(source="192.0.2.1", app_name=f"n{each}")
        world.send(source="192.0.2.2", app_name="other")
        await until(lambda: len(world.replies) == burst + 51)
        codes = {each["app_name"]: each["code"] for each in world.replies}
        assert codes.pop("other") == 0, "it is another client's"
        assert sorted(codes.values()).count(-5) == 50
        refused = next(each for each in world.replies if each["code"] == -5)
        assert refused["message"] == "limit: too many new names: new_names_per_s is 5 for an address"
        assert refused["retry_s"] == 0.2
        assert len(world.service.counters.loaded) == burst + 1
        reply = await world.ask(app_name="n0")
        assert reply["code"] == 0, "names in use are not limited"
        world.seconds += 0.2
        assert (await world.ask("192.0.2.1", app_name="later"))["code"] == 0
        assert (await world.ask("192.0.2.1", app_name="too"))["code"] == -5
        assert (await world.ask("192.0.2.1", app_name="too", action="monitor"))["message"] == "not exist"

    play(tmp_path, story, replace(configure(tmp_path), new_names_per_s=5))


def test_names_that_the_store_has_are_not_new(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.store.marks = {key_of(str(each)): Mark(MIDNIGHT_S, 9, MIDNIGHT_S, "day UTC") for each in range(500)}
        for each in range(500):
            world.send(source="192.0.2.1", app_name=str(each))
        await until(lambda: len(world.replies) == 500)
        assert {each["code"] for each in world.replies} == {0}

    play(tmp_path, story, replace(configure(tmp_path), new_names_per_s=5))


def test_new_names_of_a_network_are_those_of_one_client(tmp_path: Path) -> None:
    """A client of IPv6 has 2**64 addresses."""

    async def story(world: World) -> None:
        burst = limits.NEW_NAMES_BURST_S
        for each in range(burst + 1):
            world.send(source=f"2001:db8::{each:x}", app_name=f"n{each}")
        world.send(source="2001:db8:0:1::1", app_name="other")
        await until(lambda: len(world.replies) == burst + 2)
        assert sorted(each["code"] for each in world.replies) == [-5] + [0] * (burst + 1)
        assert {each["app_name"]: each["code"] for each in world.replies}["other"] == 0

    play(tmp_path, story, replace(configure(tmp_path), new_names_per_s=1))


def test_new_name_that_two_want_is_paid_by_one(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for each in range(limits.NEW_NAMES_BURST_S):
            world.send(source="192.0.2.1", app_name=f"n{each}")
        await until(lambda: len(world.replies) == limits.NEW_NAMES_BURST_S)
        world.send(source="192.0.2.1", app_name="both")
        world.send(source="192.0.2.2", app_name="both")
        await until(lambda: len(world.replies) == limits.NEW_NAMES_BURST_S + 2)
        assert {each["code"] for each in world.replies} == {0}
        config = replace(world.service.config, new_names_per_s=2)
        await world.service.reload(config)
        assert (await world.ask("192.0.2.1", app_name="more"))["code"] == 0, "a reload takes another limit over"

    play(tmp_path, story, replace(configure(tmp_path), new_names_per_s=1))


@in_a_world
async def test_nothing_is_given_after_the_database_is_lost(world: World) -> None:
    await world.ask()
    world.store.open.clear()
    world.send(app_name="waits")
    await settle()
    world.service.counters.abandon(DatabaseLostError("storage: the file is gone"))
    reply = await world.ask()
    assert (reply["code"], reply["message"]) == (-3, "storage: the file is gone")
    assert (
        world.service.fast.answer(b'{"action":"get","app_name":"a","rule_name":"day"}', MIDNIGHT_S, 0.0, NOBODY) is None
    )
    world.store.open.set()
    await world.keeper
    assert [(each["app_name"], each["code"]) for each in world.replies] == [("a", 0), ("a", -3), ("waits", -3)]
