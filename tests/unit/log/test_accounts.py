"""What is free always suffices to delete every live job and to move the oldest segment (`log/accounts.py`)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.engine import Engine
from beanpole.engine.state.records import Room
from beanpole.log.accounts import Accounts
from beanpole.log.compaction import Compaction, schedules_in
from beanpole.log.encoder import Encoder
from beanpole.log.format import CHANGED_RECORD, DELETED_RECORD
from beanpole.log.replay import Replay
from beanpole.server.connection import Connection
from tests.unit.log.test_growth import log_of, whole

SEGMENT_BYTES = 2048


class FullDisk:
    """An engine whose log has some spare segments, and will never get more but those that it empties itself."""

    def __init__(self, spares: int, large: tuple[int, ...] = ()) -> None:
        self.accounts = Accounts(SEGMENT_BYTES)
        self.records = Encoder(self.accounts, 1)
        self.accounts.refused_from = 0
        for size in [*[SEGMENT_BYTES] * spares, *large]:
            self.accounts.add_spare(size)
        self.records.open_segment(1, SEGMENT_BYTES)
        self.engine = Engine(records=self.records)
        self.compaction = Compaction(self.engine, self.records)
        self.connection = Connection(self.engine, 1)
        self.put_segments: dict[int, set[int]] = {}

    def ask(self, line: bytes) -> bytes:
        """One command; returns its reply."""
        self.accounts.stuck_index = self.records.index  # nobody makes room here
        self.connection.receive(1, line + b"\r\n")
        return self.connection.take_output()

    def put(self, size: int) -> bool:
        """Put a job; whether there was room."""
        return self.ask(b"put 1 0 100 %d\r\n%b" % (size, bytes(size))).startswith(b"INSERTED")

    def ids(self) -> list[int]:
        return sorted(job.id for job in self.engine.jobs.jobs())

    def can_move(self) -> bool:
        """Whether the oldest segment can be moved; the open one is ended for that."""
        accounts = self.accounts
        live_bytes = accounts.live_in(accounts.first_segment)
        left = self.records.left_for_jobs() if accounts.first_segment < self.records.segment else 0
        return accounts.can_move(left, live_bytes, gives_back=True)

    def move(self) -> None:
        """Move the oldest segment, whose file comes back."""
        oldest = self.accounts.first_segment
        if oldest == self.records.segment:
            self.records.begin_segment(0)
        self.compaction.begin(oldest)
        names, _ = schedules_in(self.engine, oldest, b"")
        self.compaction.set_ids([*names, *[job.id for job in self.engine.jobs.jobs() if job.segment == oldest]])
        self.compaction.step(at_once=True)
        assert self.compaction.emptied
        assert self.accounts.live_in(oldest) == 0
        self.compaction.finish()
        self.accounts.add_spare(SEGMENT_BYTES)

    def check(self) -> None:
        """Assert what always holds."""
        assert self.accounts.spare_count >= 0, "a segment was begun for which there is no file"
        assert self.accounts.can_delete_all(self.records.left()), "not every job can be deleted"

    def delete_all(self) -> None:
        for id in self.ids():
            assert self.ask(b"delete %d" % id) == b"DELETED\r\n"
            self.check()

    def schedule(self, what: str, number: int) -> None:
        """Set one of a few schedules, fire it, pause it or drop it; whether there was room."""
        name = b"schedule-%d" % (number % 5)
        document = b"at: 2100-01-01T00:00:00Z\n\n" + bytes(number % 1400)
        self.ask(
            {
                "set": b"set-schedule %b %d\r\n%b" % (name, len(document), document),
                "fire": b"fire-schedule " + name,
                "pause": b"pause-schedule %b %b" % (name, (b"on", b"off")[number % 2]),
                "drop": b"drop-schedule " + name,
            }[what]
        )


COMMANDS = st.tuples(st.sampled_from(("put", "put", "put", "change", "delete", "move")), st.integers(0, 2**16))
OF_SCHEDULES = st.tuples(st.sampled_from(("set", "fire", "pause", "drop")), st.integers(0, 2**16))


def run(disk: FullDisk, commands: list[tuple[str, int]]) -> None:
    """Run commands, each if there is room for it, and assert after each what always holds."""
    for what, number in commands:
        ids = disk.ids()
        if what == "put":
            disk.put(number % 1600)
        elif what in {"set", "fire", "pause", "drop"}:
            disk.schedule(what, number)
        elif what == "move":
            if disk.can_move():
                disk.move()
        elif ids:
            id = ids[number % len(ids)]
            if what == "delete":
                assert disk.ask(b"delete %d" % id) == b"DELETED\r\n"
            elif disk.ask(b"reserve-job %d" % id).startswith(b"RESERVED"):
                disk.ask(b"bury %d 1" % id)
        disk.check()


@given(st.integers(3, 8), st.lists(COMMANDS | OF_SCHEDULES, max_size=80))
def test_every_job_can_be_deleted_whatever_was_written(spares: int, commands: list[tuple[str, int]]) -> None:
    disk = FullDisk(spares)
    run(disk, commands)
    disk.delete_all()


@given(st.integers(3, 8), st.lists(COMMANDS | OF_SCHEDULES, max_size=80))
def test_every_segment_can_be_moved_whatever_was_written(spares: int, commands: list[tuple[str, int]]) -> None:
    """Then every job can be deleted still, also those that were moved."""
    disk = FullDisk(spares)
    run(disk, commands)
    for _ in range(disk.records.segment - disk.accounts.first_segment + 1):
        assert disk.can_move(), "the oldest segment can't be moved"
        disk.move()
        disk.check()
    disk.delete_all()


@pytest.mark.parametrize("body_bytes", [1, 100, 1000, 1500])
def test_each_class_of_records_leaves_room_for_the_next(body_bytes: int) -> None:
    """Puts end first, then changes; a move and every delete still have room."""
    disk = FullDisk(6)
    while disk.put(body_bytes):
        disk.check()
    ids = disk.ids()
    assert len(ids) > 2
    changed = 0
    while disk.ask(b"reserve-job %d" % ids[0]).startswith(b"RESERVED"):
        if disk.ask(b"bury %d 1" % ids[0]) == b"OUT_OF_MEMORY\r\n":
            break
        changed += 1
        disk.check()
    assert disk.accounts.room_for_change(disk.records.left(), CHANGED_RECORD, disk.records.index) != Room.OK
    assert changed > 5
    assert disk.can_move()
    disk.move()
    disk.delete_all()


@pytest.mark.parametrize("spares", range(3, 9))
@pytest.mark.parametrize("body_bytes", [10, 100, 300, 700, 1400])
def test_every_segment_can_be_moved_when_schedules_have_filled_the_log(spares: int, body_bytes: int) -> None:
    """They need room as jobs do: compaction must move them too."""
    disk = FullDisk(spares)
    while disk.put(1000):
        pass
    for id in disk.ids()[::3]:
        disk.ask(b"delete %d" % id)
    if disk.can_move():
        disk.move()
    document = b"at: 2100-01-01T00:00:00Z\n\n" + bytes(body_bytes)
    count = 0
    while disk.ask(b"set-schedule s%d %d\r\n%b" % (count, len(document), document)) != b"OUT_OF_MEMORY\r\n":
        count += 1
        disk.check()
    for _ in range(disk.records.segment - disk.accounts.first_segment + 1):
        assert disk.can_move(), f"the oldest segment can't be moved, with {count} schedules"
        disk.move()
        disk.check()
    disk.delete_all()


@pytest.mark.parametrize(
    "commands",
    [(b"reserve-job 1", b"bury 1 1"), (b"use " + b"t" * 200, b"pause-tube " + b"t" * 200 + b" 9")],
    ids=["tags of a job", "name of a tube"],
)
def test_change_leaves_room_however_long_its_record_is(commands: tuple[bytes, ...]) -> None:
    disk = FullDisk(6)
    tags = b"\x85" + (900).to_bytes(2, "little") + bytes(900)
    (content,) = log_of(whole(1, tags), whole(2)).values()
    Replay(disk.engine, disk.records).segment(content, 1)
    while not any(disk.ask(each) == b"OUT_OF_MEMORY\r\n" for each in commands):
        assert disk.accounts.free_behind(disk.records.left(), 0) >= disk.accounts.least(0)
    assert disk.records.index > 3
    disk.delete_all()


def test_change_with_long_tags_does_not_wait_for_a_disk_that_has_no_space() -> None:
    """Puts of small jobs may have room when it has none, so the disk is not known to be full."""
    accounts = Accounts(SEGMENT_BYTES)
    accounts.add_spare(SEGMENT_BYTES)
    left, size = SEGMENT_BYTES // 2 + 100, SEGMENT_BYTES // 2 + 200
    assert not accounts.is_short(left)
    assert accounts.room_for_change(left, size, 7) == Room.WAIT
    accounts.refused_from = size
    assert accounts.room_for_change(left, size, 7) == Room.FULL
    assert accounts.room_for_change(left, CHANGED_RECORD, 7) == Room.OK


def test_put_waits_while_the_disk_is_not_known_to_be_full() -> None:
    accounts = Accounts(SEGMENT_BYTES)
    assert accounts.room_for_put(0, 0, 100) == Room.WAIT
    assert accounts.missing(100) == SEGMENT_BYTES
    accounts.refused_from = 101
    assert accounts.room_for_put(0, 0, 100) == Room.WAIT
    assert accounts.room_for_put(0, 0, 101) == Room.FULL
    for _ in range(3):
        accounts.add_spare(SEGMENT_BYTES)
    assert accounts.room_for_put(0, 0, 101) == Room.OK


def test_large_job_needs_a_file_to_move_into() -> None:
    accounts = Accounts(SEGMENT_BYTES)
    for _ in range(9):
        accounts.add_spare(SEGMENT_BYTES)
    large = 3 * SEGMENT_BYTES
    file_bytes = accounts.segment_for(large)
    assert file_bytes > large + DELETED_RECORD
    for answer in (Room.WAIT, Room.WAIT, Room.OK):
        assert accounts.room_for_put(0, 0, large) == answer
        assert accounts.room_for_put(0, 0, 100) == Room.OK
        if answer == Room.WAIT:
            assert accounts.missing(large) == file_bytes
            accounts.add_spare(file_bytes)
    accounts.take_spare(file_bytes)
    assert accounts.has_large(large, 1)
    assert not accounts.has_large(large, 2)
