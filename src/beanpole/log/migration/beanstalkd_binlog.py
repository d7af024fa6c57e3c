"""Read the log that beanstalkd leaves in its directory, so that its jobs can be taken over.

beanstalkd writes files `binlog.N`, N increasing. A file is an int32 version, records, and zero bytes up to a size that
was reserved in advance. There are two kinds of records, told apart by the length of the tube name in front::

    version 7   int32 length | tube name | Jobrec, 80 bytes | body with its CRLF       a job, whole: put or moved
                int32 0      | Jobrec                                                  a job has changed, or is deleted
    version 5   the same with an int64 length, a Jobrec of 77 bytes, and times in microseconds

All numbers are those of a 64-bit little-endian machine. Replay is "the last record of a job wins", file after file.

Invariants:

- Nothing is changed on disk, and no byte sequence raises an exception; an unreadable file is the caller's `OSError`.
- There is no checksum in the format, so a record is believed if it could have been written by beanstalkd
  (`_read_record`). Where one could not, the next that could is searched byte by byte, and the
  bytes between are one sentence in `BinlogReport.problems`. beanstalkd drops the rest of such a file. Damage that makes
  another possible record, in a body for example, stays unseen.
- A body is kept whatever its size. beanstalkd drops those of its own limit, and the rest of their file with them.

What this does not do: take the directory's lock, decide whether a delayed job is due (deadlines stay absolute, on the
wall clock), rename or remove files. What beanstalkd never logs, nobody can read: reservations, time-outs, releases
without a delay, touches, and pauses of tubes.
"""

import gc
import re
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Literal

from beanpole.limits import PRI_MAX, TUBE_NAME_BYTES_MAX

State = Literal["ready", "delayed", "buried"]

DELETED, BURIED, DELAYED = 0, 3, 4
STATES: tuple[State, ...] = ("ready", "ready", "ready", "buried", "delayed")
"""States by their number in a record. 1 is ready; 2 is reserved, by a connection that is gone; 0 is a deleted job."""

ID_MAX = 2**48 - 1
"""The highest id that is believed: beanstalkd counts from 1, and a million puts a second for eight years end below."""

ID_JUMP_MAX = 2**32
"""How far the id of a record found behind damage may be above all ids before it."""

TIME_NS_MAX = 2**63 - 1
"""The latest moment of the wall clock that is believed, in the year 2262."""

IDS_NAMED_MAX = 20
"""Lost jobs that one problem names by their id; more are only counted."""

NAME = re.compile(rb"[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,%d}" % (TUBE_NAME_BYTES_MAX - 1))
FILE_NAME = re.compile(r"binlog\.(0|[1-9][0-9]{0,9})", re.ASCII)

Fields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A Jobrec: id, pri, delay, ttr, body_size, created_at, deadline_at, five counters, state."""


@dataclass(slots=True)
class BinlogJob:
    """A job that beanstalkd would have after a restart."""

    id: int
    tube: bytes
    pri: int
    delay_s: int
    """The delay that it was last put or released with, whatever its state is now."""
    ttr_s: int
    body: bytes
    """Without the CRLF behind it."""
    created_at_ns: int
    """When it was put, wall clock since 1970."""
    deadline_at_ns: int
    """Delayed: when it becomes ready, wall clock since 1970; this may be over. Otherwise 0."""
    state: State
    reserve_count: int
    timeout_count: int
    release_count: int
    bury_count: int
    kick_count: int
    bury_order: int = 0
    """Buried: jobs buried earlier have a smaller number, unique in a directory. Otherwise 0."""


@dataclass(slots=True)
class BinlogReport:
    """What was read, and what was wrong with it."""

    files_read: int = 0
    bytes_read: int = 0
    """With the unused zero bytes at the end of files."""
    records_read: int = 0
    records_ignored: int = 0
    """Those of `records_read` that change or delete a job whose whole record is in no file: beanstalkd removed it."""
    jobs_alive: int = 0
    next_id: int = 1
    """One more than the highest id in any record, so also of deleted jobs."""
    problems: list[str] = field(default_factory=list)
    """One sentence for each damaged place: the file, the offset, what is wrong and what was lost."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How records look in one version of the format."""

    length: Struct
    record: Struct
    unit_ns: int
    """Nanoseconds in one unit of delay, ttr, created_at and deadline_at."""
    candidate: re.Pattern[bytes]
    """Where a record may begin: its length, and no id of 0 behind a length of 0."""


