"""What the console answers where its user lacks a right on the server."""

from collections.abc import Iterator

import pytest

import beanpole as library
from tests.e2e.console.process import Console, console
from tests.e2e.process import serving

USERS = """
[user.worker]
put = ["orders"]
reserve = ["orders"]
"""
LOOK = "the console's user on this server lacks the right look on orders"
STATS = "the console's user on this server needs stats = true"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console of a server on which its user may work, and no more; a job is there, and one is held."""
    folder = tmp_path_factory.mktemp("access")
    (folder / "access.toml").write_text(USERS)
    way = ("-l", f"unix:{folder / 'worker'},user=worker", "--access", str(folder / "access.toml"))
    with (
        serving(*way, listen=False),
        library.Client(str(folder / "worker"), watch="orders") as client,
        console("--url", f"one=unix:{folder / 'worker'}") as running,
    ):
        client.put_many(["x", "y"], tube="orders")
        client.reserve(0)
        yield running


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/jobs?tube=orders", LOOK),
        ("/sessions", STATS),
        ("/busy", LOOK),
        ("/api/v1/servers/one/tubes/orders/jobs", LOOK),
        ("/api/v1/servers/one/sessions", STATS),
    ],
)
def test_a_right_that_lacks_is_named(limited: Console, path: str, sentence: str) -> None:
    answer = limited.get(path)
    assert answer.status == 403
    assert sentence in answer.text


def test_hidden_numbers_are_no_findings(limited: Console) -> None:
    page = limited.get("/").text
    assert "come as 0" in page
    assert "in memory only" not in page
