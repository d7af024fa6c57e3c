"""The API of a real console: over servers of ours and of beanstalkd, and held against its own description."""

import base64
from typing import Any

import pytest

from beanpole import Client
from beanpole.console.api.table import OPERATIONS
from tests.e2e.console.acting import client_of
from tests.e2e.console.api import asked
from tests.e2e.console.fuzzing import THERE, fuzz, world
from tests.e2e.console.process import TOKEN, Console, console, url_of
from tests.e2e.process import wait_until
from tests.servers import HOST, beanpole_server, beanstalkd_server


def test_servers_tubes_and_jobs_are_found() -> None:
    with (
        beanpole_server() as server,
        console("--url", url_of(server, "one"), "--url", "two=127.0.0.1:1") as served,
        Client(f"{HOST}:{server.port}", None) as client,
    ):
        client.put(b"hello", tube="a/b", key="k")
        other = client.put(b"\xff", tube="a/b", delay=60)
        client.set_rules("a*", {"attempts": 5})

        one, two = asked(served, "/servers")["items"]
        assert (one["name"], one["away"], one["stats"]["cmd-put"] >= 0) == ("one", None, True)
        assert two["stats"] is None
        assert "connect" in two["away"]
        assert asked(served, "/servers/two/sessions", 503)["detail"] == two["away"]

        # A page of tubes may be a second old; one tube never is.
        tube = asked(served, "/servers/one/tubes/a%2Fb")
        assert (tube["name"], tube["ready"], tube["delayed"]) == ("a/b", 1, 1)

        (job,) = asked(served, "/servers/one/tubes/a%2Fb/jobs")["items"]
        assert (job["key"], job["attempts"]) == ("k", 5)
        (found,) = asked(served, "/servers/one/tubes/a%2Fb/jobs?text=hell")["items"]
        assert found["id"] == job["id"]
        assert asked(served, "/servers/one/tubes/a%2Fb/jobs?text=hellish")["items"] == []
        shown = asked(served, f"/servers/one/jobs/{job['id']}")
        assert shown["job"]["state"] == "ready"
        assert shown["body"] == {"data": "hello", "encoding": "text", "size": 5, "is_cut": False}
        assert asked(served, f"/servers/one/jobs/{other}")["body"]["encoding"] == "base64"
        as_base64 = asked(served, f"/servers/one/jobs/{job['id']}?body=base64")["body"]["data"]
        assert base64.b64decode(as_base64) == b"hello"
        assert asked(served, f"/servers/one/jobs/{job['id']}?body=none")["body"] is None
        assert asked(served, "/servers/one/jobs/99", 404)["detail"] == "there is no job 99"

        reasons = asked(served, f"/servers/one/jobs/{other}/explain")["reasons"]
        assert "left" in {each["word"]: each["facts"] for each in reasons}["delayed"]
        assert asked(served, "/servers/one/tubes/a%2Fb/explain")["facts"]["tube"] == "a/b"
        (rules,) = asked(served, "/servers/one/rules")["items"]
        assert (rules["pattern"], rules["rules"]) == ("a*", {"attempts": "5"})
        assert asked(served, "/servers/one/tubes/ab/rules")["pattern"] == "a*"
        assert asked(served, "/servers/one/tubes/b/rules", 404)


def test_lists_come_in_pages(client: Client[bytes], looking: Console) -> None:
    names = [f"listed-{number}" for number in range(5)]
    for name in names:
        client.put(b"x", tube=name)
    ids = client.put_many([b"x"] * 4, tube=names[0])

    def walked(path: str) -> list[Any]:
        items: list[Any] = []
        page = asked(looking, f"/servers/one{path}?limit=2")
        while page["next"] is not None:
            assert len(page["items"]) == 2
            items.extend(page["items"])
            page = asked(looking, f"/servers/one{path}?limit=2&after={page['next']}")
        return [*items, *page["items"]]

    # The list is that of the last sample, which may be a second old.
    wait_until(
        lambda: [each["name"] for each in walked("/tubes") if each["name"] in names] == names, "all tubes are listed"
    )
    assert [each["id"] for each in walked(f"/tubes/{names[0]}/jobs")][1:] == ids
    assert len(walked("/sessions")) >= 2


