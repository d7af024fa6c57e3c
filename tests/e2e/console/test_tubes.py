"""Pages about servers and tubes, of this server and of plain beanstalkd."""

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from beanpole.client import Client
from tests.e2e.console.process import Console, console, url_of
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server

BYTES_MAX = 300_000  # of a page

NAMES = ["..", ".", "/", "/login", "a/b/../c", "$(reboot);", "x" * 200]
"""Names of tubes that are something else in an address."""


@pytest.fixture(scope="module", params=[beanpole_server, beanstalkd_server], ids=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server with tubes of all kinds; no test changes it."""
    with request.param() as running:
        with Client(f"{HOST}:{running.port}", None) as client:
            for name in NAMES:
                client.put(b"<b>" + name.encode(), tube=name)
            for number in range(7):
                client.put(b"<script>%d" % number, tube="mail")
            client.pause_tube("mail", 7_200)
            client.watch("mail")
            client.bury(client.reserve_job(client.put(b"nobody can do it", tube="mail")))
            client.ignore("mail")
        yield running


@pytest.fixture(scope="module")
def seen(server: Server) -> Iterator[Console]:
    with console("--url", url_of(server, "one")) as running:
        yield running


def is_ours(server: Server) -> bool:
    """Whether it is no plain beanstalkd."""
    return server.name == "beanpole"


def page(seen: Console, path: str) -> str:
    """A page, which is small and without markup of clients."""
    answer = seen.get(path)
    assert answer.status == 200, answer.text
    assert len(answer.body) <= BYTES_MAX
    assert "<script>0" not in answer.text
    return answer.text


def names(text: str) -> list[str]:
    return re.findall(r'<a class="tube" href="[^"]*">([^<]*)</a>', text)


def test_tubes_are_sorted_and_filtered_and_are_lines(seen: Console) -> None:
    assert names(page(seen, "/tubes?sort=-ready"))[0] == "mail"
    assert names(page(seen, "/tubes?only=paused")) == ["mail"]
    assert names(page(seen, "/tubes?only=buried&column=buried")) == ["mail"]
    (record,) = [json.loads(line) for line in seen.get("/tubes.jsonl?text=mail").text.splitlines()]
    assert (record["tube"], record["current-jobs-ready"]) == ("mail", 7)


def test_a_tube_says_why_it_is_closed_and_what_comes_next(seen: Console, server: Server) -> None:
    text = page(seen, "/tubes/mail")
    assert "Paused for" in text
    assert "&lt;script&gt;0" in text
    assert ("(buried, no reason given)" in text) == is_ours(server)
    if is_ours(server):
        assert '<span class="badge warn">closed</span>' in text
        assert '<span class="badge warn">paused</span>' in text
    else:
        assert "needs explain-tube, which this server does not have" in text
        assert "needs rules, which this server does not have" in text
        assert "needs list-sessions, which this server does not have" in text


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_of_a_tube_leads_to_its_page(name: str, seen: Console) -> None:
    listed = page(seen, f"/tubes?text={quote(name, safe='')}")
    (address,) = re.findall(rf'<a class="tube" href="([^"]*)">{re.escape(name)}</a>', listed)
    assert f'<span class="mono">{name}</span>' in page(seen, address)


def test_what_plain_beanstalkd_does_not_say_is_grey_with_the_reason(seen: Console, server: Server) -> None:
    text = page(seen, "/tubes")
    assert ("needs stats-tubes" in text or "need stats-tubes" in text) != is_ours(server)


def test_a_tube_shows_its_groups(client: "Client[bytes]", looking: Console) -> None:
    client.set_rules("grouped", "group-concurrency: 1")
    ids = [client.put(b"x", tube="grouped", group=group) for group in ("a", "a", "<b>", None)]
    client.reserve_job(ids[0])
    client.reserve_job(ids[2])
    client.reserve_job(ids[3])
    text = looking.get("/tubes/grouped").text
    rows = [re.sub("<[^>]*>", " ", row).split() for row in re.findall('<tr><th scope="row">.*?</tr>', text, re.DOTALL)]
    assert [row[:6] for row in rows] == [
        ["a", "1", "1", "0", "0", "1"],
        ["&lt;b&gt;", "0", "1", "0", "0", "1"],
        ["no", "group", "0", "1", "0", "0"],
    ]
    assert all("group-concurrency" in row for row in rows)
    assert "It hands out no jobs" in text
    one = looking.get("/jobs?tube=grouped&state=reserved&group=%3Cb%3E").text
    assert re.findall(r'<tr id="job-(\d+)">', one) == [str(ids[2])]
    assert 'value="all"' not in one, "an action on all that fit would be one on all groups"
    assert looking.get("/jobs?tube=grouped&group=a+b").status == 400
    assert '<td class="cut mono" data-label="Group">a</td>' in looking.get("/jobs?tube=grouped").text
    assert '<dt>Group</dt><dd class="mono">&lt;b&gt;</dd>' in looking.get(f"/jobs/{ids[2]}").text
    answer = json.loads(looking.get("/api/v1/servers/one/tubes/grouped/groups?limit=1").text)
    assert [(each["group"], each["next"]) for each in answer["items"]] == [("a", ids[1])]
    assert looking.get("/api/v1/servers/one/tubes/nowhere/groups").status == 404


def test_the_overview_says_what_is_wrong(seen: Console) -> None:
    text = page(seen, "/")
    assert "Jobs are ready in tubes that no connection watches" in text
    assert "Jobs wait in tubes that are paused for long" in text


def test_a_server_shows_its_statistics(seen: Console, server: Server) -> None:
    text = page(seen, "/servers")
    assert "<dt>cmd-pause-tube</dt>" in text
    assert ("Beanpole " in text.split("<main")[1]) == is_ours(server)


def test_a_tube_that_no_server_can_have_is_a_mistake(seen: Console) -> None:
    assert seen.get("/tubes/%3Cb%3E").status == 404
