"""The encoder: turns the changes of an engine (:class:`~beanpole.engine.state.records.Records`) into bytes.

It writes each record at once into a buffer, which the log writes to files once a turn. A record that doesn't fit the
open segment begins the next one, here and now, whether or not there is a file for it: the encoder ends the one, notes
where to cut the buffer, and goes on with the header of the other. So no command waits for a disk.

Everything that it writes is booked in the accounts (:mod:`beanpole.log.accounts`), which also say what may be written.
"""

import secrets
from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.beanpole.engine.state.heap import entry_of
from cython.cimports.beanpole.engine.state.job import (
    JobCount,
    State,
    body_of,
    deadline_of,
    holder_of,
    job_count,
    tags_of,
)
from cython.cimports.beanpole.engine.state.records import Records, Room
from cython.cimports.beanpole.engine.state.schedule import ScheduleState
from cython.cimports.beanpole.engine.state.tags import attempt_of
from cython.cimports.beanpole.log.accounts import LARGE_OVERHEAD, Accounts
from cython.cimports.beanpole.log.endian import get_u32, put_u16, put_u32, put_u64
from cython.cimports.beanpole.log.format import (
    ATTEMPT_RECORD,
    CHANGED_RECORD,
    CLOSING_BYTES,
    DELETED_RECORD,
    END_RECORD,
    FIRED_FIXED,
    FRAME,
    KEPT_FIXED,
    ONCE_JOB_FIXED,
    ONCE_RECORD,
    RESERVED_RECORD,
    SCHEDULE_FIXED,
    SEGMENT_HEADER,
    SHARD_RECORD,
    STATE_BYTES,
    TUBE_FIXED,
    TURN_RECORD,
    WHOLE_FIXED,
    Kind,
    record_crc,
    whole_bytes,
)
from cython.cimports.beanpole.protocol.buffer import reserve, shrink
from cython.cimports.cpython.buffer import PyBUF_READ
from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy, memset

from beanpole.log import format as log_format
from beanpole.log import limits
from beanpole.log.format import FIELDS, segment_header
from beanpole.shard_ids import NO_NUMBER, NUMBERS_MAX

KEPT_BYTES = cython.declare(int64_t, limits.SEGMENT_OVERHEAD_BYTES - SEGMENT_HEADER - CLOSING_BYTES)
"""Bytes of a segment that no job takes: so its jobs are never more than `Accounts.whole_bytes`."""

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
KEPT_CAPACITY = cython.declare(cython.Py_ssize_t, 4_194_304)


@cython.cfunc
@cython.exceptval(check=False)
def put_state(at: cython.p_uchar, state: cython.pointer(ScheduleState)) -> cython.void:
    """Write a schedule's state."""
    at = put_u64(at, state.next_ns)
    at = put_u64(at, state.due_ns)
    at = put_u64(at, state.last_ns)
    at = put_u64(at, state.fires)
    at = put_u64(at, state.skips)
    at = put_u64(at, state.misses)
    at = put_u64(at, state.job)
    at[0] = state.paused


@cython.cclass
class Position:
    """A place in the log. The fields stand in ``encoder.pxd``."""

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        place: Position = other
        return (self.record, self.segment, self.used_bytes) == (place.record, place.segment, place.used_bytes)

    def __hash__(self) -> int:
        return hash(self.record)


