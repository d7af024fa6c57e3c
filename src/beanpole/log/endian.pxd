# Numbers as little-endian bytes, wherever they lie.
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "<endian.h>" nogil:
    uint16_t htole16(uint16_t number)
    uint16_t le16toh(uint16_t number)
    uint32_t htole32(uint32_t number)
    uint64_t htole64(uint64_t number)
    uint32_t le32toh(uint32_t number)
    uint64_t le64toh(uint64_t number)

cdef inline uint16_t get_u16(const unsigned char *at) noexcept nogil:
    cdef uint16_t number
    memcpy(&number, at, 2)
    return le16toh(number)

cdef inline uint32_t get_u32(const unsigned char *at) noexcept nogil:
    cdef uint32_t number
    memcpy(&number, at, 4)
    return le32toh(number)

cdef inline uint64_t get_u64(const unsigned char *at) noexcept nogil:
    cdef uint64_t number
    memcpy(&number, at, 8)
    return le64toh(number)

# The writers return what is behind.

cdef inline unsigned char *put_u16(unsigned char *at, uint16_t number) noexcept nogil:
    number = htole16(number)
    memcpy(at, &number, 2)
    return at + 2

cdef inline unsigned char *put_u32(unsigned char *at, uint32_t number) noexcept nogil:
    number = htole32(number)
    memcpy(at, &number, 4)
    return at + 4

cdef inline unsigned char *put_u64(unsigned char *at, uint64_t number) noexcept nogil:
    number = htole64(number)
    memcpy(at, &number, 8)
    return at + 8
