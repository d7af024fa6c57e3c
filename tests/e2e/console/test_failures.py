"""The page of failures: groups and their jobs, of one server and of two."""

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from beanpole.client import Client
from tests.e2e.console.process import Console, console, url_of
from tests.e2e.console.rows import read, rows
from tests.e2e.process import wait_until
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server

HOSTILE = "</a><script>alert(1)</script>\x00\x1b[31m\u202e{{ 7 * 7 }}' \" &amp;"
ERROR = "</a><script>alert(…)</script>\\x00\\x1b[…[U+202E]{{ … * … }}' \" &amp;"
SHOWN = "</a><script>alert(1)</script>\\x00\\x1b[31m[U+202E]{{ 7 * 7 }}' \" &amp;"
COUNT = 130
TIMEOUTS = ("timeout after … s timeout after 31 s", "mail", "3")  # with an example of it


def fail(server: Server, tube: str, *reasons: str) -> list[int]:
    """Lets a job of a tube die for each of some reasons."""
    ids = []
    with Client(f"{HOST}:{server.port}", None) as client:
        for reason in reasons:
            ids.append(client.put(b"x", tube=tube))
            client.fail_job(client.reserve_job(ids[-1]), reason, dead=True)
    return ids


@pytest.fixture(scope="module")
def one() -> Iterator[Server]:
    """A server with failures; no test changes it."""
    with beanpole_server() as running:
        with Client(f"{HOST}:{running.port}", None) as client:
            client.set_rules("mail", "dead: grave")
        fail(running, "mail", *["timeout after 31 s\n at <line> 12"] * 3, "timed out")
        fail(running, "files", HOSTILE)
        fail(running, "many", *(f"error {'ab'[number % 2] * (number // 2 + 1)}" for number in range(COUNT)))
        yield running


def groups(served: Console, **query: object) -> list[tuple[str, ...]]:
    """Error, tube and number of jobs of each group that the page shows."""
    answer = served.get(f"/failures?{urlencode(query)}")
    assert answer.status == 200
    return [tuple(row[:3]) for row in rows(answer.text)[1:]]


def test_largest_groups_come_first_and_each_leads_to_its_jobs(served: Console) -> None:
    page = served.get("/failures")
    found = groups(served)
    assert found[0] == TIMEOUTS
    assert len(found) == 100
    assert "1 to 100 of 133 groups, 135 jobs" in page.text
    assert len(page.body) < 300_000
    group = served.get(read(page.text).links["timeout after … s"])
    jobs = rows(group.text)[1:]
    assert [row[1] for row in jobs] == ["1", "2", "3"]
    assert jobs[0][2] == "timeout after 31 s timeout after 31 s at <line> 12"
    assert jobs[0][3] == "ready grave"
    assert "its worker gave it up" in group.text


def asked(client: Client[bytes]) -> list[int]:
    """How many commands about failures a server has had: stats-failures, list-jobs, explain."""
    stats = client.stats()
    return [int(stats[f"cmd-{name}"]) for name in ("stats-failures", "list-jobs", "explain")]


def test_a_page_of_a_thousand_failures_costs_one_command() -> None:
    with beanpole_server() as server, Client(f"{HOST}:{server.port}", None) as client:
        fail(server, "mail", *(f"no order {number}" for number in range(1_000_000, 1_001_000)))
        with console("--url", url_of(server, "one")) as served:
            before = asked(client)
            for _ in range(5):
                assert groups(served) == [("no order … no order 1000999", "mail", "1 000")]
            after = asked(client)
            assert [now - then for now, then in zip(after, before, strict=True)] == [5, 0, 0]
            assert len(rows(served.get("/failures?tube=mail&error=no+order+%E2%80%A6").text)) == 101
            assert len(rows(served.get("/jobs?tube=mail&state=buried").text)) > 50
            _, lists, explains = asked(client)
            assert lists - after[1] <= 4
            assert explains == before[2]


def test_pages_follow_each_other(served: Console) -> None:
    behind = groups(served, after=100)
    assert len(behind) == 33
    assert not set(behind) & set(groups(served))
    assert [each[0] for each in groups(served, tube="many", sort="error")[:2]] == ["error a", "error aa"]
    assert groups(served, tube="many", sort="-error")[0][0] == "error " + "b" * 65
    assert groups(served, sort="nonsense", after="x")[0][2] == "1"  # no such column: by count, the smallest first