LAYOUTS = {
    version: _Layout(
        Struct(length),
        Struct(record),
        unit_ns,
        re.compile(rb"(?=\x00{%d}(?!\x00{8})|[\x01-\xc8]\x00{%d})" % (size, size - 1)),
    )
    for version, length, size, record, unit_ns in (
        (5, "<q", 8, "<QI4xqqi4xqq5IB", 1000),
        (7, "<i", 4, "<QI4xqqi4xqq5IB3x", 1),
    )
}
"""By version."""


def is_binlog(name: str) -> bool:
    """Whether a file of this name is one of beanstalkd's logs."""
    return FILE_NAME.fullmatch(name) is not None


def read_directory(path: Path) -> tuple[dict[int, BinlogJob], BinlogReport]:
    """Read all of beanstalkd's files in a directory: the jobs in the order they were put, and what there is to say."""
    replay = BinlogReplay()
    names = [entry.name for entry in path.iterdir() if is_binlog(entry.name) and entry.is_file()]
    collecting = gc.isenabled()
    gc.disable()  # nothing here makes a cycle, and looking for one among a million new jobs takes 40 % of the time
    try:
        numbers = sorted(int(name.removeprefix("binlog.")) for name in names)
        for i, number in enumerate(numbers):
            if i and number != numbers[i - 1] + 1:
                replay.note_missing(numbers[i - 1] + 1, number - 1)
            replay.feed(f"binlog.{number}", (path / f"binlog.{number}").read_bytes())
        return replay.finish()
    finally:
        if collecting:
            gc.enable()


def _are_sane_times(fields: Fields, layout: _Layout) -> bool:
    """Whether beanstalkd may have written these times: it computes delays and TTRs from whole seconds."""
    _, _, delay, ttr, _, created_at, deadline_at, *_ = fields
    second = 1_000_000_000 // layout.unit_ns
    return (
        delay % second == 0
        and ttr % second == 0
        and 0 <= delay <= PRI_MAX * second
        and second <= ttr <= PRI_MAX * second
        and 0 <= created_at * layout.unit_ns <= TIME_NS_MAX
        and 0 <= deadline_at * layout.unit_ns <= TIME_NS_MAX
    )


def _possible_times(fields: Fields, layout: _Layout) -> Fields:
    """Return the numbers of a record with the nearest times that beanstalkd could have written."""
    id, pri, delay, ttr, body_size, created_at, deadline_at, reserves, timeouts, releases, buries, kicks, state = fields
    second, latest = 1_000_000_000 // layout.unit_ns, TIME_NS_MAX // layout.unit_ns
    delay, ttr = min(max(delay, 0), PRI_MAX * second), min(max(ttr, second), PRI_MAX * second)
    created_at, deadline_at = min(max(created_at, 0), latest), min(max(deadline_at, 0), latest)
    return id, pri, delay, ttr, body_size, created_at, deadline_at, reserves, timeouts, releases, buries, kicks, state


def _read_record(data: bytes, layout: _Layout, offset: int) -> tuple[Fields, bytes, int] | None:
    """Return the numbers of the record at `offset`, the name of its tube if it is whole, and where it ends.

    None: there are no numbers that beanstalkd may have written. An end of 0: what is around them is damaged. A whole
    job may have impossible times.
    """
    name_at = offset + layout.length.size
    record_at = name_at + (layout.length.unpack_from(data, offset)[0] if name_at <= len(data) else -1)
    end = record_at + layout.record.size
    if not name_at <= record_at <= name_at + TUBE_NAME_BYTES_MAX or end > len(data):
        return None
    fields = layout.record.unpack_from(data, record_at)
    id, body_size, state = fields[0], fields[4], fields[12]
    are_sane = _are_sane_times(fields, layout)
    if not (0 < id <= ID_MAX and body_size >= 2 and state <= DELAYED) or (name_at == record_at and not are_sane):
        return None
    if name_at == record_at:
        return fields, b"", end
    end += body_size
    is_sound = state != DELETED and data[end - 2 : end] == b"\r\n" and NAME.fullmatch(data, name_at, record_at)
    return (fields, data[name_at:record_at], end if is_sound else 0) if is_sound or are_sane else None


