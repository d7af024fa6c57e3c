# The header of heap.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept nogil

cdef enum:
    COUNTED_MAX = 1000                   # items that count_before counts at the most
    PLACES_END = 0x7FFFFFFF              # places of items are counted up to here, and then from 0 again
    CHILDREN = 8                         # of a node: measured better than 4 and 16 with 100 000 jobs

cdef class Item:
    cdef int32_t heap_index              # where the item stands in its heap, and `Heap.gone` besides; -1: in none
    cdef readonly uint32_t segment       # the log's segment that holds its record, of a job whole; 0: none

cdef class Timed(Item):
    # As an Item, it stands in the engine's timers.
    cdef readonly uint64_t number        # how many of its kind were made before it; breaks ties between timers
    cdef readonly bint waiting           # a session whose reserve is unanswered
    cdef int list_index                  # its place in the engine's list of its kind
    cdef Item due_job(self, int64_t now_ns)
    cdef bint end_pause(self, int64_t now_ns) noexcept
    cdef bint open_when_due(self, int64_t now_ns, int64_t started_at_ns) noexcept
    cdef int64_t next_due_ns(self) noexcept

cdef struct Entry:
    int64_t key                          # what the heap is ordered by
    uint64_t tie                         # what orders equal keys; no two entries have both the same
    void *item                           # the Item, borrowed: whoever pushes it keeps it alive

@cython.final
cdef class Heap:
    cdef Entry *entries                  # the first one
    cdef readonly Py_ssize_t count       # items
    cdef Py_ssize_t capacity             # entries allocated
    cdef Py_ssize_t gone                 # entries that have made room in front so far, modulo PLACES_END
    cdef int room                        # entries allocated in front of the first one
    cdef bint in_order                   # all of them are, so that the first one can go and no other moves
    cdef int push(self, Item item, int64_t key, uint64_t tie) except -1
    cdef int remove(self, Item item) except -1
    cdef void move(self, Item item, int64_t key) noexcept
    cdef void put_at(self, Py_ssize_t hole, Entry entry) noexcept
    cdef list first(self, Py_ssize_t count)
    cdef Py_ssize_t count_before(self, Item item) noexcept
    cdef Py_ssize_t count_until(self, int64_t key, Py_ssize_t top) noexcept
    cdef int resize(self, Py_ssize_t capacity) except -1
    cdef void fill_room(self) noexcept

cdef inline Entry *entry_of(Heap heap, Item item) noexcept:
    # The entry of an item that is in this heap.
    cdef Py_ssize_t at = item.heap_index - heap.gone
    return heap.entries + (at if at >= 0 else at + PLACES_END)

cdef inline void note_place(Item item, Py_ssize_t place) noexcept:
    # Let an item know its place, counted with those that are gone.
    item.heap_index = <int32_t> (place if place < PLACES_END else place - PLACES_END)

cdef bint sooner(Heap a, Heap b) noexcept
