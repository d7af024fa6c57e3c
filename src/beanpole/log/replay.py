"""Replay: segments back into an engine. The last record of a job wins.

Segments are given in order, oldest first. A change or a delete of a job that is not there is ignored: compaction has
dropped the segment that held the job, so either a later record holds it whole or it is gone. Without an engine, records
are only checked and counted. What a record does to the
engine stands in :mod:`beanpole.engine.restore`. The log's clock, which is the engine's too, is the wall clock of the
log's first start, and goes on steadily while the wall clock is set: how far that was ahead is mentioned at every turn.

Nothing is trusted before its checksum is. What a bad record means is decided in :mod:`beanpole.log.files.recovery`.
"""

import cython
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.restore import Restore
from cython.cimports.beanpole.engine.state.job import Job, JobNumbers
from cython.cimports.beanpole.log.encoder import Encoder
from cython.cimports.beanpole.log.format import FRAME, KEPT_FIXED, Kind
from cython.cimports.beanpole.log.reader import Record, Verdict, problem_of, read_record
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcmp, memset

from beanpole.errors import RulesError
from beanpole.log.format import FIELDS
from beanpole.log.reader import Header, read_header
from beanpole.protocol.rules import parse


@cython.cclass
class Replay:
    """Applies segments to an engine that has no job yet. The fields stand in ``replay.pxd``."""

    def __init__(self, engine: Engine | None = None, records: Encoder | None = None):
        self.restore = None if engine is None else Restore(engine)
        self.records = records
        self.orphans = set()
        self.lost_schedules = set()

    def segment(self, data: bytes, number: uint64_t, header: Header | None = None) -> None:
        """Apply the records of a segment up to its end or the first that is not good; `header` is in place of its own.

        `good_bytes`, `ended` and `problem` say how far that went.
        """
        if header is None:
            header = read_header(data)
        if self.restore is not None:
            self.records.accounts.count_live(number, 0)
            self.restore.reach_job_id(header.next_job_id)
            # It says when the turn before began to be written, maybe before the records in front of it were made.
            self.restore.clock_ns = max(self.restore.clock_ns, cython.cast(int64_t, header.log_ns))
        self.first_segment = max(self.first_segment, header.first_segment)
        self.lead_ns = header.lead_ns
        self.salt = header.salt
        self.ended = False
        self.next_segment = 0
        memset(cython.address(self.counts), 0, cython.sizeof(self.counts))
        self.resume(data, number, header.version, header.size)

    def resume(self, data: bytes, number: uint64_t, version: cython.int, start: cython.Py_ssize_t) -> None:
        """Apply the records of the segment from a byte on, as far as they are good."""
        record: Record
        at: cython.p_const_uchar = data
        end: cython.Py_ssize_t = len(data)
        i: cython.Py_ssize_t = start
        while not self.next_segment:
            self.verdict = read_record(at + i, end - i, self.salt, version, cython.address(record))
            if self.verdict == Verdict.GOOD and record.kind == Kind.RULES and not knows(cython.address(record)):
                self.verdict = Verdict.UNKNOWN
            if self.verdict != Verdict.GOOD or (self.ended and record.kind != Kind.NEXT):
                break
            self.counts[record.kind] += 1
            self.record_count += 1
            i += record.size
            if record.kind == Kind.END:
                self.ended = True
            elif record.kind == Kind.FIRST:
                self.first_segment = max(self.first_segment, record.number)
            elif record.kind == Kind.NEXT and self.ended:
                self.next_segment = record.number
            if self.restore is not None:
                self.apply(cython.address(record), number)
        self.good_bytes = i
        self.problem = None if self.ended else problem_of(self.verdict, cython.address(record))

    @property
    def kinds(self) -> list[int]:
        """The good records of the segment that was read last, by kind."""
        return [self.counts[kind] for kind in range(256)]

    @property
    def torn(self) -> bool:
        """Whether what stands behind `good_bytes` may be what a crash left: no good record."""
        return self.verdict == Verdict.NOTHING or self.verdict == Verdict.TORN

    @property
    def unknown(self) -> bool:
        """Whether a record stands behind `good_bytes` that this program would have to know."""
        return self.problem is not None and self.verdict == Verdict.UNKNOWN

    def put(self, record, segment):
        """Apply a record that holds a job whole."""
        if self.orphans:
            self.orphans.discard(record.job.id)
        size: cython.Py_ssize_t = record.name_bytes
        # Most jobs are in the tube of the one before, which is found at once by the very object that it has as a name.
        name: bytes = self.name
        if name is None or len(name) != size or memcmp(cython.cast(cython.p_const_char, name), record.name, size):
            name = record.name[:size]
        body = cython.cast(cython.p_const_char, record.body)
        tags = cython.cast(cython.p_const_char, record.tags)
        numbers = cython.address(record.job)
        job: Job = self.restore.put(numbers, name, body, record.body_bytes, tags, record.tag_bytes, segment)
        self.name = job.tube.name
        return 0

    def apply(self, record, segment):
        """Apply one good record; one that this program doesn't know is passed over."""
        kind: cython.int = record.kind
        name: bytes
        token: bytes
        if kind == Kind.WHOLE:
            self.put(record, segment)
        elif kind == Kind.CHANGED:
            tags = cython.cast(cython.p_const_char, record.tags)
            if not self.restore.change(cython.address(record.job), tags, record.tag_bytes):
                self.orphans.add(record.job.id)
        elif kind == Kind.DELETED:
            if not self.restore.delete(record.job.id) and self.orphans:
                self.orphans.discard(record.job.id)
        elif kind == Kind.RESERVED:
            self.restore.count_reserve(record.job.id, record.job.reserve_count)
        elif kind == Kind.ATTEMPT:
            self.restore.count_attempt(record.job.id, record.attempt, record.job.reserve_count)
        elif kind == Kind.KEPT:
            token = record.payload[KEPT_FIXED - FRAME - 1 : record.size - FRAME - 1]
            self.restore.wait_for(record.job.id, record.job.reserve_count, record.pause_s, token)
        elif kind == Kind.TUBE:
            name = record.name[: record.name_bytes]
            tube_tags: bytes = record.tags[: record.tag_bytes] if record.tag_bytes else None
            self.restore.tube(name, record.pause_s, record.moment_ns, tube_tags, segment)
        elif kind == Kind.GROUP:
            name = record.name[: record.name_bytes]
            group: bytes = record.body[: record.body_bytes]
            self.restore.group(name, group, record.pause_s, record.moment_ns, segment)
        elif kind == Kind.ONCE:
            if record.is_whole:
                self.put(record, segment)
            token = record.payload[:16]
            self.restore.once(token, record.number, record.moment_ns, segment)
        elif kind == Kind.RULES:
            text: bytes = rules_of(record)
            self.restore.rules(cython.cast(int64_t, record.number), text, segment)
        elif kind == Kind.SCHEDULE:
            name = record.schedule[: record.schedule_bytes]
            document: bytes = record.body[: record.body_bytes]
            state = cython.address(record.state)
            self.restore.schedule(name, document, state, record.moment_ns, record.level, segment)
            self.lost_schedules.discard(name)
        elif kind == Kind.FIRED:
            name = record.schedule[: record.schedule_bytes]
            if not self.restore.fired(name, cython.address(record.state)):
                self.lost_schedules.add(name)
            if record.is_whole:
                self.put(record, segment)
        elif kind == Kind.TURN:
            self.restore.advance(record.moment_ns)
            self.lead_ns = record.lead_ns
            self.durable_segment = record.number
            self.durable_bytes = record.durable_bytes
        elif kind in FIELDS and FIELDS[kind].restore:
            payload: bytes = record.payload[: record.size - FRAME - 1]
            getattr(self.restore, FIELDS[kind].restore)(*FIELDS[kind].values(payload))
        return 0

    def finish(self, wall_ns: int64_t) -> int:
        """Let the engine begin to serve, and return what the log's clock says.

        It goes on from the wall clock, but never back.
        """
        now_ns: int64_t = max(wall_ns - self.lead_ns, self.restore.clock_ns)
        self.records.stale_pauses = self.restore.finish(now_ns)
        return now_ns


@cython.cfunc
def rules_of(record: cython.pointer(Record)) -> bytes:
    """Return the pattern of a record of rules, and behind LF the rules, unless it has none any more."""
    return record.payload[8 : record.size - FRAME - 1]


@cython.cfunc
def knows(record: cython.pointer(Record)) -> cython.bint:
    """Whether this program knows the rules of a record."""
    try:
        parse(rules_of(record).partition(b"\n")[2])
    except RulesError:
        return False
    return True


def import_job(restore: Restore, records: Encoder, tube: bytes, body: bytes, numbers: dict[str, int]) -> None:
    """Put a job from elsewhere into an engine, whose clock is the wall clock, and write it.

    `numbers` has what a ``JobNumbers`` has, by name.
    """
    fields: JobNumbers = numbers
    job: Job = restore.put(cython.address(fields), tube, body, len(body), cython.NULL, 0, 0)
    records.job_put(job)
