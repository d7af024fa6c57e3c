"""The API of a real console, over real servers."""

import base64
from typing import Any

from beanpole import Client
from tests.e2e.console.api import asked
from tests.e2e.console.process import console, url_of
from tests.e2e.process import wait_until
from tests.servers import HOST, beanpole_server


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


def test_lists_come_in_pages() -> None:
    with (
        beanpole_server() as server,
        Client(f"{HOST}:{server.port}") as client,
        console("--url", url_of(server, "one")) as served,
    ):
        names = sorted(["default", *(f"t{number}" for number in range(5))])
        for name in names[1:]:
            client.put("x", tube=name)
        ids = client.put_many(["x"] * 4, tube="t0")

        def walked(path: str) -> list[Any]:
            items: list[Any] = []
            page = asked(served, f"/servers/one{path}?limit=2")
            while page["next"] is not None:
                assert len(page["items"]) == 2
                items.extend(page["items"])
                page = asked(served, f"/servers/one{path}?limit=2&after={page['next']}")
            return [*items, *page["items"]]

        # The list is that of the last sample, which may be a second old.
        wait_until(lambda: [each["name"] for each in walked("/tubes")] == names, "all tubes are listed")
        assert [each["id"] for each in walked("/tubes/t0/jobs")][1:] == ids
        assert len(walked("/sessions")) >= 2


def test_what_failed_and_what_is_held_is_found() -> None:
    with (
        beanpole_server() as server,
        Client(f"{HOST}:{server.port}") as client,
        console("--url", url_of(server, "one")) as served,
    ):
        client.set_rules("mail", {"attempts": 1, "dead": "dead"})
        client.put("x", tube="mail")
        client.watch("mail")
        failed = client.reserve(timeout=0)
        client.fail_job(failed, "no such mailbox\nat line 5")
        client.put("y", tube="work")
        client.watch("work")
        held = client.reserve(timeout=0)

        # Tubes are those of the last sample, which may be a second old.
        wait_until(lambda: asked(served, "/servers/one/failures")["groups"], "the failure is seen")
        (group,) = asked(served, "/servers/one/failures")["groups"]
        assert (group["tube"], group["error"], group["count"]) == ("mail", "no such mailbox", 1)
        found = asked(served, "/servers/one/failures?error=no+such+mailbox")
        assert [(each["job"]["id"], each["reason"]) for each in found["jobs"]] == [
            (failed.id, "no such mailbox\nat line 5")
        ]
        assert [each["tube"] for each in found["places"]] == ["dead"]
        assert asked(served, "/servers/one/failures?text=elsewhere")["groups"] == []

        wait_until(lambda: asked(served, "/servers/one/busy")["items"], "the held job is seen")
        (busy,) = asked(served, "/servers/one/busy?tube=work")["items"]
        (session,) = asked(served, "/servers/one/sessions?holding=true")["items"]
        assert (busy["job"]["id"], busy["session"]) == (held.id, session["number"])
        assert asked(served, "/servers/one/busy?tube=mail")["items"] == []

        wait_until(lambda: asked(served, "/servers/one/history?key=put/s&span=6h")["items"], "there is a point")
        assert asked(served, "/servers/one/history?key=put", 400)["detail"].endswith("at `$.key`")
