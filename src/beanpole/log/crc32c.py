"""CRC-32C, the checksum of iSCSI (RFC 3720, appendix B.4), over C memory.

By the processor's instruction where it has one. Else by eight tables, eight bytes a step (Kounavis and Berry, "A
Systematic Approach to Building High Performance Software-Based CRC Generators", 2005): about a byte a cycle on every
processor. The libraries of the name want a ``bytes`` object for each record.
"""

import cython
from cython.cimports.beanpole.log.crc32c_cpu import cpu_extend, cpu_has_it
from cython.cimports.libc.stdint import uint32_t

POLYNOMIAL = cython.declare(uint32_t, 0x82F63B78)
"""The polynomial 0x1EDC6F41, its bits in reverse."""

tables = cython.declare(uint32_t[2048])
"""Eight tables of 256 remainders, one behind the other."""


def fill_tables():
    """Compute the remainders of every byte at each of eight places."""
    remainder: uint32_t
    i: cython.int
    j: cython.int
    for i in range(256):
        remainder = i
        for j in range(8):
            remainder = (remainder >> 1) ^ (POLYNOMIAL if remainder & 1 else 0)
        tables[i] = remainder
    for i in range(256):
        for j in range(1, 8):
            tables[256 * j + i] = (tables[256 * (j - 1) + i] >> 8) ^ tables[tables[256 * (j - 1) + i] & 255]


fill_tables()

has_instruction = cython.declare(cython.bint, cpu_has_it())


def crc32c(data, size):
    """Return the checksum of `size` bytes."""
    return ~extend(0xFFFFFFFF, data, size)


def extend(remainder, data, size):
    """Return the remainder after `size` more bytes; it begins with all ones, and the checksum is its complement."""
    if has_instruction:
        return cpu_extend(remainder, data, size)
    return table_extend(remainder, data, size)


def table_extend(remainder, data, size):
    """Do that with the tables."""
    while size >= 8:
        remainder ^= (
            cython.cast(uint32_t, data[0])
            | cython.cast(uint32_t, data[1]) << 8
            | cython.cast(uint32_t, data[2]) << 16
            | cython.cast(uint32_t, data[3]) << 24
        )
        remainder = (
            tables[1792 + (remainder & 255)]
            ^ tables[1536 + ((remainder >> 8) & 255)]
            ^ tables[1280 + ((remainder >> 16) & 255)]
            ^ tables[1024 + (remainder >> 24)]
            ^ tables[768 + data[4]]
            ^ tables[512 + data[5]]
            ^ tables[256 + data[6]]
            ^ tables[data[7]]
        )
        data += 8
        size -= 8
    while size:
        remainder = (remainder >> 8) ^ tables[(remainder ^ data[0]) & 255]
        data += 1
        size -= 1
    return remainder


def checksum(data: bytes) -> int:
    return crc32c(data, len(data))


def table_checksum(data: bytes) -> int:
    """Return the same, as a processor without the instruction computes it."""
    return ~table_extend(0xFFFFFFFF, data, len(data)) & 0xFFFFFFFF
