"""Texts of rules in Lua that another process makes: it is slow, dies or is frozen, as a test wants."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import pytest

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.rules.config import Config
from beanpole_ids.rules.lua import LuaRule
from beanpole_ids.texts import Texts, start_lua
from tests.unit.test_service import LuaInside, World, settle, until

RULE = """
function min_counter() return 0 end
function max_counter() return 9999 end
function reset_seconds() return 0 end
function create_id(counter, now, salt)
    return name .. counter:generate_counter() .. "-" .. now:second() .. (salt ~= "" and ("-" .. salt) or "")
end
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("rules")
    for name in "xy":
        (folder / f"{name}.lua").write_text(f"name = '{name}'" + RULE)
    (folder / "rules.toml").write_text("".join(f'[[rule]]\nname = "{name}"\nlua = "{name}.lua"\n' for name in "xy"))
    return load(folder / "rules.toml")


class Held(LuaInside):
    """A process that answers when a test lets it."""

    def __init__(self, sent: list[tuple[str, int]]) -> None:
        super().__init__()
        self.sent = sent  # the rules of messages, and how many calls they had
        self.held: tuple[LuaRule, list[list[Any]]] | None = None
        self.forgotten: Iterable[int] = ()

    def send(self, rule: LuaRule, calls: list[list[Any]], forgotten: Iterable[int] = ()) -> None:
        assert self.held is None, "one message at a time"
        self.sent.append((rule.name, len(calls)))
        self.held, self.forgotten = (rule, calls), forgotten

    def let(self, most: int = 99) -> None:
        """Answer, the first calls at least."""
        assert self.held
        rule, calls = self.held
        self.held = None
        super().send(rule, calls[:most], self.forgotten)


class Story:
    """A service with such processes, the last of which is at work."""

    def __init__(self, config: Config) -> None:
        self.sent: list[tuple[str, int]] = []
        self.started: list[Held] = []
        self.world = World(Path(), config, self.start)

    def start(self) -> Held:
        self.started.append(Held(self.sent))
        return self.started[-1]

    @property
    def texts(self) -> Texts:
        return self.world.service.texts

    async def send(self, rule: str, app_name: str = "a", **fields: object) -> None:
        self.world.send("", rule_name=rule, app_name=app_name, **fields)
        await settle()

    async def let(self, most: int = 99) -> None:
        self.started[-1].let(most)
        await settle()

    def numbers(self) -> list[Any]:
        return [each.get("data", each["message"]) for each in self.world.replies]


def in_a_story(test: Callable[[Story], Coroutine[Any, Any, None]]) -> Callable[[Config], None]:
    """Makes a test of a coroutine, which gets a story of its own."""

    async def main(config: Config) -> None:
        story = Story(config)
        try:
            await test(story)
        finally:
            story.texts.close()
            story.world.keeper.cancel()

    def run(config: Config) -> None:
        asyncio.run(main(config))

    return run


@in_a_story
async def test_rules_take_turns(story: Story) -> None:
    """Forty counters of a slow rule delay those of another rule by one message."""
    for number in range(40):
        await story.send("x", app_name=f"n{number}")
    await story.send("y")
    while story.started[-1].held:
        await story.let()
    assert story.sent == [("x", 1), ("x", limits.LUA_CALLS_MAX), ("y", 1), ("x", limits.LUA_CALLS_MAX), ("x", 7)]
    assert sorted(story.numbers()) == ["x0-0"] * 40 + ["y0-0"]


@in_a_story
async def test_calls_for_which_there_was_no_time_are_made_again(story: Story) -> None:
    for app in "abcde":
        await story.send("x", app_name=app)
    await story.let()
    await story.let(most=1)
    await story.let()
    assert story.sent == [("x", 1), ("x", 4), ("x", 3)]
    assert story.numbers() == ["x0-0"] * 5


@in_a_story
async def test_requests_of_several_salts_share_a_call(story: Story) -> None:
    await story.send("x")
    for salt in "abcabc":
        await story.send("x", salt=salt, count=2)
    await story.let()
    await story.let()
    assert story.sent == [("x", 1), ("x", 1)]
    assert story.numbers()[:3] == ["x0-0", ["x1-0-a", "x2-0-a"], ["x3-0-b", "x4-0-b"]]
    assert story.numbers()[6] == ["x11-0-c", "x12-0-c"]


