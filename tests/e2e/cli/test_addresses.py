"""A server with several addresses, as the nodes of a cluster are."""

import pytest

from tests.e2e.cli.conftest import run
from tests.servers import HOST, Server

NOBODY = f"{HOST}:1"


@pytest.mark.parametrize("form", ["beanstalk://{},{}", "{},{}", "beanstalk://{},beanstalk://{}"])
def test_the_next_address_is_asked_when_one_refuses(server: Server, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = form.format(NOBODY, f"{HOST}:{server.port}")
    assert run("tubes", "--url", url).code == 0
    monkeypatch.setenv("BEANPOLE_URL", url)
    assert run("tubes").code == 0


def test_every_address_is_named_when_none_can_be_reached() -> None:
    done = run("tubes", "--url", f"{NOBODY},{HOST}:2")
    assert done.code == 4
    assert done.err.splitlines() == [
        (
            f"beanpole: can't connect to beanstalk://{NOBODY}: Connection refused;"
            f" to beanstalk://{HOST}:2: Connection refused"
            " (--url or BEANPOLE_URL says where the server is)"
        )
    ]
