"""Requests against a store that a test holds up, breaks or loses."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

import orjson
import pytest

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.errors import ClockAheadError, LeaseLostError, StorageError
from beanpole_ids.hand import Mark
from beanpole_ids.origin import Origin
from beanpole_ids.rules.config import Config
from beanpole_ids.rules.lua import LuaChild, LuaRule
from beanpole_ids.rules.lua_child import Rules
from beanpole_ids.rules.sequence import Key
from beanpole_ids.service import Service

RULES = """
[[rule]]
name = "day"
template = "{year:04}{month:02}{day:02}-{counter:04}"
cycle = "day"
batch = 10

[[rule]]
name = "pair"
lua = "pair.lua"
batch = 1

[[rule]]
name = "single"
template = "S{counter:04}"
batch = 1

[[rule]]
name = "long"
template = "L{counter:012}"
batch = 1
"""

PAIR = """
function min_counter() return 0 end
function max_counter() return 99 end
function reset_seconds() return 0 end
function create_id(counter, now, salt)
    local first = counter:generate_counter()
    if salt == "bad" then error("no") end
    return first .. "-" .. counter:generate_counter()
end
"""

MIDNIGHT_S = 1_795_478_400

NOBODY = Origin(b"", "", None)
"""The source of requests in tests that do not look at it: a proven address that is not known."""


class HeldStore:
    """A store in memory: it waits while it is held, and raises what a test wants."""

    def __init__(self) -> None:
        self.marks: dict[Key, Mark] = {}
        self.open = asyncio.Event()
        self.open.set()
        self.giving = asyncio.Event()
        self.giving.set()
        self.error: Exception | None = None
        self.loads: list[list[Key]] = []
        self.reserves: list[list[Key]] = []
        self.given_back: list[list[Key]] = []

    async def load(self, wanted: Mapping[Key, int]) -> dict[Key, Mark]:
        assert min(wanted.values()) >= 1, "what the original may have given is passed over, whichever file is served"
        self.loads.append(list(wanted))
        await self.open.wait()
        return {key: self.marks[key] for key in wanted if key in self.marks}

    async def reserve(self, wanted: list[tuple[Key, Mark]]) -> None:
        self.reserves.append([key for key, _ in wanted])
        await self.open.wait()
        if self.error:
            raise self.error
        self.marks.update(wanted)

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
        self.given_back.append([key for key, _ in rests])
        await self.giving.wait()
        if self.error:
            raise self.error
        self.marks.update(rests)


def configure(folder: Path) -> Config:
    """The rules of the test's, read from a folder."""
    (folder / "rules.toml").write_text(RULES)
    (folder / "pair.lua").write_text(PAIR)
    return load(folder / "rules.toml")


class LuaInside(LuaChild):
    """Rules in Lua in the process of the test, which answer in the loop's next turn. The salt ``worse`` ends them."""

    def __init__(self) -> None:
        self.rules = Rules(lambda _: None)
        self.known: set[int] = set()
        self.calls: list[list[Any]] = []
        self.answers: list[list[Any] | None] = []
        self.ours, self.theirs = os.pipe()

    def __del__(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)

    def send(self, rule: LuaRule, calls: list[list[Any]], forgotten: Iterable[int] = ()) -> None:
        self.calls += calls
        message = {"rule": rule.number, "calls": calls, "source": rule.source(), "forgotten": list(forgotten)}
        is_over = any(salt == "worse" for call in calls for _, salt in call[4])
        self.answers.append(None if is_over else orjson.loads(self.rules.answer(orjson.dumps(message))))
        os.write(self.theirs, b"1")

    def receive(self) -> list[Any] | None:
        os.read(self.ours, 1)
        return self.answers.pop(0)

    def fileno(self) -> int:
        return self.ours

    def end(self) -> str:
        return "too much time"


class World:
    """A service with a clock and a store of the test's."""

    def __init__(
        self, folder: Path, config: Config | None = None, start_lua: Callable[[], LuaChild] | None = None
    ) -> None:
        self.store = HeldStore()
        self.now_s: float = MIDNIGHT_S
        self.seconds = 0.0
        self.error: Exception | None = None
        self.replies: list[dict[str, Any]] = []
        self.failures: list[Exception] = []
        self.service = Service(
            config or configure(folder),
            self.store,
            self.read_clock,
            lambda: self.seconds,
            self.failures.append,
            start_lua or LuaInside,
        )
        self.keeper = asyncio.create_task(self.service.counters.run())

    def read_clock(self) -> float:
        if self.error:
            raise self.error
        return self.now_s

    def send(self, source: str = "", **fields: object) -> None:
        request = {"action": "get", "app_name": "a", "rule_name": "day"} | fields
        self.service.receive(json.dumps(request).encode(), lambda reply: self.replies.append(json.loads(reply)), source)

    async def ask(self, source: str = "", **fields: object) -> dict[str, Any]:
        count = len(self.replies)
        self.send(source, **fields)
        await settle()
        assert len(self.replies) == count + 1, "one reply to one request"
        return self.replies[-1]


