"""Whatever a datagram has, the service goes on, answers at most once, and repeats nothing.

Datagrams are built from what may hurt: names and numbers at their limits and beyond, nesting, bytes that are no text,
keys twice, requests that are almost right, and right ones between them.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beanpole_ids import limits
from tests.unit.test_service import World, configure, settle

STRINGS = st.sampled_from(
    ["", "a", "day", "pair", "none", "A" * 255, "A" * 256, "A" * 20_000, "\\u0000", "\\ud800", "😀"]
)
NUMBERS = st.sampled_from(["0", "1", "-1", "1000", "1001", "1e3", "1e999", "-0.0", "9" * 30, "9" * 5_000, "0x1", "NaN"])
NESTED = st.tuples(st.integers(1, 3_000) | st.integers(900, 1_100), st.sampled_from(["[]", '{"a":}'])).map(
    lambda found: (found[1][:-1] * found[0]) + "1" + found[1][-1] * found[0]
)
VALUES = (
    STRINGS.map(lambda text: f'"{text}"') | NUMBERS | NESTED | st.sampled_from(["null", "true", "[]", "{}", "", "//"])
)
KEYS = ("action", "app_name", "rule_name", "salt", "count", "request_id", "seq", "code", "message", "data", "a")
RIGHT = {"action": '"get"', "app_name": '"a"', "rule_name": '"day"'}


def text_of(changes: dict[str, str], twice: dict[str, str]) -> bytes:
    """An object in which some values are others, and some keys are there twice."""
    pairs = [*(RIGHT | changes).items(), *twice.items()]
    return ("{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}").encode("utf-8", "surrogatepass")


FIELDS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)
OBJECTS = st.builds(text_of, FIELDS, st.just({}) | FIELDS)
DAMAGE = st.tuples(OBJECTS, st.integers(0, 200), st.binary(max_size=4)).map(
    lambda found: found[0][: found[1]] + found[2] + found[0][found[1] + 1 :]
)
DATAGRAMS = st.lists(OBJECTS | DAMAGE | st.binary(max_size=50), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(datagrams=DATAGRAMS)
def test_any_datagram(tmp_path: Path, datagrams: list[bytes]) -> None:
    """Each gets one reply or none, and each number comes once."""
    config = configure(tmp_path)

    async def story() -> None:
        world = World(tmp_path, config)
        numbers: list[tuple[str, str, str]] = []
        try:
            for number, data in enumerate([*datagrams, text_of({}, {})]):
                replies: list[bytes] = []
                # Half of the requests wait for the store, as those of a new application do.
                sent = data.replace(b'"a"', b'"a%d"' % number) if number % 2 else data
                world.service.receive(sent, replies.append)
                await settle()
                assert len(replies) <= 1, sent
                if not replies:
                    continue
                assert len(replies[0]) <= limits.REPLY_BYTES_MAX
                reply: dict[str, Any] = json.loads(replies[0].decode("utf-8", "surrogateescape"))
                assert type(reply["code"]) is int
                is_get = str(reply.get("action")) in {"get", "create"}
                if reply["code"] == 0 and is_get and "request_id" not in reply:
                    made = reply["data"] if "count" in reply else [reply["data"]]
                    numbers += [(reply["rule_name"], reply["app_name"], each) for each in made]
            assert len(set(numbers)) == len(numbers)
            assert replies, "the last one was right"
            assert json.loads(replies[0])["code"] == 0
            assert not world.failures
            assert not world.service.waiting.queues
            assert world.service.waiting.count == 0
            for counter in world.service.counters.loaded.values():
                counter.check()
        finally:
            world.service.counters.begin_stop()
            await world.keeper

    asyncio.run(story())
