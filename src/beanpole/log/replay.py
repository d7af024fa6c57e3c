"""Replay: segments back into an engine. The last record of a job wins.

Segments are given in order, oldest first. A change or a delete of a job that is not there is ignored: compaction has
dropped the segment that held the job, so either a later record holds it whole or it is gone. Until :meth:`finish`,
times in the engine are those of the log's clock; then they become moments of the engine's clock. The log's clock is
the wall clock of the log's first start, and goes on steadily while the wall clock is set: how far that was ahead is
mentioned at every turn. The log's clock never goes back, and a delay can't be longer than it was asked to be.

Nothing is trusted before its checksum is. What a bad record means is decided in :mod:`beanpole.log.files.recovery`.
"""

from typing import TYPE_CHECKING, NamedTuple

import cython
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.heap import Item
from cython.cimports.beanpole.engine.job import Job, State, new_job
from cython.cimports.beanpole.engine.tube import Tube
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
    JobNumbers,
    Kind,
    read_job,
    record_crc,
    whole_bytes,
)
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memchr, memcmp

from beanpole.log.errors import VersionError
from beanpole.log.format import MAGIC, VERSION

if TYPE_CHECKING:
    from beanpole.log.migration.beanstalkd_binlog import BinlogJob

SECOND_NS = cython.declare(int64_t, 1_000_000_000)


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

    def __init__(self, engine: Engine):
        self.engine = engine
        self.next_job_id = 1
        self.pauses = {}

    def segment(self, data: bytes, number: uint64_t) -> None:
        """Apply the records of a segment whose header is good, up to its end or the first that is not good.

        `good_bytes`, `ended` and `problem` tell how far that went.
        """
        at: cython.p_const_uchar = data
        end: cython.Py_ssize_t = len(data)
        header: object = read_header(data)
        self.next_job_id = max(self.next_job_id, header.next_job_id)
        self.last_ns = max(self.last_ns, header.log_ns)
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
            return self.deleted(get_u64(at + FRAME + 1))
        if kind == Kind.TUBE and size >= TUBE_FIXED:
            name: bytes = at[TUBE_FIXED:size]
            self.pauses[name] = (get_u32(at + FRAME + 1), cython.cast(int64_t, get_u64(at + FRAME + 5)), segment)
            return 0
        if kind == Kind.TURN and size == TURN_RECORD:
            self.last_ns = max(self.last_ns, cython.cast(int64_t, get_u64(at + FRAME + 1)))
            self.lead_ns = get_u64(at + FRAME + 9)
            self.durable_segment = get_u64(at + FRAME + 17)
            self.durable_bytes = get_u64(at + FRAME + 25)
            return 0
        if kind == Kind.END and size == END_RECORD:
            self.next_job_id = max(self.next_job_id, get_u64(at + FRAME + 1))
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
        old: Job = self.engine.jobs.find(numbers.id)
        name: bytes = behind[1 : 1 + name_bytes]
        tube: Tube = self.engine.open_tube(name)
        if old is not None:
            self.take_out(old)
        job: Job = new_job(numbers.id, tube, cython.cast(cython.p_const_char, behind) + 1 + name_bytes, body_bytes)
        if job is None:
            raise MemoryError
        self.engine.jobs.add(job)
        job.segment = cython.cast(uint32_t, segment)
        self.next_job_id = max(self.next_job_id, numbers.id + 1)
        place(self.engine, job, cython.address(numbers))
        return 0

    def changed(self, at):
        """Change a job."""
        numbers: JobNumbers
        read_job(at + FRAME + 1, cython.address(numbers))
        job: Job = self.engine.jobs.find(numbers.id)
        if job is None:
            self.orphan_count += 1
            return 0
        check_state(cython.address(numbers))
        self.engine.leave(job)
        place(self.engine, job, cython.address(numbers))
        return 0

    def deleted(self, id):
        """Take a job out."""
        job: Job = self.engine.jobs.find(id)
        self.next_job_id = max(self.next_job_id, id + 1)
        if job is None:
            self.orphan_count += 1
            return 0
        tube: Tube = job.tube
        self.take_out(job)
        return self.engine.let_go(tube)

    def take_out(self, job):
        """Take a job out of the engine."""
        self.engine.leave(job)
        return self.engine.jobs.remove(job)

    def finish(self, now_ns: int64_t, wall_ns: int64_t, records: Encoder) -> None:
        """Turn the log's clock into the engine's, and tell the encoder where everything lies and what the time is."""
        engine: Engine = self.engine
        job: Job
        tube: Tube
        log_ns: int64_t = max(wall_ns - self.lead_ns, self.last_ns)
        records.set_clock(log_ns - now_ns)
        engine.next_job_id = max(engine.next_job_id, self.next_job_id)
        for each in engine.jobs.jobs():
            job = each
            job.created_at_ns -= records.wall_offset_ns
            records.count_live(job.segment, whole_bytes(job))
            records.count_new(whole_bytes(job))
        for each in list(engine.tube_list):
            tube = each
            finish_delays(engine, tube, now_ns, log_ns)
            if tube.name in self.pauses:
                tube.pause_s, until_ns, segment = self.pauses[tube.name]
                left_ns: int64_t = min(until_ns - log_ns, tube.pause_s * SECOND_NS)
                tube.paused_until_ns = now_ns + left_ns if left_ns > 0 else 0
                if tube.paused_until_ns:
                    engine.arm(tube, tube.number, tube.paused_until_ns)
                    records.count_pause(tube, segment)
                else:
                    tube.pause_s = 0
        records.stale_pauses = {
            name for name, (_, until_ns, _) in self.pauses.items() if until_ns > log_ns and name not in engine.tubes
        }


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


