"""With ``--http-hide-bodies`` no page, list, file or answer of the API has a body of a job, and none is searched."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from beanpole import Client
from tests.e2e.console.api import asked
from tests.e2e.console.process import TOKEN, Answer, Console, acting
from tests.servers import HOST, Server, beanpole_server

BODY = b"hunter2 is not my password"
SHAPES = (BODY, base64.b64encode(BODY), BODY[:8].hex().encode())
FLAGS = pytest.mark.parametrize("flags", [(), ("--http-hide-bodies",)])

PAGES = (
    *("/", "/tubes", "/tubes/a", "/tubes/b", "/failures", "/busy", "/sessions", "/rules", "/servers", "/actions"),
    *("/put", "/schedules", "/schedules/s", "/schedules.jsonl", "/api/v1/servers/one/schedules/s"),
    *("/jobs?tube=a", "/jobs?tube=a&state=buried", "/jobs?tube=a&state=reserved", "/jobs?tube=a&state=delayed"),
    *(
        f"/jobs/{id}{end}"
        for id in range(1, 6)
        for end in ("", "?as=text", "?as=hex", "?as=base64", "?as=json", "/body")
    ),
    *("/jobs.jsonl?tube=a", "/jobs.jsonl?tube=a&state=buried", "/failures.jsonl", "/busy.jsonl"),
    *(
        f"/api/v1/servers/one/jobs/{id}{end}"
        for id in range(1, 6)
        for end in ("", "?body=text", "?body=base64", "/explain")
    ),
    *(f"/api/v1/servers/one/tubes/a/jobs?state={state}" for state in ("ready", "reserved", "delayed", "buried")),
    *("/api/v1/servers/one/failures", "/api/v1/servers/one/busy", "/api/v1/servers/one/tubes/a/explain"),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with the same body in each state."""
    with beanpole_server() as running, Client(f"{HOST}:{running.port}", None) as client:
        client.set_rules("a", {"attempts": 1, "dead": "b"})
        for _ in range(3):
            client.put(BODY, tube="a")
        client.set_schedule("s", BODY, cron="0 0 29 2 *")
        client.put(BODY, tube="a", delay=3_600)
        client.watch("a")
        client.fail_job(client.reserve(timeout=0), "a reason")
        client.bury(client.reserve(timeout=0))
        client.reserve(timeout=0)
        client.put(BODY, tube="a")
        yield running


def get(served: Console, path: str) -> Answer:
    """Asks as a program that has a token."""
    return served.get(path, Authorization=f"Bearer {TOKEN}")


@FLAGS
def test_a_body_is_shown_or_not(flags: tuple[str, ...], server: Server) -> None:
    with acting(server, *flags) as served:
        answers = {path: get(served, path) for path in PAGES}
        failed = {path: answer.status for path, answer in answers.items() if answer.status != 200}
        assert set(failed) == ({f"/jobs/{id}/body" for id in range(1, 6)} if flags else set())
        showing = {
            path
            for path, answer in answers.items()
            if any(shape in b"".join(answer.body.lower().split()) for shape in map(squeezed, SHAPES))
        }
        if flags:
            assert not showing
        else:
            assert {"/jobs?tube=a", "/jobs/1/body", "/jobs/2?as=hex", "/jobs.jsonl?tube=a"} <= showing
            assert {"/api/v1/servers/one/jobs/3", "/schedules/s", "/schedules.jsonl"} <= showing


def squeezed(text: bytes) -> bytes:
    """A text without what a page may put between its parts."""
    return b"".join(text.lower().split())


@FLAGS
def test_a_body_is_searched_or_not(flags: tuple[str, ...], server: Server) -> None:
    with acting(server, *flags) as served:
        expected = 0 if flags else 1
        found = asked(served, "/servers/one/tubes/a/jobs?text=hunter2", token=TOKEN)
        assert len(found["items"]) == expected
        assert get(served, "/jobs.jsonl?tube=a&text=hunter2").body.count(b"\n") == expected
        wanted: dict[str, Any] = {"server": "one", "verb": "delete", "tube": "a", "state": "ready", "text": "hunter2"}
        dry = asked(served, "/actions", method="POST", body={**wanted, "dry_run": True}, token=TOKEN)["dry_run"]
        assert dry["count"] == expected