def test_what_failed_and_what_is_held_is_found(client: Client[bytes], looking: Console) -> None:
    client.set_rules("mail", {"attempts": 1, "dead": "dead"})
    client.put(b"x", tube="mail")
    client.watch("mail")
    failed = client.reserve(timeout=0)
    client.fail_job(failed, "no such mailbox\nat line 5")
    client.put(b"y", tube="work")
    client.watch("work")
    held = client.reserve(timeout=0)

    # Tubes are those of the last sample, which may be a second old.
    jobs_of = "/servers/one/failures?tube=mail&error=no+such+mailbox"
    wait_until(lambda: asked(looking, jobs_of)["jobs"], "the failure is seen")
    (group,) = asked(looking, "/servers/one/failures?tube=mail")["groups"]
    assert (group["tube"], group["error"], group["count"]) == ("mail", "no such mailbox", 1)
    found = asked(looking, jobs_of)
    assert [(each["job"]["id"], each["reason"]) for each in found["jobs"]] == [
        (failed.id, "no such mailbox\nat line 5")
    ]
    assert "dead" in [each["tube"] for each in found["places"]]
    assert asked(looking, "/servers/one/failures?tube=mail&text=elsewhere")["groups"] == []

    wait_until(lambda: asked(looking, "/servers/one/busy?tube=work")["items"], "the held job is seen")
    (busy,) = asked(looking, "/servers/one/busy?tube=work")["items"]
    (session,) = asked(looking, f"/servers/one/sessions?holding=true&number={busy['session']}")["items"]
    assert (busy["job"]["id"], "work" in session["watched"]) == (held.id, True)
    assert asked(looking, "/servers/one/busy?tube=mail")["items"] == []

    wait_until(lambda: asked(looking, "/servers/one/history?key=put/s&span=6h")["items"], "there is a point")
    assert asked(looking, "/servers/one/history?key=put", 400)["detail"].endswith("at `$.key`")


# --- What changes something -------------------------------------------------------------------------------------------


def act(served: Console, status: int = 200, /, **body: Any) -> Any:  # noqa: ANN401 - JSON
    return asked(served, "/actions", status, "POST", body={"server": "one", **body}, token=TOKEN)


def test_a_filter_is_acted_on_as_its_dry_run_has_seen_it(client: Client[bytes], changing: Console) -> None:
    ids = client.put_many([b"x", b"y", b"z"], tube="filtered")
    wanted = {"verb": "delete", "tube": "filtered", "state": "ready"}
    assert "dry run" in act(changing, 409, **wanted, highest=5)["detail"]
    dry = act(changing, **wanted, dry_run=True)["dry_run"]
    assert (dry["count"], dry["highest"], dry["typed"]) == (3, ids[-1], False)
    assert [each["id"] for each in dry["sample"]] == ids
    newer = client.put(b"newer", tube="filtered")
    run = act(changing, **wanted, highest=dry["highest"])["run"]
    assert (run["state"], run["who"], run["done"], run["gone"]) == ("done", "ann", 3, 0)
    assert client.peek(newer).body == b"newer"
    assert client.stats_tube("filtered").current_jobs_ready == 1
    assert asked(changing, f"/actions/{run['id']}", token=TOKEN) == run
    assert run in asked(changing, "/actions", token=TOKEN)["items"]
    assert asked(changing, f"/actions/{run['id']}", 200, "DELETE", token=TOKEN) == run
    assert asked(changing, "/actions/999", 404, token=TOKEN)["detail"] == "there is no action 999, or it was long ago"


def test_a_thousand_jobs_are_only_deleted_when_their_number_is_sent(client: Client[bytes], changing: Console) -> None:
    client.put_many([b"x"] * 1001, tube="thousand")
    wanted = {"verb": "delete", "tube": "thousand", "state": "ready"}
    dry = act(changing, **wanted, dry_run=True)["dry_run"]
    assert dry["typed"]
    assert "1001" in act(changing, 409, **wanted, highest=dry["highest"])["detail"]
    run = act(changing, **wanted, highest=dry["highest"], typed=1001)["run"]
    assert run["total"] == 1001


