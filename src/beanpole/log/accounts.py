"""The accounts of a log's space: what of each segment is alive, what is free, and what of that is reserved.

Nothing here knows a file or a disk. The encoder books what it writes, replay what it reads, the log books the segments
that it has in its pool; the answers say what may still be written.

The invariant: **what is free always suffices to delete every live job and to move the oldest segment.** Free is what
the open segment still takes (`left`, which the encoder knows) and all spare segments. Each class of records leaves
more free than the one before, so that each finds room when the one before no longer does:

========  =================================================================================
deletes   nothing: they use up what is kept for them, and each makes what must be kept less
moves     what every job's delete takes, when the segment that they empty has come back
changes   that, and a whole segment, for the next move
puts      that, and half a segment, for changes
========  =================================================================================

A move of the oldest segment, made in one go, takes one spare segment at most and gives one back, so it leaves as many
spares as there were. That holds because a segment is as large as any other, or holds one large job alone, for which the
pool has a segment of that size; and because a segment that takes a job keeps room for that job's delete.
"""

from bisect import insort

import cython
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.log.format import (
    DELETED_RECORD,
    ONCE_RECORD,
    group_bytes,
    pause_bytes,
    rules_bytes,
    schedule_bytes,
)
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memmove, memset

from beanpole.log import limits

NEVER: int = 2**62
"""Puts are refused above this size while the disk is not full."""

NOTHING: int = 2**63
"""The index of no record."""

OVERHEAD = cython.declare(int64_t, limits.SEGMENT_OVERHEAD_BYTES)


