"""The log's clock: the wall clock of the log's first start, which goes on steadily when the wall clock is set.

The log mentions with the time how far the wall clock is ahead of it, the lead, so that the next start knows the time
from the wall clock. A wall clock that is set while no server runs can't be told from time that has passed. What is
known is that the log's clock never goes back. If a start finds the wall clock behind, then it is that clock which is
wrong, as after a boot without a battery, and will be put right: that must not count as a lead.
"""

import cython
from cython.cimports.libc.stdint import int64_t


@cython.cclass
class LogClock:
    """Reads the log's clock. The fields stand in ``clock.pxd``."""

    def __cinit__(self, offset_ns: int64_t, lead_ns: int64_t, behind_ns: int64_t):
        self.offset_ns = offset_ns
        self.lead_ns = lead_ns
        self.behind_ns = behind_ns

    def read(self, now_ns, wall_ns):
        """Return the log's clock and the wall clock's lead at the time `now_ns` of the engine's clock."""
        log_ns: int64_t = now_ns + self.offset_ns
        set_ns: int64_t = wall_ns - log_ns - (self.lead_ns - self.behind_ns)
        if set_ns > 0:
            set_ns = max(cython.cast(int64_t, 0), set_ns - self.behind_ns)
        return log_ns, self.lead_ns + set_ns
