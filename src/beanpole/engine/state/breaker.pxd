# The header of breaker.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

@cython.final
cdef class Breaker:
    # What was counted, of the half window that runs and of the one before.
    cdef readonly uint32_t ends          # attempts that ended
    cdef readonly uint32_t failures      # of these, those that failed
    cdef readonly uint32_t earlier_ends
    cdef readonly uint32_t earlier_failures
    cdef readonly int64_t half_ends_ns   # when the half window ends that runs, engine clock
    cdef readonly int64_t closed_at_ns   # when it closed, engine clock; of use only while `probe_at_ns` is not 0
    cdef readonly int64_t probe_at_ns    # from when on one job may be handed out, engine clock; 0: it is not closed
    cdef readonly uint64_t probe_id      # the job that is held as a probe; 0: none
    cdef void open(self) noexcept

cdef inline void count_end(Breaker breaker, int64_t now_ns, int64_t half_ns, bint failed) noexcept:
    # Count that an attempt has ended. Half windows begin at the multiples of their length.
    cdef int64_t began_ns
    if now_ns >= breaker.half_ends_ns:
        began_ns = now_ns - now_ns % half_ns
        breaker.earlier_ends = breaker.ends if began_ns == breaker.half_ends_ns else 0
        breaker.earlier_failures = breaker.failures if began_ns == breaker.half_ends_ns else 0
        breaker.ends = breaker.failures = 0
        breaker.half_ends_ns = began_ns + half_ns
    breaker.ends += 1
    breaker.failures += failed
