"""A growable buffer in C memory: appended to at the end, consumed at the front.

It is a struct, so that what has one needs no other object. Who writes much checks the capacity before the call of
:func:`reserve`, which is for the rare case.
"""

import cython
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memcpy, memmove

FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 512)


def reserve(buffer, more):
    """Return where `more` bytes can be written; count them in `size` then. Raise MemoryError when there is no room."""
    if buffer.size + more > buffer.capacity and buffer.start * 2 >= buffer.size:
        # At least half is consumed: the rest moves to the front, so that who is always a little behind needs no more
        # memory than that, and each byte is moved only a few times.
        memmove(buffer.data, buffer.data + buffer.start, buffer.size - buffer.start)
        buffer.size -= buffer.start
        buffer.start = 0
    if buffer.size + more > buffer.capacity:
        capacity: cython.Py_ssize_t = max(buffer.capacity, FIRST_CAPACITY)
        while capacity < buffer.size + more:
            capacity *= 2
        grown = cython.cast(cython.p_char, realloc(buffer.data, capacity))
        if grown is cython.NULL:
            raise MemoryError
        buffer.data = grown
        buffer.capacity = capacity
    return buffer.data + buffer.size


def append(buffer, data, size):
    """Copy `size` bytes to the end."""
    memcpy(reserve(buffer, size), data, size)
    buffer.size += size
    return 0


def consume(buffer, size, capacity_kept):
    """Forget `size` bytes at the front; free the memory if nothing is left and it is more than `capacity_kept`."""
    buffer.start += size
    shrink(buffer, capacity_kept)


def shrink(buffer, capacity_kept):
    """Begin at the front again if nothing is left, and free the memory if it is more than `capacity_kept`."""
    if buffer.start == buffer.size:
        buffer.start = 0
        buffer.size = 0
        if buffer.capacity > capacity_kept:
            free(buffer.data)
            buffer.data = cython.NULL
            buffer.capacity = 0
