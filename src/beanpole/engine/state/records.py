"""Records: what is now true, as the log will want to know it. Not commands: replay is "the last record per job wins".

The engine calls one of these methods at each change that must survive a restart. This class only numbers them: it is
what an engine without a log is given. A log passes an engine its own subclass, which encodes the record at once into
the log's buffer: between two turns a job may be put, changed and deleted, and each of the three must be recorded as it
was.
"""

from typing import Any

import cython


@cython.cclass
class Records:
    """Numbers the records and keeps nothing."""

    def __init__(self, wants_reservations: cython.bint = False):
        self.wants_reservations = wants_reservations

    def job_put(self, job):
        """Record a new job, with its body."""
        self.index += 1
        return 0

    def job_changed(self, job):
        """Record a change to a job; its body never changes."""
        self.index += 1
        return 0

    def job_deleted(self, job):
        """Record that a job is gone."""
        self.index += 1
        return 0

    def job_reserved(self, job):
        """Record who holds a job and until when; called only where `wants_reservations` is set.

        A log that is replicated needs it: a leader that was deposed must not hand out a job that its successor handed
        out too. For a file, a reserved job is a ready one: after a restart it is.
        """
        self.index += 1
        return 0

    def attempt_begun(self, job):
        """Record that somebody has begun with a job whose attempts count; its tag says which attempt that is.

        A log of files writes it with the turn, but nobody waits until it is durable (`loose`). Where there is no room
        it is left out: then only a crash during this attempt does not count.
        """
        return 0

    def job_kept(self, job, kept):
        """Record that a held job waits for its holder if that loses its connection, or that it does not any more.

        What else is recorded of a job ends that, so that a log says it again behind each such record. It is written as
        :meth:`attempt_begun` is: where there is no room, the job is ready after the next start.
        """
        return 0

    def event(self, kind: str, *values: Any) -> None:
        """Record what a job's and a tube's records don't say, by the name of the record's kind in the log's format."""
        self.index += 1

    def tube_changed(self, tube):
        """Record a tube's pause and its tags."""
        self.index += 1
        return 0

    def pause_ended(self, tube):
        """Note that a tube's pause has run out, which needs no record: its end was recorded with it."""
        return 0

    def job_restored(self, job):
        """Count a job that was read back; it lies in `job.segment` already."""
        return 0

    def job_dropped(self, job):
        """Count a job no more: what was read back says that it is deleted, or lies whole in a later segment."""
        return 0

    def tube_restored(self, tube):
        """Count a tube's record that was read back; it lies in `tube.segment` already."""
        return 0

    def tube_dropped(self, tube):
        """Count a tube's record no more, as :meth:`job_dropped` does a job's."""
        return 0

    def group_changed(self, pause):
        """Record the pause of a group, or that it has none any more."""
        self.index += 1
        return 0

    def group_restored(self, pause):
        """Count the record of a group's pause that was read back; it lies in `pause.segment` already."""
        return 0

    def group_dropped(self, pause):
        """Count the record of a group's pause no more: it has run out, or there is a later one."""
        return 0

    def rules_changed(self, rules):
        """Record the rules of a pattern."""
        self.index += 1
        return 0

    def rules_deleted(self, rules):
        """Record that the pattern of these rules has none."""
        self.index += 1
        return 0

    def rules_restored(self, rules):
        """Count the record of rules that was read back; it lies in `rules.segment` already."""
        return 0

    def rules_dropped(self, rules):
        """Count the record of rules no more: there is a later one of their pattern."""
        return 0

    def schedule_changed(self, schedule):
        """Record a schedule's document and its state."""
        self.index += 1
        return 0

    def schedule_deleted(self, schedule):
        """Record that there is no schedule of this name any more."""
        self.index += 1
        return 0

    def schedule_fired(self, schedule, job):
        """Record the new state of a schedule and the job that it has put, whole; None: it has put none.

        Both stand in one record: there is no moment at which a crash could take one of them alone.
        """
        self.index += 1
        return 0

    def schedule_restored(self, schedule):
        """Count the record of a schedule that was read back; it lies in `schedule.segment` already."""
        return 0

    def schedule_dropped(self, schedule):
        """Count the record of a schedule no more, as :meth:`rules_dropped` does that of rules."""
        return 0

    def once_noted(self, mark, token):
        """Record the token of a put that is done once, and what that was answered with."""
        self.index += 1
        return 0

    def job_put_once(self, job, mark, token):
        """Record a job, whole, and the token of the put that made it what it is.

        Both stand in one record: a crash takes both or neither, so that a token never names a job that nobody put.
        """
        self.index += 1
        return 0

    def once_restored(self, token):
        """Count the record of a token that was read back; it lies in `token.segment` already."""
        return 0

    def once_dropped(self, token):
        """Count the record of a token no more: it has ended, or there is a later one."""
        return 0

    def room_for_put(self, size):
        """Whether a job of `size` bytes of body, tags and name can be kept, or a schedule's document with its name.

        FULL: the put is refused with OUT_OF_MEMORY. WAIT: the put has not run, and runs again in the next turn, for
        nothing may wait for a disk while a command runs; the end of a turn makes room, or finds that there is none.
        """
        return Room.OK

    def room_for_change(self, size):
        """Whether a change of a job, a tube or rules can be kept; FULL and WAIT mean the same as for a put.

        `size` is the bytes of a job's tags, of a tube's tags and name, of rules and their pattern, or of the name of a
        schedule whose state changes.
        """
        return Room.OK

    def room_for_move(self, size):
        """Whether a job that a rule changes can be kept whole again; `size` as for a put.

        WAIT: there may be room in the next turn, and where nothing but the server's own doing needs it, it comes then.
        """
        return Room.OK

    def backlog_full(self):
        """Whether what hands out jobs must wait, as :meth:`room_for_put` says it, for too much is not written yet."""
        return False

    def room_for_timeout(self, size):
        """Whether it can be kept that a time to run has ended, which can't wait; else it is left out."""
        return True
