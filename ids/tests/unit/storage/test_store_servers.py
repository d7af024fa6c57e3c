"""Storage on database servers that are killed, hang, lose their connections or keep nothing; and on two that race."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beanpole_ids.errors import LeaseLostError, NeedRangeError, StartError, StorageError
from beanpole_ids.hand import Mark
from beanpole_ids.rules.sequence import Key
from beanpole_ids.storage.database import START, database_at
from beanpole_ids.storage.store import Store
from tests.databases import Database
from tests.processes import wait_until
from tests.unit.counter import next_number
from tests.unit.storage.test_store import (
    HASTY_S,
    KEY,
    ORIGINAL_TABLE,
    Open,
    counter,
    hastily,
    load,
    opener,
    patiently,
    take,
)

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PyMySQL's, when it can't connect


@pytest.fixture
def opened_there(served: Database) -> Iterator[Open]:
    with opener(served) as open_store:
        yield open_store


def at_once(*actions: Callable[[], object]) -> list[Exception | None]:
    """What became of some actions that began together."""
    begin = threading.Barrier(len(actions))
    ends: list[Exception | None] = [None] * len(actions)

    def act(number: int) -> None:
        begin.wait()
        try:
            actions[number]()
        except Exception as error:  # noqa: BLE001 - it is the result
            ends[number] = error

    threads = [threading.Thread(target=act, args=(number,)) for number in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


# --- A server that is killed or hangs ---------------------------------------------------------------------------------


def test_server_is_killed_and_comes_back(served: Database, opened_there: Open) -> None:
    """Holes 3 and 4."""
    assert served.server
    store = opened_there()
    numbers = counter(store)
    given = take(numbers, store, 7)
    served.server.kill()
    numbers.need(50)
    mark = numbers.plan()
    assert mark
    for _ in range(3):
        with pytest.raises(StorageError, match=r"^storage: "):
            store.reserve([(KEY, mark)])
    numbers.fail(mark)
    given += [next_number(numbers) for _ in range(13)]
    with pytest.raises(NeedRangeError):
        next_number(numbers)
    served.server.start()
    given += take(numbers, store, 80)
    assert given == list(range(100)), "no number is lost when only the server ends"
    served.server.kill()
    served.server.start()
    given += take(numbers, store, 30)
    assert given == list(range(130)), "who lost its connection while it did nothing notices nothing"
    with pytest.raises(StartError, match="in use"):
        opened_there(sleep=hastily)


def test_what_was_committed_before_a_crash_of_the_server_stays(served: Database, opened_there: Open) -> None:
    assert served.server
    store = opened_there()
    assert take(counter(store), store, 3) == [0, 1, 2]
    served.server.kill()
    served.server.start()
    assert load(store) == Mark(0, 9, 100, "day UTC")


def test_server_that_hangs_is_given_up(served: Database, opened_there: Open) -> None:
    assert served.server
    store = opened_there(timeout_s=HASTY_S)
    numbers = counter(store)
    given = take(numbers, store, 7)
    numbers.need(50)
    mark = numbers.plan()
    assert mark
    with served.server.frozen():
        with pytest.raises(StorageError, match=r"^storage: "):
            store.reserve([(KEY, mark)])
        numbers.fail(mark)
        given += [next_number(numbers) for _ in range(13)]
    given += take(numbers, store, 80)
    assert given == list(range(100))


def test_row_that_somebody_holds_is_not_waited_for(database: Database) -> None:
    """A transaction that does not end, of an operator for example."""
    with opener(database) as opened:
        store = opened(timeout_s=HASTY_S)
        take(counter(store), store)
        with database.connected() as other:
            other.exec_driver_sql("UPDATE beanpole_ids_node SET step = 1")
            with pytest.raises(StorageError, match=r"^storage: "):
                store.reserve([(KEY, Mark(0, 99, 100, "day UTC"))])
            other.rollback()
        store.reserve([(KEY, Mark(0, 99, 100, "day UTC"))])


@pytest.mark.parametrize("setting", ["innodb_flush_log_at_trx_commit = 2", "fsync = off"])
def test_server_that_keeps_nothing_is_refused(served: Database, opened_there: Open, setting: str) -> None:
    if (served.name == "mariadb") != setting.startswith("innodb"):
        return
    name = setting.partition(" ")[0]
    if served.name == "mariadb":
        change, restore = f"SET GLOBAL {setting}", f"SET GLOBAL {name} = 1"
    else:
        change, restore = f"ALTER SYSTEM SET {setting}", f"ALTER SYSTEM RESET {name}"
    store = opened_there()
    assert served.server
    served.run_alone(change)
    try:
        if served.name == "postgresql":
            served.server.kill()
            served.server.start()
        with pytest.raises(StartError, match=f"{name} is .*: a crash would lose what was committed"):
            opened_there(1, 1)
    finally:
        served.run_alone(restore)
        served.server.kill()
        served.server.start()
    assert take(counter(store), store) == [0]


def test_server_that_may_lose_commits_with_its_machine_is_refused(mariadb: Database) -> None:
    """A replica, and a primary that waits for its replica, but not always: each setting by itself."""
    wanted = {
        "read_only": ("on", "off"),
        "rpl_semi_sync_master_timeout": ("10000", "4294967295"),
        "rpl_semi_sync_master_wait_point": ("'AFTER_COMMIT'", "'AFTER_SYNC'"),
        "rpl_semi_sync_master_wait_no_slave": ("off", "on"),
        "sync_binlog": ("0", "1"),
    }
    found = dict(mariadb.settings(*wanted, "rpl_semi_sync_master_enabled", "rpl_semi_sync_slave_enabled"))
    try:
        mariadb.run_alone("SET GLOBAL rpl_semi_sync_slave_enabled = on")
        refused(mariadb, "rpl_semi_sync_master_enabled is OFF")
        mariadb.run_alone("SET GLOBAL rpl_semi_sync_master_enabled = on")
        for name, (_, good) in wanted.items():
            mariadb.run_alone(f"SET GLOBAL {name} = {good}")
        for name, (bad, good) in wanted.items():
            mariadb.run_alone(f"SET GLOBAL {name} = {bad}")
            refused(mariadb, "the server is read-only" if name == "read_only" else f"{name} is ")
            mariadb.run_alone(f"SET GLOBAL {name} = {good}")
        with opener(mariadb) as opened:
            opened()
    finally:
        for name, value in found.items():
            mariadb.run_alone(
                f"SET GLOBAL {name} = '{value}'" if not value.isdecimal() else f"SET GLOBAL {name} = {value}"
            )


def test_tables_have_transactions_whatever_the_server_makes_by_default(mariadb: Database) -> None:
    mariadb.run_alone("SET GLOBAL default_storage_engine = MyISAM")
    try:
        with opener(mariadb) as opened:
            opened()
        with mariadb.connected() as connection:
            found = connection.exec_driver_sql(
                "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE()"
            )
            assert set(found.scalars()) == {"InnoDB"}
    finally:
        mariadb.run_alone("SET GLOBAL default_storage_engine = InnoDB")


def refused(database: Database, reason: str) -> None:
    """A store can't be opened, for this reason."""
    with opener(database) as opened, pytest.raises(StartError, match=reason):
        opened()


