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

from beanpole_ids.errors import NeedRangeError, NoNumberError, RuleCostError
from beanpole_ids.tallies import Allowance, needs_proof


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put(out: cython.p_char, text: bytes) -> cython.p_char:
    """Write a text, and return where it ends."""
    size: cython.Py_ssize_t = PyBytes_GET_SIZE(text)
    memcpy(out, PyBytes_AS_STRING(text), size)
    return out + size


@cython.cclass
class Block:
    """Texts of numbers that are not handed out yet."""


@cython.cclass
class Form:
    """How the numbers of a rule are made."""

    def __init__(self, rule: Any, epoch: int64_t, allowance: Allowance | None) -> None:
        """`rule`: a `rules.rule.Rule`."""
        self.rule = rule
        self.allowance = allowance
        self.needs_proof = needs_proof(allowance, is_shared=rule.shared)
        self.epoch = epoch
        self.is_plain = rule.plain is not None
        self.is_timed = rule.counting.layout_kind != ""
        self.one_each = not self.is_timed
        self.time_s = -1
        self.width = rule.plain.width if self.is_plain else 0

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

    def make_many(self, first, left, count, time_s, salt, used):
        """Return a list of numbers, and in `used` how many numbers of the counter they took.

        Raises NoNumberError or NeedRangeError: see `rule.Maker`; TypeError: one is not Unicode.
        """
        made, taken = self.rule.make(first, left, count, time_s, salt)
        used[0] = taken
        return orjson.dumps(made)

    def make_one(self, hand, first, left, time_s, salt, used):
        """Return the next number of a counter; otherwise as `make_many`."""
        size: uint64_t = 1
        place: uint64_t
        step: uint64_t = hand.bounds.step
        if self.one_each and hand.block is not None:
            block: Block = cython.cast(Block, hand.block, typecheck=True)
            if block.form is self and block.time_s == time_s and block.salt == salt and first >= block.first:
                size = len(block.texts)
                place = (first - block.first) // step
                if place < size and first == block.first + place * step:
                    used[0] = 1
                    return cython.cast(bytes, block.texts[place], typecheck=True)
                size = min(2 * size, BLOCK_MAX)
        made, taken = self.make_ahead(first, left, min(size, left), time_s, salt)
        texts: list = [orjson.dumps(text) for text in made]
        if taken == len(texts):
            block = Block()
            block.form, block.time_s, block.salt, block.first, block.texts = self, time_s, salt, first, texts
            hand.block = block
            used[0] = 1
            return cython.cast(bytes, texts[0], typecheck=True)
        self.one_each = False
        if len(texts) > 1:  # nobody can say how many of them the first took
            made, taken = self.rule.make(first, left, 1, time_s, salt)
        used[0] = taken
        return orjson.dumps(made[0])

    def make_ahead(self, first, left, size, time_s, salt):
        """Return as many texts as wanted, or one if there is an error in them: it may be of another than the first."""
        if size > 1:
            try:
                return self.rule.make(first, left, size, time_s, salt)
            except RuleCostError:
                self.one_each = False  # it takes so long that others would wait for texts that nobody may ask for
            except (NoNumberError, NeedRangeError):
                pass
        return self.rule.make(first, left, 1, time_s, salt)
