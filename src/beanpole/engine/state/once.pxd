# The header of once.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef enum:
    CHUNK = 1024                         # tokens

cdef packed struct Token:
    # What was put with a token.
    uint64_t high                        # its hash, but for the lower half of `low`
    uint32_t upper
    uint64_t id                          # the job that the put was answered with, alive or not
    uint32_t end_s                       # when it is forgotten, in whole seconds of the engine's clock
    uint32_t segment                     # of the log, in which its record lies; 0: in none

cdef struct Link:
    # What it takes to look for a token.
    uint32_t lower                       # the lower half of `low`, of its hash
    uint32_t chained                     # the next of its bucket: its number and one; 0: there is none

cdef struct Chunk:
    # Links lie together: so a look for a token that is not there mostly finds in the cache what it looks at.
    Link links[CHUNK]
    Token tokens[CHUNK]

@cython.final
cdef class OnceTable:
    cdef Chunk **chunks
    cdef Py_ssize_t chunk_count
    cdef readonly Py_ssize_t count       # tokens, numbered from 0 without a gap
    cdef uint32_t *buckets               # the first token of each, as `Link.chained` says the next
    cdef uint64_t bucket_count
    cdef uint64_t mask                   # 2^n - 1, where 2^n <= bucket_count <= 2^(n+1)
    cdef Py_ssize_t capacity             # buckets allocated
    cdef Py_ssize_t looked_at            # the number of the next token that is looked at, whether it has ended
    cdef int64_t look_at_ns              # when a tick looks at some, engine clock
    cdef Token *at(self, Py_ssize_t number) noexcept
    cdef Link *link(self, Py_ssize_t number) noexcept
    cdef uint64_t bucket(self, uint32_t lower) noexcept
    cdef void read(self, Py_ssize_t number, uint64_t *mark) noexcept
    cdef Py_ssize_t next_ended(self, int64_t now_s, Py_ssize_t *most) noexcept
    cdef Py_ssize_t find(self, uint64_t high, uint64_t low) noexcept
    cdef int make_room(self) except -1
    cdef Token *add(self, uint64_t high, uint64_t low) except NULL
    cdef int remove(self, Py_ssize_t number) except -1
    cdef uint32_t *link_to(self, Py_ssize_t number) noexcept
    cdef int split(self) except -1
    cdef int merge(self) except -1
    cdef int resize(self, Py_ssize_t capacity) except -1
