# The header of expiry.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue

cdef int give_expiry(Job job, int64_t duration_ns, int bits) except -1
cdef int begin_expiry(Job job, int64_t due_ns) except -1
cdef int take_expiry(Job job) except -1
cdef void count_expiry(Job job, int64_t due_ns) noexcept
cdef void stop_expiry(Job job) noexcept
cdef int64_t expiry_of(Job job) noexcept
cdef int follow_expiry(Queue queue, Job job) except -1
cdef bint dies_of_age(Job job) noexcept
