# The header of uniqueness.py.
from beanpole.engine.engine cimport Engine
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.tube cimport Tube

cdef Job key_holder(Engine engine, Tube tube, const char *key, Py_ssize_t size, bint body)
cdef Job rival(Engine engine, Tube tube, Job job)
cdef int give_key(Job job, const char *key, Py_ssize_t size, bint until_reserve) except -1
cdef int give_body_key(Job job, bint until_reserve) except -1
cdef int keep_key(Engine engine, Job job) except -1
cdef int forget_key(Engine engine, Job job) except -1
cdef int end_key(Engine engine, Job job, int bits) except -1
cdef bint may_return(Engine engine, Job job) except -1
cdef int settle(Engine engine) except -1
