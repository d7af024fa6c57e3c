# The header of forms.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole_ids.hand cimport Hand
from beanpole_ids.tallies cimport Allowance

cdef enum:
    BLOCK_MAX = 32                       # texts of a block; they are lost when the second is over

@cython.final
cdef class Block:
    cdef Form form
    cdef int64_t time_s                  # the second that the texts show
    cdef bytes salt
    cdef uint64_t first                  # the number of the first text; the next ones are those of the counter
    cdef list texts                      # `list[bytes]` as JSON

@cython.final
cdef class Form:
    cdef object rule                     # a Rule
    cdef Allowance allowance             # what the limits say of it; None: none is about it
    cdef bint needs_proof                # whether an address that may be forged gets none, see `needs_proof`
    cdef int64_t epoch                   # see `Fast.epoch`
    cdef bint is_plain                   # whether C writes the numbers
    cdef bint is_timed                   # whether each request moves the counter with the clock
    cdef bint one_each                   # whether every number has taken one number of the counter so far
    cdef int64_t time_s                  # the second of the pieces; -1: none
    cdef int width                       # digits of the counter
    cdef bint salt_before                # whether the salt stands between the first two pieces
    cdef bint salt_after                 # whether it stands between the last two
    cdef bytes head                      # the pieces, as JSON: two before the counter, and two after it
    cdef bytes neck
    cdef bytes body
    cdef bytes tail
    cdef int prepare(self, int64_t time_s) except -1
    cdef Py_ssize_t size_of(self, Py_ssize_t salt_size) noexcept
    cdef Py_ssize_t size_behind(self, Py_ssize_t salt_size) noexcept
    cdef char *write(self, char *out, const char *salt, Py_ssize_t salt_size, uint64_t number) noexcept
    cdef bytes make_many(self, uint64_t first, uint64_t left, int64_t count, int64_t time_s, bytes salt, int64_t *used)
    cdef bytes make_one(self, Hand hand, uint64_t first, uint64_t left, int64_t time_s, bytes salt, int64_t *used)
    cdef tuple make_ahead(self, uint64_t first, uint64_t left, uint64_t size, int64_t time_s, bytes salt)
