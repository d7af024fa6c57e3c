"""The lines of extensions: a verb, words by their place, then options as ``name=value`` in any order.

Exactly one space stands between them, numbers have no sign, and what is unknown, doubled, empty or wrong makes the
whole line a ``BAD_FORMAT``: nothing that a client asked for is dropped in silence. Nothing here raises.
"""

import re

import cython
from cython.cimports.beanpole.protocol.arguments import is_name, read_moment, read_seconds, read_u32, read_u64
from cython.cimports.beanpole.protocol.extensions import FORMAT_BITS, Arguments, Field, Kind, bit
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memchr, memcmp, memset

from beanpole import limits
from beanpole.protocol import limits as protocol_limits
from beanpole.protocol.commands import EXTENSION_VERBS
from beanpole.protocol.extensions import EXTENSIONS, FIELD_NAMES, KIND_NAMES, format_of

KEY_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.KEY_BYTES_MAX)
SESSION_NAME_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.SESSION_NAME_BYTES_MAX)
META_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.META_BYTES_MAX)
META_PAIRS_MAX = cython.declare(cython.int, protocol_limits.META_PAIRS_MAX)
KEEP_S_MAX = cython.declare(uint32_t, protocol_limits.KEEP_S_MAX)
ONCE_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.ONCE_BYTES_MAX)
ONCE_S_MAX = cython.declare(uint32_t, protocol_limits.ONCE_S_MAX)
TOKEN_BYTES = cython.declare(cython.Py_ssize_t, protocol_limits.TOKEN_BYTES)
FRAMES_MAX = cython.declare(uint32_t, protocol_limits.FRAMES_MAX)
RESERVE_TIMEOUT_S_MAX = cython.declare(uint64_t, limits.RESERVE_TIMEOUT_S_MAX)
SECOND_NS = cython.declare(uint64_t, 1_000_000_000)

ROW_COUNT = cython.declare(cython.int, len(EXTENSIONS))
rows = cython.declare(ExtensionRow[255])
names = cython.declare("const char *[64]")  # the names of options, by Kind
fields = cython.declare("const char *[8]")  # what list-jobs can be asked for, by Field
SIZES = (Kind.BYTES, Kind.TEXT_BYTES, Kind.RULES_BYTES, Kind.DOCUMENT_BYTES)


def fill_rows():
    """Copy the table of extensions into C memory."""
    for kind, name in KIND_NAMES.items():
        names[cython.cast(cython.int, kind)] = name
    for field, name in FIELD_NAMES.items():
        fields[cython.cast(cython.int, field)] = name
    assert len(EXTENSIONS) <= 255, "the table of extensions outgrew its C copy"
    for i, (text, words, options) in enumerate(EXTENSIONS):
        rows[i].text = text
        rows[i].text_bytes = len(text)
        rows[i].verb = EXTENSION_VERBS[text]
        rows[i].format = format_of(text)
        rows[i].size_word = -1
        rows[i].word_count = len(words)
        for j, kind in enumerate(words):
            rows[i].words[cython.cast(cython.int, j)] = kind
            if kind in SIZES:
                rows[i].size_word = j
        rows[i].option_count = len(options)
        for j, kind in enumerate(options):
            rows[i].options[cython.cast(cython.int, j)] = kind
            rows[i].option_formats[cython.cast(cython.int, j)] = format_of(text + b"." + KIND_NAMES[kind])


fill_rows()


def find_extension(at, end, served):
    """Return the row of the extension whose verb is the whole first word from `at` up to `end`; NULL: it is none.

    Only those count that are served: by a format of a cluster's log, and the bits of ACCESS_FORMATS that are added.
    """
    i: cython.int
    for i in range(ROW_COUNT):
        row: cython.pointer(ExtensionRow) = cython.address(rows[i])
        if (
            (row.format <= (served & FORMAT_BITS) or row.format & served & ~FORMAT_BITS)
            and row.text_bytes <= end - at
            and memcmp(row.text, at, row.text_bytes) == 0
            and (row.text_bytes == end - at or at[row.text_bytes] == 32)
        ):
            return row
    return cython.NULL


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def word_end(at: cython.p_const_char, end: cython.p_const_char) -> cython.p_const_char:
    """Return where the word that begins at `at` ends."""
    space = cython.cast(cython.p_const_char, memchr(at, 32, end - at))
    return end if space is cython.NULL else space


def read_size(row, at, end, size):
    """Read the size of the body alone; `at` is behind the verb. False: it is not there, or no size."""
    i: cython.int
    for i in range(row.size_word + 1):
        if at == end or at[0] != 32:
            return False
        at += 1
        stop: cython.p_const_char = word_end(at, end)
        if i == row.size_word:
            return at < stop and read_u32(at, stop, size) == stop
        at = stop
    return False


