"""The way of nearly every request, in C: find its counter, take numbers that are reserved, write the answer.

It stands before `service`, whose way it shortens: what is not simple (`serve` returns 0) goes there, and both answer
with the same bytes. It knows a rule and an application after `service` has answered them once (`learn`), until a
reload (`forget`). Numbers are taken when the answer is written and fits: a request that fails before takes none. After
that nothing can fail but to remember the answer for a repetition, and then the numbers are a gap.
"""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcmp, memcpy

from beanpole_ids import limits
from beanpole_ids.forms import Form
from beanpole_ids.hand import Hand
from beanpole_ids.origin import Origin
from beanpole_ids.tallies import Allowance
from beanpole_ids.window import name_of

REQUEST_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.REQUEST_BYTES_MAX)
REPLY_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.REPLY_BYTES_MAX)
SALT_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.SALT_BYTES_MAX)
COUNT_MAX = cython.declare(int64_t, limits.COUNT_MAX)
COUNT_DIGITS_MAX = cython.declare(cython.Py_ssize_t, len(str(limits.COUNT_MAX)))
NAMES_MAX = cython.declare(cython.Py_ssize_t, limits.COUNTERS_MAX)
UNPROVEN_FACTOR = cython.declare(cython.Py_ssize_t, limits.UNPROVEN_FACTOR)

PAIRS_TEXT = "".join(f"{each:02}" for each in range(100)).encode()
PAIRS = cython.declare(cython.p_const_char, PAIRS_TEXT)

CODE = cython.declare(cython.p_const_char, b"code")
DATA = cython.declare(cython.p_const_char, b"data")
MESSAGE = cython.declare(cython.p_const_char, b"message")
ZERO = cython.declare(cython.p_const_char, b"0")
SUCCESS = cython.declare(cython.p_const_char, b"success")
NOTHING = cython.declare(cython.p_const_char, b"")
"""Where no bytes are copied from: NULL is not allowed there either (C11, 7.24.1)."""


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_text(at: cython.p_const_char, size: cython.Py_ssize_t, text: bytes) -> cython.bint:
    """Whether a text is another."""
    return size == PyBytes_GET_SIZE(text) and memcmp(at, PyBytes_AS_STRING(text), size) == 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_key(field: cython.pointer(Field), key: bytes) -> cython.bint:
    """Whether a field has a key."""
    return is_text(field.key, field.key_size, key)


@cython.cfunc
@cython.inline
def text_of(field: cython.pointer(Field)) -> bytes:
    """The value of a field."""
    return PyBytes_FromStringAndSize(field.value, field.value_size)


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
        asked.salt = field
        return field.kind == Kind.TEXT and field.value_size <= SALT_BYTES_MAX
    if is_key(field, b"count"):
        asked.count_field = field
        asked.count = read_count(field)
        return asked.count > 0
    if is_key(field, b"action"):
        asked.action = field
        return is_text(field.value, field.value_size, b"get") or is_text(field.value, field.value_size, b"create")
    if is_key(field, b"cookie"):
        asked.cookie = field
        return field.kind == Kind.TEXT
    return not (is_key(field, b"code") or is_key(field, b"data") or is_key(field, b"message"))


@cython.cfunc
@cython.exceptval(check=False)
def read(asked: cython.pointer(Asked), data: cython.p_const_char, size: cython.Py_ssize_t) -> cython.bint:
    """Read a request, and put the fields of its answer in order; return whether it is simple."""
    asked.action = asked.rule = asked.app = asked.salt = asked.id = asked.count_field = asked.cookie = cython.NULL
    asked.count = 1
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
        if field.key != CODE and field.key != DATA and field.key != MESSAGE and not read_field(asked, field):
            return False
    return asked.action is not cython.NULL and asked.rule is not cython.NULL and asked.app is not cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def size_besides(asked: cython.pointer(Asked)) -> cython.Py_ssize_t:
    """How long the answer is without the numbers."""
    size: cython.Py_ssize_t = 1 + 4 * asked.field_count
    i: cython.Py_ssize_t
    for i in range(asked.field_count):
        size += asked.fields[i].key_size + asked.fields[i].value_size
        if asked.fields[i].kind == Kind.TEXT:
            size += 2
    return size


