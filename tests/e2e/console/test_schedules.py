"""The pages and the API of schedules: what is set, when it fires next, and what is done to it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from beanpole.client import Client
from beanpole.console.actions.action import Given, Named, RefusedError
from tests.e2e.console.acting import World, act, on_ours
from tests.e2e.console.api import asked
from tests.e2e.console.process import TOKEN, Console, acting, console, url_of
from tests.e2e.console.rows import read, rows
from tests.servers import HOST, Server, beanpole_server

ZONE = "Europe/Berlin"
BINARY = b"\xff\r\n<script>1"
DAYS = "0 0 29 2 *"
FROM = "2100-01-01T00:00:00"
LEAP = [datetime(year, 2, 29, tzinfo=UTC).timestamp() for year in (2104, 2108, 2112)]
"""The first of these days from then on, in UTC."""
NONE = "\u2013"  # a dash, where there is nothing to say


@pytest.fixture(scope="module")
def one() -> Iterator[Server]:
    """A server with schedules that do not fire; no test changes it."""
    with beanpole_server() as running:
        with Client(f"{HOST}:{running.port}", None) as client:
            client.set_schedule("a/b", BINARY, cron=DAYS, start=FROM, tube="mail")
            client.set_schedule("..", b"x", cron=DAYS, start=FROM, zone=ZONE, spread=3_600)
            client.set_schedule("late", b"x", at="2199-01-01T00:00:00Z")
            client.pause_schedule("late")
        yield running


def test_a_list_of_schedules(served: Console) -> None:
    found = rows(served.get("/schedules").text)[1:]
    assert [row[:5] for row in found] == [
        ["..", "active", f"cron: {DAYS} {ZONE}", "2104-02-28 23:00:00 2104-02-29 00:00:00 CET", NONE],
        ["a/b", "active", f"cron: {DAYS}", "2104-02-29 00:00:00", NONE],
        ["late", "paused", "at: 2199-01-01T00:00:00Z", NONE, NONE],
    ]
    assert [row[0] for row in rows(served.get("/schedules?after=a/b").text)[1:]] == ["late"]
    assert served.get("/schedules?after=%3Cb%3E").status == 404
    assert served.get("/schedules?name=a/b").headers["location"] == "/schedules/a%2Fb"
    lines = [json.loads(line) for line in served.get("/schedules.jsonl").text.splitlines()]
    assert [(each["name"], each["state"], each["next"], each["lines"].get("zone")) for each in lines] == [
        ("..", "active", "2104-02-28T23:00:00Z", ZONE),
        ("a/b", "active", "2104-02-29T00:00:00Z", None),
        ("late", "paused", "2199-01-01T00:00:00Z", None),
    ]
    assert [set(each) & {"body", "body_base64"} for each in lines] == [{"body"}, {"body_base64"}, {"body"}]


def test_one_schedule_and_its_next_times(served: Console) -> None:
    page = served.get(read(served.get("/schedules").text).links[".."]).text
    assert "by its spread" in page
    assert rows(page)[1] == ["2104-02-28 23:00:00", "Fri 2104-02-29 00:00:00 CET"]
    assert len(rows(page)) == 1 + 10
    assert "not while it is paused" in served.get("/schedules/late").text
    assert "&lt;script&gt;1" in served.get("/schedules/a%2Fb").text
    assert served.get("/schedules/none").status == 404


def test_the_api_says_the_same(served: Console) -> None:
    found = asked(served, "/servers/one/schedules?limit=2")
    assert [each["name"] for each in found["items"]] == ["..", "a/b"]
    assert found["next"] == "a/b"
    assert asked(served, "/servers/one/schedules?limit=2&after=a/b")["next"] is None
    in_turn = asked(served, "/servers/one/schedules?order=next")["items"]
    assert [each["name"] for each in in_turn[:2]] == ["..", "a/b"]
    whole = asked(served, "/servers/one/schedules/a%2Fb")
    assert whole["schedule"]["when"] == f"cron: {DAYS}"
    assert whole["lines"] == {"cron": DAYS, "start": FROM, "tube": "mail"}
    assert whole["body"]["encoding"] == "base64"
    assert whole["times"][:3] == LEAP
    asked(served, "/servers/one/schedules/none", 404)


def test_beanstalkd_has_no_schedules(one: Server, theirs: Server) -> None:
    with console("--url", url_of(theirs, "plain")) as alone:
        page = alone.get("/schedules").text
        assert "needs list-schedules, which this server does not have" in page
        assert "New schedule" not in page
        assert alone.get("/schedules.jsonl").body == b""
        assert alone.get("/schedules/a").status == 501
        asked(alone, "/servers/plain/schedules", 501)
        asked(alone, "/servers/plain/schedules/a", 501)
    with console("--url", url_of(theirs, "plain"), "--url", url_of(one, "one")) as both:
        assert [row[1] for row in rows(both.get("/schedules").text)[1:]] == ["one"] * 3


# --- What is done to them ---------------------------------------------------------------------------------------------


@on_ours
async def test_a_schedule_is_set_paused_fired_and_dropped(world: World, client: "Client[bytes]", tube: str) -> None:
    name = Named(tube)
    given = Given(lines=f"cron: {DAYS}\n\nstart: {FROM}\ntube: {tube}\n", body=b"x")
    made = await world.dry("set-schedule", name, given)
    assert made.diff == (f"+ cron: {DAYS}", f"+ start: {FROM}", f"+ tube: {tube}")
    assert made.times is not None
    assert [at for at, _ in made.times.rows[:3]] == LEAP
    assert (await world.run("set-schedule", name, given)).done == 1
    paused = await world.run("pause-schedule", name)
    assert client.schedule(tube).state == "paused"
    assert paused.undo is not None
    assert paused.undo.verb == "resume-schedule"
    assert (await world.run("resume-schedule", name)).undo is not None
    assert (await world.run("resume-schedule", name)).undo is None
    fired = await world.run("fire-schedule", name, Given(at=5.0))
    assert client.stats_job(fired.ids[0]).tube == tube
    assert (await world.run("drop-schedule", name)).done == 1
    with pytest.raises(RefusedError, match="there is no schedule"):
        await world.dry("drop-schedule", name)


@on_ours
async def test_a_schedule_keeps_the_body_that_nobody_gives(world: World, client: "Client[bytes]", tube: str) -> None:
    client.set_schedule(tube, BINARY, cron=DAYS, start=FROM)
    assert (await world.run("set-schedule", Named(tube), Given(lines="every: 86400"))).done == 1
    assert client.schedule(tube).document == b"every: 86400\n\n" + BINARY
    made = await world.dry("set-schedule", Named(tube), Given(lines="cron: 0 0 1 1 *\nzone: Mars/Base", body=b""))
    assert [note.partition(":")[0] for note in made.notes] == [
        "the body of its jobs becomes another",
        "the body of its jobs is empty",
        "line 2",
    ]
    assert made.times is not None
    assert "Mars/Base" in made.times.missing


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("cron: 0 0 30 2", "line 1: "),
        ("tube: a", "one of cron"),
        ("key: a\nno", "line 2: "),
        ("moon: full", "set-schedule needs schedule.moon, which"),
    ],
)
def test_a_wrong_line_is_refused(ours: Server, lines: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        act(ours, lambda world: world.dry("set-schedule", Named("a"), Given(lines=lines)))


def test_a_form_has_the_body_only_if_it_brings_it_back(one: Server) -> None:
    with acting(one) as served:

        def form(schedule: str) -> str:
            fields = {"verb": "set-schedule", "server": "one", "schedule": schedule}
            return served.post("/actions/dry-run", fields, TOKEN).text

        assert ">\nx</textarea>" in form("..")
        assert 'name="body"' not in form("a/b")
        assert f"cron: {DAYS}" in form("a/b")
        assert 'name="body"' in form("new")