def read_extension(row, at, end, args, served):
    """Read what follows the verb, up to the end of the line. Only options that are served with a format count."""
    memset(args, 0, cython.sizeof(Arguments))
    i: cython.int
    stop: cython.p_const_char
    for i in range(row.word_count):
        stop = first_option(at, end) if row.words[i] == Kind.RESTING_STATES else end
        if row.words[i] == Kind.RESTING_STATES and at == stop:
            break
        if at == end or at[0] != 32:
            return False
        at += 1
        if not takes_rest(row.words[i]):
            stop = word_end(at, end)
        if at == stop or not read_value(row.words[i], at, stop, args):
            return False
        at = stop
    while at < end:
        at += 1
        stop = word_end(at, end)
        if not read_option(row, at, stop, args, served):
            return False
        at = stop
    return True


@cython.cfunc
@cython.exceptval(check=False)
def first_option(at: cython.p_const_char, end: cython.p_const_char) -> cython.p_const_char:
    """Return the space before the first option behind some words, which begin at one as well; none: the end."""
    sign = cython.cast(cython.p_const_char, memchr(at, 61, end - at))
    if sign is cython.NULL:
        return end
    while sign > at and sign[0] != 32:
        sign -= 1
    return sign


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def takes_rest(kind: Kind) -> cython.bint:
    """Whether a word is the rest of the line, up to its options."""
    return kind == Kind.IDS or kind == Kind.RESTING_STATES or kind == Kind.NAME


@cython.cfunc
@cython.exceptval(check=False)
def read_option(
    row: cython.pointer(ExtensionRow),
    at: cython.p_const_char,
    end: cython.p_const_char,
    args: cython.pointer(Arguments),
    served: cython.int,
) -> cython.bint:
    """Read ``name=value``."""
    sign = cython.cast(cython.p_const_char, memchr(at, 61, end - at))
    if sign is cython.NULL or sign + 1 == end:
        return False
    i: cython.int
    for i in range(row.option_count):
        kind: Kind = row.options[i]
        name: cython.p_const_char = names[cython.cast(cython.int, kind)]
        if row.option_formats[i] <= served and is_word(name, at, sign):
            return not args.given & bit(kind) and read_value(kind, sign + 1, end, args)
    return False


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_word(text: cython.p_const_char, at: cython.p_const_char, end: cython.p_const_char) -> cython.bint:
    """Whether the bytes up to `end` are this text."""
    while at < end and text[0] != 0 and text[0] == at[0]:
        text += 1
        at += 1
    return at == end and text[0] == 0


@cython.cfunc
@cython.exceptval(check=False)
def read_value(
    kind: Kind, at: cython.p_const_char, end: cython.p_const_char, args: cython.pointer(Arguments)
) -> cython.bint:
    """Read one value, which has a byte at least and must end at `end`."""
    args.given |= bit(kind)
    if at[0] == 32:  # which numbers of old commands may begin with
        return False
    if kind == Kind.ID:
        return read_u64(at, end, cython.address(args.id)) == end
    if kind == Kind.AFTER:
        return read_u64(at, end, cython.address(args.after)) == end
    if kind == Kind.IDS:
        return read_ids(at, end, args)
    if kind == Kind.PRI:
        return read_u32(at, end, cython.address(args.pri)) == end
    if kind == Kind.BODIES:
        return read_u32(at, end, cython.address(args.bodies)) == end
    if kind == Kind.TTR:
        if read_u32(at, end, cython.address(args.ttr_s)) != end:
            return False
        args.ttr_s = max(args.ttr_s, 1)
        return True
    if kind == Kind.BYTES or kind == Kind.TEXT_BYTES or kind == Kind.RULES_BYTES or kind == Kind.DOCUMENT_BYTES:
        size: uint32_t = 0
        if read_u32(at, end, cython.address(size)) != end:
            return False
        args.body_bytes = size
        return True
    if kind == Kind.COUNT or kind == Kind.LIMIT or kind == Kind.BOUND:
        if read_u32(at, end, cython.address(args.count)) != end:
            return False
        return kind == Kind.BOUND or (args.count <= FRAMES_MAX and (args.count > 0 or kind == Kind.COUNT))
    if kind == Kind.KEEP:
        return read_u32(at, end, cython.address(args.count)) == end and args.count <= KEEP_S_MAX
    if kind == Kind.FOR:
        return read_u32(at, end, cython.address(args.once_s)) == end and 0 < args.once_s <= ONCE_S_MAX
    if kind == Kind.DELAY or kind == Kind.SECONDS:
        return read_seconds(at, end, cython.address(args.delay_ns)) == end
    if kind == Kind.AT:
        return read_moment(at, end, cython.address(args.at_ns)) == end
    if kind == Kind.WITHIN:
        return read_seconds(at, end, cython.address(args.within_ns)) == end
    if kind == Kind.EXPIRE:
        return read_seconds(at, end, cython.address(args.expire_ns)) == end
    if kind == Kind.TIMEOUT:
        if read_seconds(at, end, cython.address(args.timeout_ns)) != end:
            return False
        return cython.cast(uint64_t, args.timeout_ns) <= RESERVE_TIMEOUT_S_MAX * SECOND_NS
    return read_text(kind, at, end, args)


