"""Replay: segments back into an engine. The last record of a job wins.

Segments are given in order, oldest first. A change or a delete of a job that is not there is ignored: compaction has
dropped the segment that held the job, so either a later record holds it whole or it is gone. What a record does to the
engine stands in :mod:`beanpole.engine.restore`. The log's clock, which is the engine's too, is the wall clock of the
log's first start, and goes on steadily while the wall clock is set: how far that was ahead is mentioned at every turn.

Nothing is trusted before its checksum is. What a bad record means is decided in :mod:`beanpole.log.files.recovery`.
"""

from typing import TYPE_CHECKING, NamedTuple

import cython
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.job import Job, JobNumbers, State
from cython.cimports.beanpole.engine.restore import Restore
from cython.cimports.beanpole.log.crc32c import crc32c
from cython.cimports.beanpole.log.encoder import Encoder
from cython.cimports.beanpole.log.endian import get_u32, get_u64
from cython.cimports.beanpole.log.format import (
    CHANGED_RECORD,
    DELETED_RECORD,
    END_RECORD,
    FRAME,
    SEGMENT_HEADER,
    TUBE_FIXED,
    TURN_RECORD,
    WHOLE_FIXED,
    Kind,
    read_job,
    record_crc,
)
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memchr, memcmp

from beanpole.log.errors import VersionError
from beanpole.log.format import MAGIC, VERSION

if TYPE_CHECKING:
    from beanpole.log.migration.beanstalkd_binlog import BinlogJob


@cython.cfunc
@cython.exceptval(check=False)
def good_record(at: cython.p_const_uchar, left: cython.Py_ssize_t, salt: uint32_t) -> cython.Py_ssize_t:
    """Return the size of the record at the start of `left` bytes; 0: there is none; -1: there is something else."""
    if left < FRAME or get_u32(at) == 0:
        return 0
    size: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, get_u32(at)) + FRAME
    if size > left or size < DELETED_RECORD:
        return -1
    return size if record_crc(at, size, salt) == get_u32(at + 4) else -1


class Header(NamedTuple):
    """What a segment's header says."""

    number: int
    next_job_id: int
    log_ns: int
    """The log's clock when the segment was begun."""

    lead_ns: int
    """The wall clock minus that."""

    salt: int


def read_header(data: bytes) -> Header:
    """Read a segment's header. Raise ValueError with what is wrong; VersionError when another program wrote it."""
    if len(data) < SEGMENT_HEADER:
        raise ValueError(f"it has {len(data)} bytes, less than a header")
    at: cython.p_const_uchar = data
    if memcmp(at, cython.cast(cython.p_const_char, MAGIC), 8) != 0:
        raise ValueError("it does not begin with BEANPOLE")
    version: uint32_t = get_u32(at + 8)
    header_bytes: cython.Py_ssize_t = get_u32(at + 12)
    if not 16 <= header_bytes <= len(data) or crc32c(at, header_bytes - 4) != get_u32(at + header_bytes - 4):
        raise ValueError("its header has a wrong checksum")
    if version != VERSION or header_bytes != SEGMENT_HEADER:
        raise VersionError(f"it has version {version} of the format; this program reads version {VERSION}")
    log_ns: int64_t = get_u64(at + 32)
    lead_ns: int64_t = get_u64(at + 40)
    return Header(get_u64(at + 16), get_u64(at + 24), log_ns, lead_ns, get_u32(at + 48))


def durable_beyond(data: bytes, number: uint64_t, start: cython.Py_ssize_t, salt: int | None) -> bool:
    """Whether a good turn record behind `start` says that segment `number` was durable beyond `start`.

    If so, what is wrong at `start` is not what a crash leaves. `salt` is the segment's; None: its header is not good,
    and each turn record is taken at its word.
    """
    at: cython.p_const_uchar = data
    length: cython.int = TURN_RECORD - FRAME
    i: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = len(data) - TURN_RECORD
    while i <= end:
        found = cython.cast(cython.p_const_uchar, memchr(at + i, length, end - i + 1))
        if found is cython.NULL:
            return False
        i = found - at
        if get_u32(found) == length and found[FRAME] == Kind.TURN:
            named: uint32_t = get_u32(found + FRAME + 33)
            durable_segment: uint64_t = get_u64(found + FRAME + 17)
            durable_bytes: uint64_t = get_u64(found + FRAME + 25)
            if (
                (salt is None or named == salt)
                and good_record(found, TURN_RECORD, named) == TURN_RECORD
                and (durable_segment, durable_bytes) > (number, start)
            ):
                return True
        i += 1
    return False


def whole_ids(data: bytes) -> list[int]:
    """Return the ids of the jobs that a segment holds whole, in order; its records are known to be good."""
    at: cython.p_const_uchar = data
    i: cython.Py_ssize_t = SEGMENT_HEADER
    end: cython.Py_ssize_t = len(data)
    ids = []
    while end - i >= FRAME and get_u32(at + i) != 0:
        if at[i + FRAME] == Kind.WHOLE:
            ids.append(get_u64(at + i + FRAME + 1))
        i += cython.cast(cython.Py_ssize_t, get_u32(at + i)) + FRAME
    return ids


