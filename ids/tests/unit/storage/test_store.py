"""Storage: the same on SQLite, MariaDB and PostgreSQL. Each test has a database of its own."""

import contextlib
import gc
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beanpole_ids.errors import ExitCode, LeaseLostError, StartError, StorageError
from beanpole_ids.hand import Mark
from beanpole_ids.rules.cycle import Cycle
from beanpole_ids.rules.reader import zone_named
from beanpole_ids.rules.sequence import Counter, Counting, Key, Shape
from beanpole_ids.storage.store import Store
from tests.databases import Database
from tests.unit.counter import next_number

KEY = Key(b"order", b"shop")
PATIENT_S = 60  # seconds that a store waits for a database here, which a busy machine may hold up
HASTY_S = 4  # the same, where the database does not answer
DAY = Cycle("day", 0, zone_named("UTC"))
ORIGINAL_TABLE = """
CREATE TABLE counter (node_offset int NOT NULL, counter int NOT NULL, update_time int NOT NULL,
rule_name varchar(64) NOT NULL, app_name varchar(64) NOT NULL, PRIMARY KEY (node_offset, rule_name, app_name))
"""
Open = Callable[..., Store]

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PyMySQL's, when it can't connect


def patiently(seconds: float) -> None:
    """Sleeps longer between two looks at a lock: a server that is busy notices late that a connection was closed."""
    time.sleep(10 * seconds)


def hastily(seconds: float) -> None:
    """Does not sleep, where the lock is and stays another's."""


@pytest.fixture
def opened(database: Database) -> Iterator[Open]:
    with opener(database) as open_store:
        yield open_store


@contextmanager
def opener(database: Database) -> Iterator[Open]:
    """Opens stores of a database, and closes them."""
    stores: list[Store] = []

    def open_store(
        node: int | None = 0, step: int = 1, sleep: Callable[[float], None] = patiently, timeout_s: int = PATIENT_S
    ) -> Store:
        stores.append(Store(database.url, node, step, timeout_s, sleep))
        stores[-1].open()
        return stores[-1]

    try:
        yield open_store
    finally:
        for store in stores:
            store.close()


def load(store: Store, key: Key = KEY, batch: int = 0) -> Mark | None:
    return store.load({key: batch}).get(key)


def counter(store: Store, key: Key = KEY, now_s: int = 100, batch: int = 0) -> Counter:
    counting = Counting(Shape(0, 10_000, store.step, store.node), DAY, 10)
    return Counter(key, counting, load(store, key, batch), now_s)


def take(numbers: Counter, store: Store, count: int = 1, now_s: int = 100) -> list[int]:
    taken = []
    for _ in range(count):
        numbers.open(now_s)
        numbers.need(1)
        mark = numbers.plan()
        if mark:
            store.reserve([(numbers.key, mark)])
            numbers.confirm(mark)
        taken.append(next_number(numbers))
    return taken


def test_what_is_reserved_is_there_after_a_crash(opened: Open) -> None:
    store = opened()
    assert take(counter(store), store, 3) == [0, 1, 2]
    store.close()
    store = opened()
    assert store.epoch == 2
    assert take(counter(store), store) == [10]


def test_what_is_given_back_comes_next(opened: Open) -> None:
    store = opened()
    numbers = counter(store)
    take(numbers, store, 3)
    rest = numbers.final_mark()
    assert rest
    store.give_back([(KEY, rest)])
    store.close()
    store = opened()
    assert take(counter(store), store) == [3]


def test_unknown_counter_has_no_mark(opened: Open) -> None:
    assert load(opened()) is None


def test_second_process_is_refused(opened: Open) -> None:
    """Hole 12: two processes with one configuration shared 82 of 200 numbers."""
    opened()
    with pytest.raises(StartError, match="node 0 is in use"):
        opened(sleep=hastily)
    opened(1, 1)


def test_leased_node_is_the_first_that_is_free(opened: Open) -> None:
    stores = [opened(None, 3) for _ in range(3)]
    assert [each.node for each in stores] == [0, 1, 2]
    numbers = counter(stores[1])
    assert take(numbers, stores[1], 2) == [1, 4]
    with pytest.raises(StartError, match="all 3 numbers of nodes are in use") as refused:
        opened(None, 3, hastily)
    assert refused.value.exit_code == ExitCode.NODE_TAKEN
    stores[1].close()
    again = opened(None, 3)
    assert (again.node, again.epoch) == (1, 2)
    assert take(counter(again), again) == [31]


def test_leased_node_waits_for_the_end_of_a_process_that_was_killed(opened: Open) -> None:
    store = opened(None, 1)

    def sleep(seconds: float) -> None:
        store.close()
        patiently(seconds)

    assert opened(None, 1, sleep).node == 0


