"""A routed client's channel to a shard: what it was sent, and where its replies end.

Replies whose turn has not come are kept as they are, and no more room is given for them. One that is under way is
passed on in whatever pieces it comes.
"""

import cython
from cython.cimports.beanpole.protocol.buffer import append, consume
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.beanpole.protocol.wire import Found, ReplyReader
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memchr

from beanpole.errors import UnexpectedReplyError
from beanpole.protocol import limits
from beanpole.shards.map import Shard

REPLY_LINE_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.REPLY_LINE_BYTES_MAX)

DEFAULT = b"default"

lines = cython.declare(ReplyReader, ReplyReader())
"""What reads the lines of replies. It keeps nothing of them."""


def taken(out):
    """Return what is to be sent, as if it had been."""
    found: bytes = out.data[out.start : out.size]
    consume(out, out.size - out.start, 0)
    return found


@cython.cclass
class Lane:
    """A client's channel to a shard. The fields stand in ``lane.pxd``."""

    def __cinit__(self, shard: Shard):
        self.shard = shard
        self.hushed = []
        self.used = DEFAULT
        self.watched = {DEFAULT}

    def __dealloc__(self):
        free(self.out.data)
        free(self.kept.data)
        free(self.whole.data)

    def ask(self, data, size):
        """Send a command; its reply is the next that is counted."""
        append(cython.address(self.out), data, size)
        self.asked += 1
        return 0

    def tell(self, line):
        """Send a command whose reply nobody is given."""
        self.ask(line, len(line))
        self.hushed.append(self.asked)
        return 0

    def available(self):
        """Return how many bytes of the next reply are there, up to the end of a frame; 0: more has to come."""
        there: cython.Py_ssize_t = self.kept.size - self.kept.start
        if self.left == 0 and there:
            line: cython.p_const_char = self.kept.data + self.kept.start
            newline = cython.cast(cython.p_const_char, memchr(line, 10, there))
            if newline is cython.NULL:
                if there >= REPLY_LINE_BYTES_MAX:
                    raise UnexpectedReplyError("a reply has no end")
                return 0
            found: Found
            lines.read_line(line, newline + 1 - line, cython.address(found))
            self.left = newline + 1 - line + (found.body_bytes + 2 if found.has_body else 0)
            if self.frames_left:
                if found.word != Word.JOB and found.word != Word.SCHEDULE:
                    raise UnexpectedReplyError("a reply lacks one of its frames")
                self.frames_left -= 1
            elif found.word == Word.JOBS or found.word == Word.SCHEDULES:
                self.frames_left = found.number
        return min(there, self.left)

    def give(self, size):
        """Forget bytes that were passed on; return whether the reply ended with them."""
        consume(cython.address(self.kept), size, 0)
        self.left -= size
        if self.left or self.frames_left:
            return False
        self.answered += 1
        return True
