"""Fixtures for tests of the console."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.e2e.console.acting import client_of
from tests.e2e.console.patient import PATIENCE
from tests.e2e.console.process import Console, acting, console, url_of
from tests.servers import Server, beanpole_server, beanstalkd_server

if TYPE_CHECKING:
    from beanpole.client import Client


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made in the test's process does not end early because the machine is busy."""
    for path, value in PATIENCE.items():
        monkeypatch.setattr(path, value)


@pytest.fixture(scope="module")
def served(one: Server) -> Iterator[Console]:
    """A console for the server that a module calls `one`."""
    with console("--url", url_of(one, "one")) as found:
        yield found


@pytest.fixture(scope="session")
def ours() -> Iterator[Server]:
    """A server of ours for all tests of a worker; each has tubes of its own."""
    with beanpole_server() as running:
        yield running


@pytest.fixture(scope="session")
def theirs() -> Iterator[Server]:
    with beanstalkd_server() as running:
        yield running


@pytest.fixture(params=["beanpole", "beanstalkd"])
def either(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue("ours" if request.param == "beanpole" else "theirs")
    return found


@pytest.fixture(scope="session")
def looking(ours: Server) -> Iterator[Console]:
    """A console of our server, which it calls `one`, in which nobody may change anything."""
    with console("--url", url_of(ours, "one")) as found:
        yield found


@pytest.fixture(scope="session")
def changing(ours: Server) -> Iterator[Console]:
    """One in which who has TOKEN may."""
    with acting(ours) as found:
        yield found


@pytest.fixture
def client(ours: Server) -> Iterator["Client[bytes]"]:
    with client_of(ours) as found:
        yield found


@pytest.fixture
def tube(request: pytest.FixtureRequest) -> str:
    return str(request.node.originalname)