@cython.cfunc
@cython.exceptval(check=False)
def read_text(
    kind: Kind, at: cython.p_const_char, end: cython.p_const_char, args: cython.pointer(Arguments)
) -> cython.bint:
    """Read one value that is not a number."""
    if kind == Kind.TUBE or kind == Kind.SCHEDULE or kind == Kind.PATTERN:
        args.tube_at = at
        args.tube_bytes = end - at
        return is_pattern(at, end) if kind == Kind.PATTERN else is_name(at, end)
    if kind == Kind.TO:
        args.to_at = at
        args.to_bytes = end - at
        return is_name(at, end)
    if kind == Kind.AFTER_TUBE or kind == Kind.AFTER_SCHEDULE or kind == Kind.AFTER_PATTERN:
        args.after_at = at
        args.after_bytes = end - at
        return is_pattern(at, end) if kind == Kind.AFTER_PATTERN else is_name(at, end)
    if kind == Kind.KEY:
        args.key_at = at
        args.key_bytes = end - at
        return is_key(at, end)
    if kind == Kind.GROUP:
        args.group_at = at
        args.group_bytes = end - at
        return is_key(at, end)
    if kind == Kind.ONCE:
        args.once_at = at
        args.once_bytes = end - at
        return end - at <= ONCE_BYTES_MAX and is_key(at, end)
    if kind == Kind.META:
        args.meta_at = at
        args.meta_bytes = end - at
        return is_meta(at, end)
    if kind == Kind.NAME:
        args.key_at = at
        args.key_bytes = end - at
        return is_label(at, end)
    if kind == Kind.TAKEN:
        args.replace = is_word(b"replace", at, end)
        return args.replace or is_word(b"keep", at, end)
    if kind == Kind.UNTIL:
        args.until_reserve = is_word(b"reserve", at, end)
        return args.until_reserve or is_word(b"delete", at, end)
    if kind == Kind.TOKEN:
        args.key_at = at
        args.key_bytes = end - at
        return is_token(at, end)
    if kind == Kind.ENDS:
        return is_word(b"all", at, end)
    if kind == Kind.DEAD:
        return is_word(b"now", at, end)
    if kind == Kind.SAME:
        return args.count > 0 and is_word(b"same", at, end)
    if kind == Kind.GROUP_ORDER:
        args.by_held = is_word(b"held", at, end)
        return args.by_held or is_word(b"ready", at, end)
    if kind == Kind.SWITCH:
        args.on = is_word(b"on", at, end)
        return args.on or is_word(b"off", at, end)
    if kind == Kind.ORDER:
        return is_word(b"next", at, end)
    if kind == Kind.FIELDS:
        return read_fields(at, end, args)
    if kind == Kind.STATE or kind == Kind.RESTING_STATE:
        args.states = state_bit(at, end)
        return args.states != 0 and (kind == Kind.STATE or args.states != RESERVED_BIT)
    return kind == Kind.RESTING_STATES and read_states(at, end, args)


@cython.cfunc
@cython.exceptval(check=False)
def is_pattern(at: cython.p_const_char, end: cython.p_const_char) -> cython.bint:
    """Whether the bytes are a tube's name, a beginning of one with ``*`` behind it, or ``*``."""
    if end[-1] != 42:
        return is_name(at, end)
    return end - at == 1 or is_name(at, end - 1)


@cython.cfunc
@cython.exceptval(check=False)
def is_key(at: cython.p_const_char, end: cython.p_const_char) -> cython.bint:
    """Whether the bytes can be the key of a job: no spaces, no control characters."""
    if end - at > KEY_BYTES_MAX:
        return False
    while at < end and cython.cast(cython.uchar, at[0]) > 32 and at[0] != 127:
        at += 1
    return at == end


