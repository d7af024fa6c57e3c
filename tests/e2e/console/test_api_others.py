"""The API of a server that knows less."""

from beanpole import Client
from tests.e2e.console.api import asked
from tests.e2e.console.process import console, url_of
from tests.servers import HOST, beanstalkd_server

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
