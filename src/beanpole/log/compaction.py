"""Compaction: what is alive in the oldest segment is written again at the end of the log, and the segment goes.

The oldest segment is always the next to go, whatever lives in it, so no job that nobody takes can keep the segments
behind it, and replay needs no order but age. Sealed segments are compacted when they hold more than 1.75 times the
bytes of live jobs and pauses, in small steps: some in each turn, the more the more clients write.

On a full disk there is another reason and another pace. When puts have no room, the log is gone through once, however
little is dead in it, because the dead bytes may lie in the newest segments; and each segment is moved in one go, so
that nothing else can take the room that the move needs (:mod:`beanpole.log.accounts`).

This part decides and writes records; it knows no file. What it asks for, the log does: read which jobs a segment holds
(:meth:`Compaction.begin`), and remove it when what was moved out of it is durable (``emptied``, ``moved_index``).
"""

from collections.abc import Callable

import cython
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.policies.once import forget, has_ended
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.beanpole.engine.state.job import Job
from cython.cimports.beanpole.engine.state.once import OnceTable, Token
from cython.cimports.beanpole.engine.state.schedule import Schedule
from cython.cimports.beanpole.engine.state.tube import GroupPause, RuleSet, Tube
from cython.cimports.beanpole.log.encoder import Encoder
from cython.cimports.beanpole.log.format import (
    CHANGED_RECORD,
    FIRST_RECORD,
    ONCE_RECORD,
    TURN_RECORD,
    group_bytes,
    pause_bytes,
    rules_bytes,
    whole_bytes,
)
from cython.cimports.libc.stdint import int64_t, uint64_t

COMPACTION_PERCENT = cython.declare(int64_t, 175)
"""Bytes of sealed segments in percent of live bytes at which the oldest goes: below 200, for what is under way."""

COMPACTION_WORTH_PERCENT = cython.declare(int64_t, 125)
"""Bytes of sealed segments in percent of live bytes up to which a round would move much and gain little."""

COMPACTION_BYTES_PER_TURN = 131_072
"""Bytes of jobs that compaction moves in a turn, and so what it may delay others by: well below a millisecond."""

COMPACTION_BYTES_PER_BYTE = 4
"""Bytes that compaction may move besides for each byte that clients wrote: it must be faster than they are."""

PASSED_COST = cython.declare(int64_t, 16)
"""What it counts in bytes to look at what is not in the segment any more."""

TOKEN_COST = cython.declare(int64_t, 2)  # the same of a token, which lies behind the one before

SCHEDULES_AT_ONCE = cython.declare(cython.Py_ssize_t, 1_000)
"""Schedules that are looked at in one go, for which segment holds them."""

CHUNK_BYTES = cython.declare(cython.Py_ssize_t, 1_048_576)
"""Bytes of jobs that are written at once when a whole engine is."""