@in_a_story
async def test_text_shows_the_second_in_which_it_is_given(story: Story) -> None:
    await story.send("x")
    story.world.now_s += 1
    await story.let()
    assert not story.numbers()
    await story.let()
    assert story.numbers() == ["x0-1"]


@in_a_story
async def test_call_that_ends_the_process_is_refused_and_no_other(story: Story) -> None:
    await story.send("y")
    for app, salt in (("a", ""), ("b", "worse"), ("c", "")):
        await story.send("x", app_name=app, salt=salt)
    while len(story.numbers()) < 4:
        if story.started[-1].held:
            story.started[-1].let()
        story.world.seconds += 1  # the process may be started again
        await settle()
    stopped = "system error: rule 'x' was stopped: too much time"
    assert sorted(story.numbers()) == [stopped, "x0-0", "x0-0", "y0-0"]
    assert story.texts.stopped_count == 2
    assert story.world.service.counts.numbers == 3


@in_a_story
async def test_stop_that_took_longer_than_a_second_is_said(story: Story) -> None:
    await story.send("x", salt="worse")
    story.world.now_s += 1
    story.world.seconds += limits.LUA_WAIT_MS / 1000
    await story.let()
    assert story.numbers() == ["system error: rule 'x' was stopped: too much time"]


@in_a_story
async def test_process_is_started_again_after_a_pause(story: Story) -> None:
    """One that ends again and again must not take all of a core."""
    await story.send("x", salt="worse")
    await story.let()
    assert story.numbers() == ["system error: rule 'x' was stopped: too much time"]
    await story.send("x")
    assert len(story.started) == 1
    await until(lambda: len(story.started) == 2)


@in_a_story
async def test_request_that_waits_too_long_is_refused(story: Story) -> None:
    """Its client has sent it again, or has gone; and those behind it have their turn."""
    await story.send("x")
    await story.send("x", salt="a")
    story.world.now_s += 1
    story.world.seconds += limits.LUA_WAIT_MS / 1000
    await story.send("x", salt="b")
    await story.let()
    assert story.numbers() == ["system error: rule 'x' is too slow"] * 2
    await story.let()
    assert story.numbers()[2:] == ["x0-1-b"]


@in_a_story
async def test_reserved_numbers_are_given_while_the_database_is_away(story: Story) -> None:
    await story.send("x")
    await story.let()
    story.world.store.open.clear()
    await story.send("x", salt="a")
    await story.send("y")
    await story.let()
    assert story.numbers() == ["x0-0", "x1-0-a"]


@in_a_story
async def test_stop_answers_those_that_wait(story: Story) -> None:
    await story.send("x")
    story.world.service.counters.begin_stop()
    await settle()
    assert not story.world.keeper.done()
    await story.send("x")
    await story.let()
    await story.world.keeper
    assert story.numbers() == ["storage: stopping", "x0-0"]


@in_a_story
async def test_texts_go_on_before_they_are_used_up(story: Story) -> None:
    """Nobody waits for the process where numbers are asked for quickly."""
    for number in range(20):
        await story.send("x")
        while story.started[-1].held:
            await story.let()
        assert len(story.numbers()) == number + 1
    assert story.numbers() == [f"x{number}-0" for number in range(20)]
    assert len(story.sent) < 9


@pytest.mark.parametrize("ends", ["killed", "frozen"])
def test_real_process(config: Config, ends: str) -> None:
    """It makes numbers, and another one does when it has ended."""

    async def main() -> None:
        children = []

        def start() -> Any:  # noqa: ANN401 - a `LuaChild`
            children.append(start_lua())
            return children[-1]

        world = World(Path(), config, start)
        world.send(rule_name="x")
        await until(lambda: len(world.replies) == 1)
        children[-1].process.kill() if ends == "killed" else world.service.texts._fail()
        world.send(rule_name="y", count=3)
        await until(lambda: len(world.replies) == 2)
        assert [each["data"] for each in world.replies] == ["x0-0", ["y0-0", "y1-0", "y2-0"]]
        assert len(children) == 2
        world.keeper.cancel()
        world.service.texts.close()
        assert all(each.process.returncode is not None for each in children)

    asyncio.run(main())