class BinlogReplay:
    """The jobs of some files, fed in the order of their numbers."""

    def __init__(self) -> None:
        self._jobs: dict[int, BinlogJob] = {}
        self._report = BinlogReport()
        self._tubes: dict[bytes, bytes] = {}
        """Every valid name once, so that jobs share them."""
        self._id_max = 0
        self._buried = 0
        """Buries seen: the last `bury_order` given."""
        self._buried_unknown: dict[int, tuple[int, int]] = {}
        """By id of a job whose whole record was not seen yet: its bury_count and bury_order."""

        self._empty: list[str] = []
        """Files without a byte of a record behind which none with records was read yet."""

        self._displaced: list[tuple[str, int, BinlogJob]] = []
        """Jobs whose id was used again, and where: beanstalkd had lost sight of them, or an id is damaged."""

    def feed(self, name: str, data: bytes) -> None:
        """Replay one file. Whatever its bytes are, nothing is raised."""
        report = self._report
        report.files_read += 1
        report.bytes_read += len(data)
        used_end = len(data.rstrip(b"\0"))
        if not used_end:
            self._empty.append(name)  # killed between creating the file and writing its version
            return
        for each in self._empty:
            self._problem(each, 0, f"it is empty, though {name} is not; if it ever held records, they are lost")
        self._empty.clear()
        version = int.from_bytes(data[:4], "little", signed=True)
        layout = LAYOUTS.get(version) if len(data) >= 4 else None
        if layout is None:
            what = f"unknown version {version}" if len(data) >= 4 else "the version is cut short"
            self._problem(name, 0, f"{what}, so nothing of the file was read ({used_end} used bytes)")
            return
        offset = self._read_run(name, data, layout, 4)
        while offset < used_end:
            offset = self._read_run(name, data, layout, self._find_next(name, data, layout, offset, used_end))

    def note_missing(self, first: int, last: int) -> None:
        """Report files that are not there although later ones are: beanstalkd removes the oldest first."""
        name = f"binlog.{first}"
        what = "it is missing" if first == last else f"it is missing, and so are all up to binlog.{last}"
        self._problem(name, 0, f"{what}; jobs that were put there are lost, and others may lack their last changes")

    def finish(self) -> tuple[dict[int, BinlogJob], BinlogReport]:
        """The jobs in the order they were put, which is the order of their ids, and the report."""
        jobs = self._jobs
        for name, offset, job in self._displaced:
            self._id_max += 1
            what = f"a second job {job.id}, of another age or size; the first was kept, as job {self._id_max}"
            self._problem(name, offset, f"{what} in tube {job.tube.decode()}")
            job.id = self._id_max
            jobs[job.id] = job
        self._displaced.clear()
        self._report.jobs_alive = len(jobs)
        self._report.next_id = self._id_max + 1
        return {id: jobs[id] for id in sorted(jobs)}, self._report

    def _problem(self, name: str, offset: int, what: str) -> None:
        self._report.problems.append(f"{name}, offset {offset}: {what}.")

    def _read_run(self, name: str, data: bytes, layout: _Layout, offset: int) -> int:
        """Replay records from an offset on. Return where the first begins that is not to be believed, or the end."""
        second = 1_000_000_000 // layout.unit_ns
        while (record := _read_record(data, layout, offset)) is not None and record[2]:
            fields, tube, end = record
            self._report.records_read += 1
            if not tube:
                self._change(name, offset, fields, layout)
                offset = end
                continue
            if not _are_sane_times(fields, layout):
                what = "has times that beanstalkd never writes; it was kept, with the nearest possible ones"
                self._problem(name, offset, f"job {fields[0]} {what}")
                fields = _possible_times(fields, layout)
            id, pri, delay, ttr, size, created_at, deadline_at, *counts, state = fields
            tube = self._tubes.setdefault(tube, tube)
            body = data[end - size : end - 2]
            born, due = created_at * layout.unit_ns, deadline_at * layout.unit_ns if state == DELAYED else 0
            job = BinlogJob(id, tube, pri, delay // second, ttr // second, body, born, due, STATES[state], *counts)
            if state == BURIED or id <= self._id_max:
                self._put_known(name, offset, job)
            else:
                self._id_max = id
            self._jobs[id] = job
            offset = end
        return offset

    def _put_known(self, name: str, offset: int, job: BinlogJob) -> None:
        """Replay a whole record of a job that is buried, or that may have been put before."""
        self._id_max = max(self._id_max, job.id)
        before = self._jobs.get(job.id)
        if before and (before.created_at_ns, len(before.body)) != (job.created_at_ns, len(job.body)):
            self._displaced.append((name, offset, before))
            before = None
        known = self._buried_unknown.pop(job.id, None)
        if job.state == "buried":
            if before and before.state == "buried":
                known = before.bury_count, before.bury_order
            job.bury_order = known[1] if known and known[0] == job.bury_count else self._next_bury_order()

    def _next_bury_order(self) -> int:
        self._buried += 1
        return self._buried

    def _change(self, name: str, offset: int, fields: Fields, layout: _Layout) -> None:
        """Replay a record without a body."""
        id, _, _, _, body_size, created_at, _, *counts, state = fields
        self._id_max = max(self._id_max, id)
        job = self._jobs.get(id)
        if job is None:
            self._report.records_ignored += 1
            self._buried_unknown.pop(id, None)
            if state == BURIED:
                self._buried_unknown[id] = counts[3], self._next_bury_order()
            return
        what = "a change" if state else "a delete"
        if job.created_at_ns != created_at * layout.unit_ns or len(job.body) + 2 != body_size:
            self._problem(name, offset, f"{what} of job {id} was ignored, it is about another age or size")
        elif state != DELETED:
            self._update(job, fields, layout)
        elif not any(counts) and (job.reserve_count or job.bury_count or job.release_count or job.kick_count):
            self._problem(name, offset, f"{what} of job {id} was ignored, its end was never written")
        else:
            del self._jobs[id]

    def _update(self, job: BinlogJob, fields: Fields, layout: _Layout) -> None:
        """Give a job the numbers of a record that was found to be about it."""
        _, pri, delay, ttr, _, _, deadline_at, *counts, state = fields
        # Buried twice without a kick between: it was reserved by its id and buried again, behind the others.
        if state != BURIED:
            job.bury_order = 0
        elif job.state != "buried" or job.bury_count != counts[3]:
            job.bury_order = self._next_bury_order()
        second = 1_000_000_000 // layout.unit_ns
        job.pri, job.delay_s, job.ttr_s, job.state = pri, delay // second, ttr // second, STATES[state]
        job.deadline_at_ns = deadline_at * layout.unit_ns if state == DELAYED else 0
        job.reserve_count, job.timeout_count, job.release_count, job.bury_count, job.kick_count = counts

    def _find_next(self, name: str, data: bytes, layout: _Layout, bad: int, used_end: int) -> int:
        """The offset of the next record to believe behind a bad one, or the end; what is between is a problem."""
        id_max = self._id_max + ID_JUMP_MAX if self._id_max else ID_MAX
        lost: list[int] = []
        found, found_id = len(data), 0
        for match in layout.candidate.finditer(data, bad, used_end):
            record = _read_record(data, layout, match.start())
            if record is None or record[0][0] > id_max:
                continue
            if record[2]:
                found, found_id = match.start(), record[0][0]
                break
            lost.append(record[0][0])
        near = max(self._id_max, found_id)
        self._id_max = max([self._id_max, *lost])
        if near:  # what is missing here has hardly room for more ids; to pass them for nothing costs nothing
            lost = [id for id in lost if id <= near + (found - bad) // layout.record.size]
        self._problem(name, bad, _damage(data, bad, found, used_end, list(dict.fromkeys(lost))))
        return found


def _damage(data: bytes, bad: int, found: int, used_end: int, lost: list[int]) -> str:
    """The sentence about bytes that were skipped."""
    if found == len(data):
        what = f"the file ends in {used_end - bad} bytes that are no whole record"
    elif not data[bad : bad + 16].strip(b"\0"):
        what = (
            f"{found - bad} bytes were skipped, from zero bytes that are not the end up to the next record at {found}"
        )
    else:
        what = f"{found - bad} bytes that are no record were skipped, up to the next one at {found}"
    if not lost:
        return f"{what}; what they held can't be told"
    ids = ", ".join(map(str, lost[:IDS_NAMED_MAX]))
    more = f" and {len(lost) - IDS_NAMED_MAX} more" if len(lost) > IDS_NAMED_MAX else ""
    return f"{what}; lost is a record of job {ids}{more}"