def test_owner_that_lost_its_node_writes_nothing_more(opened: Open, database: Database) -> None:
    """A connection that broke unnoticed took the lock with it, and another process came: the epoch tells."""
    store = opened()
    numbers = counter(store)
    take(numbers, store)
    database.run("UPDATE beanpole_ids_node SET epoch = epoch + 1")
    with pytest.raises(LeaseLostError):
        store.reserve([(KEY, Mark(0, 99, 0, "x"))])
    with pytest.raises(LeaseLostError):
        load(store)
    assert next_number(numbers) == 1, "what is reserved is ours"


@pytest.mark.parametrize(
    "app", [b"Case", b"CASE", b"case", b"case ", b"x\\", b"';--", b"a" * 255, b"\xff\xfe", "😀".encode(), b""]
)
def test_names_are_bytes(opened: Open, app: bytes) -> None:
    """Holes 10 and 11: names that differ in case shared a row, and others could not be saved."""
    store = opened()
    other = counter(store, Key(b"order", b"Case" if app != b"Case" else b"cASE"))
    take(other, store, 5)
    key = Key(b"order", app)
    numbers = counter(store, key)
    assert take(numbers, store, 2) == [0, 1]
    store.close()
    store = opened()
    assert take(counter(store, key), store) == [10]


def test_rule_and_app_are_two_names(opened: Open) -> None:
    store = opened()
    take(counter(store, Key(b"a", b"b_c")), store)
    assert take(counter(store, Key(b"a_b", b"c")), store) == [0]


def test_node_that_is_added_repeats_nothing(opened: Open) -> None:
    """Hole 13: step 1 had reached 105, and the new node of step 2 began with numbers that were given."""
    store = opened(0, 1)
    given = take(counter(store), store, 105)
    store.close()
    stores = [opened(0, 2), opened(1, 2)]
    for store in stores:
        given += take(counter(store), store, 20)
    for store in stores:
        store.close()
    for store in [opened(node, 3) for node in (2, 0, 1)]:
        given += take(counter(store), store, 20)
    assert len(set(given)) == len(given)


def test_nodes_that_have_counted_by_different_cycles(opened: Open) -> None:
    """One was reloaded with another cycle, the other was not: starts of an hour and of a day can't be compared."""
    stores = [opened(0, 2), opened(1, 2)]
    stores[0].reserve([(KEY, Mark(0, 5_000, 40_000, "day UTC"))])
    stores[1].reserve([(KEY, Mark(36_000, 101, 39_000, "hour UTC"))])
    for store in stores:
        store.close()
    store = opened(0, 1)
    assert take(counter(store, now_s=50_000), store, now_s=50_000) == [5_001]


def test_another_step_beside_running_nodes_is_refused(opened: Open) -> None:
    opened(0, 1)
    with pytest.raises(StartError, match="node 0 runs with step 1"):
        opened(1, 2, hastily)


def test_failed_database_is_found_again(opened: Open, database: Database) -> None:
    """Holes 3 and 4: what failed was thrown away, and a reconnect was tried each minute."""
    store = opened()
    numbers = counter(store)
    numbers.open(100)
    mark = numbers.plan()
    assert mark
    database.run("ALTER TABLE beanpole_ids_counter RENAME TO gone")
    with pytest.raises(StorageError):
        store.reserve([(KEY, mark)])
    numbers.fail(mark)
    database.run("ALTER TABLE gone RENAME TO beanpole_ids_counter")
    assert take(numbers, store, 2) == [0, 1]


def test_database_that_lost_commits_is_refused(opened: Open, database: Database) -> None:
    """A replica was promoted without the last commits, or a backup was restored: it does not know what is reserved."""
    store = opened()
    numbers = counter(store)
    assert take(numbers, store) == [0]
    database.run("UPDATE beanpole_ids_node SET writes = writes - 1")
    for call in (
        lambda: store.reserve([(KEY, Mark(0, 99, 0, DAY.kind))]),
        lambda: store.load({Key(b"order", b"new"): 0}),
        store.beat,
    ):
        with pytest.raises(
            StorageError, match=r"lost what it had committed \(0 of 1 writes of node 0 are left\)"
        ) as refused:
            call()
        assert not isinstance(refused.value, LeaseLostError), "a process that ends would forget what must be there"
    assert next_number(numbers) == 1, "what is reserved is ours"
    database.run("UPDATE beanpole_ids_node SET writes = writes + 1")
    store.beat()
    assert take(numbers, store, 20) == list(range(2, 22))


