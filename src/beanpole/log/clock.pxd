# The header of clock.py. All times are in nanoseconds.
cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class LogClock:
    cdef readonly int64_t offset_ns      # the log's clock minus the engine's
    cdef readonly int64_t lead_ns        # the lead that the log mentioned last
    cdef readonly int64_t behind_ns      # how far the wall clock was behind at the start: by so much it may be put right without a lead
    cpdef (int64_t, int64_t) read(self, int64_t now_ns, int64_t wall_ns) noexcept    # `tuple[int, int]`
