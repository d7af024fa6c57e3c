"""Names of applications, which clients choose: who may make new ones, and what gives way when there are too many."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.errors import DatabaseLostError
from beanpole_ids.hand import Mark
from beanpole_ids.http.watching import Health
from beanpole_ids.origin import Origin
from beanpole_ids.rules.sequence import Key
from beanpole_ids.storage.threaded import Measured
from tests.unit.test_cookie import STRANGER, ask
from tests.unit.test_service import MIDNIGHT_S, World, configure, in_a_world, play, settle, until

OTHER_STRANGER = "203.0.113.77"


async def given_to(world: World, app: str) -> int:
    """The next number of an application; to make room may take the time of a thread."""
    count = len(world.replies)
    world.send(app_name=app)
    await until(lambda: len(world.replies) > count)
    return int(world.replies[-1]["data"].rpartition("-")[2])


def names(world: World) -> set[str]:
    """The applications whose counters are in memory."""
    return {key.app.decode() for key in world.service.counters.loaded}


def number(data: str) -> int:
    """What the counter of the rule `day` was."""
    return int(data.rpartition("-")[2])


# --- Who may make new ones --------------------------------------------------------------------------------------------


@in_a_world
async def test_stranger_makes_no_new_name_without_a_cookie(world: World) -> None:
    """Forged addresses filled the memory for counters, and the database: 100 names a second of each."""
    asked = [await ask(world, app_name=f"n{each}") for each in range(50)]
    assert {each["code"] for each in asked} == {-6}
    assert not world.service.counters.loaded
    assert not world.store.reserves
    given = await ask(world, app_name="n0", cookie=asked[0]["cookie"])
    assert given["code"] == 0
    assert (await ask(world, OTHER_STRANGER, app_name="n0"))["code"] == 0, "the name is in use"
    assert (await ask(world, OTHER_STRANGER, app_name="n1", cookie=asked[0]["cookie"]))["code"] == -6
    assert names(world) == {"n0"}


@in_a_world
async def test_stranger_gets_numbers_of_a_name_that_the_store_has(world: World) -> None:
    world.store.marks = {Key(b"day", b"old"): Mark(MIDNIGHT_S, 9, MIDNIGHT_S, "day UTC")}
    assert number((await ask(world, app_name="old"))["data"]) == 10


@in_a_world
async def test_stranger_in_a_line_with_others(world: World) -> None:
    """Whoever is proven makes the name, and all get numbers; who only looks does not wait for ever."""

    def send(source: str, **fields: object) -> None:
        asked = {"action": "get", "app_name": "new", "rule_name": "day"} | fields
        world.service.receive(
            json.dumps(asked).encode(),
            lambda reply: replies.append((source, reply)),
            source,
            is_trusted=source not in {STRANGER, OTHER_STRANGER},
        )

    replies: list[tuple[str, bytes]] = []
    world.store.open.clear()
    send(STRANGER)
    send("10.0.0.1", action="monitor")
    world.store.open.set()
    await settle()
    assert [(source, b"not exist" in reply, b"cookie" in reply) for source, reply in replies] == [
        (STRANGER, False, True),
        ("10.0.0.1", True, False),
    ]
    replies.clear()
    world.store.open.clear()
    send(STRANGER)
    await settle()  # the store is asked for it
    send("10.0.0.1")
    send(OTHER_STRANGER)
    world.store.open.set()
    await settle()
    assert Counter(b'"code":0' in reply for _, reply in replies)[True] >= 1
    assert {source for source, reply in replies if b'"code":0' in reply} >= {"10.0.0.1"}
    assert len(replies) == 3
    assert not world.service.waiting.queues


def test_stranger_takes_no_place_in_a_limit_that_counts_each_name(tmp_path: Path) -> None:
    """Applications that share a counter need none of their own: made-up ones filled the table of a limit."""
    (tmp_path / "flake.toml").write_text(
        'offset = 0\n[[rule]]\nname = "flake"\nkind = "snowflake"\n[[rule]]\nname = "free"\nkind = "snowflake"\n'
        '[[limit]]\nrule = "flake"\napp = "*"\nrate = 100\n'
    )

    async def story(world: World) -> None:
        service = world.service

        def in_c(rule: str, **shown: object) -> bool:
            data = json.dumps({"action": "get", "app_name": "shop", "rule_name": rule} | shown).encode()
            stranger = Origin(b"", STRANGER, service.cookies)
            return service.fast.answer(data, world.now_s, world.seconds, stranger) is not None

        for rule in ("flake", "free"):
            assert (await world.ask(rule_name=rule, app_name="shop"))["code"] == 0
        assert in_c("free")
        assert not in_c("flake")
        asked = await ask(world, rule_name="flake", app_name="shop")
        assert asked["code"] == -6
        assert in_c("flake", cookie=asked["cookie"])
        assert (await ask(world, rule_name="free", app_name="new"))["code"] == 0

    play(tmp_path, story, load(tmp_path / "flake.toml"))


@in_a_world
async def test_http_needs_no_cookie(world: World) -> None:
    """A connection proves its address; `receive` takes it for trusted."""
    assert (await world.ask(STRANGER, app_name="new"))["code"] == 0


# --- What gives way ---------------------------------------------------------------------------------------------------


def test_counter_that_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    """Further names were refused, those of applications with a row too: `too many names`."""

    async def story(world: World) -> None:
        counters = world.service.counters
        counters.most = 4
        for app in "abcd":
            assert await given_to(world, app) == 0
            world.now_s += 1
        assert await given_to(world, "a") == 1
        world.now_s += 1
        assert await given_to(world, "e") == 0
        assert names(world) == {"a", "c", "d", "e"}
        assert world.store.given_back == [[Key(b"day", b"b")]]
        assert counters.evicted_count == 1
        given = Counter[str]()
        for each in range(100):  # more names than there is room for: all go on, without a gap
            app = chr(ord("f") + each % 10)
            assert await given_to(world, app) == given[app]
            given[app] += 1
            world.now_s += 1
            assert len(counters.loaded) <= 4
        assert [await given_to(world, app) for app in "abcde"] == [2, 1, 1, 1, 1]
        totals = counters.unloaded["day"]
        assert totals[0] + sum(each.answered_count for each in counters.loaded.values()) == 111

    play(tmp_path, story, replace(configure(tmp_path), new_names_per_s=1000))


def test_counters_that_requests_wait_for_stay(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        counters = world.service.counters
        counters.most = 2
        for app in "abcdef":
            world.send(app_name=app)
        await until(lambda: len(world.replies) == 6)
        assert {each["app_name"]: each["code"] for each in world.replies}.keys() == set("abcdef")
        assert {each["code"] for each in world.replies} <= {0, -3}
        assert len(counters.loaded) <= 2
        assert await given_to(world, "g") == 0, "then there is room again"

    play(tmp_path, story, replace(configure(tmp_path), new_names_per_s=1000))


def test_counters_change_while_the_oldest_are_looked_for(tmp_path: Path) -> None:
    """What has been chosen may be in use again when the search ends, or gone with the database."""

    async def searching(world: World) -> None:
        """Asks for two more names than there is room for, and returns while the second counter is looked for."""
        world.service.counters.most = 3
        for app in "abcd":
            await given_to(world, app)
            world.now_s += 1
        await given_to(world, "c")  # so that of the two that were found before only `b` is as old as it was
        world.send(app_name="e")
        world.send(app_name="f")
        await until(lambda: not world.service.counters._oldest)

    async def lost(world: World) -> None:
        await searching(world)
        world.service.counters.abandon(DatabaseLostError("storage: the file is gone"))
        await world.keeper
        assert [(each["app_name"], each["code"]) for each in world.replies[-2:]] == [("e", -3), ("f", -3)]

    async def wanted(world: World) -> None:
        await searching(world)
        world.send(app_name="b", count=1000)  # more than it has left: it waits for a range
        await until(lambda: len(world.replies) == 8)
        assert {each["app_name"]: each["code"] for each in world.replies[-3:]} == {"b": 0, "e": 0, "f": 0}

    play(tmp_path, lost)
    play(tmp_path, wanted)


@in_a_world
async def test_health_warns_when_there_is_no_room(world: World) -> None:
    health = Health(world.service, Measured(world.store, lambda: world.seconds))
    world.service.counters.most = 2
    await given_to(world, "a")
    assert health.warnings() == []
    await given_to(world, "b")
    (full,) = health.warnings()
    assert "it has room for 2 counters, and has as many" in full
    world.now_s += limits.THRASH_S
    await given_to(world, "c")
    assert health.warnings() == [full], "what made room had not been used for a minute"
    await given_to(world, "d")
    await given_to(world, "e")
    assert health.warnings()[1].startswith("memory: more than 2 counters are in use")
    world.seconds += limits.THRASH_S
    assert health.warnings() == [full]
