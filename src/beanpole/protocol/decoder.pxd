# The header of decoder.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.protocol.buffer cimport Buffer
from beanpole.protocol.commands cimport Command, Shape, Verb
from beanpole.protocol.options cimport ExtensionRow

cdef enum Mode:
    # What the next byte of input belongs to.
    LINE                                 # a command line
    BODY                                 # the body of a put, with its CRLF
    SKIP                                 # a body over the limit, which is swallowed
    LONG_LINE                            # a line over the limit, which is swallowed up to its CRLF
    EXTENSION_BODY                       # the line of an extension, which is right, and its body with its CRLF

cdef struct VerbRow:
    const char *text                     # how the line starts
    Py_ssize_t text_bytes
    Verb verb
    Shape shape
    VerbRow *following                   # the next one that begins with the same letter; NULL: it is the last

@cython.final
cdef class Decoder:
    cdef Py_ssize_t body_bytes_max       # bytes of a body; a longer one is swallowed
    cdef int extensions                  # those that it knows, by a format of a cluster's log; 0: none, as beanstalkd
    cdef Mode mode
    cdef const char *input               # what is decoded now: borrowed from the caller, or of `kept`
    cdef Py_ssize_t at                   # bytes of `input` that are decoded
    cdef Py_ssize_t before_at            # `at` and `mode` before the command that was decoded last
    cdef Mode before_mode
    cdef Py_ssize_t end                  # bytes of `input` that are there
    cdef bint borrowed                   # `input` is the caller's and must be kept before the caller reuses it
    cdef Buffer kept                     # input that waits for its rest
    cdef uint64_t skip_left              # SKIP: bytes still to swallow; LONG_LINE: those of the body behind the line
    cdef Verb skip_verb                  # SKIP: the mistake to report then, and whose counter it raises
    cdef Verb skip_counted
    cdef bint after_cr                   # LONG_LINE SKIP: the last byte swallowed was a CR
    cdef uint32_t put_pri                # BODY: the numbers of the put line
    cdef int64_t put_delay_ns
    cdef uint32_t put_ttr_s
    cdef Py_ssize_t put_bytes            # BODY, EXTENSION_BODY: bytes of the body
    cdef Py_ssize_t line_bytes           # EXTENSION_BODY: bytes of the line, CRLF included
    cdef Py_ssize_t scanned              # LINE: bytes of the line of an extension in which there is no CRLF
    cdef int borrow(self, const char *data, Py_ssize_t size) except -1
    cdef char *room(self, Py_ssize_t size) except NULL
    cdef void extend(self, Py_ssize_t size) noexcept
    cdef int settle(self) except -1
    cdef bint next(self, Command command) noexcept
    cdef void unread(self) noexcept
    cdef int take_cancel(self) noexcept
    cdef bint line(self, Command command) noexcept
    cdef bint body(self, Command command) noexcept
    cdef bint skip(self, Command command) noexcept
    cdef bint long_line(self, Command command) noexcept
    cdef bint extension_line(self, Command command) noexcept
    cdef bint long_extension(self, Command command, ExtensionRow *row) noexcept
    cdef bint extension(self, Command command, ExtensionRow *row, const char *start, const char *end) noexcept
    cdef bint swallow(self, Py_ssize_t size, Verb verb, Verb counted) noexcept
    cdef bint refuse(self, Command command, ExtensionRow *row, const char *at, const char *end) noexcept
    cdef Py_ssize_t size_limit(self, ExtensionRow *row) noexcept
    cdef bint extension_body(self, Command command) noexcept
    cdef bint begin_put(self, Command command, const char *at, const char *end) noexcept
