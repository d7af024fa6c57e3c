"""Fixtures for all tests: a world without sockets, and real server processes.

The servers are the test's own: ids begin at 1, and there is no tube but `default`.
"""

import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest

from tests import forks
from tests.databases import DatabaseServers
from tests.seeds import part_of
from tests.servers import Server, beanpole_server, beanstalkd_server

# A shell without job control starts `make test &` with SIGINT ignored. That is inherited by every process that a test
# starts, down to the server that it wants to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs write as they do where nobody has set this, which is with buffers.
os.environ.pop("PYTHONUNBUFFERED", None)

# How long an example takes says something about the machine, and what else it does, but nothing about the code.
# A commit has a third of the examples, as of the seeds.
hypothesis.settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    max_examples=part_of(100, 3),
)
hypothesis.settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests with the mark `long`, too")


@pytest.hookimpl(tryfirst=True)  # xdist names the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs a database, let one worker run what uses the checkout's `make`, and leave out what takes long."""
    long = {item for item in items if item.get_closest_marker("long")}
    if long and not config.getoption("--long") and not any("::" in each for each in config.args):
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    for item in items:
        if "database_servers" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.database)
        elif item.path.name == "test_docs.py" and item.path.parent.name == "tests":
            item.add_marker(pytest.mark.xdist_group("make"))


@pytest.hookimpl(tryfirst=True)  # before the fixtures, which start servers
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test about the start of a process have one that is executed; all others may be forked."""
    forks.Popen.executes = item.get_closest_marker("start") is not None


@pytest.fixture
def beanpole() -> Iterator[Server]:
    with beanpole_server() as server:
        yield server


@pytest.fixture
def beanstalkd() -> Iterator[Server]:
    with beanstalkd_server() as server:
        yield server


@pytest.fixture(scope="session")
def database_servers() -> Iterator[DatabaseServers]:
    servers = DatabaseServers()
    yield servers
    servers.stop()
