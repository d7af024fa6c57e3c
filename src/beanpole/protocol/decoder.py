"""The decoder of the server side: bytes in, commands out.

::

    LINE ──put──▶ BODY ──▶ LINE
      ├──put over the limit──▶ SKIP ──▶ LINE
      ├──no CRLF in 224 bytes──▶ LONG_LINE ──▶ LINE
      ├──extension with a body──▶ EXTENSION_BODY ──▶ LINE
      └──refused extension with a body──▶ SKIP ──▶ LINE

Every other line is a command at once. Input arrives in any pieces. What is complete is decoded where it lies, without
a copy; what waits for its rest is kept in a buffer of our own, which is given back when it is empty. Memory is bounded
by one body plus one read.

A mistake of the client is a command too (``BAD_FORMAT`` and its like), so nothing here raises but for lack of memory.
The order of the checks is beanstalkd's (``dispatch_cmd``), apart from a lone CR, which is a byte of the line like any
other instead of blocking the connection.

Extensions are looked for only where a line is a mistake to beanstalkd, so that they cost the old commands nothing.
Their lines may be longer, and no byte of a body that belongs to one is ever taken for a command: a refused one is
swallowed, and where its size can't be read nothing behind it is understood (``Command.closes``).
"""

import cython
from cython.cimports.beanpole.protocol.arguments import read_arguments, read_seconds, read_u32
from cython.cimports.beanpole.protocol.buffer import append, reserve, shrink
from cython.cimports.beanpole.protocol.commands import Command, Shape, Verb
from cython.cimports.beanpole.protocol.extensions import Kind
from cython.cimports.beanpole.protocol.options import ExtensionRow, find_extension, read_extension, read_size
from cython.cimports.libc.stdint import uint32_t, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memchr, memcmp, memcpy

from beanpole import limits
from beanpole.protocol import limits as protocol_limits
from beanpole.protocol.commands import COMMANDS
from beanpole.protocol.extensions import FORMAT_NEWEST

LINE_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.LINE_BYTES_MAX)
EXTENSION_LINE_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.EXTENSION_LINE_BYTES_MAX)
TEXT_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.TEXT_BYTES_MAX)
RULES_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.RULES_BYTES_MAX)
DOCUMENT_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.DOCUMENT_BYTES_MAX)
INPUT_BYTES_KEPT = cython.declare(cython.Py_ssize_t, protocol_limits.INPUT_BYTES_KEPT)

CANCEL = cython.declare(cython.p_const_char, b"cancel-reserve\r\n")
CANCEL_BYTES = cython.declare(cython.Py_ssize_t, 16)

rows = cython.declare(VerbRow[255])
row_of_letter = cython.declare(cython.pointer(VerbRow)[256])  # the first row of a letter; NULL: there is none


def fill_rows():
    """Copy the verbs into C memory, where every line looks them up."""
    assert len(COMMANDS) <= 255, "the table of verbs outgrew its C copy"
    for i in reversed(range(len(COMMANDS))):
        text, verb, shape, _, _ = COMMANDS[i]
        rows[i].text = text
        rows[i].text_bytes = len(text)
        rows[i].verb = verb
        rows[i].shape = shape
        rows[i].following = row_of_letter[text[0]]
        row_of_letter[text[0]] = cython.address(rows[i])


fill_rows()


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def line_end(at: cython.p_const_char, end: cython.p_const_char) -> cython.p_const_char:
    """Return where the CRLF is that ends a line; NULL: there is none."""
    while at < end:
        at = cython.cast(cython.p_const_char, memchr(at, 13, end - at))
        if at is cython.NULL or at + 1 == end:
            break
        if at[1] == 10:
            return at
        at += 1
    return cython.NULL


