# The buckets of a histogram; see histogram.py.
cimport cython

# 64 linear steps in each power of two, for every value below 2**63 (see histogram.py).

@cython.final
@cython.no_gc
cdef class Histogram:
    cdef readonly long long count
    cdef readonly long long total
    cdef readonly long long largest
    cdef unsigned long long counts[3776]
    cdef int add(self, long long value, long long times) noexcept