def test_counter_that_would_go_back_stops_us(opened: Open) -> None:
    store = opened()
    store.reserve([(KEY, Mark(100, 50, 100, "x"))])
    with pytest.raises(AssertionError, match="would go back"):
        store.reserve([(KEY, Mark(100, 49, 100, "x"))])
    store.reserve([(KEY, Mark(101, 0, 101, "x"))])


def test_numbers_and_times_beyond_32_bits(opened: Open) -> None:
    """Hole 15: both were 32 bits wide, in its table too."""
    store = opened()
    mark = Mark(2**40, 2**63 - 1, 2**40 + 5, "x")
    store.reserve([(KEY, mark)])
    assert load(store) == mark


def test_text_that_has_no_room_is_not_cut(opened: Open) -> None:
    """What a row says last of its rule is its present fingerprint: without it numbers could repeat unnoticed."""
    store = opened()
    texts = " ".join(f"{each:012}.13" for each in range(20))
    with contextlib.suppress(StorageError):  # SQLite has room for more than it was told
        store.reserve([(KEY, Mark(0, 9, 100, DAY.kind, texts))])
    mark = load(store)
    assert mark is None or mark.fingerprints == texts


def test_table_of_the_original_is_taken_over(database: Database, opened: Open) -> None:
    database.run(
        ORIGINAL_TABLE,
        "INSERT INTO counter VALUES (0, 200, 90, 'order', 'shop'), (1, 301, 95, 'order', 'shop')",
    )
    store = opened()
    numbers = counter(store, batch=100)
    assert take(numbers, store, 2) == [502, 503], "above what any node saved, and a batch of its step, which was 2"
    assert take(numbers, store, 1, now_s=90_000) == [0], "the next day"
    assert take(counter(store, Key(b"order", b"new")), store) == [0]


def test_database_that_is_not_there(tmp_path: Path) -> None:
    lost = "/no/such/folder"
    addresses = [
        f"sqlite:///{tmp_path}/no/such/ids.db",
        "nonsense",
        f"{uuid.uuid4().hex}://x",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:ids.db?uri=true",
        "postgresql+pg8000://x",
        "oracle://x",
        f"postgresql://x@/x?host={lost}",
        f"mysql://x@localhost/x?unix_socket={lost}",
    ]
    for address in addresses:
        with pytest.raises(StartError, match="cannot use the database"):
            Store(address, 0, 1).open()
    gc.collect()  # PyMySQL's socket, while its warning is ignored


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (
            "sqlite:///{folder}/no/ids.db",
            "{folder}/no/ids.db: unable to open database file; its folder must be there, and this user must be able",
        ),
        ("sqlite:///{folder}/text", "{folder}/text: file is not a database; write another name"),
        ("sqlite:///{folder}/a.db", "{folder}/a.db.start: Is a directory"),
        ("mysql://x@127.0.0.1:1/x", "Can't connect to MySQL server on '127.0.0.1' ([Errno 111] Connection refused)"),
        (
            "mysql://x@127.0.0.1:1/x?foo=1",
            "the driver knows no such parameter in the address: Connection.__init__() got",
        ),
    ],
)
def test_database_that_cannot_be_used_is_a_sentence(tmp_path: Path, address: str, reason: str) -> None:
    (tmp_path / "text").write_text("This is a text, which is longer than the head of a file of SQLite would be. " * 20)
    (tmp_path / "a.db.start").mkdir()
    with pytest.raises(StartError) as caught:
        Store(address.format(folder=tmp_path), 0, 1).open()
    gc.collect()  # PyMySQL's socket, while its warning is ignored
    assert str(caught.value).startswith("cannot use the database: " + reason.format(folder=tmp_path))


def test_other_paths_to_the_same_file_have_the_same_lock(tmp_path: Path) -> None:
    """Hole 12, with a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    first = Store(f"sqlite:///{tmp_path}/real/ids.db", 0, 1)
    first.open()
    with pytest.raises(StartError, match="node 0 is in use"):
        Store(f"sqlite:///{tmp_path}/link/../link/ids.db", 0, 1).open()
    first.close()


def test_fingerprints_of_other_nodes_are_known(opened: Open) -> None:
    """They share the rule and its numbers' text, so none of them may make what another has made."""
    stores = [opened(0, 2), opened(1, 2)]
    stores[0].reserve([(KEY, Mark(0, 10, 0, "x", ".6 b.7"))])
    stores[1].reserve([(KEY, Mark(0, 7, 0, "x", "a.6"))])
    marks = [load(store) for store in stores]
    assert [mark.fingerprints for mark in marks if mark] == ["a.6 .6 b.7", ".6 b.7 a.6"]
    for store in stores:
        store.close()
    marks = [load(opened(2, 3))]
    assert [mark.fingerprints for mark in marks if mark] == [".6 b.7"], "with another step it goes on from all"
