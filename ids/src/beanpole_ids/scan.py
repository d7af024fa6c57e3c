"""The requests that nearly all clients send, read in C: a flat JSON object that can be echoed without a change.

Its strings have no escapes and no control characters and are UTF-8 (RFC 3629), its integers fit into 64 bits, no key
comes twice, and nothing follows it. Whatever differs is no such object, and `original.wire` reads it. So both agree
on every object that is read here. Pure: pointers into the datagram, nothing is allocated.
"""

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memcmp

from beanpole_ids import limits

SALT_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.SALT_BYTES_MAX)
COUNT_MAX = cython.declare(int64_t, limits.COUNT_MAX)
COUNT_DIGITS_MAX = cython.declare(cython.Py_ssize_t, len(str(limits.COUNT_MAX)))

CODE = cython.declare(cython.p_const_char, b"code")
DATA = cython.declare(cython.p_const_char, b"data")
MESSAGE = cython.declare(cython.p_const_char, b"message")
ZERO = cython.declare(cython.p_const_char, b"0")
SUCCESS = cython.declare(cython.p_const_char, b"success")
NOTHING = cython.declare(cython.p_const_char, b"")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def byte(at: cython.p_const_char) -> cython.uchar:
    return cython.cast(cython.uchar, at[0])


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def past_space(at: cython.p_const_char, end: cython.p_const_char) -> cython.p_const_char:
    """The end of the white space that begins here."""
    while at < end and (byte(at) == 32 or byte(at) == 10 or byte(at) == 13 or byte(at) == 9):
        at += 1
    return at


@cython.cfunc
@cython.exceptval(check=False)
def utf8_size(at: cython.p_const_char, end: cython.p_const_char) -> cython.Py_ssize_t:
    """How many bytes the character has that begins here and is not of ASCII; 0: it is not UTF-8 (RFC 3629, 4)."""
    first: cython.uchar = byte(at)
    low: cython.uchar = 0x80
    high: cython.uchar = 0xBF
    size: cython.Py_ssize_t = 2
    if first < 0xC2 or first > 0xF4:
        return 0
    if first >= 0xF0:
        size = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    elif first >= 0xE0:
        size = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F  # what follows are halves of pairs of UTF-16
    if end - at < size or byte(at + 1) < low or byte(at + 1) > high:
        return 0
    i: cython.Py_ssize_t
    for i in range(2, size):
        if byte(at + i) & 0xC0 != 0x80:
            return 0
    return size


@cython.cfunc
@cython.exceptval(check=False)
def text_end(at: cython.p_const_char, end: cython.p_const_char) -> cython.p_const_char:
    """The quote that ends the string whose text begins here; NULL: there is none, or it is not as it is echoed."""
    size: cython.Py_ssize_t
    while at < end:
        if byte(at) == 0x22:
            return at
        if byte(at) < 0x20 or byte(at) == 0x5C:
            break
        if byte(at) < 0x80:
            at += 1
            continue
        size = utf8_size(at, end)
        if size == 0:
            break
        at += size
    return cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def whole_end(at: cython.p_const_char, end: cython.p_const_char) -> cython.p_const_char:
    """The end of the integer that begins here; NULL: it is none, or is not written as it is echoed."""
    start: cython.p_const_char = at + 1 if byte(at) == 0x2D else at
    digits: cython.p_const_char = start
    while start < end and 0x30 <= byte(start) <= 0x39:
        start += 1
    if start == digits or start - digits > WHOLE_DIGITS_MAX:
        return cython.NULL
    if byte(digits) == 0x30 and (start - digits > 1 or digits > at):
        return cython.NULL
    return start


@cython.cfunc
@cython.exceptval(check=False)
def read_value(at: cython.p_const_char, end: cython.p_const_char, field: cython.pointer(Field)) -> cython.p_const_char:
    """Read the value that begins here, and return its end; NULL: it is not flat, or is not as it is echoed."""
    field.value = at
    found: cython.p_const_char = cython.NULL
    if byte(at) == 0x22:
        field.kind = Kind.TEXT
        field.value = at + 1
        found = text_end(at + 1, end)
        if found is not cython.NULL:
            field.value_size = found - field.value
            return found + 1
        return cython.NULL
    if byte(at) == 0x2D or 0x30 <= byte(at) <= 0x39:
        field.kind = Kind.WHOLE
        found = whole_end(at, end)
    else:
        field.kind = Kind.WORD
        if end - at >= 4 and (memcmp(at, b"true", 4) == 0 or memcmp(at, b"null", 4) == 0):
            found = at + 4
        elif end - at >= 5 and memcmp(at, b"false", 5) == 0:
            found = at + 5
    if found is not cython.NULL:
        field.value_size = found - at
    return found


