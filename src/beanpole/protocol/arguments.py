"""The arguments of a command line, read where they lie.

Each function takes the bytes from `at` up to `end` and is as strict or as lenient as beanstalkd is in that place; the
sections of docs/protocol.md say how. Nothing here raises: what can't be read is the caller's ``BAD_FORMAT``.
"""

import cython
from cython.cimports.beanpole.protocol.commands import Shape, Verb
from cython.cimports.libc.stdint import UINT32_MAX, UINT64_MAX, int64_t, uint32_t, uint64_t

from beanpole import limits

TUBE_NAME_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TUBE_NAME_BYTES_MAX)
SECOND_NS = cython.declare(int64_t, 1_000_000_000)
MILLISECOND_NS = cython.declare(int64_t, 1_000_000)
MOMENT_S_MAX = cython.declare(uint64_t, limits.MOMENT_S_MAX)
RESERVE_TIMEOUT_S_MAX = cython.declare(uint32_t, limits.RESERVE_TIMEOUT_S_MAX)

NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()"
"""What a tube's name is made of; it does not start with a dash."""

name_byte = cython.declare(cython.bint[256])


def fill_name_bytes():
    """Copy the alphabet of names into C memory."""
    for byte in NAME_BYTES:
        name_byte[byte] = True


fill_name_bytes()


def read_u64(at, end, number):
    """Read a decimal number behind any spaces; return where it ended, or NULL: no digit, or 2^64 and more."""
    while at < end and at[0] == 32:
        at += 1
    first: cython.p_const_char = at
    value: uint64_t = 0
    digit: cython.uint
    while at < end:
        digit = cython.cast(cython.uint, at[0]) - 48
        if digit > 9:
            break
        if value >= UINT64_MAX // 10 and (value > UINT64_MAX // 10 or digit > UINT64_MAX % 10):
            return cython.NULL
        value = value * 10 + digit
        at += 1
    number[0] = value
    return cython.NULL if at == first else at


def read_u32(at, end, number):
    """Read like :func:`read_u64`; NULL for 2^32 and more as well."""
    value: uint64_t = 0
    at = read_u64(at, end, cython.address(value))
    if at is cython.NULL or value > UINT32_MAX:
        return cython.NULL
    number[0] = cython.cast(uint32_t, value)
    return at


def read_seconds(at, end, ns):
    """Read seconds like :func:`read_u32`, with one to three decimals if a point follows; NULL: there is no such number.

    beanstalkd takes whole seconds only: to it a point is a byte too many.
    """
    seconds: uint32_t = 0
    at = read_u32(at, end, cython.address(seconds))
    if at is cython.NULL:
        return cython.NULL
    ns[0] = cython.cast(int64_t, seconds) * SECOND_NS
    return read_decimals(at, end, ns)


def read_moment(at, end, ns):
    """Read seconds since 1970 like :func:`read_seconds`, but below 2^33: by 2106 a delay leads no further."""
    seconds: uint64_t = 0
    at = read_u64(at, end, cython.address(seconds))
    if at is cython.NULL or seconds > MOMENT_S_MAX:
        return cython.NULL
    ns[0] = cython.cast(int64_t, seconds) * SECOND_NS
    return read_decimals(at, end, ns)


def read_decimals(at, end, ns):
    """Add one to three decimals of a second if a point follows; return where they ended, or NULL: there is none."""
    if at == end or at[0] != 46:
        return at
    at += 1
    unit_ns: int64_t = SECOND_NS
    while at < end and 48 <= at[0] <= 57 and unit_ns > MILLISECOND_NS:
        unit_ns //= 10
        ns[0] += (at[0] - 48) * unit_ns
        at += 1
    return cython.NULL if unit_ns == SECOND_NS else at


def read_bound(at, end, bound):
    """Read a number as C's strtoul does and cut it to 32 bits; whatever follows is ignored. False: no number."""
    negative: cython.bint = False
    value: uint64_t = 0
    while at < end and (at[0] == 32 or 9 <= at[0] <= 13):
        at += 1
    if at < end and (at[0] == 43 or at[0] == 45):
        negative = at[0] == 45
        at += 1
    if at == end or at[0] < 48 or at[0] > 57:
        return False
    if read_u64(at, end, cython.address(value)) is cython.NULL:
        return False
    bound[0] = cython.cast(uint32_t, 0 - value if negative else value)
    return True


def is_name(at, end):
    """Whether all bytes up to `end` are a tube's name."""
    size: cython.Py_ssize_t = end - at
    if size == 0 or size > TUBE_NAME_BYTES_MAX or at[0] == 45:
        return False
    i: cython.Py_ssize_t
    for i in range(size):
        if not name_byte[cython.cast(cython.uchar, at[i])]:
            size = 0
            break
    return size != 0


def read_tube(command, at, end):
    """Take all bytes up to `end` as a tube's name; False: it is none."""
    if not is_name(at, end):
        return False
    command.tube_at = at
    command.tube_bytes = end - at
    return True


def read_pause(command, at, end):
    """Read ``<tube> <seconds>``. A bad name with a good number counts as a pause-tube all the same."""
    while at < end and at[0] == 32:
        at += 1
    name: cython.p_const_char = at
    while at < end and name_byte[cython.cast(cython.uchar, at[0])]:
        at += 1
    if at == name or read_seconds(at, end, cython.address(command.delay_ns)) != end:
        return False
    command.counted = Verb.PAUSE_TUBE
    return read_tube(command, name, at)


def read_ids(command, shape, at, end):
    """Read ``<id>``, ``<id> <pri>`` or ``<id> <pri> <delay>``, which must end the line."""
    at = read_u64(at, end, cython.address(command.id))
    if at is not cython.NULL and shape != Shape.ID:
        at = read_u32(at, end, cython.address(command.pri))
        if at is not cython.NULL and shape == Shape.ID_PRI_DELAY:
            at = read_seconds(at, end, cython.address(command.delay_ns))
    return at == end


def read_timeout(command, at, end):
    """Read the seconds of reserve-with-timeout; what follows the number is ignored, as in beanstalkd 1.13."""
    if read_u32(at, end, cython.address(command.timeout_s)) is cython.NULL:
        return False
    return command.timeout_s <= RESERVE_TIMEOUT_S_MAX


def read_arguments(command, shape, at, end):
    """Read what follows the verb, all but a put's; False: bad format."""
    if shape == Shape.BARE:
        return at == end
    if shape == Shape.ID or shape == Shape.ID_PRI or shape == Shape.ID_PRI_DELAY:
        return read_ids(command, shape, at, end)
    if shape == Shape.TUBE:
        return read_tube(command, at, end)
    if shape == Shape.TIMEOUT:
        return read_timeout(command, at, end)
    if shape == Shape.BOUND:
        return read_bound(at, end, cython.address(command.bound))
    if shape == Shape.TUBE_DELAY:
        return read_pause(command, at, end)
    return True
