# The header of crc32c.py.
from libc.stdint cimport uint32_t

cdef uint32_t crc32c(const unsigned char *data, Py_ssize_t size) noexcept nogil
cdef uint32_t extend(uint32_t remainder, const unsigned char *data, Py_ssize_t size) noexcept nogil
cdef uint32_t table_extend(uint32_t remainder, const unsigned char *data, Py_ssize_t size) noexcept nogil
