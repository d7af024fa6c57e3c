"""Replies: a growable C buffer that the engine writes into and the socket is fed from.

Formatting straight into C memory costs a tenth of building ``bytes`` objects, and it is half of what a command costs.
Constant replies are plain literals at the place that decides on them: the protocol has few of them, and the reader of
the engine wants to see them there.
"""

import cython
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memcpy, memmove

from beanpole import limits

FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 512)
OUTPUT_BYTES_KEPT = cython.declare(cython.Py_ssize_t, limits.OUTPUT_BYTES_KEPT)


@cython.cclass
class ReplyBuffer:
    """Bytes for one client, in order. The front that was sent is forgotten as a whole once everything is sent."""

    def __dealloc__(self):
        free(self.data)

    def grow(self, more):
        """Make room for `more` bytes. Raise MemoryError when there is none."""
        if self.sent * 2 >= self.size:
            # At least half is sent: what is left moves to the front, so that a client that is always a little behind
            # takes no more memory than it is behind.
            memmove(self.data, self.data + self.sent, self.size - self.sent)
            self.size -= self.sent
            self.sent = 0
            if self.size + more <= self.capacity:
                return 0
        capacity: cython.Py_ssize_t = max(self.capacity, FIRST_CAPACITY)
        while capacity < self.size + more:
            capacity *= 2
        grown = cython.cast(cython.p_char, realloc(self.data, capacity))
        if grown is cython.NULL:
            raise MemoryError
        self.data = grown
        self.capacity = capacity
        return 0

    def add(self, text, size):
        """Append `size` bytes."""
        if self.size + size > self.capacity:
            self.grow(size)
        memcpy(self.data + self.size, text, size)
        self.size += size
        return 0

    def add_number(self, number):
        """Append a number in decimal."""
        digits: cython.char[20]
        at: cython.int = 20
        while True:
            at -= 1
            digits[at] = cython.cast(cython.char, 48 + number % 10)
            number //= 10
            if number == 0:
                break
        return self.add(cython.address(digits[at]), 20 - at)

    def add_bytes(self, text):
        """Append a bytes object."""
        return self.add(text, len(text))

    def inserted(self, id):
        """Append ``INSERTED <id>``."""
        return self.counted(b"INSERTED ", 9, id)

    def counted(self, word, word_bytes, number):
        """Append a word with a space, a number and CRLF."""
        self.add(word, word_bytes)
        self.add_number(number)
        return self.add(b"\r\n", 2)

    def body(self, word, word_bytes, id, body, body_bytes):
        """Append a word with a space, an id, a size and a body; the memory at `body` ends with its CRLF."""
        self.add(word, word_bytes)
        self.add_number(id)
        self.add(b" ", 1)
        self.add_number(body_bytes)
        self.add(b"\r\n", 2)
        return self.add(body, body_bytes + 2)

    def text(self, text):
        """Append ``OK <bytes>`` and a YAML text."""
        self.counted(b"OK ", 3, len(text))
        self.add_bytes(text)
        return self.add(b"\r\n", 2)

    def consume(self, size):
        """Forget `size` bytes at the front: they are sent."""
        self.sent += size
        if self.sent == self.size:
            self.sent = 0
            self.size = 0
            if self.capacity > OUTPUT_BYTES_KEPT:
                self.release()

    def release(self):
        """Give all memory back."""
        free(self.data)
        self.data = cython.NULL
        self.capacity = 0

    def take(self) -> bytes:
        """Return everything that is unsent, as if it had been sent."""
        taken: bytes = self.data[self.sent : self.size] if self.size else b""
        self.consume(self.size - self.sent)
        return taken
