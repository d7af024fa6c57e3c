"""Fixtures for all tests: databases of their own."""

import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.databases import NAMES, PROGRAMS, Database, DatabaseServers
from tests.examples import examples

# A shell without job control starts `make test &` with SIGINT ignored. That is inherited by every process that a test
# starts, down to the service that it wants to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says something about the machine, and what else it does, but nothing about the code.
hypothesis.settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    max_examples=examples(100),
)
hypothesis.settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the tests that take long."""
    parser.addoption("--long", action="store_true", help="run the tests with the mark `long`, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs a database, and leave out what takes long."""
    long = {item for item in items if item.get_closest_marker("long")}
    if long and not config.getoption("--long") and not any("::" in each for each in config.args):
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    for item in items:
        if "database_servers" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.database)


@pytest.fixture(scope="session")
def database_servers() -> Iterator[DatabaseServers]:
    """The database servers of all tests of this process."""
    servers = DatabaseServers()
    yield servers
    servers.stop()


@pytest.fixture(params=NAMES)
def database(request: pytest.FixtureRequest, database_servers: DatabaseServers, tmp_path: Path) -> Iterator[Database]:
    """A new database of each kind."""
    with database_servers.database(request.param, tmp_path) as found:
        yield found


@pytest.fixture(params=PROGRAMS)
def served(request: pytest.FixtureRequest, database_servers: DatabaseServers, tmp_path: Path) -> Iterator[Database]:
    """A new database of each kind that has a server, which a test may kill, freeze and start."""
    with database_servers.database(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def mariadb(database_servers: DatabaseServers, tmp_path: Path) -> Iterator[Database]:
    """A new database of MariaDB."""
    with database_servers.database("mariadb", tmp_path) as found:
        yield found
