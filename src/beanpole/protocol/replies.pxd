# The header of replies.py: the words of the server.
cimport cython
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from beanpole.protocol.buffer cimport Buffer

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
    # To extensions alone.
    EXISTS
    REPLACED
    CHANGED
    CLEARED
    MOVED
    JOBS
    JOB
    CANCELLED
    NOT_WAITING
    RULES_SET
    DROPPED
    BAD_RULES
    NAMED
    SCHEDULES
    SCHEDULED
    SCHEDULE
    BAD_SCHEDULE
    KEPT
    NOT_KEPT
    ELSEWHERE
    AUTHENTICATED
    NOT_AUTHENTICATED
    FORBIDDEN

cdef enum Form:
    # What follows the word.
    BARE                                 # nothing
    NUMBER                               # <id> or <count>
    NUMBER_OR_BARE                       # a number, or nothing: which one depends on the command
    NAME                                 # <tube>, another word, or a right and a tube
    BODY                                 # <bytes>, and a body
    NUMBER_BODY                          # <id> <bytes>, and a body
    NUMBERS_OR_BARE                      # <count>, then ids; or nothing: which one depends on the command
    NUMBER_TEXT                          # <line> and a sentence
    FRAMES                               # <count>, then fields as name=value, and as many frames behind the line
    FRAME                                # <id> <bytes>, then fields as name=value, and a body
    NAMED_FRAME                          # <name> <bytes>, then fields as name=value, and a body

cdef enum:
    WORD_BYTES_MAX = 24                  # of a word: copied as a whole, which costs less than as many as there are
    HEAD_BYTES_MAX = 64                  # of what precedes a body, or of a reply with a number: a word, two numbers, CRLF

cdef struct WordRow:
    char[WORD_BYTES_MAX] text            # and zeros behind it
    Py_ssize_t size                      # bytes of the word
    Form form

cdef WordRow[64] words                   # by Word; the first row is empty

@cython.final
@cython.no_gc
cdef class ReplyBuffer:
    cdef Buffer buffer                   # what was not sent yet
    cdef char *room(self, Py_ssize_t size) except NULL
    cdef int add(self, const char *text, Py_ssize_t size) except -1
    cdef int add_number(self, uint64_t number) except -1
    cdef int add_bytes(self, bytes text) except -1
    cdef int end(self) except -1
    cdef int word(self, int word) except -1
    cdef int begin(self, int word) except -1
    cdef int number(self, int word, uint64_t number) except -1
    cdef int name(self, int word, bytes name) except -1
    cdef int body(self, int word, uint64_t id, const char *body, Py_ssize_t body_bytes) except -1
    cdef int text(self, bytes text) except -1
    cdef void consume(self, Py_ssize_t size) noexcept

cdef inline char *put_number(char *at, uint64_t number) noexcept:
    # Write a number in decimal where there is room for 20 digits; return where it ends.
    cdef const char *pairs = (
        b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        b"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"
    )
    cdef char[20] digits
    cdef int first = 20
    while number >= 10:
        first -= 2
        memcpy(&digits[first], pairs + number % 100 * 2, 2)
        number //= 100
    if number or first == 20:
        first -= 1
        digits[first] = <char> (48 + number)
    memcpy(at, &digits[first], 20 - first)
    return at + (20 - first)

cdef inline char *put_word(char *at, int word) noexcept:
    # Write a word where there is room for WORD_BYTES_MAX bytes; return where it ends.
    memcpy(at, words[word].text, WORD_BYTES_MAX)
    return at + words[word].size

cdef inline char *put_end(char *at) noexcept:
    memcpy(at, b"\r\n", 2)
    return at + 2
