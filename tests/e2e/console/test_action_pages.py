"""Actions by the pages, over HTTP."""

import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape

from beanpole.client import Client
from tests.e2e.console.acting import ids_in
from tests.e2e.console.process import TOKEN, Answer, Console
from tests.e2e.process import wait_until
from tests.servers import HOST, Server


def fields_in(page: str, action: str) -> list[tuple[str, str]]:
    (form,) = re.findall(rf'<form [^>]*action="{action}">(.*?)</form>', page, re.DOTALL)
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    return [(unescape(name), unescape(value)) for name, value in found]


def as_form(fields: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value)
    return found


def over(changing: Console, answer: Answer) -> str:
    assert answer.status == 303, answer.text
    path = answer.headers["location"]

    def page() -> str:
        return changing.get(path, Authorization=f"Bearer {TOKEN}").text

    wait_until(lambda: ">running<" not in page(), "the run is over")
    return page()


def test_a_form_a_dry_run_and_a_run_that_is_undone(ours: Server, client: Client[bytes], changing: Console) -> None:
    client.put(b"x", tube="paused")
    asked = changing.post("/actions/dry-run", {"verb": "pause", "server": "one", "tube": "paused"}, TOKEN)
    assert asked.status == 200
    assert 'name="seconds" value="3600"' in asked.text
    fields = as_form(fields_in(asked.text, "/actions/dry-run"))
    made = changing.post("/actions/dry-run", fields | {"seconds": ["600"]}, TOKEN)
    assert made.status == 200
    assert f"beanpole pause --url beanstalk://{HOST}:{ours.port} --for 600 paused" in made.text
    assert client.stats_tube("paused").pause == 0
    answer = changing.post("/actions", as_form(fields_in(made.text, "/actions")), TOKEN)
    assert ">done<" in over(changing, answer)
    assert client.stats_tube("paused").pause == 600
    undone = changing.post(f"{answer.headers['location']}/undo", {}, TOKEN)
    assert ">done<" in over(changing, undone)
    assert client.stats_tube("paused").pause_time_left == 0
    assert changing.post(f"{answer.headers['location']}/undo", {}, TOKEN).status == 409


def test_what_is_wrong_stands_above_the_form(changing: Console) -> None:
    fields = {"verb": "put", "server": "one", "tube": "a b", "body": "<kept>", "filled": "1"}
    answer = changing.post("/actions/dry-run", fields, TOKEN)
    assert answer.status == 409
    assert 'role="alert"' in answer.text
    assert "&lt;kept&gt;" in answer.text
    assert changing.post("/actions/dry-run", {"verb": "mend"}, TOKEN).status == 400


def test_a_body_is_put_as_it_was_typed(client: Client[bytes], changing: Console) -> None:
    body = 'Zeile\r\n"mehr" \' $HOME \x01 <b>\r\n'
    fields = {"verb": "put", "server": "one", "tube": "typed", "body": body, "key": "k", "filled": "1"}
    made = changing.post("/actions/dry-run", fields, TOKEN)
    over(changing, changing.post("/actions", as_form(fields_in(made.text, "/actions")), TOKEN))
    assert client.find_job("typed", "k").body == body.replace("\r\n", "\n").encode()


def test_a_form_that_is_sent_twice_leads_to_one_run(client: Client[bytes], changing: Console) -> None:
    fields = {"verb": "put", "server": "one", "tube": "once", "body": "x", "filled": "1"}
    made = changing.post("/actions/dry-run", fields, TOKEN)
    form = as_form(fields_in(made.text, "/actions"))
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: changing.post("/actions", form, TOKEN), range(4)))
    assert {each.status for each in answers} == {303}
    assert len({each.headers["location"] for each in answers}) == 1
    wait_until(lambda: ids_in(client, "once", "ready"), "the job is there")
    assert len(ids_in(client, "once", "ready")) == 1


def test_what_comes_from_no_dry_run_is_shown_one(client: Client[bytes], changing: Console) -> None:
    id = client.put(b"x", tube="shown")
    answer = changing.post("/actions", {"verb": "delete", "server": "one", "id": id}, TOKEN)
    assert answer.status == 200
    assert "Nothing was changed yet" in answer.text
    assert ids_in(client, "shown", "ready") == [id]


def test_a_filter_without_its_dry_run_is_refused(client: Client[bytes], changing: Console) -> None:
    client.put(b"x", tube="kept")
    fields = {"verb": "delete", "server": "one", "tube": "kept", "state": "ready"}
    answer = changing.post("/actions", fields | {"highest": "10", "mark": "1"}, TOKEN)
    assert answer.status == 409
    assert "make one first" in answer.text
    assert len(ids_in(client, "kept", "ready")) == 1
