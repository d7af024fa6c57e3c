# The header of scan.py.
cimport cython

cdef Py_ssize_t sound(const unsigned char *at, Py_ssize_t left) noexcept
