# The header of expiryqueue.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.engine.state.heap cimport Timed
from beanpole.engine.state.job cimport Job

cdef struct Expiring:
    int64_t at_ns                        # when the job's time to wait is over
    void *job                            # the Job, borrowed: the table of jobs keeps it alive

@cython.final
cdef class ExpiryQueue(Timed):
    cdef Expiring *entries
    cdef readonly Py_ssize_t count       # jobs
    cdef Py_ssize_t capacity             # entries allocated
    cdef int add(self, Job job, int64_t at_ns) except -1
    cdef int remove(self, Job job) except -1
    cdef int64_t at_ns_of(self, Job job) noexcept
    cdef void put_at(self, Py_ssize_t hole, Expiring entry) noexcept
    cdef int resize(self, Py_ssize_t capacity) except -1
