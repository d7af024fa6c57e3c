"""Numbers that C hands out come once, whatever the store, the clock and the process do."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beanpole_ids.config import load
from beanpole_ids.errors import RuleError, StorageError
from beanpole_ids.rules.config import Config
from tests.examples import examples
from tests.unit.test_service import NOBODY, World, settle

RULES = """
offset = 0

[[rule]]
name = "day"
template = "{year:04}{yday:03}-{counter:04}"
cycle = "day"
batch = 6

[[rule]]
name = "short"
template = "{counter:02}"
batch = 4

[[rule]]
name = "checked"
template = "{year:02}{yday:03}{hour:02}-{counter:03}"
cycle = "hour"
check = "damm"
batch = 9

[[rule]]
name = "flake"
kind = "snowflake"
time_bits = 43
sequence_bits = 2
reserve_s = 1
"""

Event = (
    tuple[str, str, int]
    | float
    | Literal["hold", "release", "fail", "mend", "crash", "stop", "unload", "settle", "reload"]
)

EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.tuples(
        st.sampled_from(["day", "short", "checked", "flake"]),
        st.sampled_from("ab"),
        st.sampled_from([0, 0, 0, 1, 2, 5]),
    ),
    st.sampled_from(["hold", "release", "fail", "mend", "crash", "stop", "unload", "settle", "settle", "reload"]),
    st.sampled_from([0.001, 0.3, 1, -1, -400, 3_600, 86_400]),
)


CHANGES = (
    ("batch = 6", "batch = 2"),
    ("batch = 4", "batch = 1\nmaximum = 50"),
    ("batch = 9", "minimum = 3"),
    ("reserve_s = 1", "reserve_s = 2"),
    ("-{counter:04}", "-{counter:05}"),  # there is no way back from here
)


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> list[Config]:
    """Configurations that reloads take over, the first one first."""
    path = tmp_path_factory.mktemp("rules") / "rules.toml"
    text, found = RULES, list[Config]()
    for old, new in (("", ""), *CHANGES):
        assert old in text
        text = text.replace(old, new) if old else text
        path.write_text(text)
        found.append(load(path, known=found[-1].rules) if found else load(path))
    return found


class Node:
    """A service that ends and begins again with what its store has."""

    def __init__(self, *configs: Config) -> None:
        self.configs = configs
        self.config = configs[0]
        self.world = World(Path(), self.config)
        self.reloads = asyncio.Lock()
        self.reloading: list[asyncio.Task[None]] = []
        self.numbers: list[tuple[str, str, str]] = []
        self.in_c = 0

    def send(self, rule: str, app: str, count: int) -> None:
        fields = {"action": "get", "app_name": app, "rule_name": rule} | ({"count": count} if count else {})
        data = json.dumps(fields).encode()
        reply = self.world.service.fast.answer(data, self.world.now_s, self.world.seconds, NOBODY)
        if reply is None:
            self.world.service.receive(data, self.take)
        else:
            self.in_c += 1
            self.take(reply)

    def take(self, data: bytes) -> None:
        reply = json.loads(data)
        if reply["code"] == 0:
            made = reply["data"] if "count" in reply else [reply["data"]]
            # A snowflake is unique by itself, other numbers within their application.
            app = reply["app_name"] if reply["rule_name"] != "flake" else ""
            self.numbers += [(reply["rule_name"], app, number) for number in made]

    async def do(self, event: Event) -> None:
        world = self.world
        if isinstance(event, tuple):
            self.send(*event)
        elif isinstance(event, int | float):
            world.now_s += event
            world.seconds += max(event, 0)
        elif event in {"hold", "release"}:
            (world.store.open.clear if event == "hold" else world.store.open.set)()
        elif event in {"fail", "mend"}:
            world.store.error = StorageError("storage: gone") if event == "fail" else None
        elif event == "settle":
            await settle()
        elif event == "reload":
            self.reloading.append(asyncio.create_task(self.reload()))
        elif event == "unload":
            if world.store.open.is_set() and not world.store.error:
                await settle()
                await world.service.counters.unload_idle()
        else:
            await self.end(is_crash=event == "crash")
            self.begin()

    async def reload(self) -> None:
        """Take over the next configuration; the first one follows the last, and is refused if numbers could repeat."""
        async with self.reloads:
            place = self.configs.index(self.config)
            config = self.configs[(place + 1) % len(self.configs)]
            with contextlib.suppress(RuleError):
                await self.world.service.reload(config)
                self.config = config

    def begin(self) -> None:
        old, self.world = self.world, World(Path(), self.config)
        self.world.store.marks, self.world.now_s, self.world.seconds = dict(old.store.marks), old.now_s, old.seconds

    async def end(self, *, is_crash: bool) -> None:
        world = self.world
        await asyncio.gather(*self.reloading)
        if is_crash:
            world.keeper.cancel()
            await asyncio.gather(world.keeper, return_exceptions=True)
            return
        world.store.error = None
        world.store.open.set()
        world.service.counters.begin_stop()
        await world.keeper
        await world.service.counters.stop()
        for app in "ab":  # the socket is open until everything is given back
            self.send("day", app, 0)


SOME: list[Event] = [("day", "a", 0)] * 2


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=st.lists(EVENTS, max_size=60))
@example(events=[*SOME, "settle", *SOME, "stop", *SOME, "settle", *SOME])
@example(events=[*SOME, "settle", *SOME, 3_600.0, "unload", *SOME, "settle", *SOME])
@example(events=[*SOME, "settle", *(["reload", *SOME, "settle"] * 8), "crash", *SOME, "settle", *SOME])
@example(events=[*SOME, "hold", "reload", "settle", *SOME, "release", *SOME, "reload", *SOME, "crash", *SOME])
@example(events=[*SOME, "settle", "hold", *(SOME * 5), "crash", *SOME, "settle", *SOME])
def test_no_number_comes_twice(configs: list[Config], events: list[Event]) -> None:
    async def story() -> None:
        node = Node(*configs)
        for event in events:
            await node.do(event)
            for counter in node.world.service.counters.loaded.values():
                counter.check()
        await settle()
        await node.end(is_crash=False)
        assert not node.world.failures
        assert len(set(node.numbers)) == len(node.numbers)

    asyncio.run(story())


def test_most_of_them_are_answered_in_c(configs: list[Config]) -> None:
    """Otherwise the test above would show nothing."""

    async def story() -> None:
        node = Node(configs[0])
        for rule in ("day", "checked", "flake") * 20:
            node.send(rule, "a", 0)
            await settle()
        await node.end(is_crash=False)
        assert node.in_c > 45
        assert len(set(node.numbers)) == 60

    asyncio.run(story())


@pytest.mark.parametrize(("step", "offset", "count"), [(1, 0, 1), (3, 2, 2), (1_000_000, 7, 1), (64, 63, 5)])
def test_up_to_the_largest_number_each_comes_once(tmp_path: Path, step: int, offset: int, count: int) -> None:
    """Above it nothing has a sign: 64 bits hold what comes next, and it must not be taken for a small number."""
    top = 2**63 - 1
    low = (top // step - 40) * step
    rule = f'[[rule]]\nname = "top"\ntemplate = "{{counter:019}}"\nminimum = {low}\nbatch = 5\n'
    (tmp_path / "rules.toml").write_text(f"step = {step}\noffset = {offset}\n{rule}")
    config = load(tmp_path / "rules.toml")

    async def story() -> None:
        node = Node(config)
        for number in range(60):
            node.send("top", "a", count)
            await settle()
            if number % 9 == 8:
                await node.do("stop")
        await node.end(is_crash=False)
        given = [int(each) for _, _, each in node.numbers]
        all_ = list(range(low + offset, top + 1, step))
        assert given == all_[: len(all_) // count * count]
        assert node.in_c > 0

    asyncio.run(story())
