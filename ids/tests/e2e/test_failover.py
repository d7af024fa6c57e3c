"""A primary is lost, its replica promoted, and the old primary comes back: no number comes twice; docs/ha.md."""

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.failover import Pair, pair
from tests.e2e.patient import IMPATIENT
from tests.e2e.process import Ids, running
from tests.processes import REPLY_TIMEOUT_S, wait_until

RULES = """
listen = "127.0.0.1:0"
{settings}

[[rule]]
name = "order"
template = "O{{counter:09}}"
batch = 10

[[rule]]
name = "row"
kind = "snowflake"
reserve_s = 1
"""

pytestmark = [pytest.mark.database, pytest.mark.long]


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    """The servers, of which the first one is the primary."""
    with pair() as found:
        yield found


class Client(threading.Thread):
    """Asks a node all the time, and keeps the numbers that it gets."""

    def __init__(self, service: Ids) -> None:
        super().__init__(daemon=True)
        self.service = service
        self.given: dict[tuple[str, str], list[str]] = {(rule, app): [] for rule in ("order", "row") for app in "xy"}
        self.refusals: set[str] = set()
        self.stopping = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.stopping.is_set():
            for (rule, app), given in self.given.items():
                reply = self.service.ask(rule_name=rule, app_name=app)
                if reply["code"] == 0:
                    given.append(reply["data"])
                else:
                    self.refusals.add(reply["message"])
                    self.stopping.wait(0.01)

    def goes_on(self) -> None:
        """Returns when it has got more numbers of each counter than are reserved."""
        before = [len(each) for each in self.given.values()]

        def has_more() -> bool:
            return all(len(each) > count + 50 for each, count in zip(self.given.values(), before, strict=True))

        wait_until(has_more, "numbers go on", 3 * REPLY_TIMEOUT_S)  # each commit is on two disks

    def was_refused(self, reason: str) -> bool:
        """Whether a number was refused for a reason; more refusals come while this looks."""
        return any(reason in each for each in tuple(self.refusals))

    def end(self) -> dict[tuple[str, str], list[str]]:
        """Stops it; returns what it has got."""
        self.stopping.set()
        self.join()
        return self.given


@pytest.fixture
def begin(tmp_path: Path, servers: Pair) -> Iterator[Callable[[], Client]]:
    """Starts nodes with a client each, all with one configuration."""
    config = tmp_path / "rules.toml"
    config.write_text(RULES.format(settings=servers.settings))
    with ExitStack() as ends:

        def begin() -> Client:
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            client = Client(ends.enter_context(running(folder, config, limits=IMPATIENT)))
            ends.callback(client.end)
            return client

        yield begin


def replace_primary(servers: Pair) -> None:
    """The primary is killed and the replica promoted; the old primary comes back empty, and follows it."""
    primary, replica = servers.primary, servers.replica
    primary.kill()
    done = replica.promote()
    assert done.returncode == 0, done.stderr
    primary.start()
    assert primary.run("SELECT @@read_only AS it") == [{"it": 1}], "nobody writes to the old primary"
    primary.kill()
    primary.empty()
    primary.start()
    primary.follow(replica)
    servers.primary, servers.replica = replica, primary


def test_failover_repeats_nothing(servers: Pair, begin: Callable[[], Client]) -> None:
    """Each server is the primary once, is killed under load, and comes back as a replica; a node is killed as well."""
    clients = [begin(), begin()]
    ended = []
    for _ in range(2):
        for each in clients:
            each.goes_on()
        replace_primary(servers)
        for each in clients:
            each.goes_on()
        ended.append(clients.pop())
        ended[-1].end()
        ended[-1].service.end(signal.SIGKILL)
        clients.append(begin())  # it goes on above what the promoted server has of the node
    for each in clients:
        each.goes_on()
    given: dict[str, list[str]] = {}
    for each in [*clients, *ended]:
        for (rule, app), numbers in each.end().items():
            given.setdefault(rule if rule == "row" else app, []).extend(numbers)
    for name, numbers in given.items():
        assert len(set(numbers)) == len(numbers) > 200, name
    refusals = {each for client in [*clients, *ended] for each in client.refusals}
    assert all(each.startswith(("storage: ", "clock: ")) for each in refusals), refusals


def test_old_primary_comes_back_with_a_copy(servers: Pair, begin: Callable[[], Client]) -> None:
    """The new one lacks its first binary logs. Commits wait for a replica, and must not hold up the copy for ever."""
    client = begin()
    client.goes_on()
    primary, replica = servers.primary, servers.replica
    replica.purge()
    primary.kill()
    done = replica.promote()
    assert done.returncode == 0, done.stderr
    wait_until(lambda: client.refusals, "what was reserved is given")
    primary.empty()
    primary.start()
    primary.follow(replica)
    wait_until(lambda: "Could not find GTID state" in primary.replication_error(), "it needs a copy")
    primary.kill()
    primary.load_copy_of(replica)
    primary.follow(replica)
    servers.primary, servers.replica = replica, primary
    client.goes_on()
    assert primary.run("SELECT @@read_only AS it") == [{"it": 1}]
    assert replica.run("SELECT @@rpl_semi_sync_master_enabled AS it") == [{"it": 1}]
    numbers = client.end()
    assert all(len(set(each)) == len(each) for each in numbers.values())


def test_commit_waits_for_the_replica(servers: Pair, begin: Callable[[], Client]) -> None:
    """Without a replica nothing more is reserved, however long that takes."""
    client = begin()
    client.goes_on()
    servers.replica.kill()
    wait_until(lambda: client.refusals, "what was reserved is given")
    servers.replica.start()
    client.goes_on()


def test_replica_that_was_restarted_without_its_primary_is_not_promoted(
    servers: Pair, begin: Callable[[], Client]
) -> None:
    """It drops what it has received and not applied. The primary goes on, as it has every commit."""
    client = begin()
    client.goes_on()
    for each in (servers.replica, servers.primary):
        each.kill()
    servers.replica.start()
    done = servers.replica.promote()
    assert done.returncode == 1
    assert "may lack some" in done.stderr
    servers.primary.start()
    servers.primary.run("SET GLOBAL rpl_semi_sync_master_enabled = on", "SET GLOBAL read_only = off")
    client.goes_on()


def test_promoted_replica_that_lacks_commits_is_refused(servers: Pair, begin: Callable[[], Client]) -> None:
    """It has become asynchronous while nodes were connected. A node that runs knows which commits it must have."""
    client = begin()
    client.goes_on()
    primary, replica = servers.primary, servers.replica
    asynchronous = ("SET GLOBAL rpl_semi_sync_master_enabled = off", "SET GLOBAL rpl_semi_sync_slave_enabled = off")
    primary.run(*asynchronous)
    replica.run("STOP SLAVE")
    client.goes_on()
    primary.kill()
    replica.run(*asynchronous, "SET GLOBAL read_only = off")
    wait_until(lambda: client.was_refused("the database has lost what it had"), "it is refused")
    replica.kill()
    primary.start()
    primary.run(*asynchronous, "SET GLOBAL read_only = off")
    client.goes_on()
    numbers = client.end()
    assert all(len(set(each)) == len(each) for each in numbers.values())
