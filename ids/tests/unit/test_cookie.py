"""Addresses that may be forged: no long reply goes to them, and no number is spent for one."""

import json
from pathlib import Path
from typing import Any

import pytest

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.cookie import Cookies
from beanpole_ids.origin import Origin
from beanpole_ids.rules.limit import TRUSTED
from tests.unit.test_service import World, in_a_world, play, settle

STRANGER = "203.0.113.5"


async def ask(world: World, source: str = STRANGER, data: bytes | None = None, **fields: object) -> dict[str, Any]:
    """The reply to a request that comes from some address; {} if there is none. It must not be long."""
    if data is None:
        data = json.dumps({"action": "get", "app_name": "a", "rule_name": "day"} | fields).encode()
    sent: list[bytes] = []
    world.service.receive(data, sent.append, source, is_trusted=world.service.cookies.is_trusted(source))
    await settle()
    assert len(sent) <= 1
    if not sent:
        return {}
    if "cookie" not in fields and source == STRANGER:
        assert len(sent[0]) <= 3 * len(data)
    reply: dict[str, Any] = json.loads(sent[0])
    return reply


@in_a_world
async def test_many_numbers_need_a_cookie(world: World) -> None:
    """63 bytes with another's address sent 21 KB there."""
    asked = await ask(world, count=1000, seq="s")
    cookie = asked.pop("cookie")
    assert asked == {
        "action": "get",
        "app_name": "a",
        "code": -6,
        "count": 1000,
        "message": "cookie: send the request again with this cookie",
        "rule_name": "day",
        "seq": "s",
    }
    assert not world.service.counters.loaded, "nothing was loaded for it"
    given = await ask(world, count=1000, cookie=cookie)
    assert (given["code"], len(given["data"]), given["cookie"]) == (0, 1000, cookie)
    assert (await ask(world, count=2, cookie=cookie[::-1]))["code"] == -6
    assert (await ask(world, "203.0.113.6", count=2, cookie=cookie))["code"] == -6, "another address"
    assert world.service.refused == {("day", -6): 3}


@in_a_world
async def test_one_number_needs_none(world: World) -> None:
    await world.ask()
    assert (await ask(world))["data"].endswith("-0001")
    assert (await ask(world, count=1))["data"][0].endswith("-0002")
    assert (await ask(world, "10.1.2.3", count=1000))["code"] == 0
    assert (await ask(world, "", count=2))["code"] == -6, "an unknown address is no trusted one"


def test_a_number_whose_reply_is_long_is_not_spent(tmp_path: Path) -> None:
    (tmp_path / "long.lua").write_text("""
        function min_counter() return 0 end
        function max_counter() return 999 end
        function reset_seconds() return 0 end
        function create_id(counter, now, salt) return ("x"):rep(500) .. ("%03d"):format(counter:generate_counter()) end
    """)
    (tmp_path / "long.toml").write_text('[[rule]]\nname = "day"\nlua = "long.lua"')

    async def story(world: World) -> None:
        await world.ask()
        asked = await ask(world)
        assert asked["code"] == -6
        assert (await ask(world, request_id="r"))["code"] == -6
        given = await ask(world, cookie=asked["cookie"], request_id="r")
        assert given["data"].endswith("x001")
        assert (await ask(world, request_id="r"))["code"] == -6, "a repetition is as long"

    play(tmp_path, story, load(tmp_path / "long.toml"))


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"action":"get"}',
        b'{"action":"monitor","app_name":"a","rule_name":"day"}',
        b'{"action":"monitor","app_name":"unused","rule_name":"day"}',
        b'{"action":"get","app_name":"a","rule_name":"none"}',
        b'{"action":"get","app_name":"a","rule_name":"day","count":9}',
        b'{"action":"get","app_name":"a","rule_name":"day","count":1,"x":"' + b"\x01" * 200 + b'"}',
        b'{"action":"get","app_name":"a","rule_name":"day","count":5,"x":"' + b"\x01" * 200 + b'"}',
        b'{"action":"get","app_name":"a b","rule_name":"day"}',
        b'{"a":' + b"[" * 200 + b"]" * 200 + b"}",
        b"\0",
        b"",
    ],
)
@in_a_world
async def test_no_reply_to_a_stranger_is_three_times_as_long(world: World, data: bytes) -> None:
    """`ask` looks at each."""
    await world.ask()
    reply = await ask(world, data=data)
    assert reply or len(data) < 10


def test_a_cookie_is_good_for_an_hour_or_two() -> None:
    seconds = 0.0
    cookies = Cookies(TRUSTED, lambda: seconds)
    cookie = cookies.make(STRANGER)
    assert cookies.is_good(cookie, STRANGER)
    seconds = 2 * limits.COOKIE_S - 0.1
    assert cookies.is_good(cookie, STRANGER)
    assert cookies.make(STRANGER) != cookie
    seconds = 2 * limits.COOKIE_S
    assert not cookies.is_good(cookie, STRANGER)
    assert not Cookies(TRUSTED, lambda: 0.0).is_good(cookie, STRANGER), "each start has a key of its own"
    for other in (None, 1, "", "é" * 16, ["x"], cookie + "0", cookie.upper() + " "):
        assert not cookies.is_good(other, STRANGER)


@pytest.mark.parametrize(
    ("source", "is_trusted"),
    [
        ("127.0.0.1", True),
        ("10.255.0.1", True),
        ("172.31.0.1", True),
        ("172.32.0.1", False),
        ("192.168.7.7", True),
        ("169.254.1.1", True),
        ("8.8.8.8", False),
        ("::1", True),
        ("fd00::1", True),
        ("fe80::1%eth0", True),
        ("2001:db8::1", False),
        ("::ffff:192.168.1.1", True),
        ("::ffff:8.8.8.8", False),
        ("", False),
        ("x", False),
    ],
)
def test_which_networks_are_trusted(source: str, is_trusted: bool) -> None:
    cookies = Cookies(TRUSTED, lambda: 0.0)
    assert cookies.is_trusted(source) is is_trusted
    cookie = cookies.make(source)
    cookies = cookies.trusting(())
    assert not cookies.is_trusted(source)
    assert cookies.is_good(cookie, source)


@in_a_world
async def test_cookie_is_seen_on_the_fast_path(world: World) -> None:
    """Requests with a cookie cost three to four times as much as others, as C answered none of them."""
    service, seconds = world.service, world.seconds
    cookie = (await ask(world, count=2))["cookie"]
    await ask(world, count=2, cookie=cookie)
    stranger, other = (Origin(b"", text, service.cookies) for text in (STRANGER, "203.0.113.6"))

    def is_fast(origin: Origin, shown: object, seconds: float = seconds) -> bool:
        fields = {"action": "get", "app_name": "a", "cookie": shown, "count": 3, "rule_name": "day"}
        data = json.dumps(fields).encode()
        reply = service.fast.answer(data, world.now_s, seconds, origin)
        assert reply is None or json.loads(reply).items() >= fields.items(), "it comes back as all that was sent"
        return reply is not None

    assert is_fast(stranger, cookie)
    assert not is_fast(other, cookie)
    for bad in (cookie[:-1], cookie + "0", cookie[:-1] + "?", "", 7, None, [cookie]):
        assert not is_fast(stranger, bad)
    assert is_fast(stranger, cookie, seconds + limits.COOKIE_S)
    assert not is_fast(stranger, cookie, seconds + 2 * limits.COOKIE_S)
