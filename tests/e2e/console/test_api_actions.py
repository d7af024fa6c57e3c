"""What changes something by the API."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beanpole import Client
from tests.e2e.console.api import TOKEN, asked
from tests.e2e.console.process import Console, console, url_of
from tests.servers import HOST, beanpole_server


@contextmanager
def acting(folder: Path) -> Iterator[tuple[Console, Client[str]]]:
    """A console that may change things, and a client of its server."""
    tokens = folder / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"alice {TOKEN}\n")
    with (
        beanpole_server() as server,
        Client(f"{HOST}:{server.port}") as client,
        console("--url", url_of(server, "one"), "--http-token-file", str(tokens)) as served,
    ):
        yield served, client


def act(served: Console, status: int = 200, /, **body: Any) -> Any:  # noqa: ANN401 - JSON
    """What the answer to an action is."""
    return asked(served, "/actions", status, "POST", body={"server": "one", **body}, token=TOKEN)


def test_a_filter_is_acted_on_as_its_dry_run_has_seen_it(tmp_path: Path) -> None:
    with acting(tmp_path) as (served, client):
        ids = client.put_many(["x", "y", "z"], tube="a")
        wanted = {"verb": "delete", "tube": "a", "state": "ready"}
        assert "dry run" in act(served, 409, **wanted, highest=5)["detail"]
        dry = act(served, **wanted, dry_run=True)["dry_run"]
        assert (dry["count"], dry["highest"], dry["typed"]) == (3, ids[-1], False)
        assert [each["id"] for each in dry["sample"]] == ids
        newer = client.put("newer", tube="a")
        run = act(served, **wanted, highest=dry["highest"])["run"]
        assert (run["state"], run["who"], run["done"], run["gone"]) == ("done", "alice", 3, 0)
        assert client.peek(newer).body == "newer"
        assert client.stats_tube("a").current_jobs_ready == 1
        assert asked(served, f"/actions/{run['id']}", token=TOKEN) == run
        assert asked(served, "/actions", token=TOKEN)["items"] == [run]
        assert asked(served, f"/actions/{run['id']}", 200, "DELETE", token=TOKEN) == run
        assert asked(served, "/actions/99", 404, token=TOKEN)["detail"] == "there is no action 99, or it was long ago"


def test_a_thousand_jobs_are_only_deleted_when_their_number_is_sent(tmp_path: Path) -> None:
    with acting(tmp_path) as (served, client):
        client.put_many(["x"] * 1001, tube="a")
        wanted = {"verb": "delete", "tube": "a", "state": "ready"}
        dry = act(served, **wanted, dry_run=True)["dry_run"]
        assert dry["typed"]
        assert "1001" in act(served, 409, **wanted, highest=dry["highest"])["detail"]
        run = act(served, **wanted, highest=dry["highest"], typed=1001)["run"]
        assert run["total"] == 1001


def test_a_job_is_put_byte_by_byte(tmp_path: Path) -> None:
    with acting(tmp_path) as (served, client):
        for sent, body in (({"body": "é\r\n"}, "é\r\n"), ({"body_base64": "AAE="}, "\0\1"), ({"body": ""}, "")):
            run = act(served, verb="put", tube="a/b", delay=0.5, priority=7, **sent)["run"]
            (id,) = run["ids"]
            assert client.peek(id).body == body
            assert client.stats_job(id).pri == 7


def test_rules_and_pauses_are_set(tmp_path: Path) -> None:
    with acting(tmp_path) as (served, client):
        client.put("x", tube="a")
        assert act(served, verb="set-rules", pattern="a*", rules="attempts: 5")["run"]["state"] == "done"
        assert client.get_rules("a")["attempts"] == "5"
        assert act(served, verb="pause", tube="a", seconds=60)["run"]["state"] == "done"
        assert client.stats_tube("a").pause == 60
        assert act(served, verb="resume", tube="a")["run"]["state"] == "done"
        assert act(served, verb="drop-rules", pattern="a*")["run"]["state"] == "done"


SENSELESS: tuple[tuple[int, dict[str, Any], str], ...] = (
    (400, {"verb": "explode"}, "Invalid enum value 'explode' - at `$.verb`"),
    (409, {"verb": "put", "tube": "a", "body": "x", "body_base64": "eA=="}, "body and body_base64 are two bodies"),
    (400, {"verb": "put", "tube": "a", "body_base64": "x"}, "at `$.body_base64`"),
    (400, {"verb": "delete", "ids": []}, "length >= 1 - at `$.ids`"),
    (400, {"verb": "delete", "id": [1]}, "unknown field `id`"),
    (404, {"verb": "delete", "ids": [1], "server": "two"}, "no server is called 'two' here"),
    (409, {"verb": "delete", "ids": [1], "tube": "a"}, "delete is about job 1 here, and takes no tube"),
    (409, {"verb": "delete", "tube": "a"}, "state must be "),
    (409, {"verb": "delete", "ids": [1], "to": "a"}, "delete takes no to"),
    (409, {"verb": "pause", "tube": "a"}, "pause needs seconds"),
    (409, {"verb": "set-rules", "pattern": "a b", "rules": ""}, "pattern: "),
)


def test_what_makes_no_sense_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with acting(tmp_path) as (served, _):
        for status, body, sentence in SENSELESS:
            assert sentence in act(served, status, **body)["detail"]


def test_nothing_is_changed_without_a_token(tmp_path: Path) -> None:
    with acting(tmp_path) as (served, client):
        id = client.put("x")
        body = {"verb": "delete", "server": "one", "ids": [id]}
        assert "Bearer" in asked(served, "/actions", 401, "POST", body=body)["detail"]
        assert asked(served, "/servers", 401)
        assert asked(served, "/servers", 401, token=TOKEN + "s")
        assert asked(served, "/actions/1", 401, "DELETE")
        assert client.peek(id).body == "x"
    with (
        beanpole_server() as server,
        Client(f"{HOST}:{server.port}") as client,
        console("--url", url_of(server, "one")) as served,
    ):
        id = client.put("x")
        for method, path in (("POST", "/actions"), ("DELETE", "/actions/1")):
            assert "ead-only" in asked(served, path, 403, method, body=body | {"ids": [id]})["detail"]
        assert client.peek(id).body == "x"