@cython.cfunc
@cython.exceptval(check=False)
def is_meta(at: cython.p_const_char, end: cython.p_const_char) -> cython.bint:
    """Whether the bytes are headers: names, each with ``:`` and its value behind, which may be empty; ``,`` between."""
    if end - at > META_BYTES_MAX:
        return False
    pairs: cython.int = 0
    while pairs < META_PAIRS_MAX:
        pairs += 1
        comma = cython.cast(cython.p_const_char, memchr(at, 44, end - at))
        stop: cython.p_const_char = end if comma is cython.NULL else comma
        colon = cython.cast(cython.p_const_char, memchr(at, 58, stop - at))
        if colon is cython.NULL or colon == at or not is_escaped(at, stop):
            return False
        if stop == end:
            return True
        at = stop + 1
    return False


@cython.cfunc
@cython.exceptval(check=False)
def is_escaped(at: cython.p_const_char, end: cython.p_const_char) -> cython.bint:
    """Whether the bytes are printable ASCII without spaces, and each ``%`` has two hex digits behind it."""
    while at < end:
        if not 33 <= at[0] <= 126:
            return False
        if at[0] == 37:
            if end - at < 3 or not is_hex(at[1]) or not is_hex(at[2]):
                return False
            at += 2
        at += 1
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_hex(byte: cython.char) -> cython.bint:
    return 48 <= byte <= 57 or 65 <= byte <= 70 or 97 <= byte <= 102


@cython.cfunc
@cython.exceptval(check=False)
def is_token(at: cython.p_const_char, end: cython.p_const_char) -> cython.bint:
    """Whether the bytes are a session's token: hex digits, small letters."""
    if end - at != TOKEN_BYTES:
        return False
    while at < end and (48 <= at[0] <= 57 or 97 <= at[0] <= 102):
        at += 1
    return at == end


CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")


@cython.cfunc
@cython.exceptval(check=False)
def is_label(at: cython.p_const_char, end: cython.p_const_char) -> cython.bint:
    """Whether the bytes can be what a session is called: UTF-8 without control characters."""
    if end - at > SESSION_NAME_BYTES_MAX:
        return False
    try:
        return CONTROL.search(at[: end - at].decode("utf-8")) is None
    except UnicodeDecodeError:
        return False


@cython.cfunc
@cython.exceptval(check=False)
def read_ids(at: cython.p_const_char, end: cython.p_const_char, args: cython.pointer(Arguments)) -> cython.bint:
    """Check ids with one space between them; who needs them reads them once more, where they lie."""
    id: uint64_t = 0
    args.ids_at = at
    args.ids_bytes = end - at
    while True:
        if at == end or at[0] == 32:
            return False
        at = read_u64(at, end, cython.address(id))
        if at is cython.NULL:
            return False
        args.id_count += 1
        if at == end:
            return True
        if at[0] != 32:
            return False
        at += 1


@cython.cfunc
@cython.exceptval(check=False)
def read_fields(at: cython.p_const_char, end: cython.p_const_char, args: cython.pointer(Arguments)) -> cython.bint:
    """Read names of fields, each once, with a comma between them."""
    while True:
        comma = cython.cast(cython.p_const_char, memchr(at, 44, end - at))
        stop: cython.p_const_char = end if comma is cython.NULL else comma
        field: cython.int = 0
        while field < Field.FIELD_COUNT and not is_word(fields[field], at, stop):
            field += 1
        if field == Field.FIELD_COUNT or args.fields >> field & 1:
            return False
        args.fields |= 1 << field
        if stop == end:
            return True
        at = stop + 1


RESERVED_BIT = cython.declare(uint8_t, 2)  # the bit of a job's state RESERVED


@cython.cfunc
@cython.exceptval(check=False)
def state_bit(at: cython.p_const_char, end: cython.p_const_char) -> uint8_t:
    """Return the bit of a state by its name, 0 if it is none."""
    if is_word(b"ready", at, end):
        return 1
    if is_word(b"reserved", at, end):
        return RESERVED_BIT
    if is_word(b"delayed", at, end):
        return 4
    return 8 if is_word(b"buried", at, end) else 0


@cython.cfunc
@cython.exceptval(check=False)
def read_states(at: cython.p_const_char, end: cython.p_const_char, args: cython.pointer(Arguments)) -> cython.bint:
    """Read states of jobs that nobody holds, each once, with one space between them."""
    while True:
        stop: cython.p_const_char = word_end(at, end)
        state: uint8_t = state_bit(at, stop)
        if state == 0 or state == RESERVED_BIT or args.states & state:
            return False
        args.states |= state
        if stop == end:
            return True
        at = stop + 1
