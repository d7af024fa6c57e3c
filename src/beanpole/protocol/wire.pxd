# The header of wire.py: one client's place in the stream of replies.
cimport cython
from libc.stdint cimport uint64_t

from beanpole.protocol.buffer cimport Buffer
from beanpole.protocol.replies cimport Form, Word

cdef struct Found:
    # A reply where it lies in the reader's memory: valid until the reader receives more.
    Word word
    uint64_t number                      # as in Reply
    const char *body                     # as in Reply; NULL: the word has neither a body nor a name
    Py_ssize_t body_bytes
    bint has_body                        # a body follows the line
    const char *fields                   # as in Reply; NULL: there are none
    Py_ssize_t fields_bytes

@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Reply:
    cdef readonly int word               # a Word
    cdef readonly uint64_t number        # id, count or line of a form with a NUMBER; 0 if there is none
    cdef readonly bytes body             # what a BODY form carries, the name of USING, the ids of DELETED and TOUCHED,
                                         # the sentence of BAD_RULES; None: there is none
    cdef readonly bytes fields           # `bytes | None`: the name=value ... of JOBS and JOB, and of SCHEDULE with its name; None: there are none
    cdef readonly list frames            # `list[Reply]`: of JOBS and SCHEDULES: a frame for each; None: any other word

@cython.final
@cython.freelist(64)
cdef class Call:  # `Generic[T]`
    cdef readonly bytes data             # the command as it goes over the wire
    cdef readonly int expected           # the Word of the answer that means yes
    cdef readonly object take            # `Callable[[Reply], T] | None`: makes the value of that answer
    cdef readonly object tube            # `str | None`: the tube that has to be used; empty: the client's; None: any
    cdef readonly object uses            # `str | None`: the tube that is used behind the command; None: the one before
    cdef readonly object wait_s          # `float | None`: seconds that the server may wait before it answers; None: for ever
    cdef readonly tuple needs            # `tuple[str, ...]`: what the server must have listed before this is sent
    cdef readonly tuple also             # `tuple[int, ...]`: more Words that mean yes
    cdef readonly object instead         # `Callable[[], Any] | None`: the plan for a server that lacks something

@cython.final
cdef class ReplyReader:
    cdef Buffer input                    # received bytes that nobody has read yet
    cdef Py_ssize_t wanted               # bytes of it that the next reply needs; 0: not known yet
    cdef bint broken                     # what came was no reply: nothing behind it can be read
    cdef Reply jobs                      # JOBS or SCHEDULES of which frames are still to come; None: there is none
    cdef Py_ssize_t frames_left          # how many they are
    cdef int append(self, const char *data, Py_ssize_t more) except -1
    cpdef bint read_into(self, list replies, Py_ssize_t count) except -1
    cdef Reply read(self)
    cdef Reply read_one(self)
    cdef int next(self, Found *found) except -1
    cdef int read_line(self, const char *line, Py_ssize_t size, Found *found) except -1
    cdef const char *read_form(self, Form form, const char *at, const char *end, Found *found) noexcept
    cdef int fail(self, str sentence, const char *line, Py_ssize_t size) except -1

cdef const char *read_digits(const char *at, const char *end, uint64_t *number) noexcept
cdef uint64_t whole(object value, uint64_t most, str name) except? 0