def test_a_job_is_put_byte_by_byte(client: Client[bytes], changing: Console) -> None:
    for sent, body in (({"body": "é\r\n"}, "é\r\n".encode()), ({"body_base64": "AAE="}, b"\0\1"), ({"body": ""}, b"")):
        run = act(changing, verb="put", tube="a/b", delay=0.5, priority=7, **sent)["run"]
        (id,) = run["ids"]
        assert client.peek(id).body == body
        assert client.stats_job(id).pri == 7


def test_rules_and_pauses_are_set(client: Client[bytes], changing: Console) -> None:
    client.put(b"x", tube="ruled")
    assert act(changing, verb="set-rules", pattern="ruled*", rules="attempts: 5")["run"]["state"] == "done"
    assert client.get_rules("ruled")["attempts"] == "5"
    assert act(changing, verb="pause", tube="ruled", seconds=60)["run"]["state"] == "done"
    assert client.stats_tube("ruled").pause == 60
    assert act(changing, verb="resume", tube="ruled")["run"]["state"] == "done"
    client.put(b"x", tube="ruled", group="a")
    assert act(changing, verb="pause", tube="ruled", group="a", seconds=60)["run"]["target"] == "group a of ruled"
    assert (client.stats_groups("ruled")[0].closed, client.stats_tube("ruled").pause) == (["pause"], 0)
    assert act(changing, verb="resume", tube="ruled", group="a")["run"]["state"] == "done"
    assert client.stats_groups("ruled")[0].closed == []
    assert act(changing, verb="drop-rules", pattern="ruled*")["run"]["state"] == "done"


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


def test_what_makes_no_sense_is_refused_in_a_sentence(changing: Console) -> None:
    for status, body, sentence in SENSELESS:
        assert sentence in act(changing, status, **body)["detail"]


def test_nothing_is_changed_without_a_token(client: Client[bytes], changing: Console, looking: Console) -> None:
    id = client.put(b"x")
    body = {"verb": "delete", "server": "one", "ids": [id]}
    assert "Bearer" in asked(changing, "/actions", 401, "POST", body=body)["detail"]
    assert asked(changing, "/servers", 401)
    assert asked(changing, "/servers", 401, token=TOKEN + "s")
    assert asked(changing, "/actions/1", 401, "DELETE")
    for method, path in (("POST", "/actions"), ("DELETE", "/actions/1")):
        assert "ead-only" in asked(looking, path, 403, method, body=body)["detail"]
    assert client.peek(id).body == b"x"


# --- What a server that knows less can say, and any other request -----------------------------------------------------

PLAIN = (
    ("", 200),
    ("/tubes", 200),
    ("/tubes/a%2Fb", 200),
    ("/tubes/a%2Fb/explain", 501),
    ("/tubes/a%2Fb/jobs", 200),
    ("/tubes/a%2Fb/jobs?text=hello", 200),
    ("/tubes/a%2Fb/jobs?order=next", 200),
    ("/tubes/a%2Fb/rules", 501),
    ("/jobs/1", 200),
    ("/jobs/9", 404),
    ("/jobs/1/explain", 501),
    ("/failures", 200),
    ("/busy", 200),
    ("/sessions", 501),
    ("/rules", 501),
    ("/history", 200),
)
"""What is asked of beanstalkd, and the status of the answer."""


def test_beanstalkd_is_shown_as_far_as_it_says_something() -> None:
    with beanstalkd_server() as server, client_of(server) as client, console("--url", url_of(server, "one")) as served:
        client.put(b"hello", tube="a/b")
        for path, status in PLAIN:
            answer = asked(served, f"/servers/one{path}", status)
            assert status != 501 or "support" in answer["detail"] or "needs" in answer["detail"]
            assert not path.startswith("/tubes/a%2Fb/jobs") or [each["id"] for each in answer["items"]] == [1]


@pytest.mark.long
@pytest.mark.parametrize("config", ["", THERE], ids=["anything", "what is there"])
def test_the_api_keeps_to_its_own_description(config: str) -> None:
    with world() as served:
        done = fuzz(served, "--phases=fuzzing", "--max-examples=3", "--generation-deterministic", config=config)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"Tested: {len(OPERATIONS)}\n" in done.stdout
        said = done.stdout.replace(f":{served.port}/", "/")  # which may have these digits
        assert not config or "404" not in said, done.stdout
