"""Actions by the pages, over HTTP: with a token, with a cookie, and without any."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

import pytest

from tests.e2e.console.acting import client_of, ids_in
from tests.e2e.console.process import Answer, Console, console, url_of
from tests.e2e.process import wait_until
from tests.servers import HOST, Server, beanpole_server

TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of servers that live as long as a test


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server; each test has a tube of its own."""
    with beanpole_server() as running:
        yield running


@pytest.fixture(scope="module")
def served(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Its console, in which Anne may change something."""
    file = Path(tmp_path_factory.mktemp("tokens"), "tokens")
    file.write_text(f"anne {TOKEN}\n")
    file.chmod(0o600)
    with console("--url", url_of(server, "queue"), "--http-token-file", str(file)) as found:
        yield found


def fields_in(page: str, action: str) -> list[tuple[str, str]]:
    """The hidden fields of a form of a page."""
    (form,) = re.findall(rf'<form [^>]*action="{action}">(.*?)</form>', page, re.DOTALL)
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    return [(unescape(name), unescape(value)) for name, value in found]


def as_form(fields: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Fields as a form sends them."""
    found: dict[str, list[str]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value)
    return found


def over(served: Console, answer: Answer) -> str:
    """The page of a run that is over."""
    assert answer.status == 303, answer.text
    path = answer.headers["location"]

    def page() -> str:
        return served.get(path, Authorization=f"Bearer {TOKEN}").text

    wait_until(lambda: ">running<" not in page(), "the run is over")
    return page()


def test_a_form_a_dry_run_and_a_run_that_is_undone(server: Server, served: Console) -> None:
    with client_of(server) as client:
        client.put(b"x", tube="paused")
        asked = served.post("/actions/dry-run", {"verb": "pause", "server": "queue", "tube": "paused"}, TOKEN)
        assert asked.status == 200
        assert 'name="seconds" value="3600"' in asked.text
        fields = as_form(fields_in(asked.text, "/actions/dry-run"))
        made = served.post("/actions/dry-run", fields | {"seconds": ["600"]}, TOKEN)
        assert made.status == 200
        assert f"beanpole pause --url beanstalk://{HOST}:{server.port} --for 600 paused" in made.text
        assert client.stats_tube("paused").pause == 0
        answer = served.post("/actions", as_form(fields_in(made.text, "/actions")), TOKEN)
        assert ">done<" in over(served, answer)
        assert client.stats_tube("paused").pause == 600
        undone = served.post(f"{answer.headers['location']}/undo", {}, TOKEN)
        assert ">done<" in over(served, undone)
        assert client.stats_tube("paused").pause_time_left == 0
        assert served.post(f"{answer.headers['location']}/undo", {}, TOKEN).status == 409


def test_what_is_wrong_stands_above_the_form(served: Console) -> None:
    fields = {"verb": "put", "server": "queue", "tube": "a b", "body": "<kept>", "filled": "1"}
    answer = served.post("/actions/dry-run", fields, TOKEN)
    assert answer.status == 409
    assert 'role="alert"' in answer.text
    assert "&lt;kept&gt;" in answer.text
    assert served.post("/actions/dry-run", {"verb": "mend"}, TOKEN).status == 400


def test_a_body_is_put_as_it_was_typed(server: Server, served: Console) -> None:
    body = 'Zeile\r\n"mehr" \' $HOME \x01 <b>\r\n'
    fields = {"verb": "put", "server": "queue", "tube": "typed", "body": body, "key": "k", "filled": "1"}
    made = served.post("/actions/dry-run", fields, TOKEN)
    over(served, served.post("/actions", as_form(fields_in(made.text, "/actions")), TOKEN))
    with client_of(server) as client:
        assert client.find_job("typed", "k").body == body.replace("\r\n", "\n").encode()


def test_a_form_that_is_sent_twice_leads_to_one_run(server: Server, served: Console) -> None:
    fields = {"verb": "put", "server": "queue", "tube": "once", "body": "x", "filled": "1"}
    made = served.post("/actions/dry-run", fields, TOKEN)
    form = as_form(fields_in(made.text, "/actions"))
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: served.post("/actions", form, TOKEN), range(4)))
    assert {each.status for each in answers} == {303}
    assert len({each.headers["location"] for each in answers}) == 1
    with client_of(server) as client:
        wait_until(lambda: ids_in(client, "once", "ready"), "the job is there")
        assert len(ids_in(client, "once", "ready")) == 1


def test_what_comes_from_no_dry_run_is_shown_one(server: Server, served: Console) -> None:
    with client_of(server) as client:
        id = client.put(b"x", tube="shown")
        answer = served.post("/actions", {"verb": "delete", "server": "queue", "id": id}, TOKEN)
        assert answer.status == 200
        assert "Nothing was changed yet" in answer.text
        assert ids_in(client, "shown", "ready") == [id]


def test_a_filter_without_its_dry_run_is_refused(server: Server, served: Console) -> None:
    with client_of(server) as client:
        client.put(b"x", tube="kept")
        fields = {"verb": "delete", "server": "queue", "tube": "kept", "state": "ready"}
        answer = served.post("/actions", fields | {"highest": "10", "mark": "1"}, TOKEN)
        assert answer.status == 409
        assert "make one first" in answer.text
        assert len(ids_in(client, "kept", "ready")) == 1


def test_a_cookie_needs_the_token_of_the_form_and_our_origin(server: Server, served: Console) -> None:
    origin = {"Origin": f"http://{HOST}:{served.port}", "Accept": "text/html"}
    entered = served.post("/login", {"token": TOKEN, "to": "/"}, **origin)
    cookie = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
    with client_of(server) as client:
        ids = client.put_many([b"x"] * 3, tube="cookie")
        page = served.get("/actions", Accept="text/html", **cookie).text
        (form_token,) = set(re.findall(r'name="form_token" value="([^"]+)"', page))
        fields = {"verb": "delete", "server": "queue", "id": ids[:2], "mark": "2"}
        assert served.post("/actions", fields, **cookie, **origin).status == 403
        sent = fields | {"form_token": form_token}
        assert served.post("/actions", sent, **cookie, Origin="http://evil.example").status == 403
        assert served.post("/actions", sent, **origin).status in (303, 401)
        assert len(ids_in(client, "cookie", "ready")) == 3
        done = served.post("/actions", sent, **cookie, **origin)
        assert done.headers["location"].startswith("/actions/")
        wait_until(lambda: ids_in(client, "cookie", "ready") == ids[2:], "the jobs are deleted")
    line = f'"target": "jobs {ids[0]}, {ids[1]}"'
    wait_until(lambda: line in served.messages.read_text(), "the console has heard of it, and says so")
    assert TOKEN not in served.messages.read_text()


def test_without_a_token_nothing_is_changed(server: Server) -> None:
    with console("--url", url_of(server, "queue")) as looking, client_of(server) as client:
        id = client.put(b"x", tube="looked-at")
        fields = {"verb": "delete", "server": "queue", "id": id}
        for path in ("/actions", "/actions/dry-run", "/actions/1/stop", "/actions/1/undo"):
            assert looking.post(path, fields, Origin=f"http://{HOST}:{looking.port}").status == 403
        assert ids_in(client, "looked-at", "ready") == [id]
        assert "disabled title=" in looking.get("/put").text
