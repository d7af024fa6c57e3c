"""What the numbers of a rule look like, as JSON, in little time.

A plain template is written in C: what stands around the counter is made once a second. Whatever else makes numbers
(Lua, check digits, alphabets) is called for some of them at a time: a block of texts for the numbers that come
next, of the same second and salt. Each block is twice as long as the one before it. To make a text takes no number: a
block that is dropped loses nothing. Numbers that begin with the time are made one by one.
"""

from typing import Any

import cython
import orjson
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcpy

from beanpole_ids import limits
from beanpole_ids.errors import NeedTextsError
from beanpole_ids.original import wire
from beanpole_ids.tallies import Allowance, needs_proof


def put(out, text):
    """Write a text, and return where it ends."""
    size: cython.Py_ssize_t = PyBytes_GET_SIZE(text)
    memcpy(out, PyBytes_AS_STRING(text), size)
    return out + size


NAME_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.NAME_BYTES_MAX)


@cython.cfunc
def to_json(made: Any) -> bytes:
    try:
        return orjson.dumps(made)
    except TypeError:  # a rule in Lua, or a salt, may have bytes that are no UTF-8
        return wire.render_any(made)


@cython.cclass
class Block:
    """Texts of numbers that are not handed out yet, in the order of their counter."""

    def __init__(
        self,
        rule: Any,
        time_s: int64_t,
        salts: list,
        first: uint64_t,
        step: uint64_t,
        texts: list,
        uses: Any = None,
        error: Any = None,
        count: int64_t = 1,
    ) -> None:
        """`error`: why there is none for the first number and a request for `count`."""
        self.rule, self.time_s, self.salts, self.first, self.step = rule, time_s, salts, first, step
        self.texts, self.uses, self.error, self.count = texts, uses, error, count

    def find(self, first, count, time_s, salt, rule):
        """Return where the texts begin of a number and of those after it; -1: there are none.

        Raises what has happened when they were made.
        """
        if self.error is not None and self.rule is rule and self.first == first:
            if count == self.count and salt == self.salts[0]:
                raise self.error  # whatever time it is: it may have taken longer than a second
            return -1
        if self.rule is not rule or self.time_s != time_s:
            return -1
        end: cython.Py_ssize_t = len(self.texts)
        while self.first < first and self.place < end:  # what has been handed out since
            self.first += self.step * cython.cast(uint64_t, self.used(self.place, 1))
            self.place += 1
            self.given += 1
        place: cython.Py_ssize_t = self.place
        if self.first != first:
            return -1
        if place + count > end:
            return -1
        if len(self.salts) == 1:
            return place if salt == self.salts[0] else -1
        i: cython.Py_ssize_t
        for i in range(place, place + count):
            if self.salts[i] != salt:
                return -1
        return place

    def used(self, place, count):
        """Return how many numbers of the counter some texts took."""
        return count if self.uses is None else sum(self.uses[place : place + count])

    @property
    def end(self) -> int:
        """The number that follows those of the texts."""
        return self.first + self.step * self.used(self.place, len(self.texts) - self.place)

    def extend(self, texts: list, uses: Any) -> None:
        """Take further texts, which begin with the number at the end, in place of those that are handed out."""
        if self.uses is not None or uses is not None:
            mine = self.uses or [1] * len(self.texts)
            self.uses = mine[self.place :] + (uses or [1] * len(texts))
        self.texts = self.texts[self.place :] + texts
        self.place = 0
        self.asked = False


