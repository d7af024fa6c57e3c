"""Compaction: what is alive in the oldest segment moves to the end of the log, and the segment goes.

Files hold at the most twice the bytes of live jobs and pauses, and three segments: the one that is written, the next
one, and what one round of compaction lags behind. The oldest segment is always the next to go, whatever lives in it, so
no pinned job can keep the segments behind it, and the log needs no order but age.

A round: read the ids that the segment holds whole (in the background), write those jobs anew that still live in it
(some in each turn), and when that is durable remove the file (in the background) and sync the directory.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beanpole.engine.tube import Tube
from beanpole.log import limits
from beanpole.log.files.names import segment_name
from beanpole.log.format import DELETED_RECORD, END_RECORD, FIRST_RECORD, SEGMENT_HEADER, TURN_RECORD
from beanpole.log.moving import move_jobs, move_pauses, paused_in
from beanpole.log.reader import whole_ids

if TYPE_CHECKING:
    from beanpole.log.files.filelog import FileLog
    from beanpole.log.log import Segment

FRAME_BYTES = SEGMENT_HEADER + END_RECORD + FIRST_RECORD + 2 * TURN_RECORD
"""What compaction itself writes beside jobs: a segment's header and end, and the end of a turn or two."""


@dataclass(slots=True)
class Round:
    """The removal of one segment."""

    segment: "Segment"
    ids: list[int] | None = None
    """The jobs that it holds whole; None: they are being read."""

    at: int = 0
    """Ids that are dealt with."""

    tubes: list[Tube] | None = None
    """Those whose pauses it holds; None: not looked for, as jobs come first."""

    tubes_at: int = 0
    """Tubes that are dealt with."""

    moved_index: int | None = None
    """The last record that must be durable before the file goes; None: not everything is moved."""

    removing: bool = False


class Compaction:
    """Keeps the files of a log in proportion to what is alive in it."""

    def __init__(self, log: "FileLog") -> None:
        self.log = log
        self.round: Round | None = None
        self.scheduled = False
        self.moved_count = 0
        self.seen_bytes = 0
        """Bytes of the log up to which what was written had its share of compaction, or is compaction's own."""

    @property
    def wants_sync(self) -> bool:
        """Whether a removal waits for a sync that the policy would not make by itself."""
        return self.round is not None and self.round.moved_index is not None and not self.round.removing

    def is_due(self) -> bool:
        """Whether the oldest segment should go."""
        log = self.log
        dead_or_alive = log.sealed_bytes
        extra_spare = max(0, log.records.spare_bytes - log.segment_bytes)
        live = log.records.live_bytes
        if log.room.full:
            # Early: the dead bytes may lie in the newest segments, and changes have not much room until one goes.
            # But not for what is neither dead nor alive, or an idle log would turn over for ever.
            frames = len(log.sealed) * (
                FRAME_BYTES + FRAME_BYTES * log.segment_bytes // limits.COMPACTION_BYTES_PER_TURN
            )
            return dead_or_alive + log.records.used_bytes > live + frames + log.records.kept_free_bytes // 4
        if not log.sealed:
            return False
        if dead_or_alive <= live * limits.COMPACTION_WORTH_PERCENT // 100:
            return False
        return dead_or_alive + extra_spare > live * limits.COMPACTION_PERCENT // 100

    def step(self, log_bytes: int) -> None:
        """Do some of what is due, more when more was written; `log_bytes` is what this process ever wrote."""
        budget = limits.COMPACTION_BYTES_PER_TURN + limits.COMPACTION_BYTES_PER_BYTE * (log_bytes - self.seen_bytes)
        self.seen_bytes = log_bytes
        if self.round is None and self.is_due():
            self.begin()
        round_ = self.round
        if round_ is None or round_.ids is None or round_.moved_index is not None:
            return
        log = self.log
        number = round_.segment.number
        live_before, before = log.records.live_in(number), log.records.record_count
        if log.room.full and live_before and not log.room.make_room_for_round(live_before):
            return
        began_at = round_.at + round_.tubes_at
        kept = log.records.live_count * DELETED_RECORD
        round_.at = move_jobs(log.engine, log.records, number, round_.ids, round_.at, budget)
        if round_.at == len(round_.ids):
            if round_.tubes is None:
                round_.tubes = paused_in(log.engine, number)
            budget -= live_before - log.records.live_in(number)
            round_.tubes_at = move_pauses(log.records, number, round_.tubes, round_.tubes_at, budget)
            if round_.tubes_at == len(round_.tubes) and log.records.rest_behind(FIRST_RECORD) > kept:
                log.records.first(number + 1)
                round_.moved_index = log.records.index
        moved_bytes = live_before - log.records.live_in(number)
        log.records.moved_bytes += moved_bytes
        self.seen_bytes += moved_bytes
        self.moved_count += log.records.record_count - before
        if round_.at + round_.tubes_at > began_at or round_.moved_index is not None:
            self.schedule()

    def begin(self) -> None:
        """Begin with the oldest segment; on a full disk that may be the one in use."""
        if not self.log.sealed and not self.log.room.leave_segment():
            return
        oldest = self.log.sealed[0]
        self.round = Round(oldest)
        if self.log.records.live_in(oldest.number) == 0:
            self.round.ids = []
            return
        name = segment_name(oldest.number)
        self.run(lambda: whole_ids(self.log.directory.read(name)), self.ids_read)

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Do what takes long in the background; on a full disk at once, before changes use up the room that is left."""
        if not self.log.room.full:
            self.log.runner.background(work, done)
            return
        try:
            result = work()
        except OSError as error:
            result = error
        done(result)

    def ids_read(self, ids: list[int] | OSError) -> None:
        """Go on with what the segment holds."""
        if isinstance(ids, OSError):
            self.log.fail(ids)
        elif self.round is not None:
            self.round.ids = ids
            self.schedule()

    def schedule(self) -> None:
        """See to it that compaction goes on although no client writes."""
        if not self.scheduled:
            self.scheduled = True
            self.log.runner.soon(self.go_on)

    def go_on(self) -> None:
        """Append what compaction moves."""
        self.scheduled = False
        if not self.log.ended:
            self.log.append()
            self.synced()

    def synced(self) -> None:
        """Remove the segment when what moved out of it is durable."""
        round_ = self.round
        if round_ is None or round_.moved_index is None or round_.removing or self.log.closed:
            return
        # The segment behind must be durable too, were it only its header: it knows the next id.
        if self.log.synced.record >= round_.moved_index and self.log.synced.segment > round_.segment.number:
            number = round_.segment.number
            left = self.log.records.live_in(number)
            if left:
                # The file is not what was written. It does not go: a start may still find in it what we did not.
                self.log.fail(
                    OSError(errno.EIO, f"{left} bytes of jobs in {segment_name(number)} can't be found in it")
                )
                return
            round_.removing = True
            name = segment_name(round_.segment.number)
            self.run(lambda: self.remove(name), self.removed)

    def remove(self, name: str) -> None:
        """Remove a file for certain."""
        self.log.directory.unlink(name)
        self.log.directory.sync()

    def removed(self, error: OSError | None) -> None:
        """Forget the segment; go on with the next if it is due."""
        if error is not None:
            self.log.fail(error)
            return
        self.round = None
        self.log.sealed_bytes -= self.log.sealed.pop(0).used_bytes
        self.log.records.drop_first_segment()
        self.log.records.moved_bytes = 0
        self.log.room.ask_for_space()
        if self.is_due():
            self.schedule()
