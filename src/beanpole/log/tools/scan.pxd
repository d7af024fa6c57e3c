# The header of scan.py.
cimport cython

from libc.stdint cimport uint32_t

cdef Py_ssize_t sound(const unsigned char *at, Py_ssize_t left, uint32_t salt) noexcept
