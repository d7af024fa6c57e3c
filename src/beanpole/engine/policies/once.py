"""Puts that are done once: which job a put with a token was answered with, for as long as the put said.

Of a token only a hash is kept, of 128 bits and with the name of its tube, and it outlives the job and the tube. Which
ones have ended is found bit by bit: each put with a token looks at some, and a tick does so every second. Nothing is
written when one is forgotten: the moment of its end stands in its record.
"""

import cython
from cython.cimports.beanpole.engine.state.blake2b import digest
from cython.cimports.beanpole.engine.state.once import OnceTable, Token
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy, memset

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
ONCE_S_DEFAULT = cython.declare(uint32_t, 300)  # of a put that does not say for how long
TOKENS_PER_PUT = cython.declare(cython.Py_ssize_t, 8)
"""Tokens that a put with one looks at: so an eighth of those that live, at most, are there in vain."""

TOKENS_WHEN_FULL = cython.declare(cython.Py_ssize_t, 4_096)
"""Tokens that a put looks at before it is refused: a few microseconds."""


def hash_of(tube, command, token):
    """Set `token` to the hash of a command's token in a tube, and return it; no name of a tube has a space."""
    text: uint64_t[TEXT_WORDS]
    memset(text, 0, cython.sizeof(text))
    at: cython.p_char = cython.cast(cython.p_char, text)
    name_bytes: cython.Py_ssize_t = len(tube)
    memcpy(at, cython.cast(cython.p_const_char, tube), name_bytes)
    at[name_bytes] = b" "
    memcpy(at + name_bytes + 1, command.args.once_at, command.args.once_bytes)
    digest(text, name_bytes + 1 + command.args.once_bytes, token)
    return token


def done_before(queue, now_ns, token):
    """Return the id that a put with a token was answered with; 0: there was none, and none is known any more."""
    table: OnceTable = queue.once
    if table is None:
        return 0
    number: cython.Py_ssize_t = table.find(token[0], token[1])
    if number < 0:
        return 0
    found: cython.pointer(Token) = table.at(number)
    if not has_ended(found, now_ns):
        return found.id
    forget(queue, number)
    return 0


def has_room(queue, now_ns):
    """Whether one more token may be noted, with memory for it; those that have ended make room."""
    try:
        if queue.once is None:
            queue.once = OnceTable()
        if queue.once.count >= queue.once_max:
            forget_ended(queue, now_ns, TOKENS_WHEN_FULL)
        queue.once.make_room()
    except MemoryError:
        return False
    return queue.once.count < queue.once_max


def note(queue, token, id, end_s):
    """Note what a put with a token was answered with, of which nothing is known; who calls records it."""
    if queue.once is None:
        queue.once = OnceTable()
    noted: cython.pointer(Token) = queue.once.add(token[0], token[1])
    noted.id = id
    noted.end_s = end_s
    return noted


def note_put(queue, now_ns, command, token, id):
    """Note what a put is answered with, for as long as it says."""
    seconds: uint32_t = command.args.once_s if command.args.given & bit(Kind.FOR) else ONCE_S_DEFAULT
    forget_ended(queue, now_ns, TOKENS_PER_PUT)
    return note(queue, token, id, cython.cast(uint32_t, (now_ns + SECOND_NS - 1) // SECOND_NS) + seconds)


def has_ended(token, now_ns):
    """Whether a token is to be forgotten."""
    return token.end_s * SECOND_NS <= now_ns


def forget(queue, number):
    """Forget a token."""
    queue.records.once_dropped(queue.once.at(number))
    return queue.once.remove(number)


def forget_ended(queue, now_ns, most):
    """Look at the next `most` tokens, or at all of fewer, and forget those that have ended."""
    table: OnceTable = queue.once
    if table is None:
        return 0
    if most >= table.count:
        most = table.count
        table.looked_at = 0
    now_s: int64_t = now_ns // SECOND_NS
    number: cython.Py_ssize_t = table.next_ended(now_s, cython.address(most))
    while number >= 0:
        forget(queue, number)
        number = table.next_ended(now_s, cython.address(most))
    return 0
