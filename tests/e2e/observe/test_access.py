"""What `top` and `doctor` show a user who may not see everybody's numbers, nor look into jobs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import beanpole as library
from tests.e2e.observe.command import as_json, beanpole
from tests.e2e.process import serving

USERS = """
[user.worker]
put = ["orders"]
reserve = ["orders"]

[user.nobody]
"""


@pytest.fixture(scope="module")
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a server's sockets, one for each user; the worker has put a job."""
    folder = tmp_path_factory.mktemp("access")
    (folder / "access.toml").write_text(USERS)
    ways = [word for user in ("worker", "nobody") for word in ("-l", f"unix:{folder / user},user={user}")]
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


def test_doctor_says_what_it_may_not_see(sockets: Path) -> None:
    said = as_json("doctor", "--interval", "0.1", url=f"unix:{sockets / 'nobody'}")
    assert [finding["check"] for finding in said["findings"]] == ["hidden-numbers"]
    found = as_json("doctor", "--interval", "0.1", url=f"unix:{sockets / 'worker'}", code=1)["findings"]
    assert [(each["check"], each["tubes"]) for each in found] == [
        ("no-workers", ["orders"]),
        ("hidden-numbers", []),
        ("hidden-jobs", ["orders"]),
    ]
