"""The way in C, beside the one in Python: two services get the same datagrams, one of them by C where it can."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.original import wire
from beanpole_ids.rules.config import Config
from tests.examples import examples
from tests.unit.test_service import NOBODY, World, in_a_world, play, settle

RULES = r"""
offset = 1
step = 3

[[rule]]
name = "day"
template = "{year:04}{month:02}{day:02}-{counter:04}"
cycle = "day"
batch = 20

[[rule]]
name = "salted"
template = "\"é{salt}\\{second:02}{counter:05}%d"
cycle = "never"

[[rule]]
name = "behind"
template = "{year:02}{yday:03}{counter:06}-{salt}"
cycle = "day"
minimum = 300

[[rule]]
name = "all"
template = "{counter:019}"
minimum = 9223372036854774306
maximum = 9223372036854775807

[[rule]]
name = "checked"
template = "{counter:06}"
check = "luhn"

[[rule]]
name = "letters"
template = "{counter:06}"
alphabet = "äbc"

[[rule]]
name = "code"
lua = "code.lua"

[[rule]]
name = "pair"
lua = "pair.lua"
batch = 30

[[rule]]
name = "flake"
kind = "snowflake"
"""

LUA = """
function min_counter() return 0 end
function max_counter() return 99999 end
function reset_seconds() return 86400 end
function create_id(counter, now, salt)
    if salt == "bad" then error("no") end
    if salt == "none" then return counter:generate_counter() and "" end
    local number = %s
    if number == 31 and salt == "x" then error("not 31") end
    return ("%%04d%%02d%%02d%%02d-%%05d"):format(now:year(), now:month(), now:day(), now:second(), number) .. salt
