# The header of compaction.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.log.accounts cimport Accounts
from beanpole.log.encoder cimport Encoder

cdef class Compaction:
    cdef Engine engine
    cdef Encoder records
    cdef Accounts accounts
    cdef int64_t bytes_per_turn          # bytes that may be moved in a turn
    cdef int64_t bytes_per_byte          # bytes that may be moved besides for each byte that clients wrote
    cdef readonly uint64_t segment       # the segment that is being emptied; 0: none
    cdef readonly bint emptied           # everything is moved out of it
    cdef readonly uint64_t moved_index   # the last record that must be durable before it may go, when it is emptied
    cdef readonly uint64_t moved_count   # jobs, pauses, rules and schedules ever moved
    cdef list items                      # the ids of jobs that it holds whole, the names of schedules, tubes whose pauses it holds, and rules; None: not known yet
    cdef bint complete                   # whether no job or schedule of the segment is missing in them
    cdef Py_ssize_t tokens_left          # tokens, from the first on, that are still to be looked at; -1: all that there are
    cdef Py_ssize_t at                   # of these, those that are dealt with
    cdef int64_t seen_bytes              # bytes of the log up to which what was written had its share of compaction
    cdef uint64_t pass_end               # the newest segment when a pass over the log began; 0: none has
    cdef uint64_t pass_written           # records of clients when it began
    cdef uint64_t pass_index             # the last record when it began
    cdef uint64_t pass_moved             # moved_count when it began
    cdef int64_t left_dead_bytes         # the dead bytes that the last pass could not win back; 0: not known
    cpdef bint is_due(self, int64_t sealed_bytes, bint full) except -1
    cpdef bint step(self, bint at_once) except -1
    cdef bint move_some(self, int64_t budget, bint at_once) except -1
    cdef bint move_tokens(self, int64_t budget, bint at_once) except -1
    cdef object found(self, object item)
    cdef int64_t size_in_segment(self, object item) except -1
    cdef int move(self, object item) except -1
    cdef int write(self, object item) except -1
