"""How long jobs wait and are held, by tube and over all, and what else a server times of itself.

All of it counts since the process started, and nothing of it is kept in a log. What counts is in ``timing.pxd``, for
it happens with every job. A tube has times of its own from the first thing that is timed in it, while not too many
others have; the server's count every job besides, so that they never fall, whatever tube is forgotten.
"""

import cython
from cython.cimports.beanpole.engine.state.histogram import Histogram, Unit, scale_of, values_of

from beanpole.engine import limits

TUBES_TIMED_MAX = cython.declare(cython.Py_ssize_t, limits.TUBES_TIMED_MAX)


@cython.no_gc
@cython.cclass
class TubeTimes:
    """How long the jobs of a tube took. The fields stand in ``times.pxd``."""

    def counts(self, what: JobTime) -> tuple[int, ...]:
        """What was counted of one of these times at each place."""
        return values_of(scale_of(Unit.JOB_TIME), cython.address(self.jobs[cython.cast(cython.int, what)]))

    def sum(self, what: JobTime) -> int:
        """The sum of one of these times, in microseconds."""
        return self.jobs[cython.cast(cython.int, what)].sum


@cython.no_gc
@cython.cclass
class ServerTimes:
    """What is timed over all tubes, and of the server. The fields stand in ``times.pxd``."""

    def __cinit__(self):
        self.scale = scale_of(Unit.JOB_TIME)[0]
        self.reserve_wait = Histogram(Unit.JOB_TIME)
        self.turn = Histogram(Unit.TURN_TIME)
        self.turn_commands = Histogram(Unit.COMMANDS)
        self.sync = Histogram(Unit.TURN_TIME)

    def times_of_a_tube(self):
        """Return times for one more tube; None: too many have their own."""
        if self.tube_count >= TUBES_TIMED_MAX:
            return None
        self.tube_count += 1
        return TubeTimes()

    def counts(self, what: JobTime) -> tuple[int, ...]:
        """What was counted of one of the times of jobs at each place."""
        return values_of(cython.address(self.scale), cython.address(self.jobs[cython.cast(cython.int, what)]))

    def sum(self, what: JobTime) -> int:
        """The sum of one of the times of jobs, in microseconds."""
        return self.jobs[cython.cast(cython.int, what)].sum