end
"""

NAMES = ["day", "salted", "behind", "all", "checked", "letters", "code", "pair", "flake"]
SIMPLE = '{"action":"get","app_name":"a","rule_name":"day"}'


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "rules.toml").write_text(RULES)
    (folder / "code.lua").write_text(LUA % "counter:generate_counter()")
    twice = "counter:generate_counter()\n    if number % 2 == 1 then counter:generate_counter() end"
    (folder / "pair.lua").write_text(LUA % twice)
    return load(folder / "rules.toml")


@dataclass
class Both:
    """A service that has C, and one that has not."""

    config: Config
    quick: World = field(init=False)
    plain: World = field(init=False)
    in_c: int = 0  # requests that C answered
    numbers: list[tuple[str, str, str]] = field(default_factory=list)  # with the rule and the application

    def __post_init__(self) -> None:
        self.quick, self.plain = World(Path(), self.config), World(Path(), self.config)

    async def send(self, data: bytes) -> bytes | None:
        """Send a datagram to both, and return the answer, which is the same."""
        quick: list[bytes] = []
        plain: list[bytes] = []
        service = self.quick.service
        reply = service.fast.answer(data, self.quick.now_s, self.quick.seconds, NOBODY)
        if reply is None:
            service.receive(data, quick.append)
        else:
            self.in_c += 1
            quick.append(reply)
        self.plain.service.receive(data, plain.append)
        await settle()
        assert quick == plain
        assert len(quick) <= 1
        for each in quick:
            assert len(each) <= limits.REPLY_BYTES_MAX
            self.note(each)
        return quick[0] if quick else None

    def note(self, data: bytes) -> None:
        """Keep the numbers of a reply, unless it may be a repetition."""
        reply = json.loads(data.decode("utf-8", "surrogateescape"))
        assert type(reply["code"]) is int
        if reply["code"] == 0 and reply["action"] in {"get", "create"} and "request_id" not in reply:
            made = reply["data"] if "count" in reply else [reply["data"]]
            app = reply["app_name"] if reply["rule_name"] != "flake" else ""
            self.numbers += [(reply["rule_name"], app, each) for each in made]

    def tick(self, seconds: float) -> None:
        for world in (self.quick, self.plain):
            world.now_s += seconds
            world.seconds += max(seconds, 0)

    def compare(self) -> None:
        """Assert that both have handed out, counted and remembered the same."""
        quick, plain = self.quick.service, self.plain.service
        assert quick.counts.by_name() == plain.counts.by_name()
        assert quick.refused == plain.refused
        assert self.quick.failures == self.plain.failures == []
        assert list(quick.window.answers) == list(plain.window.answers)
        assert quick.counters.loaded.keys() == plain.counters.loaded.keys()
        assert len(set(self.numbers)) == len(self.numbers)
        for service in (quick, plain):
            assert not service.waiting.queues
            assert service.waiting.count == 0
        for key, counter in quick.counters.loaded.items():
            counter.check()
            other = plain.counters.loaded[key]
            for name in ("last", "reserved", "time_s", "answered_count", "given_count"):
                assert getattr(counter, name) == getattr(other, name), (key, name)

    async def end(self) -> None:
        for world in (self.quick, self.plain):
            world.service.counters.begin_stop()
            await world.keeper
            await world.service.counters.stop()
            world.service.texts.close()


def both(config: Config, story: Callable[[Both], Coroutine[Any, Any, None]]) -> Both:
    """Play a test in two worlds, and compare what is left."""

    async def main() -> Both:
        pair = Both(config)
        try:
            await story(pair)
            pair.compare()
        finally:
            await pair.end()
        return pair

    return asyncio.run(main())


def request(rule: str = "day", **fields: object) -> bytes:
    fields = {"action": "get", "app_name": "a", "rule_name": rule} | fields
    return json.dumps(fields, ensure_ascii=False).encode()


# --- The same bytes ---------------------------------------------------------------------------------------------------

SPACES = st.sampled_from(["", "", "", " ", "\t\r\n ", "\v"])
TEXTS = st.sampled_from([
    "", "a", "bad", "none", "é", "€", "😀", "\x7f", "/", "\\n", "\\u0041", "\\u0000", "\\ud800", "\n", "A" * 256,
    "A" * 20_000,
])  # fmt: skip
NUMBERS = st.sampled_from(
    ["0", "1", "2", "17", "1000", "1001", "-1", "-0", "01", "00", "1.0", "1e3", "9" * 18, "9" * 19, "9" * 30, "-", "1x"]
)
OTHERS = st.sampled_from(
    ["true", "false", "null", "nul", "True", "[]", "{}", "[1]", "", "//", "1e999", "NaN", "9" * 5_000]
)
NESTED = st.tuples(st.integers(1, 3_000) | st.integers(90, 110), st.sampled_from(["[]", '{"a":}'])).map(
    lambda found: (found[1][:-1] * found[0]) + "1" + found[1][-1] * found[0]
)
VALUES = TEXTS.map(lambda text: f'"{text}"') | NUMBERS | OTHERS | NESTED
IDS = st.sampled_from(['"r1"', '"r2"', "1", "2", "true", '"' + "r" * 200 + '"'])
KEYS = (
    "action", "app_name", "rule_name", "salt", "count", "request_id", "seq", "code", "message", "data", "cookie", "é",
)  # fmt: skip


@st.composite
def datagrams(draw: st.DrawFn) -> bytes:
    """A request that is simple, or differs from such a one in little."""
    pairs = [
        ("action", draw(st.sampled_from(['"get"', '"get"', '"create"', '"monitor"']))),
        ("app_name", draw(st.sampled_from(['"a"', '"a"', '"é"', '"new"', '""', '"#"']))),
        ("rule_name", '"' + draw(st.sampled_from([*NAMES, "none"])) + '"'),
    ]
    pairs += draw(st.lists(st.tuples(st.just("request_id"), IDS), max_size=1))
    pairs += draw(st.lists(st.tuples(st.just("count"), st.sampled_from(["1", "2", "9"])), max_size=1))
    pairs += draw(st.lists(st.tuples(st.just("salt"), TEXTS.map(lambda text: f'"{text}"')), max_size=1))
    if draw(st.booleans()):
        pairs += draw(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=2))
    pairs = draw(st.permutations(pairs))
    space = draw(SPACES)
    text = space.join(["{", *(",".join(f'{space}"{key}"{space}:{space}{value}' for key, value in pairs),), "}"])
    data = text.encode("utf-8", "surrogatepass") + draw(st.sampled_from([b"", b"", b"", b" ", b"\n", b"x", b"{}"]))
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=2)) + data[at + draw(st.integers(0, 2)) :]
    return data


EVENTS = st.lists(datagrams() | st.sampled_from([0.001, 0.5, 1, -1, -5, 60, 86_400]), max_size=40)
WARM = [request(rule, app_name=app) for rule in NAMES for app in ("a", "é")]


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=EVENTS)
@example(events=[request("code", salt="x") for _ in range(100)])
@example(events=[request("pair", salt="x") for _ in range(100)])
@example(events=[request("all", count=9) for _ in range(100)])
def test_both_answer_with_the_same_bytes(config: Config, events: list[bytes | float]) -> None:
    async def story(pair: Both) -> None:
        for event in [*WARM, *events]:
            if isinstance(event, bytes):
                await pair.send(event)
            else:
                pair.tick(event)

    both(config, story)


@pytest.mark.parametrize(
    "data",
    [
        request(),
        request(seq=7, a=True, z=None, é=-12),
        request(request_id="r"),
        request(request_id=5, count=2),
        request("salted", salt="é/€😀"),
        request("behind", salt=""),
        request("behind", count=400),
        request("all"),
        request("checked"),
        request("checked", count=5),
        request("letters"),
        request("flake"),
        request("flake", count=3),
        b' {"rule_name" : "day",\r\n\t"app_name":"a" ,"action":"create"} \n'[1:],
    ],
)
def test_what_is_simple_is_answered_in_c(config: Config, data: bytes) -> None:
    async def story(pair: Both) -> None:
        for world in (pair.quick, pair.plain):  # so that the second time all numbers are there
            for rule in NAMES:
                await world.ask(rule_name=rule, count=1 if rule == "all" else 9)
        await pair.send(data)
        assert pair.in_c == 1

    both(config, story)


LEFT = [
    SIMPLE[:-1] + ',"data":"x"}',
    SIMPLE[:-1] + ',"code":1}',
    SIMPLE[:-1] + ',"message":"x"}',
    SIMPLE[:-1] + ',"cookie":7}',
    SIMPLE[:-1] + ',"action":"get"}',
    SIMPLE[:-1] + ',"x":1,"x":1}',
    SIMPLE[:-1] + ',"x":"\\n"}',
    SIMPLE[:-1] + ',"x":1.5}',
    SIMPLE[:-1] + ',"x":[]}',
    SIMPLE[:-1] + ',"x":1,}',
    SIMPLE[:-1] + ',"count":0}',
    SIMPLE[:-1] + ',"count":1001}',
    SIMPLE[:-1] + ',"count":-1}',
    SIMPLE[:-1] + ',"count":"1"}',
    SIMPLE[:-1] + ',"salt":"' + 256 * "x" + '"}',
    SIMPLE[:-1] + ',"salt":1}',
    SIMPLE[:-1] + ',"request_id":true}',
    SIMPLE[:-1] + "".join(f',"x{each}":1' for each in range(30)) + "}",
    SIMPLE[:-1] + ',"x":"' + 20_000 * "x" + '","y":"' + 500 * "y" + '"}',
    SIMPLE.replace("get", "monitor"),
    SIMPLE.replace('"action":"get",', ""),
    SIMPLE + "x",
    " " + SIMPLE,
    "",
    "{",
    "{}",
]


@pytest.mark.parametrize("data", LEFT, ids=range(len(LEFT)))
def test_what_is_not_simple_is_the_services(config: Config, data: str) -> None:
    async def story(pair: Both) -> None:
        await pair.send(SIMPLE.encode())
        await pair.send(data.encode())
        assert pair.in_c == 0

    both(config, story)


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x8f\xbf\xbf"]
)
def test_bytes_that_are_no_utf_8_are_the_services(config: Config, bad: bytes) -> None:
    async def story(pair: Both) -> None:
        await pair.send(request())
        assert bad in (await pair.send(request(seq="?").replace(b"?", bad)) or b"")
        assert pair.in_c == 0

    both(config, story)


def test_each_beginning_of_a_request_is_read_within_its_bytes(config: Config) -> None:
    """What follows a datagram in memory is not read: each part of one is dropped by both."""
    data = request("salted", salt="é", count=2, request_id=12, seq=True)

    async def story(pair: Both) -> None:
        await pair.send(request("salted"))
        for size in range(len(data)):
            assert await pair.send(data[:size]) is None
        assert pair.in_c == 0
        await pair.send(data)
        assert pair.in_c == 1

    both(config, story)


# --- Numbers ----------------------------------------------------------------------------------------------------------


def answer(world: World, data: bytes) -> dict[str, Any] | None:
    reply = world.service.fast.answer(data, world.now_s, world.seconds, NOBODY)
    return wire.parse(reply) if reply is not None else None


@in_a_world
async def test_only_what_is_reserved_is_handed_out(world: World) -> None:
    await world.ask()
    world.store.open.clear()
    made = [answer(world, request()) for _ in range(12)]
    assert [each["data"][9:] for each in made[:9] if each] == [f"{each:04}" for each in range(1, 10)]
    assert made[9:] == [None] * 3


@in_a_world
async def test_who_waits_comes_before_who_came_later(world: World) -> None:
    """Otherwise many requests for one number each would starve one for more than is left."""
    await world.ask()
    world.store.open.clear()
    world.send(count=12)
    assert answer(world, request()) is None
    world.store.open.set()
    await settle()
    assert len(world.replies[-1]["data"]) == 12


@in_a_world
async def test_a_reload_is_seen_by_the_next_request(world: World) -> None:
    await world.ask()
    assert answer(world, request()) is not None
    world.service.fast.forget()
    assert answer(world, request()) is None
    assert (await world.ask())["data"].endswith("0002")
    assert answer(world, request()) is not None


@in_a_world
async def test_a_counter_that_is_unloaded_gives_nothing_more(world: World) -> None:
    """Its unused range is given back, so a number of it would come twice, whoever still has the counter."""
    await world.ask()
    assert answer(world, request()) is not None
    counters = world.service.counters
    counter = next(iter(counters.loaded.values()))
    world.now_s += 3600
    world.seconds += 3600
    await counters.unload_idle()
    assert not counters.loaded
    assert counter.offer()[1] == 0
    assert answer(world, request()) is None
    assert (await world.ask())["data"].endswith("0002")


def test_a_counter_that_all_share_is_for_those_whom_the_rule_takes(tmp_path: Path) -> None:
    """A name that nobody has used is served in C, too, unless the rule or the service refuses it."""
    rule = '[[rule]]\nname = "{}"\nkind = "snowflake"\n'
    bound = rule.format("bound") + 'apps = ["a", "\u00e9"]\n'
    (tmp_path / "flakes.toml").write_text("offset = 0\n" + rule.format("flake") + bound)

    async def story(pair: Both) -> None:
        for name in ("flake", "bound"):
            await pair.send(request(name))
        known = pair.in_c
        for app in ("new", "\u00e9", "$(*;=?@", "A" * 255, ""):
            await pair.send(request("flake", app_name=app))
        assert pair.in_c == known + 5
        for app in ("a b", "#", "%", "&", "'", "<", ">", "\x7f" * 256):
            assert b'"code":-1' in (await pair.send(request("flake", app_name=app)) or b"")
        await pair.send(request("bound", app_name="\u00e9"))
        for app in ("b", ""):
            assert b'"code":-1' in (await pair.send(request("bound", app_name=app)) or b"")
        assert pair.in_c == known + 6

    both(load(tmp_path / "flakes.toml"), story)


@in_a_world
async def test_a_request_that_does_not_fit_takes_no_number(world: World) -> None:
    await world.ask(rule_name="day")
    last = next(iter(world.service.counters.loaded.values())).last
    long = request(count=9, **{f"x{each}": "x" * 1_000 for each in range(15)})
    assert answer(world, long) is not None
    assert next(iter(world.service.counters.loaded.values())).last == last + 9


@pytest.mark.parametrize("step", [1, 7, 9_999, 10_000, 123_456])
@pytest.mark.parametrize("width", [3, 4, 5, 12])
def test_each_number_of_a_large_request_is_the_one_before_it_and_the_step(
    tmp_path: Path, step: int, width: int
) -> None:
    (tmp_path / "rules.toml").write_text(
        f'step = {step}\n[[rule]]\nname = "day"\ntemplate = "<{{counter:0{width}}}{{salt}}>"\nbatch = 100000\n'
    )
    most = (10**width - 1) // step

    async def story(world: World) -> None:
        await world.ask(salt="s")
        last = 0
        for count in (1, 2, 700, 1000, 1000, 1000) * 3:
            if last + count > most:
                break
            made = answer(world, request(salt="s", count=count))
            if made is None:  # what is reserved is not enough
                made = await world.ask(salt="s", count=count)
            assert made["data"] == [f"<{(last + each) * step:0{width}}s>" for each in range(1, count + 1)]
            last += count

    play(tmp_path, story, load(tmp_path / "rules.toml"))


def test_texts_made_ahead_take_no_numbers(config: Config) -> None:
    """A second or a salt later the block is dropped, and the next number comes."""

    async def story(pair: Both) -> None:
        numbers = []
        for turn in range(60):
            found = await pair.send(request("code", salt="s" if turn % 20 < 15 else "t"))
            numbers.append(json.loads(found or b"{}")["data"][11:16])
            if turn % 10 == 9:
                pair.tick(1)
        assert numbers == [f"{1 + 3 * each:05}" for each in range(60)]
        assert pair.in_c > 20

    both(config, story)


@pytest.mark.parametrize(("rule", "count"), [("code", 1), ("code", 5), ("pair", 1), ("pair", 3)])
def test_text_that_is_made_ahead_is_given_in_c(config: Config, rule: str, count: int) -> None:
    async def story(pair: Both) -> None:
        for _ in range(9):
            await pair.send(request(rule, salt="s", count=count))
        assert pair.in_c > 4

    both(config, story)
