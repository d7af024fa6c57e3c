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
        self.used = self.watched = DEFAULT

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
        return self.hush()

    # --- replies ------------------------------------------------------------------------------------------------------

    def hush(self):
        """Let nobody be given the reply that was asked for last."""
        if self.hushed is None:
            self.hushed = []
        self.hushed.append(self.asked)
        return 0

    def is_hushed(self):
        """Whether nobody is given the next reply."""
        return self.hushed is not None and self.hushed[0] == self.answered + 1

    def hushed_count(self):
        return 0 if self.hushed is None else len(self.hushed)

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
            elif found.word == Word.DRAINING:
                self.drains = True
        return min(there, self.left)

    def give(self, size):
        """Forget bytes that were passed on; return whether the reply ended with them."""
        consume(cython.address(self.kept), size, 0)
        self.left -= size
        if self.left or self.frames_left:
            return False
        if self.is_hushed():
            del self.hushed[0]
            if len(self.hushed) == 0:
                self.hushed = None
        self.answered += 1
        return True

    # --- tubes --------------------------------------------------------------------------------------------------------

    def use(self, tube):
        """Let the shard know the used tube."""
        if self.used != tube:
            self.used = tube
            self.tell(b"use " + tube + b"\r\n")
        return 0

    def watch(self, tube):
        """Let the shard know that a tube is watched."""
        if not self.watches(tube):
            self.add(tube)
            self.tell(b"watch " + tube + b"\r\n")
        if self.spare and tube != DEFAULT:
            self.remove(DEFAULT)
            self.tell(b"ignore default\r\n")
        self.spare = False
        return 0

    def ignore(self, tube):
        """Let the shard know that a tube is not watched; in place of the last it watches `default`."""
        if self.watches_one():
            self.spare = True
            if tube == DEFAULT:
                return 0
            self.add(DEFAULT)
            self.tell(b"watch default\r\n")
        self.remove(tube)
        return self.tell(b"ignore " + tube + b"\r\n")

    def watches(self, tube):
        """Whether the shard takes a tube for watched."""
        return tube == self.watched if self.all_watched is None else tube in self.all_watched

    def watches_one(self):
        return self.all_watched is None

    def add(self, tube):
        """Take note that the shard takes a tube for watched, too. One alone needs no set, which takes 200 bytes."""
        if self.all_watched is not None:
            self.all_watched.add(tube)
        elif tube != self.watched:
            self.all_watched = {self.watched, tube}
            self.watched = None
        return 0

    def remove(self, tube):
        """Take note that it does so no more, of one of several."""
        self.all_watched.discard(tube)
        if len(self.all_watched) == 1:
            self.watched = self.all_watched.pop()
            self.all_watched = None
        return 0