@cython.cclass
class Accounts:
    """What a log has and what it needs, in bytes. The fields stand in ``accounts.pxd``."""

    def __init__(self, segment_bytes: int64_t = limits.SEGMENT_BYTES_DEFAULT, *, unlimited: bool = False):
        self.unlimited = unlimited
        self.segment_bytes = segment_bytes
        self.whole_bytes = segment_bytes - OVERHEAD
        self.large_spares = []
        self.refused_from = NEVER
        self.stuck_index = NOTHING

    def __dealloc__(self):
        free(self.live)

    # --- what is alive ------------------------------------------------------------------------------------------------

    def count_job(self, job, segment, size):
        """Book a job's whole record in a segment: a new job, or one that moves there."""
        if job.segment:
            self.live[job.segment - self.first_segment] -= size
        else:
            self.live_count += 1
            self.live_bytes += size
            self.largest_bytes = max(self.largest_bytes, size)
        job.segment = segment
        return self.count_live(segment, size)

    def restore_job(self, job, size):
        """Book a job that was read back, in the segment that it says."""
        segment: uint64_t = job.segment
        job.segment = 0
        return self.count_job(job, segment, size)

    def drop_job(self, job, size):
        """Book that a job is gone."""
        self.live[job.segment - self.first_segment] -= size
        self.live_bytes -= size
        self.live_count -= 1
        if self.live_count == 0:
            self.largest_bytes = 0
        job.segment = 0
        return 0

    def count_tube(self, tube):
        """Book a tube's record in the segment that it says."""
        return self.count_bytes(tube.segment, pause_bytes(tube))

    def drop_tube(self, tube):
        """Book that a tube's record is gone, if it has one."""
        if tube.segment:
            self.drop_bytes(tube.segment, pause_bytes(tube))
            tube.segment = 0
        return 0

    def count_group(self, pause):
        """Book the record of a group's pause in the segment that it says."""
        return self.count_bytes(pause.segment, group_bytes(pause))

    def drop_group(self, pause):
        """Book that the record of a group's pause is gone, if it has one."""
        if pause.segment:
            self.drop_bytes(pause.segment, group_bytes(pause))
            pause.segment = 0
        return 0

    def count_rules(self, rules):
        """Book the record of rules in the segment that they say."""
        return self.count_bytes(rules.segment, rules_bytes(rules))

    def drop_rules(self, rules):
        """Book that the record of rules is gone, if they have one."""
        if rules.segment:
            self.drop_bytes(rules.segment, rules_bytes(rules))
            rules.segment = 0
        return 0

    def count_token(self, token):
        """Book the record of a token in the segment that it says."""
        self.token_count += 1
        return self.count_bytes(token.segment, ONCE_RECORD)

    def drop_token(self, token):
        """Book that the record of a token is gone, if it has one."""
        if token.segment:
            self.drop_bytes(token.segment, ONCE_RECORD)
            self.token_count -= 1
            token.segment = 0
        return 0

    def count_schedule(self, schedule):
        """Book the record of a schedule's document in the segment that it says."""
        schedule.record_bytes = schedule_bytes(schedule)
        return self.count_bytes(schedule.segment, schedule.record_bytes)

    def drop_schedule(self, schedule):
        """Book that this record is gone, if there is one; the schedule may have another document by now."""
        if schedule.record_bytes:
            self.drop_bytes(schedule.segment, schedule.record_bytes)
            schedule.segment = schedule.record_bytes = 0
        return 0

    def count_bytes(self, segment, size):
        """Book what is no job in a segment."""
        self.live_bytes += size
        return self.count_live(segment, size)

    def drop_bytes(self, segment, size):
        """Book that this is gone."""
        self.live[segment - self.first_segment] -= size
        self.live_bytes -= size
        return 0

    def count_live(self, segment, size):
        """Add live bytes to a segment, which may be a new one behind the last."""
        if self.first_segment == 0:
            self.first_segment = segment
        at: cython.Py_ssize_t = segment - self.first_segment
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
        return 0

    def live_in(self, segment):
        """Return the bytes of what lives in a segment."""
        return self.live[segment - self.first_segment]

    def drop_first_segment(self) -> None:
        """Forget the oldest segment, in which nothing lives."""
        assert self.live[0] == 0, f"segment {self.first_segment} is dropped, but jobs live in it"
        memmove(self.live, self.live + 1, (self.live_capacity - 1) * cython.sizeof(int64_t))
        self.live[self.live_capacity - 1] = 0
        self.first_segment += 1

    # --- spare segments -----------------------------------------------------------------------------------------------

    def segment_for(self, size):
        """Return the bytes of a segment that is begun for a record of `size` bytes."""
        if size <= self.whole_bytes:
            return self.segment_bytes
        return max(size + LARGE_OVERHEAD, self.segment_bytes + 1)

    def take_spare(self, size: int64_t) -> None:
        """Book that a segment of `size` bytes is begun. More may be begun than there are: those must wait for one."""
        if self.unlimited:
            return
        if size == self.segment_bytes:
            self.spare_count -= 1
        else:
            for each in self.large_spares:
                if each >= size:
                    self.large_spares.remove(each)
                    break

    def add_spare(self, size: int64_t) -> None:
        """Book a segment that is there to be begun."""
        if size == self.segment_bytes:
            self.spare_count += 1
        else:
            insort(self.large_spares, size)

    def has_large(self, size, count):
        """Whether there are `count` segments that take a large job of `size` bytes."""
        needed: int64_t = self.segment_for(size)
        return self.unlimited or sum([each >= needed for each in self.large_spares]) >= count

    # --- what may be written ------------------------------------------------------------------------------------------

    def free_behind(self, left, size):
        """Return the bytes that small records can take behind one of `size` bytes, where `left` can be in one piece."""
        spare_bytes: int64_t = self.spare_count * self.whole_bytes
        if self.unlimited:
            return NEVER
        if size <= left:
            return spare_bytes + left - size
        return spare_bytes - size if size <= self.whole_bytes else spare_bytes

    def least(self, size):
        """Return what changes leave free: every job's delete and a move, with a job of `size` bytes besides."""
        moves: cython.int = 1
        if max(self.largest_bytes, size) > self.whole_bytes:
            moves = 2  # a large job leaves the rest of the open segment unused, and a move of it another's
        return self.live_count * DELETED_RECORD + moves * self.whole_bytes

    def room_for_put(self, left, left_for_jobs, size):
        """Whether a new job whose record has `size` bytes can be kept: a Room."""
        largest: int64_t = max(self.largest_bytes, size)
        rest: int64_t = self.least(size) + DELETED_RECORD + self.whole_bytes // 2
        if self.free_behind(left if size <= left_for_jobs else 0, size) >= rest and (
            largest <= self.whole_bytes
            or (self.has_large(largest, 1) and (size <= self.whole_bytes or self.has_large(size, 2)))
        ):
            return Room.OK
        if size >= self.refused_from:
            return Room.FULL
        return Room.WAIT

    def missing(self, size: int64_t) -> int:
        """Return the bytes of the segment that the pool needs next for a job of `size` bytes that has no room."""
        largest: int64_t = max(self.largest_bytes, size)
        if largest > self.whole_bytes and not self.has_large(largest, 1):
            return self.segment_for(largest)
        if size > self.whole_bytes and not self.has_large(size, 2):
            return self.segment_for(size)
        return self.segment_bytes

    def room_for_change(self, left, size, index):
        """Whether a change whose record has `size` bytes can be kept, when `index` is the last record: a Room.

        What has no room waits for the end of the turn, which asks the disk for a segment, or on a full disk lets
        compaction make room. It is refused when nothing was written since compaction could make none, and when the
        disk had no space for one as large, although it is not known to be full.
        """
        if self.room_for_note(left, size) and (size <= self.whole_bytes or self.has_large(size, 2)):
            return Room.OK
        return Room.FULL if index == self.stuck_index or 0 < self.refused_from <= size else Room.WAIT

    def room_for_note(self, left, size):
        """Whether a record may be written that can be left out."""
        return self.free_behind(left, size) >= self.least(0)

    def is_short(self, left):
        """Whether puts have no room."""
        return self.free_behind(left, 0) < self.least(0) + self.whole_bytes // 2

    def wants_spare(self, left):
        """Whether another segment should be prepared, for puts will soon need it."""
        return self.free_behind(left, 0) < self.least(0) + 3 * self.whole_bytes // 4

    def wants_large(self) -> int:
        """Return the bytes of the segment that the pool needs, and has not, to move the largest job; 0: none."""
        if self.largest_bytes <= self.whole_bytes or self.has_large(self.largest_bytes, 1):
            return 0
        return self.segment_for(self.largest_bytes)

    def can_delete_all(self, left: int64_t) -> bool:
        """Whether every job can be deleted."""
        return self.free_behind(left, 0) >= self.live_count * DELETED_RECORD

    def can_move(self, left: int64_t, live_bytes: int64_t, *, gives_back: bool) -> bool:
        """Whether a segment of which `live_bytes` live can be moved in one go, so that every delete still has room.

        `left` is what the open segment takes; 0 for the move of that segment itself.
        """
        whole: int64_t = self.whole_bytes
        if live_bytes <= left:
            return gives_back or self.free_behind(left, live_bytes) >= self.live_count * DELETED_RECORD
        filled: int64_t = max(left - min(self.largest_bytes, whole), 0)
        rest: int64_t = live_bytes - filled
        taken: int64_t = 1
        behind: int64_t = max(whole - rest, 0)
        if self.largest_bytes > whole and live_bytes > whole:
            if not self.has_large(self.largest_bytes, 1):
                return False
            taken, behind = 1 if self.token_count else 0, DELETED_RECORD  # behind the job, its token needs another
        elif rest > whole:  # only when the size of segments was made smaller
            taken, behind = 1 + 2 * rest // whole, 0
        spares: int64_t = self.spare_count - taken
        if spares < 0:
            return False
        spares += gives_back and taken <= 1
        return spares * whole + behind >= self.live_count * DELETED_RECORD
