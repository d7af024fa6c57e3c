# The header of schedule.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from beanpole.engine.state.heap cimport Heap, Item

cdef struct ScheduleState:
    # What changes of a schedule as it fires, as a log keeps it. Times are nanoseconds of UTC.
    int64_t next_ns                      # its next time; 0: nothing is left
    int64_t due_ns                       # when the job of that is put: later by the spread; 0: the next time is the first
                                         # behind `next_ns`, and not known yet, for its zone is missing
    int64_t last_ns                      # the last of its times that fired, was skipped or missed; 0: none since it was
                                         # set, or since a wrong clock was put right
    uint64_t fires                       # times that became jobs
    uint64_t skips                       # times that did not, for `overlap`, `key` or `unique` said no
    uint64_t misses                      # times that passed while nothing could fire
    uint64_t job                         # id of the job that was put last; 0: none was
    uint8_t paused

@cython.final
cdef class Schedule(Item):
    # As an Item, it stands in the heap of those that wait for their next time.
    cdef readonly bytes name
    cdef readonly bytes text             # its document, in its one form
    cdef object timing                   # `Timing | None`: its times; None: not known yet
    cdef bint is_read                    # the fields that follow are what the document says
    cdef bint overlap
    cdef bint catch_up
    cdef bint until_reserve
    cdef bytes tube
    cdef bytes key                       # b"": none
    cdef Py_ssize_t body_at              # where in the text the body begins
    cdef uint32_t pri
    cdef uint32_t ttr_s
    cdef int64_t delay_ns
    cdef int64_t expire_ns
    cdef int64_t late_ns
    cdef int64_t spread_ns               # by how much later than its times its jobs are put
    cdef readonly int64_t set_at_ns      # when the document was set, engine clock
    cdef ScheduleState state
    cdef readonly uint8_t level          # the least program that understands the document
    cdef bint zoneless                   # its next time is not known, for this machine has no data of its zone
    cdef readonly uint32_t record_bytes  # the size of that, as the log has booked it; 0: it has none
    cdef readonly uint64_t number        # how many were made before it; breaks ties
    cdef int read(self) except -1
    cdef int take(self, object document) except -1
    cdef int forget(self) except -1
    cdef object times(self)
    cdef bytes tube_name(self)

@cython.final
cdef class ScheduleTable:
    cdef dict by_name                    # name -> Schedule
    cdef readonly list names             # `list[bytes]`: all names in the order of their bytes
    cdef Heap heap                       # those that wait for their next time, by wall time, or when it is tried again
    cdef uint64_t made_count             # schedules ever
    cdef readonly Py_ssize_t paused_count
    cdef readonly uint64_t fire_count    # over all schedules, since the server began
    cdef readonly uint64_t skip_count
    cdef readonly uint64_t miss_count
    cdef readonly uint64_t clock_set_count   # how often a wrong wall clock was put right
    cdef Py_ssize_t zoneless_count
    cdef bint is_full                    # what is due has found no room in the log
    cdef int64_t latest_wall_ns          # the latest that the wall clock was since it was wrong
    cdef int64_t doubted_ns              # since when it has been far behind that, engine clock; 0: it is not
    cdef bytes computed                  # times up to this name are computed again; None: all are
    cdef Schedule named(self, bytes name)
    cdef Schedule add(self, bytes name, bytes text, int64_t set_at_ns, uint8_t level)
    cdef int drop(self, Schedule schedule) except -1
    cdef list names_after(self, bytes name, Py_ssize_t count)
    cdef int set_state(self, Schedule schedule, ScheduleState *state) except -1
    cdef int place(self, Schedule schedule) except -1
    cdef Py_ssize_t due_count(self, int64_t wall_ns) except -1
