"""A file of SQLite that is deleted or replaced while a store has it open, or while none has."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from beanpole_ids.errors import DatabaseLostError, ExitCode, StartError
from beanpole_ids.hand import Mark
from beanpole_ids.storage.database import is_elsewhere
from beanpole_ids.storage.store import Store
from tests.unit.storage.test_store import KEY, load

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


# --- Copies and backups -----------------------------------------------------------------------------------------------


def is_refused(file: Path, reason: str) -> bool:
    """Whether a start is refused, for a reason; with `--adopt` it goes on, and then as always."""
    address = f"sqlite:///{file}"
    with pytest.raises(StartError, match=reason) as refused:
        Store(address, 0, 1).open()
    assert refused.value.exit_code == ExitCode.DATABASE_LOST
    assert str(refused.value).startswith(f"{file}: it is ")
    assert str(refused.value).endswith("start once with --adopt")
    for is_adopting in (True, False):
        with closing(Store(address, 0, 1)) as store:
            store.is_adopting = is_adopting
            store.open()
            store.reserve([(KEY, MARK)])
    return True


@pytest.mark.parametrize("is_whole", [True, False])
def test_copy_is_refused(file: Path, store: Store, tmp_path: Path, is_whole: bool) -> None:
    """Two services with copies of a folder gave the same numbers."""
    store.close()
    shutil.copytree(
        tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy", *[] if is_whole else ["*.node-*"])
    )
    assert is_refused(tmp_path / "copy" / "ids.db", "it is a copy, or was moved from another machine or file system")
    with closing(Store(f"sqlite:///{file}", 0, 1)) as again:
        again.open()


def test_backup_in_the_place_of_the_file_is_refused(file: Path, store: Store, tmp_path: Path) -> None:
    """Numbers that were given after the backup came again."""
    store.close()
    shutil.copy(file, tmp_path / "backup")
    with closing(Store(f"sqlite:///{file}", 0, 1)) as later:
        later.open()
        later.reserve([(KEY, MARK.at(199, 200))])
    inode = file.stat().st_ino
    file.write_bytes((tmp_path / "backup").read_bytes())
    assert file.stat().st_ino == inode, "it is the same file, with what it had before"
    assert is_refused(file, "it is older than what node 0 wrote last, as a restored backup is")


def test_backup_that_lacks_nothing_is_no_loss(file: Path, store: Store, tmp_path: Path) -> None:
    store.close()
    shutil.copy(file, tmp_path / "backup")
    with closing(Store(f"sqlite:///{file}", 0, 1)) as later:
        later.open()  # a start alone reserves nothing
    file.write_bytes((tmp_path / "backup").read_bytes())
    with closing(Store(f"sqlite:///{file}", 0, 1)) as again:
        again.open()


def test_restart_kill_and_move_are_no_copy(tmp_path: Path) -> None:
    folder = tmp_path / "before"
    folder.mkdir()
    for count in range(3):
        (killed := Store(f"sqlite:///{folder}/ids.db", 0, 2)).open()
        killed.reserve([(KEY, MARK.at(100 + count, 200))])
        with closing(Store(f"sqlite:///{folder}/ids.db", 1, 2)) as other:
            other.open()
        killed._drop()  # as when the process is killed: nothing is written any more
        killed._database.close()
        folder = folder.rename(tmp_path / f"moved{count}")


@pytest.mark.parametrize("note", [b"", b"\0" * 20, b"123", b"00000000000000000000000"])
def test_note_that_a_crash_of_the_machine_damaged_is_none(file: Path, store: Store, note: bytes) -> None:
    """And what an older version has left: no note, and no place."""
    store.close()
    Path(f"{file}.node-0").write_bytes(note)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE beanpole_ids_node SET place = ''")
    with closing(Store(f"sqlite:///{file}", 0, 1)) as again:
        again.open()


@pytest.mark.parametrize(
    ("known", "place", "expected"),
    [
        ("", "m 1", False),
        ("m 1", "", False),
        ("m 1", "m 1", False),
        ("m 1", "m 2", True),
        ("m 1", "n 1", True),
        (" 1", "n 1", False),
        ("m 1", " 1", False),
        (" 1", " 2", True),
    ],
)
def test_where_a_file_is(known: str, place: str, expected: bool) -> None:
    """A machine without an id, as a container, is no other one."""
    assert is_elsewhere(known, place) == expected