@cython.cclass
class Replay:
    """Applies segments to an engine that has no job yet. The fields stand in ``replay.pxd``."""

    def __init__(self, engine: Engine, records: Encoder):
        self.restore = Restore(engine)
        self.records = records

    def segment(self, data: bytes, number: uint64_t) -> None:
        """Apply the records of a segment whose header is good, up to its end or the first that is not good.

        `good_bytes`, `ended` and `problem` tell how far that went.
        """
        at: cython.p_const_uchar = data
        end: cython.Py_ssize_t = len(data)
        header: object = read_header(data)
        self.records.count_live(number, 0)
        self.restore.reach_job_id(header.next_job_id)
        self.restore.advance(header.log_ns)
        self.lead_ns = header.lead_ns
        self.salt = header.salt
        self.ended = False
        self.problem = None
        self.good_bytes = SEGMENT_HEADER
        size: cython.Py_ssize_t
        while not self.ended:
            size = good_record(at + self.good_bytes, end - self.good_bytes, self.salt)
            if size < 0:
                self.problem = "a record has a wrong length or checksum"
                return
            if size == 0:
                self.problem = "it has no end"
                return
            try:
                self.apply(at + self.good_bytes, size, number)
            except ValueError as error:
                self.problem = str(error)
                self.nonsense = True
                return
            self.good_bytes += size
            self.record_count += 1

    def apply(self, at, size, segment):
        """Apply one good record. Raise ValueError when it makes no sense."""
        kind: cython.int = at[FRAME]
        if kind == Kind.WHOLE and size >= WHOLE_FIXED:
            return self.whole(at, size, segment)
        if kind == Kind.CHANGED and size == CHANGED_RECORD:
            return self.changed(at)
        if kind == Kind.DELETED and size == DELETED_RECORD:
            if not self.restore.delete(get_u64(at + FRAME + 1)):
                self.orphan_count += 1
            return 0
        if kind == Kind.TUBE and size >= TUBE_FIXED:
            name: bytes = at[TUBE_FIXED:size]
            until_ns: int64_t = get_u64(at + FRAME + 5)
            return self.restore.pause(name, get_u32(at + FRAME + 1), until_ns, segment)
        if kind == Kind.TURN and size == TURN_RECORD:
            self.restore.advance(get_u64(at + FRAME + 1))
            self.lead_ns = get_u64(at + FRAME + 9)
            self.durable_segment = get_u64(at + FRAME + 17)
            self.durable_bytes = get_u64(at + FRAME + 25)
            return 0
        if kind == Kind.END and size == END_RECORD:
            self.restore.reach_job_id(get_u64(at + FRAME + 1))
            self.ended = True
            return 0
        raise ValueError(f"a record of kind {kind} with {size} bytes, which this program does not know")

    def whole(self, at, size, segment):
        """Put a job into the engine, in place of what is known of it."""
        numbers: JobNumbers
        behind: cython.p_const_uchar = read_job(at + FRAME + 1, cython.address(numbers))
        name_bytes: cython.Py_ssize_t = behind[0]
        body_bytes: cython.Py_ssize_t = size - WHOLE_FIXED - name_bytes
        if body_bytes < 0:
            raise ValueError("a job whose tube's name is longer than its record")
        check_state(cython.address(numbers))
        name: bytes = behind[1 : 1 + name_bytes]
        body = cython.cast(cython.p_const_char, behind) + 1 + name_bytes
        self.restore.put(cython.address(numbers), name, body, body_bytes, cython.cast(uint32_t, segment))
        return 0

    def changed(self, at):
        """Change a job."""
        numbers: JobNumbers
        read_job(at + FRAME + 1, cython.address(numbers))
        check_state(cython.address(numbers))
        if not self.restore.change(cython.address(numbers)):
            self.orphan_count += 1
        return 0

    def finish(self, wall_ns: int64_t) -> int:
        """Let the engine begin to serve, and return what the log's clock says.

        It goes on from the wall clock, but never back.
        """
        now_ns: int64_t = max(wall_ns - self.lead_ns, self.restore.clock_ns)
        self.records.stale_pauses = self.restore.finish(now_ns)
        return now_ns


@cython.cfunc
@cython.exceptval(-1)
def check_state(numbers: cython.pointer(JobNumbers)) -> cython.int:
    """Raise ValueError when a record says what no program of this version writes."""
    state: cython.int = numbers.state
    if state != State.READY and state != State.DELAYED and state != State.BURIED:
        raise ValueError(f"job {numbers.id} is in state {state}, which this program does not know")
    if numbers.ttr_s == 0 or numbers.id == 0:
        raise ValueError(f"job {numbers.id} has a TTR of {numbers.ttr_s} seconds")
    return 0


def import_job(restore: Restore, records: Encoder, found: BinlogJob) -> None:
    """Put a job from elsewhere into an engine, whose clock is the wall clock, and write it.

    `found` is a :class:`~beanpole.log.migration.beanstalkd_binlog.BinlogJob`.
    """
    numbers: JobNumbers
    numbers.id = found.id
    numbers.created_at_ns = found.created_at_ns
    numbers.deadline_at_ns = found.deadline_at_ns
    numbers.bury_order = found.bury_order
    numbers.pri = found.pri
    numbers.delay_s = found.delay_s
    numbers.ttr_s = found.ttr_s
    numbers.reserve_count = found.reserve_count
    numbers.timeout_count = found.timeout_count
    numbers.release_count = found.release_count
    numbers.bury_count = found.bury_count
    numbers.kick_count = found.kick_count
    numbers.state = {"ready": State.READY, "delayed": State.DELAYED, "buried": State.BURIED}[found.state]
    body: bytes = found.body
    job: Job = restore.put(cython.address(numbers), found.tube, body, len(body), 0)
    records.job_put(job)
