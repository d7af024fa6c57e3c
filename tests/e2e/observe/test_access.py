"""What verbs show the users of a server: numbers and jobs that they may see, who they are, and what is hidden."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import beanpole as library
from tests.e2e.cli.conftest import run
from tests.e2e.observe.command import as_json, beanpole
from tests.e2e.process import serving

USERS = """
[user.worker]
put = ["orders"]
reserve = ["orders"]

[user.nobody]

[user.ops]
stats = true

[user.root]
admin = true

[space."o*"]
limits = { jobs = 10 }
"""


@pytest.fixture(scope="module")
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a server's sockets, one for each user; the worker has put job 1."""
    folder = tmp_path_factory.mktemp("access")
    (folder / "access.toml").write_text(USERS)
    ways = [
        word for user in ("worker", "nobody", "ops", "root") for word in ("-l", f"unix:{folder / user},user={user}")
    ]
    with serving(*ways, "--access", str(folder / "access.toml"), "-b", str(folder / "log"), listen=False):
        with library.Client(str(folder / "worker")) as client:
            client.put("x", tube="orders")
        yield folder


def test_top_leaves_out_the_numbers_of_the_whole_server(sockets: Path) -> None:
    text = beanpole("top", "--once", "--interval", "0.1", url=f"unix:{sockets / 'worker'}")
    assert "the numbers of the whole server need stats = true" in text
    assert "ready 0" not in text
    assert "in memory only" not in text
    said = as_json("top", "--interval", "0.1", url=f"unix:{sockets / 'worker'}")
    assert said["rates"] is None
    assert [(tube["name"], tube["current-jobs-ready"]) for tube in said["tubes"]] == [("orders", 1)]


def test_top_of_a_user_who_sees_no_tube(sockets: Path) -> None:
    assert "no tube yet" in beanpole("top", "--once", "--interval", "0.1", url=f"unix:{sockets / 'nobody'}")


@pytest.mark.parametrize(
    ("user", "may", "users", "spaces"),
    [
        ("worker", "put orders; reserve orders", {"worker"}, [["o*", "1", "10", "1", "0", "1", "0"]]),
        ("nobody", "may do nothing", {"nobody"}, []),
        ("ops", "stats", {"worker", "nobody", "ops", "root"}, [["o*", "1", "10", "1", "0", "1", "0"]]),
        ("root", "everything", {"worker", "nobody", "ops", "root"}, [["o*", "1", "10", "1", "0", "1", "0"]]),
    ],
)
def test_rights_say_who_asks_and_what_it_may_do(
    sockets: Path, user: str, may: str, users: set[str], spaces: list[list[str]]
) -> None:
    first, *lines = run("rights", "--url", f"unix:{sockets / user}").lines
    assert first == f"user {user}: {may}"
    rows = [line.split("\t") for line in lines]
    assert rows[0] == ["user", "connections", "connections-max", "commands", "refused"]
    assert {row[0] for row in rows[1 : 1 + len(users)]} == users
    assert rows[2 + len(users) :] == spaces


def test_sessions_say_whose_they_are(sockets: Path) -> None:
    head, line = (line.split("\t") for line in run("sessions", "--url", f"unix:{sockets / 'ops'}").lines)
    assert (head[3:5], line[3:5]) == (["user", "via"], ["ops", ""])


@pytest.mark.parametrize("verb", [("peek", "1"), ("stats", "1"), ("list", "orders")], ids=" ".join)
def test_what_is_not_found_may_lack_a_right(sockets: Path, verb: tuple[str, ...]) -> None:
    hint = "what the user nobody has no right to is not found either (see beanpole rights)"
    done = run(*verb, "--url", f"unix:{sockets / 'nobody'}")
    assert (done.code, hint in done.err) == (2, True), done.err
    assert "no right" not in run("peek", "99", "--url", f"unix:{sockets / 'root'}").err


def test_doctor_says_what_it_may_not_see(sockets: Path) -> None:
    said = as_json("doctor", "--interval", "0.1", url=f"unix:{sockets / 'nobody'}")
    assert [finding["check"] for finding in said["findings"]] == ["hidden-numbers"]
    found = as_json("doctor", "--interval", "0.1", url=f"unix:{sockets / 'worker'}", code=1)["findings"]
    assert [(each["check"], each["tubes"]) for each in found] == [
        ("no-workers", ["orders"]),
        ("hidden-numbers", []),
        ("hidden-jobs", ["orders"]),
    ]
