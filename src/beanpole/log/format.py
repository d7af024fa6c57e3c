"""The log's format: records as bytes. docs/wal-format.md describes it byte by byte.

A record is ``length u32 | crc u32 | payload``; the CRC-32C covers the length and the payload, so that neither can lie.
It begins with a random number, the salt, so that nobody can put a body that is taken for records.
"""

import cython
from cython.cimports.beanpole.log.crc32c import crc32c, extend
from cython.cimports.beanpole.log.endian import get_u32, get_u64, put_u32, put_u64
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy, memset

MAGIC = b"BEANPOLE"
VERSION = 2


def record_crc(at, size, salt):
    """Return the checksum that a record of `size` bytes must have: over its length and its payload."""
    return ~extend(extend(~salt, at, 4), at + FRAME, size - FRAME)


def read_job(at, numbers):
    """Read a job's numbers; return what is behind."""
    numbers.id = get_u64(at)
    numbers.created_at_ns = get_u64(at + 8)
    numbers.deadline_at_ns = get_u64(at + 16)
    numbers.bury_order = get_u64(at + 24)
    numbers.pri = get_u32(at + 32)
    numbers.delay_s = get_u32(at + 36)
    numbers.ttr_s = get_u32(at + 40)
    numbers.reserve_count = get_u32(at + 44)
    numbers.timeout_count = get_u32(at + 48)
    numbers.release_count = get_u32(at + 52)
    numbers.bury_count = get_u32(at + 56)
    numbers.kick_count = get_u32(at + 60)
    numbers.state = at[64]
    return at + JOB_NUMBERS


def whole_bytes(job):
    """Return the size of a job's whole record."""
    return WHOLE_FIXED + len(job.tube.name) + job.body_bytes


def pause_bytes(tube):
    """Return the size of the record of a tube's pause."""
    return TUBE_FIXED + len(tube.name)


def segment_header(number: uint64_t, next_job_id: uint64_t, clock: tuple[int, int], salt: uint32_t) -> bytes:
    """Return the header of a segment; `clock` is (the log's clock, the wall clock's lead), in nanoseconds."""
    header: cython.uchar[56]
    log_ns: int64_t = clock[0]
    lead_ns: int64_t = clock[1]
    at: cython.p_uchar = header
    memset(at, 0, SEGMENT_HEADER)
    memcpy(at, cython.cast(cython.p_const_char, MAGIC), 8)
    put_u32(at + 8, VERSION)
    put_u32(at + 12, SEGMENT_HEADER)
    put_u64(at + 16, number)
    put_u64(at + 24, next_job_id)
    put_u64(at + 32, log_ns)
    put_u64(at + 40, lead_ns)
    put_u32(at + 48, salt)
    put_u32(at + 52, crc32c(at, 52))
    return at[:56]


def end_record(next_job_id: uint64_t, salt: uint32_t) -> bytes:
    """Return the END record that recovery puts where it cuts a segment."""
    record: cython.uchar[17]
    at: cython.p_uchar = record
    at[FRAME] = Kind.END
    put_u64(at + FRAME + 1, next_job_id)
    put_u32(at, END_RECORD - FRAME)
    put_u32(at + 4, record_crc(at, END_RECORD, salt))
    return at[:17]