# --- Who owns a node --------------------------------------------------------------------------------------------------


def test_two_that_start_at_once_with_different_steps(database: Database) -> None:
    """Hole 13: each found nobody else, and both went on with numbers of their own step."""
    with opener(database) as opened:
        ends = at_once(lambda: opened(0, 2, time.sleep), lambda: opened(1, 3, time.sleep))
        assert sorted(map(bool, ends)) == [False, True], ends
        assert "stop all nodes" in str(next(filter(None, ends)))


def test_start_with_another_step_waits_for_nodes_that_end(database: Database) -> None:
    with opener(database) as opened:
        ending = opened(0, 2)

        def sleep(seconds: float) -> None:
            ending.close()
            patiently(seconds)

        assert opened(1, 3, sleep).generation == ending.generation + 1


def test_starts_wait_for_one_another_before_they_touch_the_database(tmp_path: Path) -> None:
    """SQLite refuses a second one that opens a new file, however long that would wait."""
    file = tmp_path / "ids.db"
    first = database_at(f"sqlite:///{file}", 1)
    with first.engine.connect() as connection:
        assert first.lock(connection, START)
        store = Store(f"sqlite:///{file}", 0, 1, 1)
        with pytest.raises(StartError, match="another process is starting"):
            store.open()
        assert not file.exists() or not file.stat().st_size
    first.close()
    store.open()
    store.close()