@cython.cclass
class Form:
    """How the numbers of a rule are made."""

    def __init__(self, rule: Any, epoch: int64_t, allowance: Allowance | None) -> None:
        """`rule`: a `rules.rule.Rule`."""
        self.rule = rule
        self.allowance = allowance
        self.needs_proof = needs_proof(allowance, is_shared=rule.shared)
        self.is_shared = rule.shared
        self.apps = None if rule.apps is None else frozenset(each.encode() for each in rule.apps)
        self.epoch = epoch
        self.is_plain = rule.plain is not None
        self.is_timed = rule.counting.layout_kind != ""
        self.is_lua = rule.lua is not None
        self.time_s = -1
        self.width = rule.plain.width if self.is_plain else 0

    def takes(self, app):
        """Whether an application may have numbers: see `request.Reader`."""
        size: cython.Py_ssize_t = PyBytes_GET_SIZE(app)
        text: cython.p_char = PyBytes_AS_STRING(app)
        i: cython.Py_ssize_t
        for i in range(size):
            byte: cython.uchar = text[i]
            if byte <= 0x23 or 0x25 <= byte <= 0x27 or byte == 0x3C or byte == 0x3E:
                return False
        return size <= NAME_BYTES_MAX and (self.apps is None or app in self.apps)

    # --- Templates ----------------------------------------------------------------------------------------------------

    def prepare(self, time_s):
        """Make the pieces of a second."""
        if time_s == self.time_s:
            return 0
        before, after = self.rule.plain.pieces(time_s)
        self.salt_before, self.salt_after = len(before) > 1, len(after) > 1
        self.head, self.body = orjson.dumps(before[0])[:-1], orjson.dumps(after[0])[1:-1]
        self.neck = orjson.dumps(before[1])[1:-1] if self.salt_before else b""
        self.tail = (orjson.dumps(after[1])[1:-1] if self.salt_after else b"") + b'"'
        self.time_s = time_s
        return 0

    def size_of(self, salt_size):
        """Return the bytes of each number, with its quotes."""
        salts: cython.Py_ssize_t = salt_size if self.salt_before or self.salt_after else 0
        return len(self.head) + len(self.neck) + len(self.body) + len(self.tail) + self.width + salts

    def size_behind(self, salt_size):
        """Return the bytes after the counter."""
        return len(self.body) + len(self.tail) + (salt_size if self.salt_after else 0)

    def write(self, out, salt, salt_size, number):
        """Write a number, and return where it ends."""
        out = put(out, self.head)
        if self.salt_before:
            memcpy(out, salt, salt_size)
            out += salt_size
        out = put(out, self.neck)
        i: cython.int
        for i in range(self.width - 1, -1, -1):
            out[i] = cython.cast(cython.char, 48 + number % 10)
            number //= 10
        out = put(out + self.width, self.body)
        if self.salt_after:
            memcpy(out, salt, salt_size)
            out += salt_size
        return put(out, self.tail)

    # --- Others -------------------------------------------------------------------------------------------------------

    def make(self, hand, first, left, count, is_list, time_s, salt, used):
        """Return the next number of a counter, or a list of numbers, and in `used` how many of the counter they took.

        Raises NoNumberError or NeedRangeError: see `rule.Maker`; NeedTextsError: another process has to make them.
        """
        block: Block | None = hand.block
        place: cython.Py_ssize_t = -1
        if block is not None and not self.is_timed and not (is_list and not self.is_lua):
            try:
                place = block.find(first, count, time_s, salt, self.rule)
            except Exception:
                hand.block = None  # the next request has the other process try again
                raise
        if place < 0 and self.is_lua:
            raise NeedTextsError
        if place < 0 and (is_list or self.is_timed):
            made, taken = self.rule.make(first, left, count, time_s, salt)
            used[0] = taken
            return to_json(made if is_list else made[0])
        if place < 0:
            size: uint64_t = 1
            if block is not None and block.time_s == time_s and block.place == len(block.texts):
                size = min(2 * block.place, BLOCK_MAX)
            made, _ = self.rule.make(first, left, min(size, left), time_s, salt)
            block = hand.block = Block(self.rule, time_s, [salt], first, hand.bounds.step, made)
            place = 0
        used[0] = block.used(place, count)
        return to_json(block.texts[place : place + count] if is_list else block.texts[place])

    def is_low(self, hand):
        """Whether it is time to have further texts made: when half of those of one salt are handed out."""
        block: Block | None = hand.block
        if block is None or block.asked or len(block.salts) > 1:
            return False
        return len(block.texts) > 1 and 2 * block.place >= len(block.texts)
