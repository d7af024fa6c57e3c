"""The way of every request for numbers, in C: take numbers that are reserved, write the answer.

Nearly every request is read here, too (`serve`). One that is not simple is read in Python (`request`), and comes here
with what its answer has around the numbers (`answer_read`). `serve` knows a rule and an application after
`answer_read` has answered them once, until a reload (`forget`); what it does not answer itself is left to `service`.

Numbers are taken when the answer is written and fits: a request that fails before takes none. After that nothing can
fail but to remember the answer for a repetition, and then the numbers are a gap.
"""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy

from beanpole_ids import limits
from beanpole_ids.errors import NeedRangeError
from beanpole_ids.forms import Form
from beanpole_ids.hand import Hand
from beanpole_ids.origin import Origin
from beanpole_ids.original import wire
from beanpole_ids.request import Request, too_large
from beanpole_ids.tallies import Allowance
from beanpole_ids.window import name_of

REQUEST_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.REQUEST_BYTES_MAX)
REPLY_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.REPLY_BYTES_MAX)
UNPROVEN_FACTOR = cython.declare(cython.Py_ssize_t, limits.UNPROVEN_FACTOR)

PAIRS_TEXT = "".join(f"{each:02}" for each in range(100)).encode()
PAIRS = cython.declare(cython.p_const_char, PAIRS_TEXT)

NOTHING = cython.declare(cython.p_const_char, b"")
"""Where no bytes are copied from: NULL is not allowed there either (C11, 7.24.1)."""


@cython.cfunc
@cython.inline
def text_of(field: cython.pointer(Field)) -> bytes:
    return PyBytes_FromStringAndSize(field.value, field.value_size)


@cython.cfunc
@cython.exceptval(check=False)
def size_besides(asked: cython.pointer(Asked)) -> cython.Py_ssize_t:
    """How long the answer is without the numbers."""
    if asked.head is not cython.NULL:
        return asked.head_size + asked.tail_size
    size: cython.Py_ssize_t = 1 + 4 * asked.field_count
    i: cython.Py_ssize_t
    for i in range(asked.field_count):
        size += asked.fields[i].key_size + asked.fields[i].value_size
        if asked.fields[i].kind == Kind.TEXT:
            size += 2
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_head(asked: cython.pointer(Asked), out: cython.p_char) -> cython.p_char:
    """Write what stands before the numbers, and return where it ends."""
    if asked.head is cython.NULL:
        return put_fields(asked, out, 0, asked.data_place + 1)
    memcpy(out, asked.head, asked.head_size)
    return out + asked.head_size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_tail(asked: cython.pointer(Asked), out: cython.p_char) -> cython.void:
    if asked.head is cython.NULL:
        out = put_fields(asked, out, asked.data_place + 1, asked.field_count)
        out[0] = 0x7D
    else:
        memcpy(out, asked.tail, asked.tail_size)


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
    if asked.salt_text is not cython.NULL:
        salt, salt_size = asked.salt_text.value, asked.salt_text.value_size
    if not asked.is_list:
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
class Counts:
    """What a service has done since it started. Fields of C: each datagram changes two of them."""

    def by_name(self) -> dict[str, int]:
        names = ("requests", "numbers", "refused", "repeated", "failed")
        return {name: getattr(self, name) for name in names}