def test_filter_is_in_the_address(served: Console) -> None:
    assert groups(served, tube="mail") == [TIMEOUTS, ("timed out", "mail", "1")]
    assert groups(served, text="LINE> 12") == [TIMEOUTS]
    assert groups(served, within="files", state="buried") == [(f"{ERROR} {SHOWN}", "files", "1")]
    assert groups(served, tube="nothing") == groups(served, tube="<b>") == []
    assert "No job that failed fits this filter" in served.get("/failures?text=nothing").text


def test_what_a_worker_said_is_only_ever_text(served: Console) -> None:
    page = served.get("/failures?tube=files")
    assert "<script>alert" not in page.text
    group = served.get(read(page.text).links[ERROR])
    assert "<script>alert" not in group.text
    assert rows(group.text)[1][2].startswith(SHOWN)
    assert served.get("/failures?error=%00%F0%28&tube=%3Cscript%3E&from=99999999999999999999&after=-1").status == 200


def test_export_has_every_job_that_fits(served: Console) -> None:
    answer = served.get("/failures.jsonl")
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert len(found) == 135
    assert len({each["id"] for each in found}) == 135
    mail = [json.loads(line) for line in served.get("/failures.jsonl?tube=mail&error=timed+out").text.splitlines()]
    assert [(each["server"], each["tube"], each["in"], each["reason"]) for each in mail] == [
        ("one", "mail", "grave", "timed out")
    ]
    assert mail[0]["died"] > 1e9
    assert served.get("/failures.jsonl?tube=nothing").body == b""


def test_read_only_visitors_see_why_they_can_do_nothing(served: Console) -> None:
    text = served.get("/failures?tube=mail").text
    assert text.count(' disabled title="read-only: ') == 4  # two groups with two buttons each


def test_all_servers_are_on_one_page_and_what_one_lacks_is_said(one: Server) -> None:
    with (
        beanpole_server() as two,
        beanstalkd_server() as plain,
        Client(f"{HOST}:{plain.port}", None) as client,
        console(
            *(f"--url={url_of(each, name)}" for each, name in ((one, "one"), (two, "two"), (plain, "plain")))
        ) as served,
    ):
        fail(two, "mail", *["timeout after 31 s"] * 4)
        client.put(b"x")
        client.bury(client.reserve(0))
        # A sample may be a second old.
        wait_until(lambda: len(rows(served.get("/failures?server=plain").text)) == 2, "the buried job is seen")
        wait_until(lambda: len(rows(served.get("/failures?server=two").text)) == 2, "the dead ones are seen")
        found = rows(served.get("/failures?tube=mail").text)[1:]
        assert [row[:4] for row in found] == [
            [TIMEOUTS[0], "mail", "two", "4"],
            [TIMEOUTS[0], "mail", "one", "3"],
            ["timed out", "mail", "one", "1"],
        ]
        assert [row[2] for row in rows(served.get("/failures?tube=mail&server=two").text)[1:]] == ["4"]
        page = served.get("/failures?server=plain")
        assert "needs list-jobs with fields, which this server does not have" in page.text
        assert rows(page.text)[1][:3] == ["(unknown: this server keeps no reasons)", "default", "1"]
        group = served.get(read(page.text).links["(unknown: this server keeps no reasons)"])
        assert "/jobs/1" in group.text
        lines = [json.loads(line) for line in served.get("/failures.jsonl?server=plain").text.splitlines()]
        assert [(each["id"], each["in"], each["reason"]) for each in lines] == [(1, "default", None)]


def test_a_server_that_is_away_hides_no_other(one: Server) -> None:
    with console("--url", url_of(one, "one"), "--url", "gone=unix:/nowhere/at/all") as served:
        page = served.get("/failures?tube=mail")
        assert page.status == 200
        assert "is away" in page.text
        assert len(rows(page.text)) == 3
        assert served.get("/failures?server=gone", Accept="text/html").status == 503


def test_nothing_has_failed() -> None:
    with beanpole_server() as server, console("--url", url_of(server, "one")) as served:
        assert "No job has failed" in served.get("/failures").text
        assert "brought back, deleted, or has failed again" in served.get("/failures?tube=a&error=b").text
