"""Reads the server's replies out of whatever pieces the socket delivers. No I/O.

The load generator owns one `ReplyReader` a connection and calls `next` until the piece is used up; after each call,
`complete` says whether a whole reply (its body included) has arrived. Bodies are skipped, not kept: only their
length and the closing CRLF are checked. A reply that the load generator never hopes for has the kind `OTHER`; its
line is kept, for the error message.
"""

import cython
from cython.cimports.libc.string import memchr, memcmp, memcpy

LINE_BYTES_MAX = cython.declare(cython.int, 512)
"""Longest reply line kept over two pieces, CRLF included. The longest the protocol knows is 210 (USING and a tube)."""


class ReplyError(Exception):
    """The server sent something that is no reply of the protocol."""


@cython.cfunc
@cython.exceptval(-1)
def read_number(at: cython.p_char, size: cython.Py_ssize_t, value: cython.p_ulonglong) -> cython.Py_ssize_t:
    """Reads decimal digits into `value` and returns how many there were; 0 is an error of the caller's line."""
    used: cython.Py_ssize_t = 0
    number: cython.ulonglong = 0
    while used < size and 48 <= at[used] <= 57:
        number = number * 10 + cython.cast(cython.ulonglong, at[used] - 48)
        used += 1
    value[0] = number
    return used


@cython.cclass
class ReplyReader:
    """The place in the stream of replies of one connection.

    - `line_size` bytes of an unfinished line are kept in `line`;
    - `body_left` bytes of the current body, its CRLF included, are still to come; never both.
    """

    def next(self, at, end):
        """Reads at most one reply from the bytes before `end` and returns where it stopped; sets `complete`."""
        self.complete = False
        if self.body_left > 0:
            return self.skip_body(at, end)
        newline: cython.p_char = cython.cast(cython.p_char, memchr(at, 10, end - at))
        if newline is cython.NULL:
            self.keep(at, end - at)
            return end
        newline += 1
        if self.line_size > 0:
            self.keep(at, newline - at)
            size: cython.Py_ssize_t = self.line_size
            self.line_size = 0
            self.read_line(self.line, size)
        else:
            self.read_line(at, newline - at)
        if self.body_left > 0 and newline < end:
            return self.skip_body(newline, end)
        return newline

    def keep(self, at, size):
        """Appends a piece of a line to what is kept of it."""
        if self.line_size + size > LINE_BYTES_MAX:
            raise ReplyError(f"a reply line of over {LINE_BYTES_MAX} bytes: {self.line[: self.line_size]!r}...")
        memcpy(self.line + self.line_size, at, size)
        self.line_size += size
        return 0

    def read_line(self, line, size):
        """Recognises one whole line (CRLF included) and sets `kind`, `job_id`, `body_bytes`, `complete`."""
        number: cython.ulonglong = 0
        used: cython.Py_ssize_t
        self.kind = Kind.OTHER
        self.complete = True
        if size < 2 or line[size - 2] != 13:
            raise ReplyError(f"a reply line without CRLF: {line[:size]!r}")
        if size == 9 and memcmp(line, b"DELETED\r\n", 9) == 0:
            self.kind = Kind.DELETED
        elif size > 11 and memcmp(line, b"INSERTED ", 9) == 0:
            used = read_number(line + 9, size - 11, cython.address(self.job_id))
            if used == size - 11:
                self.kind = Kind.INSERTED
        elif size > 13 and memcmp(line, b"RESERVED ", 9) == 0:
            used = read_number(line + 9, size - 11, cython.address(self.job_id))
            if used > 0 and line[9 + used] == 32 and 10 + used < size - 2:
                if read_number(line + 10 + used, size - 12 - used, cython.address(number)) == size - 12 - used:
                    self.kind = Kind.RESERVED
                    self.body_bytes = number
                    self.body_left = number + 2
                    self.complete = False
        elif size > 8 and memcmp(line, b"USING ", 6) == 0:
            self.kind = Kind.USING
        elif size > 11 and memcmp(line, b"WATCHING ", 9) == 0:
            self.kind = Kind.WATCHING
        if self.kind == Kind.OTHER and line != self.line:
            self.line_size = 0
            self.keep(line, min(size, LINE_BYTES_MAX))
            self.line_size = 0
        return 0

    def skip_body(self, at, end):
        """Skips what is there of the body and checks its closing CRLF."""
        step: cython.longlong = min(end - at, self.body_left)
        cr_at: cython.longlong = self.body_left - 2
        if 0 <= cr_at < step and at[cr_at] != 13:
            raise ReplyError(f"no CRLF after the body of {self.body_bytes} bytes of job {self.job_id}")
        self.body_left -= step
        if self.body_left == 0:
            if at[step - 1] != 10:
                raise ReplyError(f"no CRLF after the body of {self.body_bytes} bytes of job {self.job_id}")
            self.complete = True
        return at + step

    def other_line(self):
        """The text of the line that was just recognised as `OTHER`, without its CRLF."""
        newline: cython.p_char = cython.cast(cython.p_char, memchr(self.line, 13, LINE_BYTES_MAX))
        size: cython.Py_ssize_t = LINE_BYTES_MAX if newline is cython.NULL else newline - self.line
        return self.line[:size]

    def feed(self, data: bytes) -> list[tuple[int, int, int]]:
        """Every reply that is complete with `data`, as (kind, job id or 0, body bytes or 0). For tests."""
        at: cython.p_char = data
        end: cython.p_char = at + len(data)
        replies = []
        while at < end:
            at = self.next(at, end)
            if self.complete:
                has_id: cython.bint = self.kind == Kind.INSERTED or self.kind == Kind.RESERVED
                replies.append(
                    (
                        int(self.kind),
                        self.job_id if has_id else 0,
                        self.body_bytes if self.kind == Kind.RESERVED else 0,
                    )
                )
        return replies
