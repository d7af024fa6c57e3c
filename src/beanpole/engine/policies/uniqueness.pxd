# The header of uniqueness.py.
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.tube cimport Tube

cdef Job key_holder(Queue queue, Tube tube, const char *key, Py_ssize_t size, bint body)
cdef Job rival(Queue queue, Tube tube, Job job)
cdef int give_key(Job job, const char *key, Py_ssize_t size, bint until_reserve) except -1
cdef int give_body_key(Job job, bint until_reserve) except -1
cdef int keep_key(Queue queue, Job job) except -1
cdef int forget_key(Queue queue, Job job) except -1
cdef int end_key(Queue queue, Job job, int bits) except -1
cdef bint may_return(Queue queue, Job job) except -1
cdef int settle(Queue queue) except -1