@cython.cclass
class Compaction:
    """Empties one segment after the other. The fields stand in ``compaction.pxd``."""

    def __init__(self, engine: Engine, records: Encoder, *, bytes_per_row: int = 0):
        self.engine = engine
        self.records = records
        self.accounts = records.accounts
        self.bytes_per_turn = bytes_per_row or COMPACTION_BYTES_PER_TURN
        self.bytes_per_byte = 0 if bytes_per_row else COMPACTION_BYTES_PER_BYTE

    def is_due(self, sealed_bytes, full):
        """Whether the oldest segment should go; `sealed_bytes` is the size of all sealed ones."""
        accounts = self.accounts
        live: int64_t = accounts.live_bytes
        dead: int64_t = sealed_bytes + self.records.used_bytes - live
        if full:
            if not accounts.is_short(self.records.left()):
                return False
            if self.pass_end and accounts.first_segment > self.pass_end:
                # What clients wrote since the pass began it has not gone through: that is for the next one.
                written_count: int64_t = self.records.index - self.pass_index - (self.moved_count - self.pass_moved)
                self.pass_end = 0
                self.left_dead_bytes = max(dead - written_count * (CHANGED_RECORD + TURN_RECORD), 0)
            return self.pass_end > 0 or dead > self.left_dead_bytes + accounts.segment_bytes // 4
        spare_bytes: int64_t = max(0, accounts.spare_count - 1) * accounts.segment_bytes
        if (
            sealed_bytes <= live * COMPACTION_WORTH_PERCENT // 100
            or sealed_bytes + spare_bytes <= live * COMPACTION_PERCENT // 100
        ):
            self.pass_end = self.left_dead_bytes = 0
            return False
        if self.pass_end and accounts.first_segment > self.pass_end:
            # What a pass leaves in which no client wrote are the ends of segments that the next job did not fit.
            # Another pass would leave them too, and move everything once more, for ever.
            quiet: cython.bint = self.records.record_count - self.moved_count == self.pass_written
            self.pass_end = 0
            self.left_dead_bytes = dead if quiet else 0
        if self.pass_end or self.left_dead_bytes == 0:
            return True
        return dead > self.left_dead_bytes + accounts.segment_bytes // 4

    def begin(self, segment: uint64_t) -> bool:
        """Begin to empty a segment; whether the ids of what is in it are needed for that (:meth:`set_ids`)."""
        self.segment = segment
        self.emptied = False
        self.items = None
        self.at = 0
        self.tokens_left = -1
        if self.pass_end == 0:
            self.pass_end = self.records.segment
            self.pass_written = self.records.record_count - self.moved_count
            self.pass_index = self.records.index
            self.pass_moved = self.moved_count
        if self.accounts.live_in(segment) == 0:
            self.items = []
        return self.items is None

    @property
    def needs_ids(self) -> bool:
        """Whether it can't go on without the ids of what is in the segment (:meth:`set_ids`)."""
        return self.segment != 0 and self.items is None

    def set_ids(self, ids: list[int | bytes], *, complete: bool = True) -> None:
        """Set the ids of the jobs that the segment holds whole, and the names of schedules that it holds.

        If they may not be complete it asks for them again.
        """
        self.complete = complete
        self.at = 0
        pauses = [pause for pause in group_pauses(self.engine) if pause.segment == self.segment]
        self.items = [*ids, *paused_in(self.engine, self.segment), *pauses, *rules_in(self.engine, self.segment)]

    def step(self, at_once):
        """Move some jobs, or all at once; whether it came further."""
        budget: int64_t = self.bytes_per_turn
        log_bytes: int64_t = self.records.written_bytes + self.records.unwritten_bytes
        budget += self.bytes_per_byte * (log_bytes - self.seen_bytes)
        self.seen_bytes = log_bytes
        if self.segment == 0 or self.items is None or self.emptied:
            return False
        before: int64_t = self.accounts.live_in(self.segment)
        came_further: cython.bint = self.move_some(budget, at_once)
        self.seen_bytes += before - self.accounts.live_in(self.segment)
        return came_further

    def move_some(self, budget, at_once):
        """Write jobs, then the rest, for `budget` bytes or all that there are; whether it came further."""
        began_at: cython.Py_ssize_t = self.at
        while self.at < len(self.items) and (budget > 0 or at_once):
            item = self.items[self.at]
            found = self.found(item)
            size: int64_t = self.size_in_segment(found)
            if size:
                if not at_once and not self.has_room(size):
                    break
                self.move(found)
            budget -= size or PASSED_COST
            self.at += 1
        tokens_left: cython.Py_ssize_t = self.tokens_left
        if self.at == len(self.items) and not self.move_tokens(budget, at_once):
            return self.at > began_at or self.tokens_left != tokens_left
        if self.at == len(self.items) and not self.complete and self.accounts.live_in(self.segment):
            self.items = None
            return True
        if self.at == len(self.items) and (at_once or self.has_room(FIRST_RECORD)):
            self.records.first(self.segment + 1)
            self.emptied = True
            self.moved_index = self.records.index
        return self.emptied or self.at > began_at

    def move_tokens(self, budget, at_once):
        """Write tokens of puts, and forget those that have ended, for `budget` bytes or all; whether none is left.

        It goes from the last to the first: tokens added in the meantime stand behind, in a newer segment.
        """
        table: OnceTable = self.engine.once
        mark: uint64_t[2]
        if self.tokens_left < 0:
            self.tokens_left = 0 if table is None or self.accounts.live_in(self.segment) == 0 else table.count
        while self.tokens_left and (budget > 0 or at_once):
            self.tokens_left = min(self.tokens_left, table.count)
            token: cython.pointer(Token) = table.at(self.tokens_left - 1)
            budget -= TOKEN_COST
            if token.segment == self.segment and has_ended(token, self.engine.now_ns):
                forget(self.engine, self.tokens_left - 1)
            elif token.segment == self.segment:
                if not at_once and not self.has_room(ONCE_RECORD):
                    break
                table.read(self.tokens_left - 1, mark)
                self.records.once_noted(mark, token)
                self.moved_count += 1
                budget -= ONCE_RECORD
            self.tokens_left -= 1
        return self.tokens_left == 0

    def found(self, item):
        """Return the job or the schedule of an id, which may be gone by now, or what is there itself."""
        if isinstance(item, int):
            return self.engine.jobs.find(item)
        if isinstance(item, bytes):
            return None if self.engine.schedules is None else self.engine.schedules.named(item)
        return item

    def size_in_segment(self, item):
        """Return the bytes of the record of a job or of what else is there; 0: it is in the segment no more."""
        if isinstance(item, Job):
            job: Job = item
            return whole_bytes(job) if job.segment == self.segment else 0
        if isinstance(item, Schedule):
            schedule: Schedule = item
            return schedule.record_bytes if schedule.segment == self.segment else 0
        if isinstance(item, Tube):
            tube: Tube = item
            return pause_bytes(tube) if tube.segment == self.segment else 0
        if isinstance(item, GroupPause):
            pause: GroupPause = item
            return group_bytes(pause) if pause.segment == self.segment else 0
        if isinstance(item, RuleSet):
            rules: RuleSet = item
            return rules_bytes(rules) if rules.segment == self.segment else 0
        return 0  # None: the job or the schedule is gone

    def move(self, item):
        """Write a record again, with what must stand behind it, all of which counts as moved."""
        records_before: uint64_t = self.records.record_count
        self.write(item)
        self.moved_count += 1
        self.pass_written += self.records.record_count - records_before - 1
        return 0

    def write(self, item):
        """Write the record of a job or of what else is there again."""
        if isinstance(item, Job):
            self.records.job_put(item)
        elif isinstance(item, Schedule):
            self.records.schedule_changed(item)
        elif isinstance(item, Tube):
            self.records.tube_changed(item)
        elif isinstance(item, GroupPause):
            self.records.group_changed(item)
        else:
            self.records.rules_changed(item)
        return 0

    def has_room(self, size: int64_t) -> bool:
        """Whether a record can be moved while the disk is not full: the room for a move in one go is not for that."""
        accounts = self.accounts
        if size > accounts.whole_bytes and not accounts.has_large(size, 1):
            return False
        return accounts.free_behind(self.records.left_for_jobs(), size) >= accounts.least(0)

    def finish(self) -> None:
        """Take note that the segment is gone."""
        self.segment = 0
        self.emptied = False
        self.accounts.drop_first_segment()


