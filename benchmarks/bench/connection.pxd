# The fields of the load generator's connections and groups; see connection.py.
cimport cython
from libc.stdint cimport uint64_t
from benchmarks.bench.histogram cimport Histogram
from beanpole.protocol.replies cimport ReplyBuffer
from beanpole.protocol.wire cimport ReplyReader

@cython.final
cdef class GroupState:
    cdef readonly object group           # `Group`
    cdef readonly Histogram latencies
    cdef readonly list connections       # `list[Connection]`
    cdef bytes programme
    cdef bytes puts
    cdef bytes reserves
    cdef long long body_bytes
    cdef int in_flight
    cdef long long held
    cdef Py_ssize_t put_bytes
    cdef Py_ssize_t reserve_bytes
    cdef int word_with_id                # the Word of the replies whose ids are deleted later

@cython.final
cdef class Connection:
    cdef object sock
    cdef GroupState state
    cdef ReplyReader reader
    cdef int fd
    cdef int index
    # The batch under way.
    cdef int step
    cdef int letter
    cdef int batch
    cdef int expected
    cdef int replies_left
    cdef const char *out
    cdef Py_ssize_t out_size
    cdef Py_ssize_t out_sent
    cdef bint wants_write
    cdef long long sent_at_ns
    # Its own text, for batches that differ each time.
    cdef ReplyBuffer text
    # A ring of the ids that it may delete, the oldest at ids_first.
    cdef uint64_t *ids
    cdef Py_ssize_t ids_capacity
    cdef Py_ssize_t ids_first
    cdef Py_ssize_t ids_count
    # The tubes that it names in turn.
    cdef list tubes
    cdef Py_ssize_t tube_at

    cdef void keep_id(self, uint64_t job_id) noexcept
    cdef int deletable(self) noexcept
    cdef int write_deletes(self, int count) except -1
    cdef int write_use(self) except -1
    cdef int send_text(self) except -1
