"""Pages about jobs: lists of them, one of them, its body; and the lists as files."""

import http.client
import json
import re
import sys
from collections.abc import Iterator
from html import unescape
from itertools import chain

import pytest

from beanpole.client import Client
from tests import forks
from tests.e2e.console.process import Answer, Console, console, url_of
from tests.e2e.console.test_live import live
from tests.e2e.process import environment
from tests.servers import HOST, REPLY_TIMEOUT_S, Server, beanpole_server, beanstalkd_server

COUNT = 250  # ready jobs: more than two pages

HOSTILE = {
    "markup": b"<script>alert(1)</script><img src=x onerror=alert(2)>\"'&",
    "controls": b"\x00\x01\x1b[31m\x7f\r",
    "turning round": "safe \u202e txt.exe".encode(),
    "not UTF-8": b"\xff\xfe caf\xe9",
    "deep": b"[" * 5_000 + b"]" * 5_000,
    "numbers": b'{"n": 1e99999, "i": ' + b"9" * 5_000 + b"}",
    "keys": b'{"a": 1, "a": 2, "__proto__": 3}',
    "long": b"<&>" * 3_500_000,
    "empty": b"",
}
"""Bodies that somebody may put."""


def numbers(answer: Answer) -> list[int]:
    assert answer.status == 200, answer.text
    return [int(id) for id in re.findall(r'name="id" value="(\d+)"', answer.text)]


def pages(seen: Console, path: str) -> list[Answer]:
    """A list from its first page to its last."""
    found = [seen.get(path)]
    while following := re.search(r'rel="next" href="([^"]*)"', found[-1].text):
        found.append(seen.get(unescape(following[1])))
    return found


def bury_two(client: "Client[bytes]") -> None:
    """Leaves two buried jobs in the tube `buried`, one of which has a reason, if the server can keep one."""
    client.watch("buried")
    first, second = (client.put(name, tube="buried") for name in (b"first", b"second"))
    client.reserve_job(first)
    if "fail-job" in client.features():
        client.fail_job(first, "no such address <b>\nsecond line", dead=True)
    else:
        client.bury(first)
    client.bury(client.reserve_job(second))


