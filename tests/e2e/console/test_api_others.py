"""The API where not all is as usual: texts that are none, names that look like paths, servers that know less."""

from beanpole import Client
from tests.e2e.console.api import asked
from tests.e2e.console.process import console, url_of
from tests.e2e.process import wait_until
from tests.servers import HOST, beanpole_server, beanstalkd_server

NAMES = {
    "a/b/../c": "a%2Fb%2F..%2Fc",
    ";$_()+.-": ";$_()+.-",
    "/": "%2F",
    "..": "..",
    "x" * 200: "x" * 200,
    "017": "017",
}
"""Names that a tube may have, and how they are written in a path."""


def test_any_name_of_a_tube_leads_to_it() -> None:
    with (
        beanpole_server() as server,
        Client(f"{HOST}:{server.port}") as client,
        console("--url", url_of(server, "one")) as served,
    ):
        for name, written in NAMES.items():
            id = client.put("x", tube=name)
            assert asked(served, f"/servers/one/tubes/{written}")["name"] == name
            (job,) = asked(served, f"/servers/one/tubes/{written}/jobs")["items"]
            assert (job["id"], job["tube"]) == (id, name)


def test_what_is_no_text_is_answered_in_utf_8() -> None:
    with (
        beanpole_server() as server,
        Client(f"{HOST}:{server.port}", None, name="\u202e<b>") as client,
        console("--url", url_of(server, "one")) as served,
    ):
        client.set_rules("a", {"attempts": 1})
        client.put(b"x", tube="a")
        client.watch("a")
        client.fail_job(client.reserve(timeout=0), "\udcff\n<script>")
        id = client.put(b"\0", tube="a", key='\udcff"')
        shown = asked(served, f"/servers/one/jobs/{id}")
        assert shown["job"]["key"] == '\ufffd"'
        assert shown["body"]["data"] == "\0"
        wait_until(lambda: asked(served, "/servers/one/failures")["groups"], "the failure is seen")
        (group,) = asked(served, "/servers/one/failures")["groups"]
        assert group["example"] == r"\xff"
        (session,) = asked(served, "/servers/one/sessions?text=%E2%80%AE")["items"]
        assert session["name"] == "\u202e<b>"


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
    with (
        beanstalkd_server() as server,
        Client(f"{HOST}:{server.port}") as client,
        console("--url", url_of(server, "one")) as served,
    ):
        client.put("hello", tube="a/b")
        for path, status in PLAIN:
            answer = asked(served, f"/servers/one{path}", status)
            assert status != 501 or "support" in answer["detail"] or "needs" in answer["detail"]
            assert not path.startswith("/tubes/a%2Fb/jobs") or [each["id"] for each in answer["items"]] == [1]
