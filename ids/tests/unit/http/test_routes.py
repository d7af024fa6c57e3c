"""Routes without HTTP: every request is answered once, whatever it is."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import uvloop

from beanpole_ids.errors import RuleError, StorageError
from beanpole_ids.http.asked import Asked
from beanpole_ids.http.guard import Guard
from beanpole_ids.http.numbers import Plan
from beanpole_ids.http.openapi import document
from beanpole_ids.http.response import PROBLEMS, Response
from beanpole_ids.http.routes import Routes
from beanpole_ids.http.serving import Web
from beanpole_ids.rules.config import LOOPBACK, Config
from beanpole_ids.rules.sequence import Key
from beanpole_ids.service import Service
from tests.unit.http.test_watching import Watched
from tests.unit.test_admission import configure
from tests.unit.test_service import in_a_world, settle, until

PIECES = [
    *(
        "v1",
        "ids",
        "counters",
        "day",
        "pair",
        "none",
        "a",
        "",
        "health",
        "metrics",
        "docs",
        "..",
        "é",
        "\ud800",
        "\x7f",
    ),
    *("%", "%zz", "%00", "%ff", "%2F", "//", "http://h", "?", "&", "=", "+", ";", "#", "[", "]", "@", ":"),
    *("count=1", "count=9999", "count=" + "9" * 30, "salt=bad", "request_id=x", "request_id=", "x" * 300),
    quote("größe"),
]


class Api(Watched):
    """A service with routes, and the responses that came."""

    def __init__(self, folder: Path, config: Config | None = None) -> None:
        super().__init__(folder, config)
        self.reloaded: dict[str, object] | RuleError = {"added": [], "changed": ["day"], "removed": [], "settings": []}
        self.routes = self.routes_of(self.service)

    def routes_of(self, service: Service) -> Routes:
        return Routes(replace(self.metrics, service=service), Guard({"ids.example"}, LOOPBACK), self.reload)

    async def reload(self) -> dict[str, object]:
        if isinstance(self.reloaded, RuleError):
            raise self.reloaded
        return self.reloaded

    async def get(self, target: str, method: str = "GET", source: str = "127.0.0.1") -> Response:
        found: list[Response] = []
        path, _, query = target.partition("?")
        asked = Asked(method=method, path=path, query=query, source=source, host="127.0.0.1:11311", is_marked=True)
        self.routes.handle(asked, found.append)
        await until(lambda: bool(found))
        assert len(found) == 1, f"{method} {target!r} has {len(found)} answers"
        return found[0]


def play(folder: Path, story: Callable[[Api], Awaitable[None]]) -> None:
    """Plays a test in a world of its own."""

    async def main() -> None:
        api = Api(folder)
        await story(api)
        api.keeper.cancel()

    asyncio.run(main())


in_an_api = partial(in_a_world, play=play)


class Broken(Service):
    """A service that raises where none does."""

    def receive(self, *_: object, **__: object) -> None:
        raise RecursionError("too deep")


@in_an_api
async def test_error_of_ours_is_an_answer(world: Api) -> None:
    broken = Broken(world.service.config, world.store, world.read_clock, lambda: 0.0, world.failures.append)
    world.routes = world.routes_of(broken)
    assert (await world.get("/v1/ids/day/a")).status == 500
    assert broken.counts.failed == len(world.failures) == 1


def test_limits_and_rules_of_others(tmp_path: Path) -> None:
    """Over TCP a client has proven its address, so none is asked for a cookie."""

    async def main() -> None:
        limit = '[[limit]]\nrule = "day"\nrate = 8\nburst = 5\n'
        api = Api(tmp_path, configure(tmp_path, "trusted_networks = []\n" + limit))
        assert len(json.loads((await api.get("/v1/ids/day/a?count=5", source="203.0.113.5")).body)["ids"]) == 5
        limited = await api.get("/v1/ids/day/a?count=4")
        found = json.loads(limited.body)
        assert (limited.status, found["code"], found["retry_s"]) == (429, -5, 0.5)
        assert found["detail"] == "limit: rule 'day': 8 numbers a second"
        assert ("Retry-After", "1") in limited.fields
        never = await api.get("/v1/ids/day/a?count=6")
        assert (never.status, "retry_s" in json.loads(never.body)) == (429, False)
        assert "Retry-After" not in dict(never.fields)
        other = await api.get("/v1/ids/bound/other")
        assert (other.status, json.loads(other.body)["detail"]) == (403, "the rule is not for this application")
        assert (await api.get("/v1/ids/bound/shop")).status == 200
        api.keeper.cancel()

    asyncio.run(main())


@in_an_api
async def test_what_is_refused_counts_for_its_path(world: Api) -> None:
    for pattern, targets in {
        "/v1/ids/{rule}/{app}": ("/v1/ids/day/a?count=0", "/v1/ids/day/a?x=1", "/v1/ids/%ff/a", "/v1/ids/%00/a"),
        "/v1/counters/{rule}/{app}": ("/v1/counters/day/a?count=1",),
        "/v1/counters/{rule}": ("/v1/counters/day?limit=0", "/v1/counters/%00"),
        "/v1/rules/{rule}": ("/v1/rules/day?x=1",),
        "/v1/rules": ("/v1/rules?x=1",),
        "/health": ("/health?x",),
    }.items():
        for target in targets:
            assert (await world.get(target)).status == 400
        assert world.routes.counts.pop((pattern, "400")) == len(targets)
    assert (await world.get("/v2")).status == 404
    assert world.routes.counts == {("unknown", "404"): 1}


def test_pages_of_counters_whatever_their_names_are(tmp_path: Path) -> None:
    """A name may be no UTF-8; the page after it begins behind its bytes."""
    names = [b"\x80", b"a", b"b/c", b"g\xc3\xb6", b"\xff\xfe"]

    async def main() -> None:
        api = Api(tmp_path)
        for name in names:
            api.service.receive(b'{"action":"get","app_name":"%b","rule_name":"day"}' % name, lambda _: None)
            await settle()
        found: list[str] = []
        after: Any = ""
        for _ in names:
            target = f"/v1/counters/day?limit=1&after={quote(after, safe='', errors='surrogateescape')}"
            page = json.loads((await api.get(target)).body)
            found += [each["app"] for each in page["counters"]]
            after = page["next"]
        assert after is None
        expected = sorted(names)
        assert [each.encode("utf-8", "surrogateescape") for each in found] == expected
        api.keeper.cancel()

    asyncio.run(main())


@in_an_api
async def test_random_targets_are_answered_once(world: Api) -> None:
    chance = random.Random(5)
    statuses = set()
    for _ in range(3_000):
        parts = chance.choices(PIECES, k=chance.randrange(1, 6))
        target = "/" + chance.choice(["/", "?", "&", ""]).join(parts)
        if chance.random() < 0.5:
            target = "/v1/ids/day/" + "".join(parts)
        response = await world.get(target, chance.choice(["GET", "HEAD", "POST", "PUT", "é"]))
        statuses.add(response.status)
        if response.kind.endswith("json") and response.body:
            said = json.loads(response.body)
            assert response.kind == "application/json" or PROBLEMS[said["type"].rpartition("#")[2]]
    assert statuses == {200, 303, 400, 404, 405}


def test_reply_that_is_cut_out_is_the_one_that_is_read(tmp_path: Path) -> None:
    """Whatever way a request goes, the response is the same."""

    class Slow(Service):
        def answer_quickly(self, data: bytes, source: str) -> None:  # noqa: ARG002 - the signature of a service
            return None

    async def main() -> None:
        api, other = Api(tmp_path), Api(tmp_path)
        other.service.__class__ = Slow
        queries = ["", "?count=3", "?request_id=r", "?request_id=r", "?salt=x", "?salt=%22%5C%0A", "?count=11"]
        for _ in range(2):  # the first answer teaches the fast path
            for query in queries:
                for app in ("a", "gr%C3%B6%C3%9Fe", "b%5C", "c%2F%2Fd", "bad%20name"):
                    target = f"/v1/ids/day/{app}{query}"
                    one, two = await api.get(target, "POST"), await other.get(target, "POST")
                    assert one == two, target
                    assert json.loads(one.body).get("rule") == ("day" if one.status == 200 else None)
        quick = api.service.answer_quickly(Plan("day", "a", {}).data, "")
        assert quick is not None, "the fast path is used"
        for each in (api, other):
            each.keeper.cancel()

    asyncio.run(main())


def test_number_that_is_no_utf8_makes_good_json() -> None:
    reply = b'{"action":"get","app_name":"a","code":0,"count":1,"data":["x\xff"],"message":"success","rule_name":"day"}'
    body = Plan("day", "a", {}).response(reply).body
    assert json.loads(body) == {"rule": "day", "app": "a", "ids": ["x\udcff"]}
    assert body.isascii()


@in_an_api
async def test_counters_are_listed_in_pages_and_in_slices(world: Api) -> None:
    await world.get("/v1/ids/day/a", "POST")
    (counter,) = world.service.counters.loaded.values()
    names = [b"%d" % each for each in range(2_500)] + [b"\xff", b"\xff\xfe"]
    for each in names:
        world.service.counters.loaded[Key(b"day", each)] = counter
        world.service.counters.loaded[Key(b"pair", each)] = counter
    seen: list[bytes] = []
    after = ""
    while True:
        page = json.loads((await world.get(f"/v1/counters/day?limit=700{after}")).body)
        seen += [each["app"].encode("utf-8", "surrogateescape") for each in page["counters"]]
        if page["next"] is None:
            break
        after = "&after=" + quote(page["next"], errors="surrogateescape")
    assert seen == sorted([*names, b"a"])
    turns, listing = 0, asyncio.create_task(world.routes.listing.counters("day", "", 10))
    while not listing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 10


@in_an_api
async def test_reload_is_for_some_networks(world: Api) -> None:
    for source in ("192.0.2.1", "::2", "::ffff:192.0.2.1", "fe80::1%lo", ""):
        response = await world.get("/v1/reload", "POST", source=source)
        assert (response.status, json.loads(response.body)["type"]) == (403, "/docs#not-from-here")
    for source in ("127.0.0.2", "::1", "::ffff:127.0.0.1"):
        response = await world.get("/v1/reload", "POST", source=source)
        assert json.loads(response.body) == world.reloaded
    world.reloaded = RuleError("rule 'day': why")
    response = await world.get("/v1/reload", "POST")
    assert (response.status, json.loads(response.body)["detail"]) == (409, "rule 'day': why")


@in_an_api
async def test_rule_that_fails_is_an_error_of_ours(world: Api) -> None:
    response = await world.get("/v1/ids/pair/a?salt=bad")
    assert (response.status, json.loads(response.body)["code"]) == (500, -1)
    assert not json.loads(response.body)["detail"].startswith("system error")
    assert (await world.get("/v1/ids/pair/a")).status == 200


@in_an_api
async def test_clock_and_storage(world: Api) -> None:
    world.store.error = StorageError("storage: gone")
    response = await world.get("/v1/ids/day/a")
    assert (response.status, json.loads(response.body)["code"]) == (503, -3)
    assert dict(response.fields)["Retry-After"] == "1"


@in_an_api
async def test_error_of_ours_is_told(world: Api) -> None:
    world.routes.metrics = replace(world.metrics, unsent_count=lambda: 1 // 0)
    assert (await world.get("/metrics")).status == 500
    assert [type(each) for each in world.failures] == [ZeroDivisionError]


def test_every_problem_is_described() -> None:
    described = document("1")
    assert len({title for _, title, _ in PROBLEMS.values()}) >= 10
    told = {status for each in described["paths"].values() for one in each.values() for status in one["responses"]}
    assert told <= {"200", *(str(status) for status, _, _ in PROBLEMS.values())}


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_never_break_a_connection(tmp_path: Path, seed: int) -> None:
    """Whatever is sent: an answer or an end, nothing in the loop's log, and the next client is served."""
    valid = b"POST /v1/ids/day/a?count=2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    valid += b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n"

    async def one(chance: random.Random, port: int) -> bytes:
        data = bytearray(valid)
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.choice([0, 10, 13, 32, 47, 58, 255, chance.randrange(256)])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data[: chance.randrange(1, len(data) + 1)])
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    async def main() -> None:
        api = Api(tmp_path)
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        web = Web(api.routes, time.monotonic_ns)
        (address,) = web.open("127.0.0.1", 0)
        port, chance = int(address.rpartition(":")[2]), random.Random(seed)
        for _ in range(150):
            answer = await one(chance, port)
            assert not answer or answer.startswith(b"HTTP/1.1 ")
        assert not problems
        await web.finish()
        api.keeper.cancel()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
