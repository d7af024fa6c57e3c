# The header of heap.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    COUNTED_MAX = 1000                   # items that count_before counts at the most
    CHILDREN = 8                         # of a node: measured better than 4 and 16 with 100 000 jobs

cdef class Item:
    cdef Py_ssize_t heap_index           # where the item stands in its heap, and `Heap.gone` besides; -1: in none

cdef class Timed(Item):
    # As an Item, it stands in the engine's timers.
    cdef readonly uint64_t number        # how many of its kind were made before it; breaks ties between timers
    cdef readonly bint waiting           # a session whose reserve is unanswered
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
    cdef Py_ssize_t gone                 # entries that have made room in front so far
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
    return heap.entries + (item.heap_index - heap.gone)

cdef bint sooner(Heap a, Heap b) noexcept
