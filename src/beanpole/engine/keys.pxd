# The header of keys.py.
cimport cython
from libc.stdint cimport uint32_t, uint64_t

from beanpole.engine.job cimport Job
from beanpole.engine.tube cimport Tube

cdef struct Holder:
    # A job that holds its key.
    void *job
    uint32_t next                        # the slot of the next one in its bucket, or of the next free slot; 0: none
    uint32_t hash

@cython.final
cdef class KeyIndex:
    cdef Holder **blocks                 # of SLOTS_PER_BLOCK; slot 0 is never used
    cdef uint32_t slot_count             # slots that were ever used
    cdef uint32_t free_slot              # the first free one of them; 0: none
    cdef uint32_t *buckets               # the slot of the first holder of each bucket; 0: none
    cdef readonly Py_ssize_t count       # holders
    cdef uint64_t bucket_count
    cdef uint64_t mask                   # 2^n - 1, where 2^n <= bucket_count <= 2^(n+1)
    cdef Py_ssize_t capacity             # buckets allocated
    cdef Holder *at(self, uint32_t slot) noexcept
    cdef uint64_t bucket(self, uint32_t mark) noexcept
    cdef Job find(self, Tube tube, const char *key, Py_ssize_t size)
    cdef int add(self, Job job) except -1
    cdef int remove(self, Job job) except -1
    cdef uint32_t take_slot(self) except 0
    cdef int free_blocks(self) noexcept
    cdef int split(self) except -1
    cdef int merge(self) except -1
    cdef int resize(self, Py_ssize_t capacity) except -1

cdef const char *key_of(Job job, Py_ssize_t *size) noexcept