@cython.cclass
class Fast:
    """What is known of rules and applications, and the requests for them."""

    def __init__(
        self,
        counts: Counts,
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

    def form_of(self, rule: Any) -> Form:
        """Return how the numbers of a rule (a `rules.rule.Rule`) are made."""
        name: bytes = rule.name.encode()
        form: Form = self.forms.get(name)
        if form is None or form.rule is not rule:
            form = self.forms[name] = Form(rule, self.epoch, self.allowance(rule.name))
        return form

    def forget(self) -> None:
        """Forget all rules and applications: what has been answered so far need not be so again."""
        self.epoch += 1
        self.forms = {}

    # --- A request ----------------------------------------------------------------------------------------------------

    def answer(self, data: bytes, now_s: cython.double, monotonic_s: cython.double, origin: Origin) -> bytes | None:
        """Return the answer to a datagram; None: it is the service's."""
        size: cython.Py_ssize_t = self.serve(
            PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), self.room, now_s, monotonic_s, origin
        )
        return PyBytes_FromStringAndSize(self.room, size) if size else None

    def serve(self, data, size, out, now_s, monotonic_s, origin):
        """Answer a datagram; return the bytes of the answer, or 0: it is the service's.

        Someone who is not trusted, and shows no cookie, gets one number, in not more than `limits.UNPROVEN_FACTOR`
        times the request's bytes.
        """
        asked: Asked
        if size > REQUEST_BYTES_MAX or not read(cython.address(asked), data, size):
            return 0
        size_max: cython.Py_ssize_t = REPLY_BYTES_MAX
        cookie: cython.pointer(Field) = asked.cookie
        is_proven: cython.bint = origin.is_trusted or (
            cookie is not cython.NULL and origin.has_shown(cookie.value, cookie.value_size, monotonic_s)
        )
        if not is_proven:
            if asked.count > 1:
                return 0
            size_max = min(size_max, UNPROVEN_FACTOR * size)
        try:
            return self.serve_known(cython.address(asked), size_max, out, now_s, monotonic_s, origin.name, is_proven)
        except Exception:  # noqa: BLE001 - the service meets it again, and answers with it
            return 0

    def serve_known(self, asked, size_max, out, now_s, monotonic_s, source, is_proven):
        """Do what `serve` does, for a request that has been read."""
        rule: bytes = text_of(asked.rule)
        app: bytes = text_of(asked.app)
        found: object = self.loaded.get((rule, app))
        is_unnamed: cython.bint = found is None
        if is_unnamed:  # all applications may share a counter, which has no name
            found = self.loaded.get((rule, b""))
            if found is None:
                return 0
        hand: Hand = cython.cast(Hand, found, typecheck=True)
        if hand.form is None:
            return 0
        form: Form = cython.cast(Form, hand.form, typecheck=True)
        if form.is_shared:
            if not form.takes(app):
                return 0
        elif is_unnamed:
            return 0
        if form.epoch != self.epoch or (self.waiting and hand.key in self.waiting):
            return 0
        if form.needs_proof and not is_proven:
            return 0
        name: bytes = None
        size: cython.Py_ssize_t = 0
        if asked.id is not cython.NULL:
            name = name_of(
                rule,
                app,
                source,
                text_of(asked.salt) if asked.salt is not cython.NULL else b"",
                text_of(asked.count_field) if asked.is_list else b"",
                (b"s" if asked.id.kind == Kind.TEXT else b"i") + text_of(asked.id),
            )
            size = self.repeat(asked, name, size_max, out, monotonic_s)
        if not size:
            size = self.give(asked, hand, form, name, size_max, out, now_s, monotonic_s)
            if size and form.is_lua and form.is_low(hand):
                self.texts.want(hand.key)
        if size:
            self.counts.requests += 1
        return size

    def answer_read(
        self, request: Request, hand: Hand | None, clock: Callable[[], float], monotonic_s: cython.double
    ) -> bytes | None:
        """Return the answer to a request for numbers that Python has read; None: it has to wait for the store.

        `hand`: its counter; None: that is not loaded.

        Raises NoNumberError: there is none, and waiting does not help; NeedTextsError: it has to wait for them.
        """
        head: bytes
        tail: bytes
        head, tail = request.around()
        app: bytes = request.app
        salt: bytes = request.salt
        salt_text: bytes = wire.render(salt.decode("utf-8", "surrogateescape"))[1:-1]
        asked: Asked
        clear(cython.address(asked))
        asked.head, asked.head_size = PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head)
        asked.tail, asked.tail_size = PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail)
        asked.app = add(cython.address(asked), app)
        asked.salt = add(cython.address(asked), salt)
        asked.salt_text = add(cython.address(asked), salt_text)
        asked.count, asked.is_list = request.count, request.is_list
        size_max: cython.Py_ssize_t = min(request.room, REPLY_BYTES_MAX)
        size: cython.Py_ssize_t = 0
        name: bytes = request.name
        if name is not None:
            size = self.repeat(cython.address(asked), name, size_max, self.room, monotonic_s)
        if not size:
            form: Form = self.form_of(request.rule)
            now_s: cython.double = clock() if hand is not None or form.allowance is not None else 0.0
            size = self.give(cython.address(asked), hand, form, name, size_max, self.room, now_s, monotonic_s)
            if size:
                hand.form = form  # from now on, `serve` knows it
        return PyBytes_FromStringAndSize(self.room, size) if size else None

    def repeat(self, asked, name, size_max, out, monotonic_s):
        """Answer a repeated request as before; return the bytes of the answer, or 0: it is none."""
        data: bytes = self.window.find(name, monotonic_s)
        if data is None:
            return 0
        size: cython.Py_ssize_t = size_besides(asked) + PyBytes_GET_SIZE(data)
        check_size(size, size_max, asked.count)
        put_tail(asked, put(put_head(asked, out), data))
        self.counts.repeated += 1
        return size

    def give(self, asked, hand, form, name, size_max, out, now_s, monotonic_s):
        """Give numbers; return the bytes of the answer, or 0: it has to wait for the store.

        Raises NoNumberError, NeedTextsError: see `answer_read`.
        """
        app: bytes = b""
        if form.allowance is not None:
            app = text_of(asked.app)
            if not form.allowance.has_room(app, asked.count, now_s, monotonic_s):
                form.allowance.check(app, asked.count, now_s, monotonic_s)  # raises why
        if hand is None:
            return 0
        time_s: int64_t = cython.cast(int64_t, now_s)
        if form.is_timed or time_s != hand.opened_s:
            time_s = hand.open(now_s)
        first: uint64_t = hand.following()
        left: uint64_t = hand.left_from(first)
        if left < cython.cast(uint64_t, asked.count):
            hand.need(asked.count)
            return 0
        # The data: in C, or as it was made.
        used: int64_t = asked.count
        made: bytes = None
        size: cython.Py_ssize_t = size_besides(asked)
        if form.is_plain:
            form.prepare(time_s)
            size += form.size_of(asked.salt_text.value_size if asked.salt_text is not cython.NULL else 0) * asked.count
            if asked.is_list:
                size += asked.count + 1
        else:
            salt: bytes = text_of(asked.salt) if asked.salt is not cython.NULL else b""
            try:
                made = form.make(hand, first, left, asked.count, asked.is_list, time_s, salt, cython.address(used))
            except NeedRangeError:
                hand.need(left + 1)
                return 0
            size += PyBytes_GET_SIZE(made)
        check_size(size, size_max, asked.count)
        data: cython.p_char = put_head(asked, out)
        data_end: cython.p_char = (
            put(data, made) if made is not None else put_numbers(data, form, asked, first, hand.bounds.step)
        )
        put_tail(asked, data_end)
        # The numbers are taken. Before: what may fail and then leaves them where they are.
        if cython.cast(int64_t, left) - used <= hand.bounds.low_water and not self.counters.unavailable():
            self.counters.want(hand.key, create=False)
        self.counts.numbers += asked.count
        hand.give(first, used, asked.count)
        if form.allowance is not None:
            form.allowance.spend(app, asked.count, now_s, monotonic_s)
        if name is not None:
            self.window.keep(name, PyBytes_FromStringAndSize(data, data_end - data), monotonic_s)
        return size


@cython.cfunc
@cython.exceptval(check=False)
def add(asked: cython.pointer(Asked), text: bytes) -> cython.pointer(Field):
    """Add a field with a text, which somebody must keep; return it."""
    field: cython.pointer(Field) = asked.fields + asked.field_count
    field.kind, field.value, field.value_size = Kind.TEXT, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
    asked.field_count += 1
    return field


@cython.cfunc
@cython.inline
def check_size(size: cython.Py_ssize_t, size_max: cython.Py_ssize_t, count: int64_t) -> cython.int:
    """Raise NoNumberError if an answer is too large."""
    if size > size_max:
        raise too_large(size, count)
    return 0
