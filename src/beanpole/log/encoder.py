"""The encoder: what an engine with a log tells its changes to (:class:`~beanpole.engine.records.Records`).

It writes each record at once into a buffer, which the log writes to the file once a turn. It also knows how many bytes
of each segment are alive: compaction and the promise of space go by that.

Invariants: ``live[job.segment]`` includes ``whole_bytes(job)`` for each job of the engine, ``live[tube.segment]``
includes ``pause_bytes(tube)`` for each paused tube, and nothing else.
"""

import secrets

import cython
from cython.cimports.beanpole.engine.job import State
from cython.cimports.beanpole.engine.records import Records
from cython.cimports.beanpole.log.endian import put_u16, put_u32, put_u64
from cython.cimports.beanpole.log.format import (
    CHANGED_RECORD,
    DELETED_RECORD,
    END_RECORD,
    FIRST_RECORD,
    FRAME,
    SEGMENT_HEADER,
    TUBE_FIXED,
    TURN_RECORD,
    WHOLE_FIXED,
    Kind,
    pause_bytes,
    record_crc,
    whole_bytes,
)
from cython.cimports.cpython.buffer import PyBUF_READ
from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memcpy, memset

from beanpole.log import limits
from beanpole.log.format import segment_header

FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 65536)
KEPT_CAPACITY = cython.declare(cython.Py_ssize_t, 4_194_304)
MOVE_ROOM = cython.declare(int64_t, 2 * limits.SEGMENT_OVERHEAD_BYTES)


