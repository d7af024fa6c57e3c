"""The room of a log: what the encoder asks for it, and what becomes of the answer when the disk is full.

Puts are refused when the room is short, and taken again when the disk has some. Everything else goes on: the room that
puts leave free is for it. On a full disk all make do with what is too little for a whole segment.
"""

from typing import TYPE_CHECKING

from beanpole.log import limits
from beanpole.log.files.disk import File
from beanpole.log.files.spares import NO_SPACE

if TYPE_CHECKING:
    from beanpole.log.files.filelog import FileLog


class Room:
    """Provides segments to a log, as far as the disk has space; the encoder's space."""

    def __init__(self, log: "FileLog") -> None:
        self.log = log
        self.records = log.records
        self.spares = log.spares
        self.full = False
        self.reason = ""
        """What the system said when it was full."""

        self.asking = False
        """Whether the disk is asked for space in a while."""

        self.exhausted = False
        """Whether the disk had not even a small segment when it was asked last."""

        self.preparing = False

    def roll(self, size: int) -> None:
        """Begin the next segment, which must take a record of `size` bytes."""
        self.log.roll(size)

    def begin(self) -> None:
        """Provide at a start, when nobody waits, what will be needed soon."""
        try:
            while self.records.wants_segment():
                self.spares.prepare()
        except OSError as error:
            if error.errno not in NO_SPACE:
                self.log.fail(error)
                raise
        self.records.make_room()

    def prepare_spare(self) -> None:
        """Prepare the next segment in the background when it will be needed: before puts need it, who wait for it."""
        if self.preparing or self.full or self.log.ended or not self.records.wants_segment():
            return
        self.preparing = True
        directory, name, size = self.spares.directory, self.spares.next_name(), self.spares.segment_bytes
        self.log.runner.background(lambda: directory.prepare(name, size), self.spare_prepared)

    def spare_prepared(self, file: File | OSError) -> None:
        """Take the spare that was prepared. No space is no failure: puts notice when they need it."""
        if isinstance(file, OSError):
            if file.errno not in NO_SPACE:
                self.log.fail(file)
            self.log.runner.later(limits.SPACE_RETRY_MS / 1000, self.prepare_again)
            return
        self.preparing = False
        if self.log.closed or not self.records.wants_segment():
            try:
                self.spares.discard(file)
            except OSError as error:
                self.log.fail(error)
        else:
            self.spares.add(file, self.spares.segment_bytes)
            self.ask_for_space()

    def prepare_again(self) -> None:
        """Allow another attempt, after one that found no space."""
        self.preparing = False

    def make_room(self, size: int, rest: int) -> bool:
        """Provide room for a record of `size` bytes and `rest` bytes of small ones; False: the disk is full.

        The encoder calls this when it runs short. A record that does not fit into the segment needs a spare that it
        fits into; the segment's end is lost then.
        """
        if self.log.failure is not None:
            return False
        try:
            if self.records.left() < size and not self.spares.fit(size):
                if self.full:
                    return False
                self.spares.create(size)
            while self.records.rest_behind(size) < rest:
                if self.full:
                    return False
                self.spares.create(0)
        except OSError as error:
            if error.errno not in NO_SPACE:
                self.log.fail(error)
                raise
            if self.log.runner.finish_background():
                return self.make_room(size, rest)  # a segment was being prepared or removed
            self.full = True
            self.reason = error.strerror or str(error)
            self.log.observer.log_full(self.reason)
            self.ask_later()
            return False
        return True

    def make_room_to_move(self, size: int) -> bool:
        """Provide room for a record of `size` bytes that compaction moves; False: the disk has none.

        On a full disk this takes what is too little for a whole segment.
        """
        records, spares = self.records, self.spares
        kept = records.kept_from_moves()
        try:
            if records.left() < size and not spares.fit(size) and not spares.create_part(size):
                spares.join_parts(size, kept)
            while records.rest_behind(size) < kept and self.take_part():
                pass
        except OSError as error:
            self.log.fail(error)
            raise
        return (records.left() >= size or spares.fit(size)) and records.rest_behind(size) >= kept

    def make_room_for_round(self, size: int) -> bool:
        """Provide room for `size` bytes of jobs that compaction moves, with what a full disk still has."""
        while not self.records.room_for_round(size):
            if not self.take_part():
                return False
        return True

    def leave_segment(self) -> bool:
        """Begin the next segment early, so that the one in use can be compacted; False: too little room is left.

        All that lives in it, and every job's delete, must find room in what is prepared: its own end is lost.
        """
        while self.records.spare_bytes < self.records.live_bytes + self.records.kept_from_moves():
            if not self.take_part():
                return False
        self.roll(0)
        return True

    def take_part(self) -> bool:
        """Prepare a segment of what a full disk has left, be it a small one; False: it has nothing."""
        if self.exhausted or self.log.failure is not None:
            return False
        try:
            self.exhausted = not self.spares.create_part(0)
        except OSError as error:
            self.log.fail(error)
            raise
        return not self.exhausted

    def ask_later(self) -> None:
        """Ask for space in a while."""
        if not self.asking:
            self.asking = True
            self.log.runner.later(limits.SPACE_RETRY_MS / 1000, self.try_for_space)

    def try_for_space(self) -> None:
        """See whether the disk has space again, and again in a while if not; puts resume when it has."""
        self.asking = False
        self.ask_for_space()
        if self.full and not self.log.ended:
            self.log.observer.log_full(self.reason)
            self.log.compaction.step(self.log.written_bytes + self.records.size)
            self.ask_later()

    def ask_for_space(self) -> None:
        """Take jobs again if the disk was full and has enough space for some."""
        self.exhausted = False
        if not self.full or self.log.ended:
            return
        try:
            self.spares.join_parts(0, self.records.kept_from_moves())
            while self.records.wants_segment() and self.take_part():
                pass
        except OSError as error:
            self.log.fail(error)
            return
        if self.records.wants_segment():
            return
        self.full = False
        self.log.observer.log_has_space()
        self.log.compaction.schedule()