@pytest.fixture(scope="module", params=[beanpole_server, beanstalkd_server], ids=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server with jobs; no test changes it."""
    flags = ("-z", "20000000")
    with request.param(*flags) as running:
        with Client(f"{HOST}:{running.port}", None) as client:
            for number in range(COUNT):
                client.put(b"letter %d" % number, 5, 0, 60, tube="mail")
            client.put(b"much later", 5, 3_600, 60, tube="mail")
            client.watch("mail")
            client.bury(client.reserve_job(client.put(b"nobody can do it", tube="mail")))
            for body in HOSTILE.values():
                client.put(body, tube="hostile")
            client.put(b"later", 5, 3_600, 60, tube="later")
            bury_two(client)
        yield running


@pytest.fixture(scope="module")
def seen(server: Server) -> Iterator[Console]:
    with console("--url", url_of(server, "one")) as running:
        yield running


def test_list_has_pages_of_a_hundred_jobs(server: Server, seen: Console) -> None:
    found = [numbers(page) for page in pages(seen, "/jobs?tube=mail")]
    assert [*chain(*found)] == list(range(1, COUNT + 1))
    if server.name == "beanpole":
        assert [len(page) for page in found] == [100, 100, 50]
    else:  # it is asked for a moment only
        assert max(map(len, found)) <= 100
    assert [*chain(*map(numbers, pages(seen, "/jobs?tube=mail&after=240")))] == list(range(241, COUNT + 1))


def test_states_are_counted(seen: Console) -> None:
    answer = seen.get("/jobs?tube=mail&state=buried")
    tabs = re.sub(r"<[^>]*>|\s+", " ", answer.text.split('aria-label="States"')[1].split("</nav>")[0])
    for state, count in (("Ready", COUNT), ("Reserved", 0), ("Delayed", 1), ("Buried", 1)):
        assert re.search(rf"{state} +{count} ", tabs), tabs
    assert len(numbers(answer)) == 1
    assert "nobody can do it" in answer.text


@pytest.mark.parametrize(
    ("query", "location"),
    [
        ("tube=empty", None),
        ("tube=nothing", None),
        ("tube=buried", "/jobs?tube=buried&state=buried"),
        ("tube=buried&text=x&state=", "/jobs?tube=buried&text=x&state=buried"),
        ("tube=buried&state=ready", None),
        ("tube=buried&after=7", None),
        ("tube=later", "/jobs?tube=later&state=delayed"),
        ("tube=mail", None),
    ],
)
def test_list_without_a_state_leads_to_the_first_that_has_jobs(seen: Console, query: str, location: str | None) -> None:
    answer = seen.get(f"/jobs?{query}")
    assert answer.headers.get("location") == location
    assert answer.status == (200 if location is None else 303)


def test_live_page_stays_in_the_state_that_it_shows(seen: Console) -> None:
    with live(seen, "/jobs?tube=buried") as page:
        assert page.status == 200
        tabs = page.wait_for("aria-current")
    assert re.search(r"state=ready[^>]* aria-current", tabs), tabs


def test_list_of_buried_jobs_says_why(server: Server, seen: Console) -> None:
    page = seen.get("/jobs?tube=buried&state=buried").text
    assert ('<th scope="col">Why</th>' in page) == (server.name == "beanpole")
    if server.name == "beanpole":
        assert "no such address &lt;b&gt;" in page
        assert "second line" not in page
        assert "(buried, no reason given)" in page
    assert '<th scope="col">Why</th>' not in seen.get("/jobs?tube=mail").text


def test_looking_makes_no_tube(server: Server, seen: Console) -> None:
    for path in ("/jobs?tube=nothing", "/jobs?tube=nothing&order=next", "/jobs.jsonl?tube=nothing"):
        assert seen.get(path).status == 200
    with Client(f"{HOST}:{server.port}", None) as client:
        assert "nothing" not in client.tubes()


def test_search_finds_keys(ours: Server, client: Client[bytes], looking: Console) -> None:
    client.put_job(b"a", key="order:4711", tube="keyed")
    second = client.put_job(b"b", key="order:4712", tube="keyed").id
    with console("--url", url_of(ours, "one"), "--http-hide-bodies") as hiding:
        for seen in (looking, hiding):
            assert numbers(seen.get("/jobs?tube=keyed&text=4712")) == [second]


def test_search_says_how_far_it_looked(seen: Console) -> None:
    found = pages(seen, "/jobs?tube=mail&text=letter+24")
    assert [*chain(*map(numbers, found))] == [25, *range(241, 251)]
    assert "these are all that fit" in found[-1].text
    assert "64" in re.search(r"Of each body the first (.*) are searched", found[-1].text)[1]  # type: ignore[index]
    assert numbers(seen.get("/jobs?tube=mail&text=nothing+like+it")) == []


def test_list_in_the_order_of_the_workers(server: Server, seen: Console) -> None:
    answer = seen.get("/jobs?tube=mail&order=next")
    assert numbers(answer) == (list(range(1, 101)) if server.name == "beanpole" else [1])
    assert ("needs list-jobs" in answer.text) == (server.name == "beanstalkd")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("tube=nothing", 200),
        ("", 200),
        ("tube=-x", 400),
        ("tube=mail&state=dead", 400),
        ("tube=mail&order=random", 400),
        ("tube=mail&after=-1", 400),
        ("tube=mail&after=9999999999999999999999", 400),
        ("tube=mail&after=%D9%A1", 400),
        (f"tube=mail&text={'x' * 201}", 400),
        ("tube=mail&text=%FF%00%E2%80%AE", 200),
        ("id=seven", 400),
        ("tube=mail&server=other", 404),
    ],
)
def test_addresses_that_people_change(seen: Console, query: str, status: int) -> None:
    assert seen.get(f"/jobs?{query}").status == status


def test_number_leads_to_its_job(seen: Console) -> None:
    answer = seen.get("/jobs?id=+7+")
    assert (answer.status, answer.headers["location"]) == (303, "/jobs/7")


def test_job_has_facts_and_its_body(server: Server, seen: Console) -> None:
    answer = seen.get("/jobs/3")
    assert answer.status == 200
    for part in ("letter 2", "/tubes/mail", "Time to run"):
        assert part in answer.text
    assert ("needs explain" in answer.text) == (server.name == "beanstalkd")
    assert ("no session watches the tube" in answer.text) == (server.name == "beanpole")
    assert "00000000  6c 65 74" in seen.get("/jobs/3?as=hex").text
    assert "bGV0dGVyIDI=" in seen.get("/jobs/3?as=base64").text


@pytest.mark.parametrize("id", ["99999", "18446744073709551615"])
def test_job_that_is_not_there(seen: Console, id: str) -> None:
    assert seen.get(f"/jobs/{id}").status == 404
    assert seen.get(f"/jobs/{id}/body").status == 404


@pytest.mark.parametrize("id", ["x", "-1", "18446744073709551616", "1e3"])
def test_what_is_no_number_of_a_job(seen: Console, id: str) -> None:
    assert seen.get(f"/jobs/{id}").status == 400


@pytest.mark.parametrize("kind", ["", "?as=hex", "?as=html"])
def test_hostile_bodies_are_text(seen: Console, kind: str) -> None:
    ids = [*chain(*map(numbers, pages(seen, "/jobs?tube=hostile")))]
    for id, (name, body) in zip(ids, HOSTILE.items(), strict=True):
        answer = seen.get(f"/jobs/{id}{kind}", accept="text/html")
        assert answer.status == 200, name
        assert len(answer.body) < 300_000, name
        for part in ("<script>alert", "<img src", "\u202e", "\x00", "\x1b"):
            assert part not in answer.text, name
        got = seen.get(f"/jobs/{id}/body")
        assert got.body == body, name
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-disposition"] == f'attachment; filename="job-{id}"'
        assert got.headers["x-content-type-options"] == "nosniff"


def test_hostile_bodies_in_a_list_are_text(seen: Console) -> None:
    answers = pages(seen, "/jobs?tube=hostile")
    text = "".join(answer.text for answer in answers)
    for part in ("<script>alert", "<img src", "\u202e", "\x00", "\x1b"):
        assert part not in text
    assert "[U+202E]" in text
    assert max(len(answer.body) for answer in answers) < 50_000


def test_list_is_exported_as_json_lines(seen: Console) -> None:
    answer = seen.get("/jobs.jsonl?tube=mail")
    assert answer.headers["content-type"] == "application/x-ndjson"
    records = [json.loads(line) for line in answer.text.splitlines()]
    assert [record["body"] for record in records] == [f"letter {number}" for number in range(COUNT)]
    assert {"id": 1, "tube": "mail", "state": "ready", "pri": 5, "ttr": 60}.items() <= records[0].items()
    found = seen.get("/jobs.jsonl?tube=mail&text=letter+24&after=100").text.splitlines()
    assert [json.loads(line)["id"] for line in found] == list(range(241, 251))
    hostile = [json.loads(line) for line in seen.get("/jobs.jsonl?tube=hostile").text.splitlines()]
    assert [record.get("body", "").encode() for record in hostile if "body" in record] == [
        body for name, body in HOSTILE.items() if name != "not UTF-8"
    ]
    assert "body_base64" in hostile[3]
    (delayed,) = map(json.loads, seen.get("/jobs.jsonl?tube=mail&state=delayed").text.splitlines())
    assert (delayed["delay"], delayed["body"]) == (3_600, "much later")
    assert seen.get("/jobs.jsonl").status == 400
    assert seen.get("/jobs.jsonl?tube=nothing").body == b""


def test_export_can_be_imported(seen: Console) -> None:
    exported = seen.get("/jobs.jsonl?tube=hostile").body
    with beanpole_server("-z", "20000000") as other, Client(f"{HOST}:{other.port}", None) as client:
        command = [sys.executable, "-m", "beanpole", "import", "--url", f"beanstalk://{HOST}:{other.port}", "copied"]
        forks.run(command, input=exported, check=True, env=environment(), timeout=REPLY_TIMEOUT_S)
        jobs = client.list_jobs("copied", "ready").jobs
        assert [client.peek(job.id).body for job in jobs] == [*HOSTILE.values()]


def test_client_that_leaves_an_export_is_no_fault(seen: Console) -> None:
    for _ in range(5):
        connection = http.client.HTTPConnection(HOST, seen.port, timeout=REPLY_TIMEOUT_S)
        connection.request("GET", "/jobs.jsonl?tube=hostile")
        assert connection.getresponse().read(10)
        connection.close()
    assert len(seen.get("/jobs.jsonl?tube=mail").text.splitlines()) == COUNT
    assert "request failed" not in seen.messages.read_text()


def test_death_of_a_job_is_on_its_page(client: Client[bytes], looking: Console) -> None:
    client.set_rules("dying", "attempts: 1\ndead: graves")
    id = client.put(b"{}", tube="dying", meta={"tenant": "<acme>", "hop": "1"})
    client.fail_job(client.reserve_job(id), "ValueError: <b>no</b> such address \u202e\n    in send()")
    answer = looking.get(f"/jobs/{id}")
    for part in ("ValueError: &lt;b&gt;no&lt;/b&gt; such address [U+202E]", "/tubes/dying", "/tubes/graves", "dead"):
        assert part in answer.text, part
    assert "[U+202E]\n    in send()</pre>" in answer.text
    assert "no session watches the tube" not in answer.text
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>(.*?)</dd>", re.sub(r"</?(?:span|time|a)\b[^>]*>", "", answer.text)))
    assert (facts["Attempts"], facts["After"], facts["Queue position"]) == ("1", "1 attempt", "1")
    assert facts["Headers"] == "tenant: &lt;acme&gt;<br>hop: 1"
    moment = r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [0-9.]+m?s ago"
    assert all(re.fullmatch(moment, facts[each]) for each in ("Put", "Died")), facts
    assert "dying" in looking.get("/jobs?tube=graves").text


def test_what_mends_stands_first_and_delete_last(client: Client[bytes], looking: Console) -> None:
    client.set_rules("ending", "attempts: 1\ndead: ended")
    id = client.put(b"{}", tube="ending")
    client.fail_job(client.reserve_job(id), "boom")
    for path in (f"/jobs/{id}", "/jobs?tube=ended"):
        text = looking.get(path).text
        verbs = re.findall(r'name="verb" value="([a-z]+)"', text)
        assert verbs == ["redrive", "snooze", "change", "move", "bury", "delete"], path


def test_addresses_name_the_server_where_there_are_two(server: Server) -> None:
    with beanpole_server() as other, Client(f"{HOST}:{other.port}", None) as client:
        client.put(b"of the other", tube="mail")
        with console("--url", url_of(server, "one"), "--url", url_of(other, "two")) as seen:
            assert [*chain(*map(numbers, pages(seen, "/jobs?tube=mail")))] == list(range(1, COUNT + 1))
            answer = seen.get("/jobs?tube=mail&server=two")
            assert numbers(answer) == [1]
            assert 'href="/jobs/1?server=two"' in answer.text
            assert "of the other" in seen.get("/jobs/1?server=two").text
            assert seen.get("/jobs/1/body?server=two").body == b"of the other"
            assert len(seen.get("/jobs.jsonl?tube=mail&server=two").text.splitlines()) == 1
            assert seen.get("/jobs?id=1&server=two").headers["location"] == "/jobs/1?server=two"


def test_page_of_a_hundred_jobs_is_small_whatever_is_in_them(client: Client[bytes], looking: Console) -> None:
    for number in range(101):
        client.put(b"'" * 5_000, 4_294_967_295, tube="x" * 200, key=f"{number}".rjust(200, "'"))
    for order in ("id", "next"):
        answer = looking.get(f"/jobs?tube={'x' * 200}&order={order}")
        assert len(numbers(answer)) == 100
        assert len(answer.body) < 300_000
