"""The log's clock: the wall clock of the log's first start, which goes on steadily when the wall clock is set.

The log mentions with the time how far the wall clock is ahead of it, the lead, so that the next start knows the time
from the wall clock. A wall clock that is set while no server runs can't be told from time that has passed. What is
known is that the log's clock never goes back. If a start finds the wall clock behind, then it is that clock which is
wrong, as after a boot without a battery, and will be put right: that must not count as a lead.
"""

from dataclasses import dataclass

Clock = tuple[int, int]
"""The log's clock, and the wall clock minus that, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class LogClock:
    """Reads the log's clock. All times are in nanoseconds."""

    offset_ns: int
    """The log's clock minus the engine's."""

    lead_ns: int
    """The lead that the log mentioned last."""

    behind_ns: int
    """How far the wall clock was behind at the start: by so much it may be put right without a lead."""

    def read(self, now_ns: int, wall_ns: int) -> Clock:
        """Return what to write, when the engine's clock is `now_ns` and the wall clock `wall_ns`."""
        log_ns = now_ns + self.offset_ns
        set_ns = wall_ns - log_ns - (self.lead_ns - self.behind_ns)
        if set_ns > 0:
            set_ns = max(0, set_ns - self.behind_ns)
        return log_ns, self.lead_ns + set_ns
