# The header of forms.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole_ids.hand cimport Hand
from beanpole_ids.tallies cimport Allowance

cdef enum:
    BLOCK_MAX = 32                       # texts of a block that is made while a request waits

cdef char *put(char *out, bytes text) noexcept

@cython.final
cdef class Block:
    cdef readonly object rule            # the `Rule` that has made them
    cdef readonly int64_t time_s         # the second that the texts show
    cdef readonly list salts             # `list[bytes]`: that of each text; one: that of all
    cdef readonly list texts             # `list[str]`
    cdef readonly object uses            # `list[int]`: how many numbers of the counter each took; None: one
    cdef readonly object error           # why there is none for the first number; None: there is
    cdef uint64_t first                  # the first number of the text at `place`
    cdef readonly Py_ssize_t place       # texts that are handed out already
    cdef public int64_t given            # numbers of its second that were handed out
    cdef public bint asked               # whether further ones are being made, or can't be
    cdef int64_t count                   # how many numbers the request wanted for which there is an error
    cdef uint64_t step
    cdef Py_ssize_t find(self, uint64_t first, int64_t count, int64_t time_s, bytes salt, object rule) except -2
    cdef int64_t used(self, Py_ssize_t place, int64_t count) except -1

@cython.final
cdef class Form:
    cdef object rule                     # a Rule
    cdef Allowance allowance             # what the limits say of it; None: none is about it
    cdef bint needs_proof                # whether an address that may be forged gets none, see `needs_proof`
    cdef int64_t epoch                   # see `Fast.epoch`
    cdef bint is_shared                  # whether all applications share one counter
    cdef object apps                     # `frozenset[bytes]` those that get numbers; None: all
    cdef bint is_plain                   # whether C writes the numbers
    cdef bint is_timed                   # whether each request moves the counter with the clock
    cdef bint is_lua                     # whether another process makes its texts
    cdef int64_t time_s                  # the second of the pieces; -1: none
    cdef int width                       # digits of the counter
    cdef bint salt_before                # whether the salt stands between the first two pieces
    cdef bint salt_after                 # whether it stands between the last two
    cdef bytes head                      # the pieces, as JSON: two before the counter, and two after it
    cdef bytes neck
    cdef bytes body
    cdef bytes tail
    cdef bint takes(self, bytes app) except -1
    cdef int prepare(self, int64_t time_s) except -1
    cdef Py_ssize_t size_of(self, Py_ssize_t salt_size) noexcept
    cdef Py_ssize_t size_behind(self, Py_ssize_t salt_size) noexcept
    cdef char *write(self, char *out, const char *salt, Py_ssize_t salt_size, uint64_t number) noexcept
    cdef bytes make(
        self, Hand hand, uint64_t first, uint64_t left, int64_t count, bint is_list, int64_t time_s, bytes salt,
        int64_t *used
    )
    cdef bint is_low(self, Hand hand) except -1
