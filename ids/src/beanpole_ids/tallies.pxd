# The header of tallies.py.
cimport cython
from libc.stdint cimport int64_t

cdef class Tally:
    cdef bint has_room(self, tuple name, int64_t count, double now_s, double monotonic_s) except -1
    cdef int spend(self, tuple name, int64_t count, double now_s, double monotonic_s) except -1

@cython.final
cdef class Rate(Tally):
    cdef object limit                    # a `rules.limit.Limit`
    cdef double rate                     # numbers a second
    cdef int64_t burst                   # numbers that a full bucket has
    cdef double fill_s                   # seconds in which an empty bucket is filled
    cdef dict full_at_s                  # `dict[Name, float]` when a bucket is full, on the monotonic clock
    cdef dict older                      # the same; dropped when all of them are full
    cdef double drop_at_s                # when that is
    cdef double full(self, tuple name, double monotonic_s) except? -1
    cdef double wait_s(self, tuple name, int64_t count, double monotonic_s) except? -1

@cython.final
cdef class Quota(Tally):
    cdef object limit                    # a `rules.limit.Limit`, with a cycle
    cdef int64_t quota                   # numbers of a cycle
    cdef dict given                      # `dict[Name, int]` numbers of this cycle
    cdef int64_t end_s                   # when it ends, in Unix seconds
    cdef int64_t given_to(self, tuple name, double now_s) except? -1

@cython.final
cdef class Share:
    cdef Tally tally
    cdef bytes rule                      # the rule by which it counts; empty: it does not tell rules apart
    cdef bint is_each                    # whether it counts by application

@cython.final
cdef class Allowance:
    cdef list general                    # `list[Share]` what is about every application
    cdef dict by_app                     # `dict[bytes, list[Share]]` what is about one
    cdef readonly bint is_each           # whether a limit has a place for each application
    cdef list shares(self, bytes app)
    cdef bint has_room(self, bytes app, int64_t count, double now_s, double monotonic_s) except -1
    cdef int spend(self, bytes app, int64_t count, double now_s, double monotonic_s) except -1
