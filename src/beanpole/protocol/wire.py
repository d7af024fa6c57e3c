"""The client's side of the wire: commands become bytes, and bytes become replies. No I/O.

A command is checked where it is encoded, so that a mistake raises :class:`~beanpole.errors.ArgumentError` before
anything is sent. :class:`ReplyReader` takes what a socket delivers, in pieces of any size, and gives whole replies.

Invariants of the reader:

- It never looks at a byte of a reply twice, but for a line of which a piece was there (at most REPLY_LINE_BYTES_MAX).
- What is no reply of the protocol raises :class:`~beanpole.errors.UnexpectedReplyError`, then and ever after: behind a
  wrong byte no reply can be told from a body.

Which reply belongs to which command, and which of them is good news, is the business of ``beanpole.client``.
"""

from typing import TypeVar

import cython
from cython.cimports.beanpole.protocol.arguments import read_u64
from cython.cimports.beanpole.protocol.buffer import append, shrink
from cython.cimports.beanpole.protocol.replies import Form, Word, put_number, words
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import UINT64_MAX, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memchr, memcmp, memcpy

from beanpole import limits
from beanpole.errors import ArgumentError, UnexpectedReplyError
from beanpole.protocol import limits as protocol_limits
from beanpole.protocol.arguments import NAME_BYTES
from beanpole.protocol.commands import COMMANDS
from beanpole.protocol.names import name_fault
from beanpole.protocol.replies import WORDS

PRI_MAX = cython.declare(uint64_t, limits.PRI_MAX)
RESERVE_TIMEOUT_S_MAX = cython.declare(uint64_t, limits.RESERVE_TIMEOUT_S_MAX)
REPLY_LINE_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.REPLY_LINE_BYTES_MAX)
FRAMES_MAX = cython.declare(uint64_t, protocol_limits.FRAMES_MAX)
BODY_BYTES_MAX = cython.declare(uint64_t, limits.BODY_BYTES_MAX_CEILING)
INPUT_BYTES_KEPT = cython.declare(cython.Py_ssize_t, limits.CLIENT_RECEIVE_BYTES)

WORDS_END = cython.declare(cython.int, len(WORDS) + 1)

T = TypeVar("T")  # what the answer to a call is for Python code


def read_digits(at, end, number):
    """Read a number that begins here, without spaces before; NULL: there is none, or it has more than 64 bits."""
    if at == end or at[0] == 32:
        return cython.NULL
    return read_u64(at, end, number)


# --- Replies ----------------------------------------------------------------------------------------------------------


@cython.cclass
class Reply:
    """One reply of the server. Its fields stand in ``wire.pxd``."""

    def __repr__(self) -> str:
        return f"<{WORDS[self.word - 1][0].decode()} number={self.number} body={self.body!r}>"


@cython.cclass
class Call:
    """One command: what is sent, and what the answer means. Its fields stand in ``wire.pxd``."""

    @cython.annotation_typing(False)  # for speed: who makes calls is ours
    def __init__(
        self,
        data: bytes,
        expected: cython.int,
        take: Callable[[Reply], T] | None = None,
        tube: str | None = None,
        uses: str | None = None,
        wait_s: float | None = 0,
        needs: tuple[str, ...] = (),
        also: tuple[int, ...] = (),
        instead: Callable[[], Any] | None = None,
    ):
        self.data = data
        self.expected = expected
        self.take = take
        self.tube = tube
        self.uses = uses
        self.wait_s = wait_s
        self.needs = needs
        self.also = also
        self.instead = instead


