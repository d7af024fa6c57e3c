"""The pages of those who work: held jobs and sessions, of one server and of two."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from beanpole.client import Client
from tests.e2e.console.process import Console, console, url_of
from tests.e2e.console.rows import read, rows
from tests.e2e.console.test_live import live
from tests.e2e.process import wait_until
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server

NAME = 'w1 <script>alert(1)</script>"), last heard of 9 s ago; 9 s of\\ \u202e: # x'
SHOWN = 'w1 <script>alert(1)</script>"), last heard of 9 s ago; 9 s of\\ [U+202E]: # x'
HELD = 110


@pytest.fixture(scope="module")
def one() -> Iterator[Server]:
    """A server with two workers that hold jobs, and one that waits; no test changes it."""
    with beanpole_server() as running, ExitStack() as stack:
        address = f"{HOST}:{running.port}"
        client, first, second = (
            stack.enter_context(Client(address, None, name=name)) for name in ("producer", NAME, "w2")
        )
        client.features()  # with that it says its name
        client.put_many([b"x"] * HELD, ttr=60_000, tube="mail")
        client.put(b"x", ttr=6_000, tube="files")
        for each, tube, count in ((first, "mail", HELD), (second, "files", 1)):
            each.features()
            each.watch(tube)
            for _ in range(count):
                each.reserve(0)
        waiting = stack.enter_context(running.connect())
        waiting.sendall(b"name-session w3\r\nwatch seldom\r\nignore default\r\nreserve\r\n")
        wait_until(lambda: client.stats().current_waiting == 1, "a session waits")
        for _ in range(2):
            stack.enter_context(Client(address, None)).name_session("pool")
        yield running


def test_busy_has_workers_and_their_jobs(served: Console) -> None:
    page = served.get("/busy")
    assert page.status == 200
    assert len(page.body) < 300_000
    table = rows(page.text)
    workers = {row[0].partition(" 127.")[0]: row[1] for row in table[1:3]}
    assert workers == {SHOWN: str(HELD), "w2": "1"}
    jobs = table[4:]
    assert len(jobs) == 100
    assert "1 to 100 of 111 jobs" in page.text
    assert jobs[0][1] == "files"  # of its time to run most is over
    assert jobs[1][1] == "mail"
    assert "of 16h40m" in jobs[1][2]
    assert jobs[1][3] == SHOWN
    assert len(rows(served.get("/busy?after=100").text)[4:]) == 11
    assert "<script>alert" not in page.text


def test_busy_of_a_tube_and_of_a_worker(served: Console) -> None:
    assert [row[1] for row in rows(served.get("/busy?tube=files").text)[3:]] == ["files"]
    assert [row[3] for row in rows(served.get("/busy?text=W2").text)[3:]] == ["w2"]
    assert "fits this filter" in served.get("/busy?text=nobody").text
    link = read(served.get("/busy?text=W2").text).links["1"]
    assert link.startswith("/busy?session=")
    assert [row[3] for row in rows(served.get(link).text)[3:]] == ["w2"]
    lines = [json.loads(line) for line in served.get("/busy.jsonl?text=w2").text.splitlines()]
    assert [(each["server"], each["tube"], each["name"], each["ttr"]) for each in lines] == [
        ("one", "files", "w2", 6_000)
    ]
    assert len(served.get("/busy.jsonl").text.splitlines()) == HELD + 1


def names(served: Console, query: str = "") -> list[str]:
    return [row[0].partition(" 127.")[0] for row in rows(served.get(f"/sessions{query}").text)[1:] if len(row) > 1]


def test_sessions_by_what_they_do(served: Console) -> None:
    assert names(served)[:4] == ["producer", SHOWN, "w2", "w3"]
    assert names(served, "?doing=waiting") == ["w3"]
    assert names(served, "?doing=holding&sort=-held") == [SHOWN, "w2"]
    assert names(served, "?tube=seldom") == ["w3"]
    assert names(served, "?text=%3Cscript") == [SHOWN]
    assert names(served, "?text=nobody") == []
    assert "No session fits this filter" in served.get("/sessions?text=nobody").text
    link = read(served.get("/busy?text=w2").text).links["w2"]
    assert names(served, link.removeprefix("/sessions")) == ["w2"]
    assert "<script>alert" not in served.get("/sessions").text
    lines = [json.loads(line) for line in served.get("/sessions.jsonl?doing=holding").text.splitlines()]
    assert [(each["name"], each["jobs_held"]) for each in lines] == [(NAME, HELD), ("w2", 1)]


def test_the_first_session_is_number_0(served: Console) -> None:
    number = rows(served.get("/sessions").text)[1][1]
    assert names(served, f"?number={number}") == ["producer"]
    found = names(served, f"?each=session&after={number}")
    assert found[:5] == [SHOWN, "w2", "w3", "pool", "pool"]  # the console's own come and go behind them


def test_sessions_of_a_program_are_folded_below_it(served: Console) -> None:
    text = served.get("/sessions?text=pool").text
    program, *folded = [row[:2] for row in rows(text)[1:]]
    assert program == ["pool 127.0.0.1", "2 sessions"]
    assert [each[0].startswith("127.0.0.1:") for each in folded] == [True, True]
    assert text.count('<tr class="folded">') == 2
    assert "1 program, 2 sessions" in text


def test_a_tube_names_who_waits_for_it(served: Console) -> None:
    assert "w3" in served.get("/tubes/seldom").text
    assert "w3" not in served.get("/tubes/mail").text


def test_pages_are_sent_again_while_somebody_looks(served: Console) -> None:
    for path, blocks in (("/busy", {"counts", "workers", "jobs"}), ("/sessions", {"rows", "counts"})):
        with live(served, path) as page:
            event = json.loads(page.event().partition("data: ")[2])
        assert set(event["blocks"]) == blocks
        assert SHOWN.replace("<", "&lt;").partition(">")[0] in "".join(event["blocks"].values())


def test_beanstalkd_shows_what_it_can_and_says_what_it_lacks(one: Server) -> None:
    with (
        beanstalkd_server() as plain,
        Client(f"{HOST}:{plain.port}", None) as client,
        console("--url", url_of(plain, "plain")) as alone,
        console("--url", url_of(plain, "plain"), "--url", url_of(one, "one")) as both,
    ):
        client.put(b"x")
        client.reserve(0)
        wait_until(lambda: len(rows(alone.get("/busy").text)) == 2, "the held job is seen")
        page = alone.get("/busy").text
        assert "which jobs they are needs list-jobs, which this server does not have" in page
        assert rows(page)[1] == ["default", "1"]
        assert alone.get("/busy.jsonl").body == b""
        assert "who is connected needs list-sessions" in alone.get("/sessions").text
        wait_until(lambda: ["default", "plain", "1"] in rows(both.get("/busy").text), "it is seen here too")
        page = both.get("/busy").text
        assert [row[1] for row in rows(page) if row[0].startswith("w2")] == ["one"]
        assert [row[2] for row in rows(both.get("/sessions?text=w2").text)[1:]] == ["one"]