@cython.cfunc
@cython.exceptval(check=False)
def put_fields(
    asked: cython.pointer(Asked), at: cython.p_char, start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.p_char:
    """Write fields of the answer, each with what stands before it, and return where they end. Data has no value."""
    i: cython.Py_ssize_t
    field: cython.pointer(Field)
    for i in range(start, end):
        field = asked.fields + i
        at[0] = 0x2C if i > 0 else 0x7B
        at[1] = 0x22
        memcpy(at + 2, field.key, field.key_size)
        at += 2 + field.key_size
        at[0] = 0x22
        at[1] = 0x3A
        at += 2
        if field.kind == Kind.TEXT:
            at[0] = 0x22
            at += 1
        memcpy(at, field.value, field.value_size)
        at += field.value_size
        if field.kind == Kind.TEXT:
            at[0] = 0x22
            at += 1
    return at


@cython.cfunc
@cython.exceptval(check=False)
def put_numbers(
    at: cython.p_char, form: Form, asked: cython.pointer(Asked), first: uint64_t, step: int64_t
) -> cython.p_char:
    """Write the numbers of a plain template, and return where they end."""
    salt: cython.p_const_char = NOTHING
    salt_size: cython.Py_ssize_t = 0
    if asked.salt is not cython.NULL:
        salt, salt_size = asked.salt.value, asked.salt.value_size
    if asked.count_field is cython.NULL:
        return form.write(at, salt, salt_size, first)
    at[0] = 0x5B
    at = form.write(at + 1, salt, salt_size, first)
    i: int64_t
    if form.width >= LOW_DIGITS:
        at = put_following(at, form, asked.count - 1, first, step, salt_size)
    else:
        for i in range(1, asked.count):
            at[0] = 0x2C
            at = form.write(at + 1, salt, salt_size, first + cython.cast(uint64_t, i * step))
    at[0] = 0x5D
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def put_following(
    at: cython.p_char, form: Form, count: int64_t, first: uint64_t, step: int64_t, salt_size: cython.Py_ssize_t
) -> cython.p_char:
    """Write the numbers that follow one whose text ends here, and return where they end.

    Each is a copy of a text with other low digits. It is not that of the number before it: to read what was just
    written byte by byte makes the processor wait.
    """
    size: cython.Py_ssize_t = form.size_of(salt_size)
    behind: cython.Py_ssize_t = form.size_behind(salt_size)
    text: cython.p_char = at - size
    low: int64_t = cython.cast(int64_t, first % LOW)
    value: int64_t
    carry: int64_t
    digit: cython.p_char
    for _ in range(count):
        at[0] = 0x2C
        memcpy(at + 1, text, size)
        at += 1 + size
        digit = at - behind - LOW_DIGITS
        low += step
        if low >= LOW:
            carry = low // LOW
            low -= carry * LOW
            text = at - size
            while carry:
                digit -= 1
                value = carry + digit[0] - 48
                carry = value // 10
                digit[0] = cython.cast(cython.char, 48 + value - 10 * carry)
            digit = at - behind - LOW_DIGITS
        memcpy(digit, PAIRS + 2 * (low // 100), 2)
        memcpy(digit + 2, PAIRS + 2 * (low % 100), 2)
    return at


@cython.cclass
class Fast:
    """What is known of rules and applications, and the requests for them."""

    def __init__(
        self,
        counts: dict[str, int],
        waiting: dict[Any, Any],
        window: Any,
        counters: Any,
        allowance: Callable[[str], Allowance | None],
        texts: Any,
    ) -> None:
        self.counts = counts
        self.waiting = waiting
        self.window = window
        self.counters = counters
        self.loaded = counters.loaded
        self.allowance = allowance
        self.texts = texts
        self.room = cython.cast(cython.p_char, malloc(REPLY_BYTES_MAX))
        if self.room is cython.NULL:
            raise MemoryError
        self.forget()

    def __dealloc__(self):
        free(self.room)

    # --- What is known ------------------------------------------------------------------------------------------------

    def learn(self, rule: Any, app_name: str, hand: Hand) -> None:
        """Serve this rule (a `rules.rule.Rule`) and application from now on, with this counter, which is loaded."""
        form: Form = self.forms.get(hand.key.rule)
        if form is None or form.rule is not rule:
            form = Form(rule, self.epoch, self.allowance(rule.name))
            self.forms[hand.key.rule] = form
        app: bytes = app_name.encode("utf-8", "surrogatepass")
        is_known: cython.bint = hand.form is form
        if rule.shared and is_known:
            is_known = app in self.shared.get(hand.key.rule, ())
        if is_known:
            return
        if rule.shared:
            if self.shared_count >= NAMES_MAX:
                self.forget()
                return
            self.shared.setdefault(hand.key.rule, {})[app] = hand
            self.shared_count += 1
        if hand.form is not form:
            hand.form = form

    def forget(self) -> None:
        """Forget all rules and applications: what has been answered so far need not be so again."""
        self.epoch += 1
        self.forms = {}
        self.shared = {}
        self.shared_count = 0

    def drop(self, hand: Hand) -> None:
        """Forget who shares a counter, which has been unloaded."""
        names: dict = self.shared.pop(hand.key.rule, None)
        if names is not None:
            self.shared_count -= len(names)

    def find(self, asked):
        """Return the counter of a request; None: it is not known."""
        rule: bytes = text_of(asked.rule)
        app: bytes = text_of(asked.app)
        if self.shared:
            names: dict = self.shared.get(rule)
            if names is not None:
                return cython.cast(Hand, names.get(app), typecheck=True)
        return cython.cast(Hand, self.loaded.get((rule, app)), typecheck=True)

    # --- A request ----------------------------------------------------------------------------------------------------

    def answer(self, data: bytes, now_s: cython.double, monotonic_s: cython.double, origin: Origin) -> bytes | None:
        """Return the answer to a request; None: it is not simple, and is the service's."""
        size: cython.Py_ssize_t = self.serve(
            PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), self.room, REPLY_BYTES_MAX, now_s, monotonic_s, origin
        )
        return PyBytes_FromStringAndSize(self.room, size) if size else None

    def serve(self, data, size, out, room, now_s, monotonic_s, origin):
        """Answer a request; return the bytes of the answer, or 0: it is not simple, and is the service's.

        Someone who is not trusted, and shows no cookie, gets one number, in not more than `limits.UNPROVEN_FACTOR`
        times the request's bytes.
        """
        asked: Asked
        if size > REQUEST_BYTES_MAX or not read(cython.address(asked), data, size):
            return 0
        size_max: cython.Py_ssize_t = min(room, REPLY_BYTES_MAX)
        cookie: cython.pointer(Field) = asked.cookie
        is_proven: cython.bint = origin.is_trusted or (
            cookie is not cython.NULL and origin.has_shown(cookie.value, cookie.value_size, monotonic_s)
        )
        if not is_proven:
            if asked.count > 1:
                return 0
            size_max = min(size_max, UNPROVEN_FACTOR * size)
        try:
            return self.give(cython.address(asked), size_max, out, now_s, monotonic_s, origin, is_proven)
        except Exception:  # noqa: BLE001 - the service meets it again, and answers with it
            return 0

    def give(self, asked, size_max, out, now_s, monotonic_s, origin, is_proven):
        """Do what `serve` does, for a request that has been read."""
        hand: Hand = self.find(asked)
        if hand is None or hand.form is None:
            return 0
        form: Form = cython.cast(Form, hand.form, typecheck=True)
        if form.epoch != self.epoch or (self.waiting and hand.key in self.waiting):
            return 0
        if form.needs_proof and not is_proven:
            return 0
        name: bytes = None
        if asked.id is not cython.NULL:
            name = self.name_of(asked, origin)
            if self.window.find(name, monotonic_s) is not None:
                return 0
        app: bytes = b""
        if form.allowance is not None:
            app = text_of(asked.app)
            if not form.allowance.has_room(app, asked.count, now_s, monotonic_s):
                return 0
        time_s: int64_t = cython.cast(int64_t, now_s)
        if form.is_timed or time_s != hand.opened_s:
            time_s = hand.open(now_s)
        first: uint64_t = hand.following()
        left: uint64_t = hand.left_from(first)
        if left < cython.cast(uint64_t, asked.count):
            return 0
        # The data: in C, or as it was made.
        used: int64_t = asked.count
        made: bytes = None
        size: cython.Py_ssize_t = size_besides(asked)
        if form.is_plain:
            form.prepare(time_s)
            size += form.size_of(asked.salt.value_size if asked.salt is not cython.NULL else 0) * asked.count
            if asked.count_field is not cython.NULL:
                size += asked.count + 1
        else:
            salt: bytes = text_of(asked.salt) if asked.salt is not cython.NULL else b""
            made = form.make(
                hand, first, left, asked.count, asked.count_field is not cython.NULL, time_s, salt, cython.address(used)
            )
            size += PyBytes_GET_SIZE(made)
        if size > size_max:
            return 0
        data: cython.p_char
        data_end: cython.p_char
        i: cython.Py_ssize_t = 0
        while asked.fields[i].key != DATA:
            i += 1
        data = put_fields(asked, out, 0, i + 1)
        if form.is_plain:
            data_end = put_numbers(data, form, asked, first, hand.bounds.step)
        else:
            memcpy(data, PyBytes_AS_STRING(made), PyBytes_GET_SIZE(made))
            data_end = data + PyBytes_GET_SIZE(made)
        out = put_fields(asked, data_end, i + 1, asked.field_count)
        out[0] = 0x7D
        # The numbers are taken. Before: what may fail and then leaves them where they are.
        if cython.cast(int64_t, left) - used <= hand.bounds.low_water and not self.counters.unavailable():
            self.counters.want(hand.key, create=False)
        self.counts["requests"] += 1
        self.counts["numbers"] += asked.count
        hand.give(first, used, asked.count)
        if form.allowance is not None:
            form.allowance.spend(app, asked.count, now_s, monotonic_s)
        if name is not None:
            self.window.keep(name, PyBytes_FromStringAndSize(data, data_end - data), monotonic_s)
        if form.is_lua and form.is_low(hand):
            self.texts.want(hand.key)
        return size

    def name_of(self, asked, origin):
        """Return what `Request.name` says of this request."""
        kind: bytes = b"s" if asked.id.kind == Kind.TEXT else b"i"
        return name_of(
            text_of(asked.rule),
            text_of(asked.app),
            origin.name,
            text_of(asked.salt) if asked.salt is not cython.NULL else b"",
            text_of(asked.count_field) if asked.count_field is not cython.NULL else b"",
            kind + text_of(asked.id),
        )
