# The header of times.py.
cimport cython
from beanpole.engine.state.histogram cimport Bins, Histogram, Scale

cpdef enum JobTime:
    # What is timed of each job.
    TIME_READY = 0                       # from when it became ready until somebody reserved it
    TIME_HELD                            # from then until it was in nobody's hands
    TIME_LATE                            # from when a delay was over by itself until somebody reserved it
    JOB_TIME_COUNT

@cython.final
cdef class TubeTimes:
    cdef Bins[3] jobs                    # by JobTime

@cython.final
cdef class ServerTimes:
    cdef Bins[3] jobs                    # by JobTime: of all jobs of all tubes, those that are gone among them
    cdef Scale scale                     # of these and of those of the tubes, here for it is looked at with every job
    cdef readonly Histogram reserve_wait # from a reserve until its job, of those that got one
    cdef readonly Histogram turn         # microseconds of a turn
    cdef readonly Histogram turn_commands
    cdef readonly Histogram sync         # from when a log begins to make something durable until it is
    cdef readonly Py_ssize_t tube_count  # tubes that have times of their own
    cdef TubeTimes times_of_a_tube(self)
