"""What the rule `breaker` knows of a tube: how its attempts ended of late, and whether it is closed for that.

It counts in two halves of the window that the rule names, so that it always looks back at least half a window and at
most a whole one, in 16 bytes. What it does to a tube is ``policies/breaker.py``'s business; whatever else is to have a
breaker, has one of these.
"""

import cython


@cython.no_gc
@cython.cclass
class Breaker:
    """The breaker of a tube. The fields stand in ``breaker.pxd``."""

    def open(self):
        """Start over: it is not closed, and has counted nothing."""
        self.ends = self.failures = self.earlier_ends = self.earlier_failures = 0
        self.half_ends_ns = self.probe_at_ns = 0
        self.probe_id = 0