def import_job(engine: Engine, records: Encoder, found: BinlogJob) -> None:
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
    job: Job = new_job(numbers.id, engine.open_tube(found.tube), body, len(body))
    if job is None:
        raise MemoryError
    engine.jobs.add(job)
    place(engine, job, cython.address(numbers))
    records.job_put(job)


@cython.cfunc
@cython.exceptval(-1)
def place(engine: Engine, job: Job, numbers: cython.pointer(JobNumbers)) -> cython.int:
    """Give a job its numbers and put it into its state, which was checked."""
    job.created_at_ns = numbers.created_at_ns
    job.pri = numbers.pri
    job.delay_s = numbers.delay_s
    job.ttr_s = numbers.ttr_s
    job.reserve_count = numbers.reserve_count
    job.timeout_count = numbers.timeout_count
    job.release_count = numbers.release_count
    job.bury_count = numbers.bury_count
    job.kick_count = numbers.kick_count
    if numbers.state == State.READY:
        return engine.enter(job, State.READY, job.pri)
    if numbers.state == State.DELAYED:
        return engine.enter(job, State.DELAYED, numbers.deadline_at_ns)
    if numbers.state == State.BURIED:
        engine.buried_so_far_count = max(engine.buried_so_far_count, numbers.bury_order)
        return engine.enter(job, State.BURIED, cython.cast(int64_t, numbers.bury_order))
    raise AssertionError("the state of a job was not checked before it was placed")


@cython.cfunc
@cython.exceptval(-1)
def finish_delays(engine: Engine, tube: Tube, now_ns: int64_t, log_ns: int64_t) -> cython.int:
    """Turn the deadlines of a tube's delayed jobs into moments of the engine's clock."""
    job: Job
    left_ns: int64_t
    delayed = tube.delayed.items()
    for each in delayed:
        job = cython.cast(Job, cython.cast(Item, each))
        engine.leave(job)
        left_ns = min(job.deadline_at_ns - log_ns, job.delay_s * SECOND_NS)
        job.deadline_at_ns = now_ns + max(left_ns, 0)
    for each in delayed:
        job = cython.cast(Job, cython.cast(Item, each))
        engine.enter(job, State.DELAYED, job.deadline_at_ns)
    if tube.delayed.count:
        engine.arm(tube, tube.number, tube.delayed.entries[0].key)
    return 0
