# Numbers in decimal, written into memory that has room for them. A header only: what is written is part of a longer text.
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef inline char *put_number(char *at, uint64_t number) noexcept:
    # Write a number in at most 20 digits; return where it ends.
    cdef char[20] digits
    cdef int first = 20
    if number < 10:
        at[0] = <char> (48 + number)
        return at + 1
    while number:
        first -= 1
        digits[first] = <char> (48 + number % 10)
        number //= 10
    memcpy(at, &digits[first], 20 - first)
    return at + (20 - first)
