# The header of jobtable.py.
cimport cython
from libc.stdint cimport uint64_t

from beanpole.engine.job cimport Job

@cython.final
cdef class JobTable:
    cdef void **buckets                  # the first Job of each bucket, chained by Job.chained
    cdef readonly Py_ssize_t count       # jobs
    cdef uint64_t bucket_count
    cdef uint64_t mask                   # 2^n - 1, where 2^n <= bucket_count <= 2^(n+1)
    cdef Py_ssize_t capacity             # buckets allocated
    cdef uint64_t bucket(self, uint64_t id) noexcept
    cdef Job find(self, uint64_t id)
    cdef int add(self, Job job) except -1
    cdef int remove(self, Job job) except -1
    cdef int split(self) except -1
    cdef int merge(self) except -1
    cdef int resize(self, Py_ssize_t capacity) except -1