def scan(data, size, fields):
    """Read an object, and return how many fields it has; -1: it is left to Python, as are those with none."""
    at: cython.p_const_char = data
    end: cython.p_const_char = data + size
    count: cython.int = 0
    if size == 0 or byte(at) != 0x7B:
        return -1
    while count < FIELDS_MAX:
        at = past_space(at + 1, end)  # after the brace, or a comma
        if at >= end or byte(at) != 0x22:
            return -1
        fields[count].key = at + 1
        at = text_end(at + 1, end)
        if at is cython.NULL:
            return -1
        fields[count].key_size = at - fields[count].key
        at = past_space(at + 1, end)
        if at >= end or byte(at) != 0x3A:
            return -1
        at = past_space(at + 1, end)
        if at >= end:
            return -1
        at = read_value(at, end, cython.address(fields[count]))
        if at is cython.NULL:
            return -1
        count += 1
        at = past_space(at, end)
        if at >= end:
            return -1
        if byte(at) == 0x7D:
            return count if past_space(at + 1, end) == end else -1
        if byte(at) != 0x2C:
            return -1
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def order(a: cython.pointer(Field), b: cython.pointer(Field)) -> cython.Py_ssize_t:
    """Below 0 if the key of `a` comes before that of `b`, above if after it, 0 if both are the same."""
    found: cython.int = memcmp(a.key, b.key, min(a.key_size, b.key_size))
    return found if found != 0 else a.key_size - b.key_size


def sort(fields, count):
    """Put fields in the order of the bytes of their keys; return whether each key is there once. Most come in order."""
    i: cython.Py_ssize_t
    hole: cython.Py_ssize_t
    field: Field
    which: cython.Py_ssize_t
    for i in range(1, count):
        field = fields[i]
        hole = i
        while hole > 0:
            which = order(cython.address(fields[hole - 1]), cython.address(field))
            if which == 0:
                return False
            if which < 0:
                break
            fields[hole] = fields[hole - 1]
            hole -= 1
        fields[hole] = field
    return True


# --- Requests for numbers ---------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_text(at: cython.p_const_char, size: cython.Py_ssize_t, text: bytes) -> cython.bint:
    return size == PyBytes_GET_SIZE(text) and memcmp(at, PyBytes_AS_STRING(text), size) == 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_key(field: cython.pointer(Field), key: bytes) -> cython.bint:
    return is_text(field.key, field.key_size, key)


@cython.cfunc
@cython.exceptval(check=False)
def read_count(field: cython.pointer(Field)) -> int64_t:
    """How many numbers are wanted; 0: it is not a number from 1 to 1000."""
    if field.kind != Kind.WHOLE or field.value_size > COUNT_DIGITS_MAX or field.value[0] == 0x2D:
        return 0
    count: int64_t = 0
    i: cython.Py_ssize_t
    for i in range(field.value_size):
        count = count * 10 + field.value[i] - 48
    return count if count <= COUNT_MAX else 0


@cython.cfunc
@cython.exceptval(check=False)
def read_field(asked: cython.pointer(Asked), field: cython.pointer(Field)) -> cython.bint:
    """Note what a field is for; return False if it is one that makes the request not simple."""
    if is_key(field, b"rule_name"):
        asked.rule = field
        return field.kind == Kind.TEXT
    if is_key(field, b"app_name"):
        asked.app = field
        return field.kind == Kind.TEXT
    if is_key(field, b"request_id"):
        asked.id = field
        return field.kind != Kind.WORD
    if is_key(field, b"salt"):
        asked.salt = asked.salt_text = field
        return field.kind == Kind.TEXT and field.value_size <= SALT_BYTES_MAX
    if is_key(field, b"count"):
        asked.count_field = field
        asked.count, asked.is_list = read_count(field), True
        return asked.count > 0
    if is_key(field, b"action"):
        asked.action = field
        return is_text(field.value, field.value_size, b"get") or is_text(field.value, field.value_size, b"create")
    if is_key(field, b"cookie"):
        asked.cookie = field
        return field.kind == Kind.TEXT
    return not (is_key(field, b"code") or is_key(field, b"data") or is_key(field, b"message"))


def clear(asked):
    """Begin with a request for one number that says nothing else."""
    asked.head = cython.NULL
    asked.action = asked.rule = asked.app = asked.salt = asked.salt_text = cython.NULL
    asked.id = asked.count_field = asked.cookie = cython.NULL
    asked.count, asked.is_list, asked.field_count = 1, False, 0


def read(asked, data, size):
    """Read a request, and put the fields of its answer in order; return whether it is simple."""
    clear(asked)
    found: cython.Py_ssize_t = scan(data, size, asked.fields)
    if found < 0:
        return False
    own: cython.pointer(Field) = asked.fields + found
    own[0].key, own[0].key_size = CODE, 4
    own[0].kind, own[0].value, own[0].value_size = Kind.WHOLE, ZERO, 1
    own[1].key, own[1].key_size = DATA, 4
    own[1].kind, own[1].value, own[1].value_size = Kind.WORD, NOTHING, 0
    own[2].key, own[2].key_size = MESSAGE, 7
    own[2].kind, own[2].value, own[2].value_size = Kind.TEXT, SUCCESS, 7
    asked.field_count = found + 3
    if not sort(asked.fields, asked.field_count):
        return False
    i: cython.Py_ssize_t
    field: cython.pointer(Field)
    for i in range(asked.field_count):
        field = asked.fields + i
        if field.key == DATA:
            asked.data_place = i
        elif field.key != CODE and field.key != MESSAGE and not read_field(asked, field):
            return False
    return asked.action is not cython.NULL and asked.rule is not cython.NULL and asked.app is not cython.NULL
