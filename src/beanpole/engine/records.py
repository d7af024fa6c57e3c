"""Records: what is now true, as the log will want to know it. Not commands: replay is "the last record per job wins".

The engine calls one of these methods at each change that must survive a restart. This class only numbers them: it is
what an engine without a log is given. A log passes an engine its own subclass, which encodes the record at once into
the log's buffer: between two turns a job may be put, changed and deleted, and each of the three must be told as it was.
"""

import cython


@cython.cclass
class Records:
    """Numbers the records and keeps nothing."""

    def whole(self, job):
        """Tell a job that is new, with its body."""
        self.index += 1
        return 0

    def changed(self, job):
        """Tell everything of a job but its body, which can't change."""
        self.index += 1
        return 0

    def deleted(self, job):
        """Tell that a job is gone."""
        self.index += 1
        return 0

    def tube(self, tube):
        """Tell a tube's pause."""
        self.index += 1
        return 0

    def pause_over(self, tube):
        """Tell that a tube's pause is over because its time is: that needs no record."""
        return 0

    def room_for_put(self, size):
        """Whether a job of `size` bytes of body and name can be kept; if not, put is refused with OUT_OF_MEMORY."""
        return True

    def room_for_change(self):
        """Whether a change of a job or a tube can be kept; if not, the command is refused with OUT_OF_MEMORY."""
        return True
