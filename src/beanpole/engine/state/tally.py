"""What is counted for the statistics beyond beanstalkd's, of a tube or of the whole engine.

Few tubes count anything here, so a tube has no place for it: the engine keeps a tally for those that do, for as long as
they live.
"""

import cython

KEYS = {
    Count.EXPIRED: "jobs-expired",
    Count.DEAD: "jobs-dead",
    Count.MOVED_IN: "jobs-moved-in",
    Count.MOVED_OUT: "jobs-moved-out",
    Count.CLEARED: "jobs-cleared",
    Count.REPLACED: "jobs-replaced",
    Count.MERGED: "puts-merged",
    Count.PUTS_REFUSED: "puts-refused",
}
"""What the statistics call each count, in their order."""


@cython.no_gc
@cython.cclass
class Tally:
    """Some counts."""

    def add(self, count, number):
        """Count as many more."""
        self.counts[cython.cast(cython.int, count)] += number
        return 0

    def pairs(self) -> list[tuple[str, object]]:
        """Return the counts with their keys."""
        return [(key, self.counts[cython.cast(cython.int, count)]) for count, key in KEYS.items()]