@cython.cclass
class Encoder(Records):
    """Writes records into a buffer, and counts what is alive. The fields stand in ``encoder.pxd``."""

    def __init__(self, accounts: Accounts | None = None, salt: int | None = None, *, wants_reservations: bool = False):
        super().__init__(wants_reservations)
        self.accounts = Accounts() if accounts is None else accounts
        self.salt = secrets.randbits(32) if salt is None else salt
        self.next_job_id = 1
        self.shard = ()
        self.clock = (0, 0)
        self.cuts = []
        self.unwritten_bytes_max = limits.UNCONFIRMED_BYTES_MAX if wants_reservations else 0
        self.stale_pauses = set()

    def __dealloc__(self):
        free(self.buffer.data)

    # --- records ------------------------------------------------------------------------------------------------------

    def job_put(self, job):
        """Write a job with its tube and body; compaction writes one again to move it."""
        size: cython.Py_ssize_t = whole_bytes(job)
        behind: cython.Py_ssize_t = self.kept_behind(job, size)
        if behind and self.left_for_jobs() < size + behind:
            self.begin_segment(size)
        at: cython.p_uchar = self.begin_alive(size)
        at[FRAME] = Kind.WHOLE
        self.whole(at + FRAME + 1, job)
        self.finish_job(at, size, job)
        return self.keep_on(job)

    def finish_job(self, at, size, job):
        """Close a record of `size` bytes in which a job is whole, and book the job."""
        self.finish(at, size)
        self.deletes_bytes += DELETED_RECORD
        self.next_job_id = max(self.next_job_id, job.id + 1)
        return self.accounts.count_job(job, self.segment, whole_bytes(job))

    def job_changed(self, job):
        size: cython.Py_ssize_t = CHANGED_RECORD + job.tag_bytes
        at: cython.p_uchar = self.begin(size + self.kept_behind(job, size))
        at[FRAME] = Kind.CHANGED
        self.job(at + FRAME + 1, job)
        memcpy(at + CHANGED_RECORD, tags_of(job), job.tag_bytes)
        self.finish(at, size)
        return self.keep_on(job)

    def job_deleted(self, job):
        at: cython.p_uchar = self.begin(DELETED_RECORD)
        at[FRAME] = Kind.DELETED
        put_u64(at + FRAME + 1, job.id)
        self.finish(at, DELETED_RECORD)
        return self.job_dropped(job)

    def job_reserved(self, job):
        """Write that a client has a job, until when, and how often it was reserved."""
        at: cython.p_uchar = self.begin(RESERVED_RECORD)
        at[FRAME] = Kind.RESERVED
        put_u64(at + FRAME + 1, job.id)
        put_u64(at + FRAME + 9, deadline_of(job))
        put_u32(at + FRAME + 17, job_count(job, JobCount.RESERVES))
        return self.finish(at, RESERVED_RECORD)

    def attempt_begun(self, job):
        """Write which attempt has begun with a job; not where deletes need the room."""
        under_way: cython.bint = False
        if not self.accounts.room_for_note(self.left(), ATTEMPT_RECORD):
            return 0
        at: cython.p_uchar = self.begin(ATTEMPT_RECORD)
        at[FRAME] = Kind.ATTEMPT
        put_u64(at + FRAME + 1, job.id)
        put_u32(at + FRAME + 9, attempt_of(job, cython.address(under_way)))
        put_u32(at + FRAME + 13, job_count(job, JobCount.RESERVES))
        self.finish(at, ATTEMPT_RECORD)
        return self.let_loose()

    def job_kept(self, job, kept):
        """Write for whom a job waits, or that it waits for nobody; not where deletes need the room."""
        token: bytes = holder_of(job).keep.token if kept else b""
        size: cython.Py_ssize_t = KEPT_FIXED + len(token)
        if not self.accounts.room_for_note(self.left(), size):
            return 0
        at: cython.p_uchar = self.begin(size)
        at[FRAME] = Kind.KEPT
        put_u64(at + FRAME + 1, job.id)
        put_u32(at + FRAME + 9, job_count(job, JobCount.RESERVES))
        put_u16(at + FRAME + 13, holder_of(job).keep.seconds if kept else 0)
        memcpy(at + KEPT_FIXED, cython.cast(cython.p_const_char, token), len(token))
        self.finish(at, size)
        return self.let_loose()

    def kept_behind(self, job, size):
        """Return the bytes that must follow a record of `size` bytes in its segment, which says again who has its job.

        Of what stands in two segments, a cluster's log can lose the second half.
        """
        if job.state != State.RESERVED or holder_of(job).keep is None:
            return 0
        behind: cython.Py_ssize_t = KEPT_FIXED + len(holder_of(job).keep.token)
        return behind if self.accounts.room_for_note(0, size + behind) else 0

    def keep_on(self, job):
        """Write again for whom a job waits of which something else was written while it is held."""
        return self.job_kept(job, True) if job.state == State.RESERVED and holder_of(job).keep is not None else 0

    def let_loose(self):
        """Let no reply wait for the record that was written last."""
        if not self.wants_reservations:  # a cluster's reply waits for any row
            self.index -= 1
            self.loose = True
        return 0

    def job_dropped(self, job):
        return self.accounts.drop_job(job, whole_bytes(job))

    def job_restored(self, job):
        return self.accounts.restore_job(job, whole_bytes(job))

    def tube_changed(self, tube):
        self.tube_dropped(tube)
        if tube.paused_until_ns == 0 and tube.tags is None:
            self.unpaused(tube.name)
            return 0
        self.stale_pauses.discard(tube.name)
        self.pause(Kind.TUBE, tube.name, tube.pause_s, tube.paused_until_ns, tube.tags)
        tube.segment = self.segment
        return self.tube_restored(tube)

    def pause_ended(self, tube):
        """Book a tube's record no more, unless it has tags."""
        return self.tube_dropped(tube) if tube.tags is None else 0

    def tube_dropped(self, tube):
        return self.accounts.drop_tube(tube)

    def tube_restored(self, tube):
        return self.accounts.count_tube(tube)

    def group_changed(self, pause):
        self.group_dropped(pause)
        self.pause(Kind.GROUP, pause.tube, pause.pause_s, pause.until_ns, pause.group)
        if pause.until_ns == 0:
            return 0
        pause.segment = self.segment
        return self.group_restored(pause)

    def group_dropped(self, pause):
        return self.accounts.drop_group(pause)

    def group_restored(self, pause):
        return self.accounts.count_group(pause)

    def rules_changed(self, rules):
        self.rules_dropped(rules)
        self.event("RULES", rules.set_at_ns, b"%b\n%b" % (rules.pattern, rules.text))
        rules.segment = self.segment
        return self.rules_restored(rules)

    def rules_deleted(self, rules):
        self.event("RULES", rules.set_at_ns, rules.pattern)
        return 0

    def rules_dropped(self, rules):
        return self.accounts.drop_rules(rules)

    def rules_restored(self, rules):
        return self.accounts.count_rules(rules)

    def schedule_changed(self, schedule):
        self.schedule_dropped(schedule)
        self.schedule(schedule, schedule.text)
        schedule.segment = self.segment
        return self.schedule_restored(schedule)

    def schedule_deleted(self, schedule):
        self.schedule_dropped(schedule)
        return self.schedule(schedule, b"")

    def schedule_fired(self, schedule, job):
        name_bytes: cython.Py_ssize_t = len(schedule.name)
        size: cython.Py_ssize_t = FIRED_FIXED + name_bytes
        at: cython.p_uchar
        if job is None:
            at = self.begin(size)
        else:
            size += whole_bytes(job) - FRAME - 1
            at = self.begin_alive(size)
        at[FRAME] = Kind.FIRED
        put_state(at + FRAME + 1, cython.address(schedule.state))
        at[FIRED_FIXED - 1] = cython.cast(uint8_t, name_bytes)
        memcpy(at + FIRED_FIXED, cython.cast(cython.p_const_char, schedule.name), name_bytes)
        if job is None:
            return self.finish(at, size)
        self.whole(at + FIRED_FIXED + name_bytes, job)
        return self.finish_job(at, size, job)

    def once_noted(self, mark, token):
        self.once_dropped(token)
        at: cython.p_uchar = self.begin_alive(ONCE_RECORD)
        self.token(at, mark, token)
        self.finish(at, ONCE_RECORD)
        token.segment = cython.cast(uint32_t, self.segment)
        return self.once_restored(token)

    def job_put_once(self, job, mark, token):
        """Write a job and a token. Both fit where they stood when compaction writes them one by one, by nine zeros."""
        size: cython.Py_ssize_t = whole_bytes(job) + ONCE_RECORD
        self.once_dropped(token)
        at: cython.p_uchar = self.begin_alive(size)
        self.token(at, mark, token)
        memset(at + ONCE_RECORD, 0, ONCE_JOB_FIXED - ONCE_RECORD)
        self.whole(at + ONCE_JOB_FIXED, job)
        self.finish_job(at, size, job)
        token.segment = cython.cast(uint32_t, self.segment)
        return self.once_restored(token)

    def token(self, at, mark, token):
        """Write what the record of a token says."""
        at[FRAME] = Kind.ONCE
        memcpy(at + FRAME + 1, mark, 16)
        at = put_u64(at + FRAME + 17, token.end_s * SECOND_NS)
        put_u64(at, token.id)

    def once_dropped(self, token):
        return self.accounts.drop_token(token)

    def once_restored(self, token):
        return self.accounts.count_token(token)

    def schedule_dropped(self, schedule):
        return self.accounts.drop_schedule(schedule)

    def schedule_restored(self, schedule):
        return self.accounts.count_schedule(schedule)

    def schedule(self, schedule, text):
        """Write a schedule's record with a document, or with none."""
        name_bytes: cython.Py_ssize_t = len(schedule.name)
        text_bytes: cython.Py_ssize_t = len(text)
        size: cython.Py_ssize_t = SCHEDULE_FIXED + name_bytes + text_bytes
        at: cython.p_uchar = self.begin_alive(size) if text_bytes else self.begin(size)
        at[FRAME] = Kind.SCHEDULE
        put_state(at + FRAME + 1, cython.address(schedule.state))
        put_u64(at + FRAME + 1 + STATE_BYTES, schedule.set_at_ns)
        at[SCHEDULE_FIXED - 2] = schedule.level
        at[SCHEDULE_FIXED - 1] = cython.cast(uint8_t, name_bytes)
        memcpy(at + SCHEDULE_FIXED, cython.cast(cython.p_const_char, schedule.name), name_bytes)
        memcpy(at + SCHEDULE_FIXED + name_bytes, cython.cast(cython.p_const_char, text), text_bytes)
        return self.finish(at, size)

    def unpaused(self, name: bytes) -> bool:
        """Write that a tube has no pause; later (False), if there is no room: that must not stop a tube's end."""
        self.stale_pauses.add(name)
        if not self.accounts.room_for_note(self.left(), TUBE_FIXED + len(name)):
            return False
        self.stale_pauses.discard(name)
        self.pause(Kind.TUBE, name, 0, 0, None)
        return True

    def write_stale_pauses(self) -> None:
        """Write of which tubes a pause must not come back, as far as there is room."""
        while self.stale_pauses and self.unpaused(next(iter(self.stale_pauses))):
            pass

    def pause(self, kind, name, pause_s, until_ns, rest):
        """Write a tube's record, behind which its tags stand, or a group's with its name."""
        name_bytes: cython.Py_ssize_t = len(name)
        rest_bytes: cython.Py_ssize_t = 0 if rest is None else len(rest)
        at: cython.p_uchar = self.begin(TUBE_FIXED + name_bytes + rest_bytes)
        at[FRAME] = kind
        put_u32(at + FRAME + 1, pause_s)
        put_u64(at + FRAME + 5, until_ns)
        at[FRAME + 13] = cython.cast(uint8_t, name_bytes)
        memcpy(at + TUBE_FIXED, cython.cast(cython.p_const_char, name), name_bytes)
        if rest_bytes:
            memcpy(at + TUBE_FIXED + name_bytes, cython.cast(cython.p_const_char, rest), rest_bytes)
        return self.finish(at, TUBE_FIXED + name_bytes + rest_bytes)

    def turn(self, durable_segment, durable_bytes):
        """Write the end of a turn, with the time and how far the log was durable then."""
        log_ns: int64_t = self.clock[0]
        lead_ns: int64_t = self.clock[1]
        at: cython.p_uchar = self.begin(TURN_RECORD)
        at[FRAME] = Kind.TURN
        put_u64(at + FRAME + 1, log_ns)
        put_u64(at + FRAME + 9, lead_ns)
        put_u64(at + FRAME + 17, durable_segment)
        put_u64(at + FRAME + 25, durable_bytes)
        put_u32(at + FRAME + 33, self.salt)
        self.finish(at, TURN_RECORD)
        self.record_count -= 1
        if not self.wants_reservations:  # a cluster's reply may have to wait for any row
            self.index -= 1
        return 0

    def event(self, kind: str, *values: Any) -> None:
        """Write a record of a kind in :data:`~beanpole.log.format.FIELDS`."""
        number: cython.int = log_format.Kind[kind]
        payload: bytes = FIELDS[number].payload(values)
        size: cython.Py_ssize_t = FRAME + 1 + len(payload)
        at: cython.p_uchar = self.begin(size)
        at[FRAME] = number
        memcpy(at + FRAME + 1, cython.cast(cython.p_const_char, payload), len(payload))
        self.finish(at, size)

    def first(self, number: uint64_t) -> None:
        """Write that segment `number` is the oldest that is needed: the ones before may go when this is durable."""
        self.event("FIRST", number)
        self.record_count -= 1

    def room_for_shard(self) -> bool:
        """Whether there is room to note the numbers of the shard where deletes don't need it."""
        return self.accounts.room_for_note(self.left(), SHARD_RECORD)

    def set_shard(self, numbers: tuple[int, ...]) -> None:
        """Write the numbers of the shard now, and behind the header of each segment that follows."""
        self.shard = numbers
        self.write_shard()

    def write_shard(self):
        """Write the numbers of the shard. No reply waits for that: every job that has such an id stands behind it."""
        self.event("SHARD", *[*self.shard, *[NO_NUMBER] * NUMBERS_MAX][:NUMBERS_MAX])
        self.index -= 1
        self.record_count -= 1
        return 0

    def job(self, at, job):
        """Write a job's numbers; return what is behind. A reserved job is written as ready: after a restart it is."""
        deadline_ns: int64_t = deadline_of(job) if job.state == State.DELAYED else 0
        at = put_u64(at, job.id)
        at = put_u64(at, job.created_at_ns)
        at = put_u64(at, deadline_ns)
        at = put_u64(at, entry_of(job.tube.buried, job).key if job.state == State.BURIED else 0)
        at = put_u32(at, job.pri)
        at = put_u32(at, job.delay_s)
        at = put_u32(at, job.ttr_s)
        at = put_u32(at, job_count(job, JobCount.RESERVES))
        at = put_u32(at, job_count(job, JobCount.TIMEOUTS))
        at = put_u32(at, job_count(job, JobCount.RELEASES))
        at = put_u32(at, job_count(job, JobCount.BURIES))
        at = put_u32(at, job_count(job, JobCount.KICKS))
        at[0] = State.READY if job.state == State.RESERVED else job.state
        return at + 1

    def whole(self, at, job):
        """Write a job with its tube, tags and body."""
        name_bytes: cython.Py_ssize_t = len(job.tube.name)
        at = self.job(at, job)
        at[0] = cython.cast(uint8_t, name_bytes)
        put_u16(at + 1, job.tag_bytes)
        memcpy(at + 3, cython.cast(cython.p_const_char, job.tube.name), name_bytes)
        memcpy(at + 3 + name_bytes, tags_of(job), job.tag_bytes)
        memcpy(at + 3 + name_bytes + job.tag_bytes, body_of(job), job.body_bytes)

    # --- the buffer ---------------------------------------------------------------------------------------------------

    def begin(self, size):
        """Return where a record of `size` bytes goes, in another segment when this one is full."""
        if self.used_bytes + size + CLOSING_BYTES > self.segment_bytes:
            self.begin_segment(size)
        return self.grow(size)

    def begin_alive(self, size):
        """Return where a record of `size` bytes goes that compaction moves; every job's delete has room behind it."""
        if self.left_for_jobs() < size:
            self.begin_segment(size)
        return self.begin(size)

    def grow(self, size):
        """Return the end of the buffer, with space for `size` bytes."""
        return cython.cast(cython.p_uchar, reserve(cython.address(self.buffer), size))

    def finish(self, at, size):
        """Close a record: its length and its checksum."""
        put_u32(at, size - FRAME)
        put_u32(at + 4, record_crc(at, size, self.salt))
        self.buffer.size += size
        self.used_bytes += size
        self.index += 1
        self.record_count += 1
        return 0

    def write_to(self, write: Callable[[int, memoryview], None]) -> tuple[Position, int]:
        """Write records up to where a segment ends; return the place behind them, and the bytes of the next segment.

        `write` is given an offset and bytes, which are good until it returns; there may be none. 0 bytes: no segment
        has ended, so everything is written and the buffer is used again.
        """
        piece: Piece
        place: Position = self.piece(cython.address(piece))
        if piece.size:
            data = PyMemoryView_FromMemory(cython.cast(cython.p_char, piece.data), piece.size, PyBUF_READ)
            write(place.used_bytes - piece.size, data)
        self.end_piece(cython.address(piece))
        return place, piece.next_bytes

    def piece(self, piece):
        """Find what is to be written next, as `write_to` does; return the place behind it."""
        end: cython.Py_ssize_t = self.buffer.size
        place: Position
        piece.next_bytes = 0
        if self.cuts:
            end, place, piece.next_bytes = self.cuts[0]
        else:
            place = self.place()
        piece.data = self.buffer.data + self.taken
        piece.size = end - self.taken
        return place

    def end_piece(self, piece):
        """Take note that what `piece` found is written; its bytes are good no more."""
        self.written_bytes += piece.size
        self.taken += piece.size
        if piece.next_bytes:
            self.cuts.pop(0)
            return 0
        self.loose = False
        self.buffer.start = self.taken
        self.taken = 0
        shrink(cython.address(self.buffer), KEPT_CAPACITY)  # frees it if one large turn has left much behind
        return 0

    def take_row(self, bytes_max: cython.Py_ssize_t) -> tuple[bytes, int, bool]:
        """Return the records of a row, the number of the last one, and whether they end the segment.

        A row has `bytes_max` bytes at most, unless a single record is larger.
        """
        data: cython.p_uchar = cython.cast(cython.p_uchar, self.buffer.data)
        start: cython.Py_ssize_t = self.taken
        end: cython.Py_ssize_t = self.buffer.size
        index: uint64_t = self.index
        ended: cython.bint = bool(self.cuts)
        if ended:
            end, place, _ = self.cuts[0]
            index = place.record
        at: cython.Py_ssize_t = start + (SEGMENT_HEADER if self.at_header else 0)
        first: cython.Py_ssize_t = at
        taken_index: uint64_t = self.taken_index
        size: cython.Py_ssize_t
        if end - start > bytes_max:
            while at < end:
                size = get_u32(data + at) + FRAME
                if at > first and at + size - start > bytes_max:
                    break
                taken_index += data[at + FRAME] != Kind.END
                at += size
            if at < end:
                end, index, ended = at, taken_index, False
        self.taken = end
        self.taken_index = index
        self.at_header = ended
        row: bytes = data[start:end]
        self.written_bytes += end - start
        if ended:
            self.cuts.pop(0)
        if end == self.buffer.size:
            self.taken = 0
            self.buffer.start = end
            shrink(cython.address(self.buffer), KEPT_CAPACITY)
        return row, index, ended

    def place(self):
        """Return the place behind the last record."""
        place: Position = Position.__new__(Position)
        place.record = self.index
        place.segment = self.segment
        place.used_bytes = self.used_bytes
        return place

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that are not written yet."""
        return self.buffer.size - self.taken

    def backlog_full(self):
        """Whether commands that record more than a delete must wait, for too much is not written yet."""
        if self.unwritten_bytes_max == 0 or self.buffer.size - self.taken <= self.unwritten_bytes_max:
            return False
        self.waits = True
        return True

    # --- segments -----------------------------------------------------------------------------------------------------

    def open_segment(self, number: uint64_t, size: int64_t, used_bytes: int64_t = 0, salt: uint32_t = 0) -> None:
        """Begin with a segment of `size` bytes: a new one, or one that holds `used_bytes` under a salt already."""
        self.segment = number
        self.segment_bytes = size
        self.used_bytes = used_bytes
        self.accounts.count_live(number, 0)
        # An upper bound: the smallest record of a job is WHOLE_FIXED bytes long.
        self.deletes_bytes = self.accounts.live_in(number) // WHOLE_FIXED * DELETED_RECORD
        if used_bytes:
            self.salt = salt
            return
        first: uint64_t = self.accounts.first_segment
        header: bytes = segment_header(number, self.next_job_id, self.clock, self.salt, first, size)
        memcpy(self.grow(SEGMENT_HEADER), cython.cast(cython.p_const_char, header), SEGMENT_HEADER)
        self.buffer.size += SEGMENT_HEADER
        self.used_bytes = SEGMENT_HEADER
        if self.shard:
            self.write_shard()
            # It lies in KEPT_BYTES, or fewer jobs would fit than in another segment.
            self.deletes_bytes -= SHARD_RECORD

    def begin_segment(self, size):
        """End the segment, and begin the next with room for a record of `size` bytes."""
        self.end_segment()
        file_bytes: int64_t = self.accounts.segment_for(size)
        self.accounts.take_spare(file_bytes)
        self.cuts.append((self.buffer.size, self.place(), file_bytes))
        # A large job is alone in its segment, however large the file is.
        self.open_segment(self.segment + 1, file_bytes if size <= self.accounts.whole_bytes else size + LARGE_OVERHEAD)
        return 0

    def end_segment(self):
        """Write that the segment is complete."""
        at: cython.p_uchar = self.grow(END_RECORD)
        at[FRAME] = Kind.END
        put_u64(at + FRAME + 1, self.next_job_id)
        self.finish(at, END_RECORD)
        self.index -= 1
        self.record_count -= 1
        return 0

    # --- room ---------------------------------------------------------------------------------------------------------

    def left(self):
        """Return the bytes of records that the segment still takes."""
        return self.segment_bytes - self.used_bytes - CLOSING_BYTES

    def left_for_jobs(self):
        """Return the bytes of the record of a job that it still takes: each job in it keeps room for its delete.

        And all jobs in it fit another segment that begins with what else a move writes.
        """
        return self.left() - self.deletes_bytes - KEPT_BYTES

    def room_for_put(self, size):
        """Whether there is room for a new job; `size` is its body and its tube's name."""
        if self.backlog_full():
            return Room.WAIT
        room: cython.int = self.accounts.room_for_put(self.left(), self.left_for_jobs(), WHOLE_FIXED + size)
        if room == Room.WAIT:
            self.waits = True
            self.wanted_bytes = max(self.wanted_bytes, WHOLE_FIXED + size)
        return room

    def missing(self) -> int:
        """Return the bytes of a segment that the pool needs for the puts that wait; 0: none, or the disk has none."""
        wanted: int64_t = self.wanted_bytes
        if wanted == 0 or self.accounts.room_for_put(self.left(), self.left_for_jobs(), wanted) != Room.WAIT:
            return 0
        return self.accounts.missing(self.wanted_bytes)

    def end_waiting(self) -> None:
        """Let the commands that wait run again."""
        self.waits = False
        self.wanted_bytes = 0

    def room_for_change(self, size):
        """Whether there is room for a change; `size` is its tags, its tube's name, or rules and their pattern."""
        if self.backlog_full():
            return Room.WAIT
        return self.room_for(CHANGED_RECORD + size, self.left())  # the other records are smaller

    def room_for_move(self, size):
        """Whether there is room for a job that a rule changes; the end of the turn provides it as for a change."""
        if self.accounts.unlimited:
            return Room.OK
        record_bytes: int64_t = WHOLE_FIXED + size
        return self.room_for(record_bytes, self.left() if record_bytes <= self.left_for_jobs() else 0)

    def room_for(self, record_bytes, left):
        """Whether there is room for a record that changes a job, and note what waits for it."""
        room: cython.int = self.accounts.room_for_change(left, record_bytes, self.index)
        if room == Room.WAIT:
            self.waits = True
            if self.accounts.refused_from:  # not known to be full
                self.wanted_bytes = max(self.wanted_bytes, record_bytes)
        return room

    def room_for_timeout(self, size):
        """Whether there is room for the end of a time to run, of which a move's is made again when the turn ends."""
        if self.accounts.unlimited or self.room_for_change(size) == Room.OK:
            return True
        accounts = self.accounts
        record_bytes: int64_t = CHANGED_RECORD + size
        if accounts.refused_from == 0 or record_bytes > accounts.whole_bytes:
            return False
        return accounts.free_behind(self.left(), record_bytes) >= accounts.live_count * DELETED_RECORD + record_bytes

    def room_for_turn(self):
        """Whether the end of a turn may be written; it is left out when space is short."""
        return self.accounts.room_for_note(self.left(), TURN_RECORD)
