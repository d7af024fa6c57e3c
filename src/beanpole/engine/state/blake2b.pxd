# The header of blake2b.py.
from libc.stdint cimport uint64_t

cdef void digest(const uint64_t *data, uint64_t size, uint64_t *found) noexcept