@cython.cclass
class Decoder:
    """Turns the bytes of one client into commands. The fields stand in ``decoder.pxd``."""

    def __init__(
        self, body_bytes_max: cython.Py_ssize_t = limits.BODY_BYTES_MAX_DEFAULT, extensions: cython.int = FORMAT_NEWEST
    ):
        self.body_bytes_max = body_bytes_max
        self.extensions = extensions

    def __dealloc__(self):
        free(self.kept.data)

    # --- input --------------------------------------------------------------------------------------------------------

    def borrow(self, data, size):
        """Take `size` bytes of input without a copy where nothing is kept; `settle` must follow before they change."""
        if self.at == self.end:
            self.input = data
            self.at = 0
            self.end = size
            self.borrowed = True
            return 0
        memcpy(self.room(size), data, size)
        self.extend(size)
        return 0

    def room(self, size):
        """Return where `size` more bytes of input can be written, behind what is kept; `extend` says how many were."""
        self.settle()
        self.kept.start = self.at
        self.kept.size = self.end
        reserve(cython.address(self.kept), size)
        self.input = self.kept.data
        self.at = self.kept.start
        self.end = self.kept.size
        return self.kept.data + self.end

    def extend(self, size):
        """Count `size` bytes, written where `room` said, as input."""
        self.end += size

    def settle(self):
        """Keep what is left of borrowed input; give a large buffer back when nothing is left."""
        left: cython.Py_ssize_t = self.end - self.at
        if left and not self.borrowed:
            return 0
        self.kept.start = 0
        self.kept.size = 0
        if left:
            append(cython.address(self.kept), self.input + self.at, left)
        else:
            shrink(cython.address(self.kept), INPUT_BYTES_KEPT)
        self.borrowed = False
        self.input = self.kept.data
        self.at = 0
        self.end = left
        return 0

    @property
    def buffered_bytes(self) -> int:
        return self.kept.capacity

    def receive(self, data: bytes) -> None:
        """Take a copy of `data` as input."""
        size: cython.Py_ssize_t = len(data)
        if size == 0:
            return
        memcpy(self.room(size), cython.cast(cython.p_const_char, data), size)
        self.extend(size)

    def next_command(self) -> Command | None:
        """Return the next complete command, which holds until more is received; None: it needs more input."""
        command: Command = Command()
        command.tube_bytes = 0
        if not self.next(command):
            self.settle()
            return None
        return command

    # --- commands -----------------------------------------------------------------------------------------------------

    def next(self, command):
        """Fill in the next complete command; False: more input is needed."""
        self.before_at = self.at
        self.before_mode = self.mode
        while True:
            if self.mode == Mode.LINE:
                if self.line(command):
                    return True
                if self.mode == Mode.LINE:
                    return False
            elif self.mode == Mode.BODY:
                return self.body(command)
            elif self.mode == Mode.SKIP:
                return self.skip(command)
            elif self.mode == Mode.EXTENSION_BODY:
                return self.extension_body(command)
            elif self.long_line(command):
                return True
            elif self.mode == Mode.LONG_LINE:
                return False

    def unread(self):
        """Go back to before the command that `next` has just returned, so that it returns it once more."""
        self.at = self.before_at
        self.mode = self.before_mode

    def take_cancel(self):
        """Take a cancel-reserve if it is what comes next; return 1: it was; 0: it is not; -1: more input will tell."""
        there: cython.Py_ssize_t = min(self.end - self.at, CANCEL_BYTES)
        if not self.extensions or memcmp(self.input + self.at, CANCEL, there) != 0:
            return 0
        if there < CANCEL_BYTES:
            return -1
        self.at += CANCEL_BYTES
        return 1

    def line(self, command):
        """Decode a command line. False: it is not complete, or the mode changed."""
        start: cython.p_const_char = self.input + self.at
        there: cython.Py_ssize_t = min(self.end - self.at, LINE_BYTES_MAX)
        cr: cython.p_const_char = line_end(start, start + there)
        if cr is cython.NULL:
            return there == LINE_BYTES_MAX and self.extension_line(command)
        self.at += cr + 2 - start
        command.counted = Verb.NONE
        command.closes = False
        command.verb = Verb.UNKNOWN_COMMAND
        line: cython.p_const_char = start
        size: cython.Py_ssize_t = cr - start
        row: cython.pointer(VerbRow) = row_of_letter[cython.cast(cython.uchar, start[0])]
        if memchr(start, 0, size) is not cython.NULL:
            command.verb = Verb.BAD_FORMAT
            row = cython.NULL
        while row is not cython.NULL:
            if row.text_bytes <= size and memcmp(row.text, start, row.text_bytes) == 0:
                start += row.text_bytes
                if row.shape == Shape.PRI_DELAY_TTR_BYTES:
                    return self.begin_put(command, start, cr)
                if read_arguments(command, row.shape, start, cr):
                    command.verb = row.verb
                    command.counted = row.verb
                    return True
                command.verb = Verb.BAD_FORMAT
                break
            row = row.following
        found: cython.pointer(ExtensionRow) = find_extension(line, cr, self.extensions)
        return found is cython.NULL or self.extension(command, found, line, cr)

    def extension_line(self, command):
        """Decode a line that has no CRLF within the limit of old commands. False: as for `line`."""
        start: cython.p_const_char = self.input + self.at
        row: cython.pointer(ExtensionRow) = find_extension(start, start + LINE_BYTES_MAX, self.extensions)
        if row is cython.NULL:
            self.mode = Mode.LONG_LINE
            self.after_cr = False
            self.skip_left = 0
            return False
        there: cython.Py_ssize_t = min(self.end - self.at, EXTENSION_LINE_BYTES_MAX)
        cr: cython.p_const_char = line_end(start + self.scanned, start + there)
        if cr is cython.NULL:
            # A CR at the end is looked at once more, when what follows it is there.
            self.scanned = there - 1 if start[there - 1] == 13 else there
            return there == EXTENSION_LINE_BYTES_MAX and self.long_extension(command, row)
        self.scanned = 0
        self.at += cr + 2 - start
        command.counted = Verb.NONE
        command.closes = False
        return self.extension(command, row, start, cr)

    def long_extension(self, command, row):
        """Refuse a line over the limit of extensions. False: it is swallowed first, and its body behind it."""
        start: cython.p_const_char = self.input + self.at
        size: uint32_t = 0
        self.scanned = 0
        self.skip_left = 0
        if row.size_word >= 0:
            if not read_size(row, start + row.text_bytes, start + EXTENSION_LINE_BYTES_MAX, cython.address(size)):
                command.verb = Verb.BAD_FORMAT
                command.counted = Verb.NONE
                command.closes = True
                self.at = self.end
                return True
            self.skip_left = cython.cast(uint64_t, size) + 2
        self.mode = Mode.LONG_LINE
        self.after_cr = False
        return False

    def extension(self, command, row, start, end):
        """Read a line whose verb is an extension, up to its CRLF at `end`. False: its body comes first."""
        at: cython.p_const_char = start + row.text_bytes
        if not read_extension(row, at, end, cython.address(command.args), self.extensions):
            return self.refuse(command, row, at, end)
        if row.size_word >= 0:
            size: cython.Py_ssize_t = command.args.body_bytes
            if size > self.size_limit(row):
                return self.swallow(size, Verb.JOB_TOO_BIG, Verb.NONE)
            # The line stays with the input until its body is there: what it names lies in it.
            self.at = start - self.input
            self.line_bytes = end - start + 2
            self.put_bytes = size
            self.mode = Mode.EXTENSION_BODY
            return False
        command.verb = row.verb
        command.counted = row.verb
        return True

    def refuse(self, command, row, at, end):
        """Refuse a line whose verb is an extension: what follows the verb is wrong."""
        size: uint32_t = 0
        command.verb = Verb.BAD_FORMAT
        if row.size_word < 0:
            return True
        if not read_size(row, at, end, cython.address(size)):
            command.closes = True
            return True
        return self.swallow(size, Verb.JOB_TOO_BIG if size > self.size_limit(row) else Verb.BAD_FORMAT, Verb.NONE)

    def swallow(self, size, verb, counted):
        """Let a body of `size` bytes be passed over, before the command that is made of the line: a mistake."""
        self.skip_left = cython.cast(uint64_t, size) + 2
        self.skip_verb = verb
        self.skip_counted = counted
        self.mode = Mode.SKIP
        return False

    def size_limit(self, row):
        """Return how many bytes the body behind a line of this kind may have."""
        kind: Kind = row.words[row.size_word]
        if kind == Kind.TEXT_BYTES:
            return TEXT_BYTES_MAX
        if kind == Kind.DOCUMENT_BYTES:
            return DOCUMENT_BYTES_MAX
        return RULES_BYTES_MAX if kind == Kind.RULES_BYTES else self.body_bytes_max

    def extension_body(self, command):
        """Take the line of an extension with its body."""
        start: cython.p_const_char = self.input + self.at
        size: cython.Py_ssize_t = self.put_bytes
        if self.end - self.at < self.line_bytes + size + 2:
            return False
        end: cython.p_const_char = start + self.line_bytes - 2
        row: cython.pointer(ExtensionRow) = find_extension(start, end, self.extensions)
        read_extension(row, start + row.text_bytes, end, cython.address(command.args), self.extensions)
        body: cython.p_const_char = start + self.line_bytes
        self.at += self.line_bytes + size + 2
        self.mode = Mode.LINE
        command.counted = Verb.NONE
        if body[size] != 13 or body[size + 1] != 10:
            command.verb = Verb.EXPECTED_CRLF
            command.closes = True  # which bytes belong to the body is anybody's guess
            return True
        command.verb = row.verb
        command.counted = row.verb
        command.closes = False
        command.body_at = body
        command.body_bytes = size
        return True

    def begin_put(self, command, at, end):
        """Read the numbers of a put. True: it is wrong; False: its body (or what is to be swallowed) comes next.

        The order of the checks is beanstalkd's: the size before what follows the last number. After a bad line the
        body is not skipped but decoded as commands.
        """
        size: uint32_t = 0
        command.verb = Verb.BAD_FORMAT
        at = read_u32(at, end, cython.address(self.put_pri))
        if at is not cython.NULL:
            at = read_seconds(at, end, cython.address(self.put_delay_ns))
        if at is not cython.NULL:
            at = read_u32(at, end, cython.address(self.put_ttr_s))
        if at is not cython.NULL:
            at = read_u32(at, end, cython.address(size))
        if at is cython.NULL:
            return True
        if size > self.body_bytes_max:
            return self.swallow(size, Verb.JOB_TOO_BIG, Verb.PUT)
        if at != end:
            command.counted = Verb.PUT
            return True
        self.put_bytes = size
        self.mode = Mode.BODY
        return False

    def body(self, command):
        """Take the body of a put with its CRLF."""
        size: cython.Py_ssize_t = self.put_bytes
        if self.end - self.at < size + 2:
            return False
        body: cython.p_const_char = self.input + self.at
        self.at += size + 2
        self.mode = Mode.LINE
        command.counted = Verb.PUT
        if body[size] != 13 or body[size + 1] != 10:
            command.verb = Verb.EXPECTED_CRLF
            command.closes = False
            return True
        command.verb = Verb.PUT
        command.pri = self.put_pri
        command.delay_ns = self.put_delay_ns
        command.ttr_s = max(self.put_ttr_s, 1)
        command.body_at = body
        command.body_bytes = size
        return True

    def skip(self, command):
        """Swallow the body of a line that is refused, whatever it holds.

        Where that of an extension does not end with CRLF, its size was as wrong as the rest of the line: nothing behind
        it is understood.
        """
        there: cython.Py_ssize_t = self.end - self.at
        if cython.cast(uint64_t, there) < self.skip_left:
            if there > 0:
                self.after_cr = self.input[self.end - 1] == 13
            self.skip_left -= there
            self.at = self.end
            return False
        self.at += cython.cast(cython.Py_ssize_t, self.skip_left)
        if self.skip_left > 1:
            self.after_cr = self.input[self.at - 2] == 13
        self.mode = Mode.LINE
        command.verb = self.skip_verb
        command.counted = self.skip_counted
        command.closes = self.skip_counted != Verb.PUT and not (self.after_cr and self.input[self.at - 1] == 10)
        return True

    def long_line(self, command):
        """Swallow a line over the limit up to its CRLF. False: there is more to swallow."""
        byte: cython.char
        while self.at < self.end:
            byte = self.input[self.at]
            self.at += 1
            if byte == 10 and self.after_cr:
                command.verb = Verb.BAD_FORMAT
                command.counted = Verb.NONE
                command.closes = False
                if self.skip_left:
                    self.skip_verb = Verb.BAD_FORMAT
                    self.skip_counted = Verb.NONE
                    self.mode = Mode.SKIP
                    return False
                self.mode = Mode.LINE
                return True
            self.after_cr = byte == 13
        return False