@cython.cclass
class ReplyReader:
    """What one connection has received and nobody has read yet."""

    def __dealloc__(self):
        free(self.input.data)

    @property
    def buffered_bytes(self) -> int:
        """Bytes received that are not read: those of an incomplete reply, or of replies that nobody asked for."""
        return self.input.size - self.input.start

    def receive(self, data: bytes) -> None:
        """Take over what the socket delivered. Raise MemoryError when there is no room."""
        self.append(data, len(data))

    def append(self, data, more):
        """Copy received bytes behind those that are not read yet."""
        shrink(cython.address(self.input), INPUT_BYTES_KEPT + more)
        return append(cython.address(self.input), data, more)

    def next_reply(self) -> Reply | None:
        """Return the next whole reply, or None: more has to be received first.

        Raise UnexpectedReplyError for what is no reply of the protocol.
        """
        return self.read()

    def read_into(self, replies, count):
        """Append whole replies until the list has `count`; return whether it has. Raise like :meth:`next_reply`."""
        reply: Reply
        while len(replies) < count:
            reply = self.read()
            if reply is None:
                return False
            replies.append(reply)
        return True

    def read(self):
        """Read one reply, with all its frames, or None."""
        reply: Reply = self.jobs
        if reply is None:
            reply = self.read_one()
            if reply is None or (reply.word != Word.JOBS and reply.word != Word.SCHEDULES):
                if reply is not None and reply.word == Word.JOB:
                    self.fail("a job belongs to no reply", b"JOB", 3)
                return reply
            reply.frames = []
            self.jobs = reply
            self.frames_left = cython.cast(cython.Py_ssize_t, reply.number)
        frame: Reply
        while self.frames_left:
            frame = self.read_one()
            if frame is None:
                return None
            if frame.word != (Word.JOB if reply.word == Word.JOBS else Word.SCHEDULE):
                self.fail("a reply lacks one of its frames", WORDS[reply.word - 1][0], words[reply.word].size)
            reply.frames.append(frame)
            self.frames_left -= 1
        self.jobs = None
        return reply

    def read_one(self):
        """Read a reply without frames, or one frame, or None."""
        found: Found
        if not self.next(cython.address(found)):
            return None
        reply: Reply = Reply()
        reply.word = found.word
        reply.number = found.number
        if found.body is not cython.NULL:
            reply.body = found.body[: found.body_bytes]
        if found.fields is not cython.NULL:
            reply.fields = found.fields[: found.fields_bytes]
        return reply

    def next(self, found):
        """Read one reply, or one frame of JOBS, without making an object of it; 0: it is not whole yet."""
        available: cython.Py_ssize_t = self.input.size - self.input.start
        if self.broken:
            raise UnexpectedReplyError("the stream of replies was broken before")
        if available == 0 or available < self.wanted:
            return 0
        line: cython.p_const_char = self.input.data + self.input.start
        newline = cython.cast(cython.p_const_char, memchr(line, 10, available))
        if newline is cython.NULL or newline - line >= REPLY_LINE_BYTES_MAX:
            if available >= REPLY_LINE_BYTES_MAX:
                self.fail("a reply has no end", line, REPLY_LINE_BYTES_MAX)
            return 0
        size: cython.Py_ssize_t = newline + 1 - line
        self.wanted = 0
        self.read_line(line, size, found)
        if found.has_body:
            self.wanted = size + found.body_bytes + 2
            if available < self.wanted:
                return 0
            found.body = line + size
            if found.body[found.body_bytes] != 13 or found.body[found.body_bytes + 1] != 10:
                self.fail("a body does not end with CR LF", line, size)
            size = self.wanted
            self.wanted = 0
        self.input.start += size
        return 1

    def read_line(self, line, size, found):
        """Read a line that is whole, with its CR LF."""
        end: cython.p_const_char = line + size - 2
        if size < 2 or end[0] != 13:
            self.fail("a reply does not end with CR LF", line, size)
        i: cython.int = 1
        while i < WORDS_END and (words[i].size > size - 2 or memcmp(line, words[i].text, words[i].size) != 0):
            i += 1
        if i == WORDS_END:
            self.fail("no reply of the protocol", line, size)
        form: Form = words[i].form
        at: cython.p_const_char = line + words[i].size
        found.word = cython.cast(Word, i)
        found.number = 0
        found.body = cython.NULL
        found.body_bytes = 0
        found.fields = cython.NULL
        found.fields_bytes = 0
        found.has_body = form == Form.BODY or form == Form.NUMBER_BODY or form == Form.FRAME or form == Form.NAMED_FRAME
        bare: cython.bint = at == end and (form == Form.NUMBER_OR_BARE or form == Form.NUMBERS_OR_BARE)
        if form != Form.BARE and not bare:
            if at == end or at[0] != 32:
                self.fail("a reply lacks its argument", line, size)
            if self.read_form(form, at + 1, end, found) != end:
                self.fail("a reply has a wrong argument", line, size)
        elif at != end:
            self.fail("a reply has a wrong argument", line, size)
        return 0

    def read_form(self, form, at, end, found):
        """Read what follows a word and a space; return where that ended, or NULL: it is wrong."""
        if form == Form.NAME:
            found.body = at
            found.body_bytes = end - at
            return end
        number: uint64_t = 0
        start: cython.p_const_char = at
        if form == Form.NAMED_FRAME:
            at = cython.cast(cython.p_const_char, memchr(at, 32, end - at))
            if at is cython.NULL or at == start:
                return cython.NULL
        elif form != Form.BODY:
            at = read_digits(at, end, cython.address(found.number))
            if at is cython.NULL:
                return cython.NULL
        if form == Form.NUMBER_BODY or form == Form.FRAME or form == Form.NAMED_FRAME:
            if at == end or at[0] != 32:
                return cython.NULL
            at += 1
        if found.has_body:
            at = read_digits(at, end, cython.address(number))
            if at is cython.NULL or number > BODY_BYTES_MAX:
                return cython.NULL
            found.body_bytes = number
        elif form == Form.FRAMES and found.number > FRAMES_MAX:
            return cython.NULL
        if form == Form.NAMED_FRAME:  # the name stands in front of them
            found.fields = start
            found.fields_bytes = end - start
            return end
        if at == end or at[0] != 32:
            return at
        if form == Form.FRAME or form == Form.FRAMES:
            found.fields = at + 1
            found.fields_bytes = end - found.fields
            return end
        if form == Form.NUMBER_TEXT:
            found.body = at + 1
            found.body_bytes = end - found.body
            return end
        if form == Form.NUMBERS_OR_BARE:
            found.body = at + 1
            found.body_bytes = end - found.body
            while at is not cython.NULL and at < end and at[0] == 32:
                at = read_digits(at + 1, end, cython.address(number))
        return at

    def fail(self, sentence, line, size):
        """Raise, and refuse to read any further."""
        self.broken = True
        raise UnexpectedReplyError(f"{sentence}: {line[:size]!r}")