async def settle() -> None:
    """Lets the keeper do what it can."""
    for _ in range(30):
        await asyncio.sleep(0)


async def until(is_so: Callable[[], bool]) -> None:
    """Lets the keeper work until something is so."""
    async with asyncio.timeout(60):  # of turns there may be any number, while a thread has to do something
        while not is_so():  # noqa: ASYNC110 - it is the loop that is waited for
            await asyncio.sleep(0)


Story = Callable[[World], Coroutine[Any, Any, None]]


def play(folder: Path, story: Story, config: Config | None = None) -> None:
    """Plays a test in a world of its own."""

    async def main() -> None:
        world = World(folder, config)
        await story(world)
        world.store.open.set()
        world.store.giving.set()
        world.service.counters.begin_stop()
        if not world.keeper.done():
            await world.keeper
            await world.service.counters.stop()
        world.service.texts.close()

    asyncio.run(main())


def in_a_world(test: Callable[..., Coroutine[Any, Any, None]], play: Callable[..., None] = play) -> Callable[..., None]:
    """Makes a test of a coroutine, which gets a world of its own besides its fixtures."""
    wanted = [each for name, each in signature(test).parameters.items() if name not in {"world", "tmp_path"}]
    has_path = "tmp_path" in signature(test).parameters

    def run(tmp_path: Path, **fixtures: object) -> None:
        more = fixtures | ({"tmp_path": tmp_path} if has_path else {})
        play(tmp_path, lambda world: test(world, **more))

    path = Parameter("tmp_path", Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = Signature([path, *wanted])  # type: ignore[attr-defined]
    return run


@in_a_world
async def test_no_number_before_its_range_is_durable(world: World) -> None:
    """Hole 2: the original answered first."""
    world.store.open.clear()
    world.send()
    world.send(seq=2)
    await settle()
    assert not world.replies
    world.store.open.set()
    await settle()
    assert [each["data"][9:] for each in world.replies] == ["0000", "0001"]


@in_a_world
async def test_slow_store_delays_nothing_that_is_reserved(world: World) -> None:
    await world.ask()
    world.store.open.clear()
    for expected in range(1, 10):
        assert (await world.ask())["data"][9:] == f"{expected:04}"
    world.send()
    await settle()
    assert len(world.replies) == 10


@in_a_world
async def test_store_that_fails_refuses_what_is_not_reserved(world: World) -> None:
    """Holes 3 to 5."""
    await world.ask()
    world.store.error = StorageError("storage: gone")
    codes = [(await world.ask())["code"] for _ in range(12)]
    assert codes == [0] * 9 + [-3] * 3
    assert len(world.store.reserves) < 5, "a store that is down is not asked for each request"


@in_a_world
async def test_counter_that_could_not_be_looked_up_may_exist(world: World) -> None:
    """It was said not to exist when the store had failed."""

    async def fail(_: object) -> dict[Key, Mark]:
        raise StorageError("storage: gone")

    world.store.load = fail  # type: ignore[method-assign, assignment]
    reply = await world.ask(action="monitor")
    assert (reply["code"], reply["message"]) == (-3, "storage: gone")


@in_a_world
async def test_midnight_between_two_requests(world: World) -> None:
    """Hole 7: the date and the counter came from two readings of the clock."""
    world.now_s = MIDNIGHT_S - 1
    seen = [(await world.ask())["data"] for _ in range(3)]
    for now_s in (MIDNIGHT_S, MIDNIGHT_S - 1, MIDNIGHT_S, MIDNIGHT_S - 5000):
        world.now_s = now_s
        seen.append((await world.ask())["data"])
    assert len(set(seen)) == len(seen)
    assert {each[:8] for each in seen[3:]} == {"20261124"}


@in_a_world
async def test_clock_that_jumped_ahead_is_an_answer(world: World) -> None:
    """Hole 17."""
    await world.ask()
    world.error = ClockAheadError(9999)
    reply = await world.ask()
    assert (reply["code"], reply["message"]) == (-4, "clock: it has jumped ahead by 9999 s; reload to accept it")
    world.error = None
    assert (await world.ask())["data"][9:] == "0001"


@in_a_world
async def test_lua_that_takes_two_and_one_that_fails_after_one(world: World) -> None:
    """Hole 19: an error in a rule spent the number."""
    assert (await world.ask(rule_name="pair"))["data"] == "0-1"
    assert (await world.ask(rule_name="pair", salt="bad"))["message"].startswith("system error")
    world.seconds += 1  # the process may be started again
    reply = await world.ask(rule_name="pair", salt="worse")
    world.seconds += 1
    assert reply["message"].startswith("system error: rule 'pair' was stopped: too m")
    assert (await world.ask(rule_name="pair"))["data"] == "2-3"
    assert (await world.ask(rule_name="pair", count=3))["data"] == ["4-5", "6-7", "8-9"]


@in_a_world
async def test_lost_node_ends_the_keeper(world: World) -> None:
    await world.ask()
    world.store.error = LeaseLostError("storage: taken over")
    world.send(app_name="b")
    await settle()
    with pytest.raises(LeaseLostError):
        await world.keeper


@in_a_world
async def test_requests_that_wait_are_bounded(world: World) -> None:
    world.store.open.clear()
    for number in range(limits.WAITING_MAX + 1):
        world.send(app_name=f"n{number % 7}")
    assert "too many requests wait" in world.replies[-1]["message"]


@in_a_world
async def test_counter_that_nobody_uses_is_given_back_and_forgotten(world: World) -> None:
    service = world.service
    given = [(await world.ask(app_name=app))["data"] for app in ("idle", "idle", "busy")]
    world.now_s += limits.IDLE_S
    await world.ask(app_name="busy")
    await service.counters.unload_idle()
    assert len(service.counters.loaded) == 2, "not before the time is over"
    world.now_s += 1
    await service.counters.unload_idle()
    assert [key.app for key in service.counters.loaded] == [b"busy"]
    assert world.store.marks[Key(b"day", b"idle")].reserved == 1, "its unused range is given back"
    assert service.counters.unloaded == {"day": (2, 2)}
    given.append((await world.ask(app_name="idle"))["data"])
    assert given == ["20261124-0000", "20261124-0001", "20261124-0000", "20261124-0002"]


@in_a_world
async def test_request_for_a_counter_that_is_being_forgotten_waits(world: World) -> None:
    service = world.service
    given = [(await world.ask())["data"]]
    world.now_s += limits.IDLE_S + 1
    world.seconds += limits.IDLE_S + 1
    world.store.giving.clear()
    world.send(app_name="other")  # wakes the keeper, which then forgets
    await settle()
    assert Key(b"day", b"a") not in service.counters.loaded
    world.send()
    await settle()
    assert len(world.replies) == 1, "the range is not given back yet"
    world.store.giving.set()
    await settle()
    given.append(world.replies[-1]["data"])
    assert given == ["20261124-0000", "20261124-0001"]


@in_a_world
async def test_store_that_fails_while_a_counter_is_forgotten(world: World) -> None:
    """What nobody knows to be given back is a gap."""
    first = (await world.ask())["data"]
    world.now_s += limits.IDLE_S + 1
    world.store.error = StorageError("storage: gone")
    with pytest.raises(StorageError):
        await world.service.counters.unload_idle()
    world.store.error = None
    assert (first, (await world.ask())["data"]) == ("20261124-0000", "20261124-0010")


@in_a_world
async def test_names_that_are_known_excuse_nothing(world: World) -> None:
    await world.ask()
    actions: list[object] = [None, 1, ["get"], {}]
    for action in actions:
        assert (await world.ask(action=action))["message"] == "need action"
    counts: list[object] = [0, -1, 1001, "1", True, 1.5, None]
    for count in counts:
        assert (await world.ask(count=count))["message"] == "count must be 1 to 1000"
    assert (await world.ask(request_id=[]))["message"] == "request_id must be a string or a whole number"
    assert (await world.ask(salt=[1]))["data"][9:] == "0001"


@in_a_world
async def test_request_id_belongs_to_the_address_that_sent_it(world: World) -> None:
    """Two machines that both began with `request_id` 1 got the same order number."""
    asked = {"request_id": 1}
    sources = ("10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2", "")
    for fields in (asked, asked | {"salt": "x"}, asked | {"count": 3}):
        first = [(await world.ask(each, **fields))["data"] for each in sources]
        assert len({str(each) for each in first}) == len(sources)
        assert [(await world.ask(each, **fields))["data"] for each in sources] == first

    def in_c(source: str) -> object:
        data = b'{"action":"get","app_name":"a","request_id":2,"rule_name":"day"}'
        reply = world.service.fast.answer(data, world.now_s, world.seconds, Origin(b"", source, None))
        return json.loads(reply)["data"] if reply else None

    given = [in_c(each) for each in sources]
    assert None not in given
    assert len(set(given)) == len(sources)
    assert [(await world.ask(each, request_id=2))["data"] for each in sources] == given, "both ways know it"


TALK = """
{"seq":[1.50],"rule_name":"small","app_name":"a","action":"monitor"}
{"action":"monitor","app_name":"a","code":-1,"message":"not exist","rule_name":"small","seq":[1.5]}
{"zz":1, "rule_name":"small","app_name":"a","action":"get","data":{"x":[1]},"B":"1/2"} more
{"B":"1/2","action":"get","app_name":"a","code":0,"data":"00","message":"success","rule_name":"small","zz":1}
{"action":"get","app_name":"a","count":2,"rule_name":"small"}
{"action":"get","app_name":"a","code":0,"count":2,"data":["01","02"],"message":"success","rule_name":"small"}
{"action":"create","app_name":"a","request_id":7,"rule_name":"small"}
{"action":"create","app_name":"a","code":0,"data":"03","message":"success","request_id":7,"rule_name":"small"}
{"action":"get","app_name":"a","request_id":7,"rule_name":"small","seq":2}
{"action":"get","app_name":"a","code":0,"data":"03","message":"success","request_id":7,"rule_name":"small","seq":2}
{"action":"get","app_name":"a","rule_name":"small"}
{"action":"get","app_name":"a","code":-2,"message":"EXHAUSTED","rule_name":"small"}
{"action":"","app_name":"a","rule_name":"small"}
{"action":"","app_name":"a","code":0,"data":STATE,"message":"ok","rule_name":"small"}
{}
{"code":-1,"message":"need action"}
{"action":1}
{"action":1,"code":-1,"message":"need action"}
{"action":"get","rule_name":"small"}
{"action":"get","code":-1,"message":"need app_name","rule_name":"small"}
{"action":"get","app_name":"a","rule_name":null}
{"action":"get","app_name":"a","code":-1,"message":"need rule_name","rule_name":null}
{"action":"get","app_name":"a","rule_name":"none"}
{"action":"get","app_name":"a","code":-1,"message":"system error: unknown rule","rule_name":"none"}
{"action":"get","app_name":"a b","rule_name":"small"}
{"action":"get","app_name":"a b","code":-1,"message":"BAD NAME","rule_name":"small"}
{"action":"get","app_name":"LONG","rule_name":"small"}
{"action":"get","app_name":"LONG","code":-1,"message":"BAD NAME","rule_name":"small"}
"""
"""Requests, each with its reply below it."""

WORDS = {
    "EXHAUSTED": "exhausted: no number is left up to 3; counting starts again: never",
    "STATE": '{"counter":3,"node_offset":0,"remaining":0,"reserved":3,"resets_at":null}',
    "BAD NAME": "system error: app_name has a bad character or is too long",
    "LONG": "a" * 256,
}


def test_replies_byte_by_byte(tmp_path: Path) -> None:
    """Hole 1, too: the maximum inside a cycle is the end."""
    (tmp_path / "small.toml").write_text('[[rule]]\nname = "small"\ntemplate = "{counter:02}"\nmaximum = 3')
    talk = TALK.strip()
    for word, meaning in WORDS.items():
        talk = talk.replace(word, meaning)
    lines = talk.encode().splitlines()

    async def story(world: World) -> None:
        for data, expected in zip(lines[::2], lines[1::2], strict=True):
            replies: list[bytes] = []
            world.service.receive(data, replies.append)
            await settle()
            assert replies == [expected]

    play(tmp_path, story, load(tmp_path / "small.toml"))


# --- The end ----------------------------------------------------------------------------------------------------------


class SlowGiver(HeldStore):
    """A store that takes its time to write what is given back."""

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
        await super().give_back(rests)
        await self.open.wait()


def test_no_number_of_a_range_that_is_given_back(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        slow = world.service.counters.store = world.store = SlowGiver()
        given = {(await world.ask())["data"]}
        world.service.counters.begin_stop()
        await world.keeper
        slow.open.clear()
        stopping = asyncio.create_task(world.service.counters.stop())
        await settle()
        assert not stopping.done()
        reply = await world.ask()
        assert (reply["code"], reply["message"]) == (-3, "storage: stopping")
        slow.open.set()
        await stopping
        again = World(tmp_path)
        again.service.counters.store = again.store = slow
        given.add((await again.ask())["data"])
        assert len(given) == 2
        assert given == {"20261124-0000", "20261124-0001"}
        again.keeper.cancel()

    asyncio.run(story())
