# The header of keys.py.
cimport cython
from libc.stdint cimport uint32_t, uint64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.tube cimport Tube

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030E0000
    PyAPI_FUNC(Py_hash_t) _Py_HashBytes(const void *, Py_ssize_t);
    #define Py_HashBuffer _Py_HashBytes
    #endif
    """
    Py_hash_t Py_HashBuffer(const void *at, Py_ssize_t size) noexcept

cdef extern from "stdlib.h":
    void *aligned_alloc(size_t alignment, size_t size)

cdef struct Bucket:
    # A line of memory, so that a look at a bucket is one look at memory.
    Bucket *more                         # where those stand that have no place here; NULL: there is none
    uint64_t holders[7]                  # from the front: the pointer to a job, and above it bits of the hash; 0: none

@cython.final
cdef class KeyIndex:
    cdef Bucket **segments               # of BUCKETS_PER_SEGMENT
    cdef Py_ssize_t segment_count
    cdef readonly Py_ssize_t count       # holders
    cdef uint64_t bucket_count
    cdef uint64_t mask                   # 2^n - 1, where 2^n <= bucket_count <= 2^(n+1)
    cdef Bucket *at(self, uint64_t number) noexcept
    cdef uint64_t number_of(self, uint32_t mark) noexcept
    cdef Job find(self, Tube tube, const char *key, Py_ssize_t size, bint body)
    cdef Job find_marked(self, uint32_t mark, Tube tube, const char *key, Py_ssize_t size, bint body)
    cdef Job add(self, Job job)
    cdef int remove(self, Job job) except -1
    cdef int add_segment(self) except -1
    cdef int split(self) except -1
    cdef int merge(self) except -1

cdef const char *key_of(Job job, Py_ssize_t *size) noexcept
cdef bint is_body(Job job) noexcept