# --- Commands ---------------------------------------------------------------------------------------------------------


def whole(value, most, name):
    """Check an argument that is a whole number from 0 to `most`."""
    if not isinstance(value, int):
        raise ArgumentError(f"{name} must be a whole number, not {value!r}")
    if value < 0 or value > most:
        raise ArgumentError(f"{name} must be from 0 to {most}, not {value}")
    return value


@cython.annotation_typing(False)
def tube_name(name: str) -> bytes:
    """Return a tube's name as it goes over the wire. Raise ArgumentError if it can't be one."""
    if not isinstance(name, str):
        raise ArgumentError(name_fault(name))
    encoded: bytes = name.encode("utf-8", "surrogateescape")
    size: cython.Py_ssize_t = len(encoded)
    if size == 0 or size > limits.TUBE_NAME_BYTES_MAX or encoded.startswith(b"-") or encoded.strip(NAME_BYTES):
        raise ArgumentError(name_fault(name))
    return encoded


@cython.cfunc
def with_number(verb: bytes, number: uint64_t) -> bytes:
    """Make the line of a command that has a number and nothing else."""
    rest: cython.char[23]
    at: cython.p_char = cython.address(rest[0])
    at[0] = 32
    at = put_number(at + 1, number)
    memcpy(at, b"\r\n", 2)
    return verb + rest[: at + 2 - cython.address(rest[0])]


