# The header of replies.py: the words of the server.
cimport cython
from libc.stdint cimport uint64_t

cpdef enum Word:
    # What a reply begins with.
    INSERTED = 1
    RESERVED
    DELETED
    TIMED_OUT
    NOT_FOUND
    OK
    USING
    WATCHING
    RELEASED
    TOUCHED
    BURIED
    KICKED
    FOUND
    PAUSED
    NOT_IGNORED
    DEADLINE_SOON
    DRAINING
    JOB_TOO_BIG
    OUT_OF_MEMORY
    INTERNAL_ERROR
    BAD_FORMAT
    UNKNOWN_COMMAND
    EXPECTED_CRLF

cdef enum Form:
    # What follows the word.
    BARE                                 # nothing
    NUMBER                               # <id> or <count>
    NUMBER_OR_BARE                       # a number, or nothing: which one depends on the command
    NAME                                 # <tube>
    BODY                                 # <bytes>, and a body
    NUMBER_BODY                          # <id> <bytes>, and a body

cdef struct WordRow:
    const char *line                     # the word with CRLF: a whole reply
    const char *start                    # the word with a space: an argument follows
    Py_ssize_t word_bytes
    Form form

cdef WordRow[32] words                   # by Word; the first row is empty

@cython.final
@cython.no_gc
cdef class ReplyBuffer:
    cdef char *data
    cdef readonly Py_ssize_t size        # bytes written
    cdef Py_ssize_t sent                 # bytes at the front that are gone already
    cdef Py_ssize_t capacity             # bytes allocated at data; 0: none yet
    cdef int grow(self, Py_ssize_t more) except -1
    cdef int add(self, const char *text, Py_ssize_t size) except -1
    cdef int add_number(self, uint64_t number) except -1
    cdef int add_bytes(self, bytes text) except -1
    cdef int end(self) except -1
    cdef int word(self, Word word) except -1
    cdef int begin(self, Word word) except -1
    cdef int number(self, Word word, uint64_t number) except -1
    cdef int name(self, Word word, bytes name) except -1
    cdef int body(self, Word word, uint64_t id, const char *body, Py_ssize_t body_bytes) except -1
    cdef int text(self, bytes text) except -1
    cdef void consume(self, Py_ssize_t size) noexcept
    cdef void release(self) noexcept
