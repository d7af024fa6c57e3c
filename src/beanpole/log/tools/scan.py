"""The search for records in a segment that may be damaged.

A record counts when its checksum is right and it is one that the server could have written. The cheap half of that
comes first, so that a search through bytes that are no records stays fast.
"""

import cython
from cython.cimports.beanpole.log.endian import get_u32
from cython.cimports.beanpole.log.format import DELETED_RECORD, FRAME, TURN_RECORD, Kind
from cython.cimports.beanpole.log.reader import Record, Verdict, fixed_bytes, read_record
from cython.cimports.libc.stdint import uint32_t

from beanpole.log.reader import Header


@cython.cfunc
@cython.exceptval(check=False)
def counts(
    at: cython.p_const_uchar,
    left: cython.Py_ssize_t,
    salt: uint32_t,
    version: cython.int,
    record: cython.pointer(Record),
) -> cython.bint:
    """Whether a record that counts stands at the start of `left` bytes, be it one that this program doesn't know."""
    verdict: Verdict = read_record(at, left, salt, version, record)
    return verdict == Verdict.GOOD or verdict == Verdict.UNKNOWN


def find_salt(data: bytes, before: Header) -> int:
    """Return the salt of a segment whose header is not good, given the header of the segment before.

    Turn records name it, but a body may hold forged ones. So a salt is asked for that makes good what no client writes:
    the record behind the header, or the END record. Where both are damaged, the one that most turn records name is
    taken, unless any record is good with that of the segment before.
    """
    record: Record
    at: cython.p_const_uchar = data
    i: cython.Py_ssize_t
    salt: uint32_t
    version: cython.int = before.version
    header_bytes: cython.Py_ssize_t = before.size
    end: cython.Py_ssize_t = len(data)
    named: dict = {}
    for i in range(end - TURN_RECORD + 1):
        if at[i + FRAME] == Kind.TURN:
            salt = get_u32(at + i + TURN_RECORD - 4)
            if counts(at + i, end - i, salt, version, cython.address(record)):
                named[salt] = named.get(salt, 0) + 1
    often: list = sorted(named, key=named.get, reverse=True)
    in_header: list = [get_u32(at + header_bytes - 8)] if end >= header_bytes else []
    # Behind END, and NEXT, are zeros, and each ends with some.
    used: cython.Py_ssize_t = len(data.rstrip(b"\0"))
    last: cython.Py_ssize_t
    for each in [*in_header, before.salt, *often]:
        salt = each
        if end >= header_bytes and counts(at + header_bytes, end - header_bytes, salt, version, cython.address(record)):
            return salt
        for last in range(max(used - DELETED_RECORD, header_bytes), min(used, end - DELETED_RECORD + 1)):
            if (at[last + FRAME] == Kind.END or at[last + FRAME] == Kind.NEXT) and counts(
                at + last, DELETED_RECORD, salt, version, cython.address(record)
            ):
                return salt
    if not often or next_record(data, 0, before) >= 0:
        return before.salt
    return often[0]


def next_record(data: bytes, start: cython.Py_ssize_t, header: Header) -> int:
    """Return where the next record that counts begins, at `start` or behind; -1: nowhere."""
    record: Record
    at: cython.p_const_uchar = data
    salt: uint32_t = header.salt
    version: cython.int = header.version
    end: cython.Py_ssize_t = len(data)
    i: cython.Py_ssize_t = start
    while i <= end - DELETED_RECORD:
        if (
            fixed_bytes(at[i + FRAME], version)
            and get_u32(at + i) <= cython.cast(uint32_t, end - i)
            and counts(at + i, end - i, salt, version, cython.address(record))
        ):
            return i
        i += 1
    return -1