@cython.cfunc
def one_put(body: object, pri: uint64_t, delay_s: uint64_t, ttr_s: uint64_t) -> bytes:
    """Make one put, of numbers that are checked. Raise TypeError for a body that is not bytes."""
    if not isinstance(body, bytes):
        raise TypeError(f"a body is bytes here, not {type(body).__name__}: encode it, or choose an encoding or codec")
    text: bytes = body
    line: cython.char[96]
    at: cython.p_char = cython.address(line[0])
    size: cython.Py_ssize_t = len(text)
    memcpy(at, b"put ", 4)
    at = put_number(at + 4, pri)
    at[0] = 32
    at = put_number(at + 1, delay_s)
    at[0] = 32
    at = put_number(at + 1, ttr_s)
    at[0] = 32
    at = put_number(at + 1, size)
    memcpy(at, b"\r\n", 2)
    start: cython.Py_ssize_t = at + 2 - cython.address(line[0])
    made: bytes = PyBytes_FromStringAndSize(cython.NULL, start + size + 2)
    out: cython.p_char = PyBytes_AS_STRING(made)
    memcpy(out, cython.address(line[0]), start)
    memcpy(out + start, PyBytes_AS_STRING(text), size)
    memcpy(out + start + size, b"\r\n", 2)
    return made


@cython.annotation_typing(False)
def put(body: bytes, pri: int, delay_s: int, ttr_s: int) -> bytes:
    """``put <pri> <delay> <ttr> <bytes>``. Raise ArgumentError for a number out of range."""
    return one_put(
        body, whole(pri, PRI_MAX, "priority"), whole(delay_s, PRI_MAX, "delay"), whole(ttr_s, PRI_MAX, "ttr")
    )


@cython.annotation_typing(False)
def puts(bodies: list[bytes], pri: int, delay_s: int, ttr_s: int) -> bytes:
    """One put a body. Raise ArgumentError for a number out of range."""
    pri_ok: uint64_t = whole(pri, PRI_MAX, "priority")
    delay_ok: uint64_t = whole(delay_s, PRI_MAX, "delay")
    ttr_ok: uint64_t = whole(ttr_s, PRI_MAX, "ttr")
    return b"".join([one_put(body, pri_ok, delay_ok, ttr_ok) for body in bodies])


@cython.annotation_typing(False)
def with_id(verb: bytes, id: int) -> bytes:
    """``<verb> <id>``. Raise ArgumentError for what is no id."""
    return with_number(verb, whole(id, UINT64_MAX, "id"))


def with_ids(verb: bytes, ids: list[int]) -> bytes:
    """``<verb> <id>`` for each id. Raise ArgumentError for what is no id."""
    return b"".join([with_id(verb, id) for id in ids])


NUMBERS = {
    "id": ("id", UINT64_MAX),
    "pri": ("priority", PRI_MAX),
    "delay_ns": ("delay", PRI_MAX),
    "timeout_s": ("timeout", RESERVE_TIMEOUT_S_MAX),
    "bound": ("bound", PRI_MAX),
}
"""The fields of commands that are numbers: what the caller calls them, and the most that they may be.

Delays are sent as whole seconds.
"""

FORMS = {
    text.strip(): (
        text.strip() + b"".join([b" %d" if name in NUMBERS else b" %b" for name in fields]) + b"\r\n",
        [NUMBERS.get(name) for name in fields],
    )
    for text, _, _, fields, _ in COMMANDS
}
"""The line of each command, to be filled in, and for each of its fields what `NUMBERS` has; None: it is a tube."""


@cython.annotation_typing(False)
def command(verb: bytes, *values: object) -> bytes:
    """Return any command but a put, with the values of its fields. Raise ArgumentError for one that it can't have."""
    form: tuple = FORMS[verb]
    line: bytes = form[0]
    fields: list = form[1]
    if not fields:
        return line
    if len(fields) == 1 and fields[0] is not None:
        only: tuple = fields[0]
        return with_number(verb, whole(values[0], only[1], only[0]))
    checked: list = []
    for i in range(len(fields)):
        field: tuple = fields[i]
        checked.append(tube_name(values[i]) if field is None else whole(values[i], field[1], field[0]))
    return line % tuple(checked)


@cython.annotation_typing(False)
def reserve(timeout_s: int | None) -> bytes:
    """``reserve``, or ``reserve-with-timeout <seconds>`` if it is not None. Raise ArgumentError if out of range."""
    return command(b"reserve") if timeout_s is None else command(b"reserve-with-timeout", timeout_s)
