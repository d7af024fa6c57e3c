# The header of records.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.job cimport Job
from beanpole.engine.tube cimport Tube

cdef class Records:
    cdef readonly uint64_t index         # records so far, over all turns
    cdef int whole(self, Job job) except -1
    cdef int changed(self, Job job) except -1
    cdef int deleted(self, Job job) except -1
    cdef int tube(self, Tube tube) except -1
    cdef int pause_over(self, Tube tube) except -1
    cdef bint room_for_put(self, int64_t size) except -1
    cdef bint room_for_change(self) except -1