def test_another_step_beside_a_node_that_lost_its_lock(served: Database, opened_there: Open) -> None:
    """A crash of the server ends all locks; who has nothing to ask does not come back for its own."""
    assert served.server
    idle = opened_there(0, 1)
    numbers = counter(idle)
    given = take(numbers, idle, 3)
    served.server.kill()
    served.server.start()
    newer = opened_there(1, 2)
    given += take(counter(newer), newer, 20)
    given += [next_number(numbers) for _ in range(7)]
    mark = numbers.plan()
    assert mark
    with pytest.raises(LeaseLostError):
        idle.reserve([(KEY, mark)])
    assert len(set(given)) == len(given)


def test_connection_that_only_the_server_sees(served: Database, opened_there: Open) -> None:
    """After a lost connection its server may keep it, and with it our lock; the epoch says that nobody else came."""
    store = opened_there()
    lost, store._connection = store._connection, None
    assert lost
    assert take(counter(store), store, 15) == list(range(15))
    with pytest.raises(StartError, match="in use"):
        opened_there(sleep=hastily)
    lost.close()

    def has_lock_again() -> bool:
        store.beat()
        return store._has_lock

    wait_until(has_lock_again, "the server notices the end of a connection, and who asks next has the lock")
    with pytest.raises(StartError, match="in use"):
        opened_there(sleep=hastily)
    assert served.server


def test_start_waits_for_the_end_of_a_process_that_was_killed(opened_there: Open) -> None:
    store = opened_there()
    assert at_once(opened_there, store.close) == [None, None]


def test_two_nodes_reserve_from_one_counter_at_once(database: Database) -> None:
    with opener(database) as opened:
        given: dict[int, list[int]] = {}

        def work(node: int, store: Store) -> None:
            given[node] = take(counter(store), store, 500)

        first, second = opened(0, 2), opened(1, 2)
        assert at_once(lambda: work(0, first), lambda: work(1, second)) == [None, None]
        for node, numbers in given.items():
            assert len(set(numbers)) == 500
            assert {each % 2 for each in numbers} == {node}


# --- The table of the original ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("charset", ["utf8mb3", "utf8mb4", "latin1"])
def test_any_name_asks_the_table_of_the_original(mariadb: Database, charset: str) -> None:
    """Holes 10 and 11: its table knows no case, 64 characters, and on MySQL only those of three bytes."""
    mariadb.run(
        ORIGINAL_TABLE + f" CHARSET {charset}",
        "INSERT INTO counter VALUES (0, 200, 90, 'order', 'case'), (0, 300, 90, 'order', REPEAT('x', 64))",
    )
    with opener(mariadb) as opened:
        store = opened()
        assert load(store, Key(b"ORDER", b"CASE"), 0) == Mark(0, 200, 90, "original")
        assert load(store, Key(b"order", b"x" * 70), 50) == Mark(0, 350, 90, "original")
        for app in ("😀", "ä", "\udcff", "x\\", "'; --", ""):
            assert load(store, Key(b"order", app.encode("utf-8", "surrogateescape")), 50) is None


def test_table_of_somebody_else_is_none_of_ours(database: Database) -> None:
    database.run("CREATE TABLE counter (visits int)")
    with opener(database) as opened:
        assert load(opened()) is None
