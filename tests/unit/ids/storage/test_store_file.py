"""A file of SQLite that is deleted or replaced while a store has it open, or while none has."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from beanpole.errors import StartError
from beanpole.ids.errors import DatabaseLostError
from beanpole.ids.mark import Mark
from beanpole.ids.storage.store import Store
from tests.unit.ids.storage.test_store import KEY, load

MARK = Mark(0, 99, 100, "day UTC")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ids.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    made = Store(f"sqlite:///{file}", 0, 1)
    made.open()
    with closing(made):
        made.reserve([(KEY, MARK)])
        yield made


def replace(file: Path) -> None:
    """As a restored backup does."""
    shutil.copy(file, f"{file}.copy")
    Path(f"{file}.copy").replace(file)


WAYS: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "moved": lambda file: file.rename(f"{file}.old"),
    "replaced": replace,
    "log deleted": lambda file: Path(f"{file}-wal").unlink(),
}


@pytest.mark.parametrize("way", WAYS)
def test_lost_file_is_noticed(file: Path, store: Store, way: str) -> None:
    """Ranges were written into the file without a name, and handed out; the next start began at the first number."""
    store.beat()
    WAYS[way](file)
    actions: list[Callable[[], object]] = [
        store.beat,
        lambda: store.reserve([(KEY, MARK)]),
        lambda: load(store),
        lambda: store.give_back([(KEY, MARK)]),
    ]
    for action in actions:
        with pytest.raises(DatabaseLostError, match=r"ids\.db or its -wal was deleted, moved or replaced"):
            action()


def test_file_that_is_lost_while_a_range_is_written(file: Path, store: Store) -> None:
    """The commit succeeds, into a file that is gone."""

    def write(_: object) -> None:
        file.unlink()

    with pytest.raises(DatabaseLostError):
        store._run(write)


def test_lost_file_is_not_made_again_by_a_new_connection(file: Path, store: Store) -> None:
    file.unlink()
    store._drop()
    with pytest.raises(DatabaseLostError):
        store.beat()
    assert not file.exists()


def test_other_readers_and_a_checkpoint_are_no_loss(file: Path, store: Store) -> None:
    with closing(Store(f"sqlite:///{file}", 1, 1)) as other:
        other.open()
        other.reserve([(KEY, MARK)])
    assert store._connection
    store._connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    store._connection.commit()
    store.reserve([(KEY, MARK)])
    store._drop()
    store.reserve([(KEY, MARK)])
    assert load(store) == MARK


def test_start_without_the_file_that_was_there_is_refused(file: Path, store: Store) -> None:
    """A supervisor that starts the service again must not let it count from the beginning."""
    store.close()
    file.unlink()
    for _ in range(2):
        with pytest.raises(StartError, match=r"ids\.db was there and is gone: numbers would begin again and repeat"):
            Store(f"sqlite:///{file}", 0, 1).open()
        assert not file.exists()
    Path(f"{file}.node-0").unlink()
    with closing(Store(f"sqlite:///{file}", 0, 1)) as new:
        new.open()
        assert load(new) is None, "an operator has said that it may begin again"