@cython.cclass
class Encoder(Records):
    """Writes records into a buffer, and counts what is alive. The fields stand in ``encoder.pxd``."""

    def __init__(self, space: Any = None, salt: int | None = None):
        self.space = space
        self.salt = secrets.randbits(32) if salt is None else salt
        self.stale_pauses = set()

    def set_space(self, space: Any) -> None:
        """Set who is asked for another segment and for room."""
        self.space = space

    def __dealloc__(self):
        free(self.buffer)
        free(self.live)

    # --- records ------------------------------------------------------------------------------------------------------

    def job_put(self, job):
        """Write a job with its tube and body; compaction writes one again to move it."""
        size: cython.Py_ssize_t = whole_bytes(job)
        name_bytes: cython.Py_ssize_t = len(job.tube.name)
        at: cython.p_uchar = self.begin(size)
        start: cython.p_uchar = at
        at[FRAME] = Kind.WHOLE
        at = self.job(at + FRAME + 1, job)
        at[0] = cython.cast(uint8_t, name_bytes)
        put_u16(at + 1, job.tag_bytes)
        memcpy(at + 3, cython.cast(cython.p_const_char, job.tube.name), name_bytes)
        memcpy(at + 3 + name_bytes, job.body + job.body_bytes + 2, job.tag_bytes)
        memcpy(at + 3 + name_bytes + job.tag_bytes, job.body, job.body_bytes)
        self.finish(start, size)
        return self.settle(job, size)

    def job_changed(self, job):
        """Write a job's numbers and tags."""
        size: cython.Py_ssize_t = CHANGED_RECORD + job.tag_bytes
        at: cython.p_uchar = self.begin(size)
        at[FRAME] = Kind.CHANGED
        self.job(at + FRAME + 1, job)
        memcpy(at + CHANGED_RECORD, job.body + job.body_bytes + 2, job.tag_bytes)
        return self.finish(at, size)

    def job_deleted(self, job):
        """Write that a job is gone."""
        at: cython.p_uchar = self.begin(DELETED_RECORD)
        at[FRAME] = Kind.DELETED
        put_u64(at + FRAME + 1, job.id)
        self.finish(at, DELETED_RECORD)
        return self.job_dropped(job)

    def job_dropped(self, job):
        """Count a job no more."""
        self.live[job.segment - self.first_segment] -= whole_bytes(job)
        self.live_bytes -= whole_bytes(job)
        self.live_count -= 1
        if self.live_count == 0:
            self.largest_bytes = 0
        job.segment = 0
        return 0

    def job_restored(self, job):
        """Count a job where it lies."""
        self.count_live(job.segment, whole_bytes(job))
        return self.count_new(whole_bytes(job))

    def tube_changed(self, tube):
        """Write a tube's pause and tags."""
        self.tube_dropped(tube)
        if tube.paused_until_ns == 0 and tube.tags is None:
            return self.unpaused(tube.name)
        self.stale_pauses.discard(tube.name)
        self.pause(tube.name, tube.pause_s, tube.paused_until_ns, tube.tags)
        tube.segment = self.segment
        return self.tube_restored(tube)

    def pause_ended(self, tube):
        """Count a tube's record no more, unless it has tags."""
        return self.tube_dropped(tube) if tube.tags is None else 0

    def tube_dropped(self, tube):
        """Count a tube's record no more."""
        if tube.segment:
            self.count_live(tube.segment, -pause_bytes(tube))
            self.live_bytes -= pause_bytes(tube)
            tube.segment = 0
        return 0

    def tube_restored(self, tube):
        """Count a tube's record where it lies."""
        self.count_live(tube.segment, pause_bytes(tube))
        self.live_bytes += pause_bytes(tube)
        return 0

    def unpaused(self, name: bytes) -> int:
        """Write that a tube has no pause; later, if there is no room: that must not stop a tube's end."""
        if self.rest_behind(TUBE_FIXED + len(name)) < self.kept_from_moves():
            self.stale_pauses.add(name)
            return 0
        self.stale_pauses.discard(name)
        return self.pause(name, 0, 0, None)

    def tell_stale_pauses(self) -> None:
        """Write of which tubes a pause must not come back, as far as there is room."""
        while self.stale_pauses:
            name: bytes = self.stale_pauses.pop()
            self.unpaused(name)
            if name in self.stale_pauses:
                return

    def pause(self, name, pause_s, until_ns, tags):
        """Write a tube's record."""
        name_bytes: cython.Py_ssize_t = len(name)
        tag_bytes: cython.Py_ssize_t = 0 if tags is None else len(tags)
        at: cython.p_uchar = self.begin(TUBE_FIXED + name_bytes + tag_bytes)
        at[FRAME] = Kind.TUBE
        put_u32(at + FRAME + 1, pause_s)
        put_u64(at + FRAME + 5, until_ns)
        at[FRAME + 13] = cython.cast(uint8_t, name_bytes)
        memcpy(at + TUBE_FIXED, cython.cast(cython.p_const_char, name), name_bytes)
        if tag_bytes:
            memcpy(at + TUBE_FIXED + name_bytes, cython.cast(cython.p_const_char, tags), tag_bytes)
        return self.finish(at, TUBE_FIXED + name_bytes + tag_bytes)

    def turn(self, clock: tuple[int, int], durable_segment: uint64_t, durable_bytes: uint64_t) -> None:
        """Write the end of a turn, with the time and how far the log was durable then."""
        log_ns: int64_t = clock[0]
        lead_ns: int64_t = clock[1]
        at: cython.p_uchar = self.begin(TURN_RECORD)
        at[FRAME] = Kind.TURN
        put_u64(at + FRAME + 1, log_ns)
        put_u64(at + FRAME + 9, lead_ns)
        put_u64(at + FRAME + 17, durable_segment)
        put_u64(at + FRAME + 25, durable_bytes)
        put_u32(at + FRAME + 33, self.salt)
        self.finish(at, TURN_RECORD)
        self.index -= 1
        self.record_count -= 1

    def first(self, number: uint64_t) -> None:
        """Write that segment `number` is the oldest that is needed: the ones before may go when this is durable."""
        at: cython.p_uchar = self.begin(FIRST_RECORD)
        at[FRAME] = Kind.FIRST
        put_u64(at + FRAME + 1, number)
        self.finish(at, FIRST_RECORD)
        self.record_count -= 1

    def job(self, at, job):
        """Write a job's numbers; return what is behind. A reserved job is written as ready: after a restart it is."""
        deadline_ns: int64_t = job.deadline_at_ns if job.state == State.DELAYED else 0
        at = put_u64(at, job.id)
        at = put_u64(at, job.created_at_ns)
        at = put_u64(at, deadline_ns)
        at = put_u64(at, job.tube.buried.entries[job.heap_index].key if job.state == State.BURIED else 0)
        at = put_u32(at, job.pri)
        at = put_u32(at, job.delay_s)
        at = put_u32(at, job.ttr_s)
        at = put_u32(at, job.reserve_count)
        at = put_u32(at, job.timeout_count)
        at = put_u32(at, job.release_count)
        at = put_u32(at, job.bury_count)
        at = put_u32(at, job.kick_count)
        at[0] = State.READY if job.state == State.RESERVED else job.state
        return at + 1

    # --- the buffer ---------------------------------------------------------------------------------------------------

    def begin(self, size):
        """Return where a record of `size` bytes goes; another segment is opened when this one is full."""
        if self.used_bytes + size + END_RECORD > self.segment_bytes:
            self.space.roll(size)
        if self.size + size > self.capacity:
            capacity: cython.Py_ssize_t = max(self.capacity, FIRST_CAPACITY)
            while capacity < self.size + size:
                capacity *= 2
            grown = cython.cast(cython.p_uchar, realloc(self.buffer, capacity))
            if grown is cython.NULL:
                raise MemoryError
            self.buffer = grown
            self.capacity = capacity
        return self.buffer + self.size

    def finish(self, at, size):
        """Close a record: its length and its checksum."""
        put_u32(at, size - FRAME)
        put_u32(at + 4, record_crc(at, size, self.salt))
        self.size += size
        self.used_bytes += size
        self.index += 1
        self.record_count += 1
        return 0

    def take(self) -> bytes | memoryview:
        """Return the buffer's bytes, good until the next record; they belong at ``used_bytes - len`` of the segment."""
        size: cython.Py_ssize_t = self.size
        self.size = 0
        if size == 0:
            return b""
        return PyMemoryView_FromMemory(cython.cast(cython.p_char, self.buffer), size, PyBUF_READ)

    def give_back(self) -> None:
        """Free a buffer that one large turn left behind."""
        if self.size == 0 and self.capacity > KEPT_CAPACITY:
            free(self.buffer)
            self.buffer = cython.NULL
            self.capacity = 0

    # --- segments -----------------------------------------------------------------------------------------------------

    def open_segment(
        self, number: uint64_t, segment_bytes: uint64_t, next_job_id: uint64_t, clock: tuple[int, int]
    ) -> None:
        """Begin a segment: the header is the first thing in the buffer. What was buffered must be taken before."""
        assert self.size == 0, "a segment begins with records of the one before in the buffer"
        self.segment = number
        self.segment_bytes = segment_bytes
        self.used_bytes = 0
        self.count_live(number, 0)
        header: bytes = segment_header(number, next_job_id, clock, self.salt, self.first_segment, segment_bytes)
        memcpy(self.begin(SEGMENT_HEADER), cython.cast(cython.p_const_char, header), SEGMENT_HEADER)
        self.size += SEGMENT_HEADER
        self.used_bytes += SEGMENT_HEADER

    def room_for_turn(self) -> bool:
        """Whether the end of a turn may be written; it is left out when space is short."""
        return self.room_for_note(TURN_RECORD)

    def end_durable_segment(self, next_job_id: uint64_t, clock: tuple[int, int]) -> None:
        """End a segment that is synced before it gets its name, and say so: whatever is wrong in it is damage."""
        self.segment_bytes = self.used_bytes + TURN_RECORD + 2 * END_RECORD
        self.turn(clock, self.segment, self.used_bytes)
        self.end_segment(next_job_id)

    def end_segment(self, next_job_id: uint64_t) -> None:
        """Write that the segment is complete."""
        self.segment_bytes = self.used_bytes + 2 * END_RECORD
        at: cython.p_uchar = self.begin(END_RECORD)
        at[FRAME] = Kind.END
        put_u64(at + FRAME + 1, next_job_id)
        self.finish(at, END_RECORD)
        self.index -= 1
        self.record_count -= 1

    def settle(self, job, size):
        """Count a job where it now lies."""
        if job.segment:
            self.live[job.segment - self.first_segment] -= size
        else:
            self.count_new(size)
        job.segment = self.segment
        self.live[self.segment - self.first_segment] += size
        return 0

    def count_new(self, size):
        """Count a job's whole record, wherever it lies."""
        self.live_count += 1
        self.live_bytes += size
        self.largest_bytes = max(self.largest_bytes, size)
        return 0

    def count_live(self, number: uint64_t, size: int64_t) -> None:
        """Add live bytes to a segment, which may be a new one behind the last."""
        if self.first_segment == 0:
            self.first_segment = number
        at: cython.Py_ssize_t = number - self.first_segment
        capacity: cython.Py_ssize_t = self.live_capacity
        if at >= capacity:
            capacity = max(64, 2 * (at + 1))
            grown = cython.cast(cython.pointer(int64_t), realloc(self.live, capacity * cython.sizeof(int64_t)))
            if grown is cython.NULL:
                raise MemoryError
            memset(grown + self.live_capacity, 0, (capacity - self.live_capacity) * cython.sizeof(int64_t))
            self.live = grown
            self.live_capacity = capacity
        self.live[at] += size

    def drop_first_segment(self) -> None:
        """Forget the oldest segment, in which nothing lives."""
        assert self.live[0] == 0, f"segment {self.first_segment} is dropped, but jobs live in it"
        i: cython.Py_ssize_t
        for i in range(self.live_capacity - 1):
            self.live[i] = self.live[i + 1]
        self.live[self.live_capacity - 1] = 0
        self.first_segment += 1

    def live_in(self, number: uint64_t) -> int:
        """Return the bytes of live jobs and pauses in a segment."""
        return self.live[number - self.first_segment]

    # --- room ---------------------------------------------------------------------------------------------------------

    def has_room(self, size, rest):
        """Whether a record of `size` bytes can be written so that `rest` bytes of small ones can be, whatever happens.

        What does not fit into the segment goes to a prepared one, and the segment's end is lost.
        """
        if self.left() >= size and self.rest_behind(size) >= rest:
            return True
        return self.space.make_room(size, rest)

    def kept(self, parts: cython.int):
        """Return the bytes to keep free for what must always be possible, and `parts` quarters of what may be used up.

        What must be possible is every job's delete, and a round of compaction, for without one no space comes back. A
        job that is larger than a segment must find room in one piece, to which the rest of this segment is no help.
        """
        segment_bytes: int64_t = 2 * self.kept_free_bytes
        round_bytes: int64_t = min(self.live_bytes, segment_bytes)
        if self.largest_bytes > segment_bytes:
            round_bytes = self.largest_bytes + segment_bytes
        round_bytes -= self.moved_bytes
        part_bytes: int64_t = max(self.kept_free_bytes * parts // 4, MOVE_ROOM)
        return self.live_count * DELETED_RECORD + max(round_bytes, 0) + part_bytes

    def room_for_put(self, size):
        """Whether a new job leaves room for what must always be possible; `size` is its body and its tube's name."""
        whole: int64_t = WHOLE_FIXED + size
        return self.has_room(whole, self.kept(4) + whole + DELETED_RECORD)

    def room_for_change(self):
        """Whether a change leaves room for what must always be possible.

        Space is asked for before it runs out, so that compaction has begun when it does.
        """
        if self.has_room(CHANGED_RECORD, self.kept(2)) or self.room_for_note(CHANGED_RECORD):
            return True
        while self.space.take_part():
            if self.room_for_note(CHANGED_RECORD):
                return True
        return False

    def room_for_note(self, size: int64_t) -> bool:
        """Whether a record may be written that can be left out; no room is made for it."""
        return self.rest_behind(size) >= self.kept(1)

    def left(self):
        """Return the bytes of records that the segment still takes."""
        return self.segment_bytes - self.used_bytes - END_RECORD

    def rest_behind(self, size):
        """Return the bytes that small records can take behind a record of `size` bytes; no room is made for it."""
        left: int64_t = self.left()
        return (left if left >= size else 0) + self.spare_bytes - size

    def kept_from_moves(self):
        """Return the bytes that compaction leaves free: for every job's delete, and to end what it does."""
        return self.live_count * DELETED_RECORD + MOVE_ROOM

    def room_to_move(self, size: int64_t) -> bool:
        """Whether compaction may write a record: every job's delete must still find room."""
        return self.has_room(size, self.kept_from_moves()) or self.space.make_room_to_move(size)

    def room_for_round(self, size: int64_t) -> bool:
        """Whether compaction may write `size` bytes of records; no room is made for them."""
        return self.rest_behind(0) - size >= self.kept_from_moves()

    def wants_segment(self) -> bool:
        """Whether another segment should be prepared, for puts will soon need it."""
        return self.rest_behind(0) < self.kept(6)

    def make_room(self) -> bool:
        """Make room for what must always be possible, as after a start."""
        return self.has_room(0, self.kept(4))