def write_all(engine: Engine, records: Encoder, flush: Callable[[], None]) -> None:
    """Write all rules, schedules, jobs, pauses and tokens of an engine; `flush` is called when there is much to write.

    They are new to the accounts of these records, wherever the engine's own have them.
    """
    job: Job
    rules: RuleSet
    for rules in [] if engine.rules is None else engine.rules.all():
        rules.segment = 0
        records.rules_changed(rules)
    schedule: Schedule
    for name in [] if engine.schedules is None else engine.schedules.names:
        schedule = engine.schedules.named(name)
        schedule.segment = schedule.record_bytes = 0
        records.schedule_changed(schedule)
        if records.unwritten_bytes >= CHUNK_BYTES:
            flush()
    for id in sorted([each.id for each in engine.jobs.jobs()]):
        job = engine.jobs.find(id)
        job.segment = 0
        records.job_put(job)
        if records.unwritten_bytes >= CHUNK_BYTES:
            flush()
    tube: Tube
    for each in engine.tube_list:
        tube = each
        if tube.paused_until_ns or tube.tags is not None:
            tube.segment = 0
            records.tube_changed(tube)
    pause: GroupPause
    for pause in sorted(group_pauses(engine), key=place_of):
        pause.segment = 0
        records.group_changed(pause)
    write_tokens(engine, records, flush)
    flush()


@cython.cfunc
def write_tokens(engine: Engine, records: Encoder, flush: Callable[[], None]) -> cython.int:
    """Write the tokens of puts, in the order of their hashes."""
    table: OnceTable = engine.once
    number: cython.Py_ssize_t
    token: cython.pointer(Token)
    mark: uint64_t[2]
    for _, number, _, _ in [] if table is None else sorted(table.tokens()):
        token = table.at(number)
        token.segment = 0
        table.read(number, mark)
        records.once_noted(mark, token)
        if records.unwritten_bytes >= CHUNK_BYTES:
            flush()
    return 0


def rules_in(engine: Engine, segment: uint64_t) -> list[RuleSet]:
    """Return the rules whose records stand in `segment`."""
    rules: RuleSet
    return [] if engine.rules is None else [rules for rules in engine.rules.all() if rules.segment == segment]


def schedules_in(engine: Engine, segment: uint64_t, after: bytes) -> tuple[list[bytes], bytes]:
    """Return the names of schedules whose records stand in `segment`, of some behind a name, and the last of these.

    Empty: there is none behind.
    """
    schedule: Schedule
    found: list = []
    names: list = [] if engine.schedules is None else engine.schedules.names_after(after, SCHEDULES_AT_ONCE)
    for name in names:
        schedule = engine.schedules.named(name)
        if schedule.segment == segment:
            found.append(name)
    return found, names[-1] if names else b""


def paused_in(engine: Engine, segment: uint64_t) -> list[Tube]:
    """Return the tubes whose pauses stand in `segment`."""
    tube: Tube
    found: list = []
    for each in engine.tube_list:
        tube = each
        if tube.segment == segment:
            found.append(tube)
    return found


def group_pauses(engine: Engine) -> list[GroupPause]:
    """Return the pauses of all groups."""
    at: cython.Py_ssize_t
    heap: Heap = engine.group_pauses
    return [] if heap is None else [cython.cast(GroupPause, heap.entries[at].item) for at in range(heap.count)]


def place_of(pause: GroupPause) -> tuple[bytes, bytes]:
    """Return by what the pauses of groups are sorted."""
    return pause.tube, pause.group
