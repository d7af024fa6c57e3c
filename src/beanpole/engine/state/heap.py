"""The one ordered structure of the engine: a heap of eight children a node, with the keys inside it.

It serves ready jobs by (priority, id), delayed and reserved ones by (deadline, id), buried ones by the order of their
burying, and the timers. Keys stand in the entries, so that a comparison does not touch the item; eight children a
node make a third of the depth (LaMarca and Ladner, "The Influence of Caches on the Performance of Heaps", 1996). An
item knows where it stands, so it can be taken out of the middle, and it is in one heap at a time.

Most queues are first in, first out: while every entry came last and the first or the last one went, they are in order
from end to end. Then the first one goes without another one moving, and leaves room in front.

Invariant: no child is smaller than its parent by (key, tie), no entry is smaller than the one before it while
``in_order``, and ``entry_of(heap, item).item is item``.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc, realloc
from cython.cimports.libc.string import memmove

FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 4)
KEPT_CAPACITY = cython.declare(cython.Py_ssize_t, 64)
MOVED_MAX = cython.declare(cython.Py_ssize_t, 131_072)
"""Entries that are moved to the front in one piece: 3 MB, a few tenths of a millisecond."""


@cython.cclass
class Item:
    """What can stand in a heap."""

    def __cinit__(self):
        self.heap_index = -1


@cython.cclass
class Timed(Item):
    """What has something due at times: a tube or a session. The engine asks it when its timer has fired."""

    def due_job(self, now_ns):
        """Return the job whose delay or reservation is over first; None: there is none."""
        return

    def end_pause(self, now_ns):
        """End a pause that is over, and return whether there was one."""
        return False

    def open_when_due(self, now_ns, started_at_ns):
        """Open a tube that was closed until now, and return whether it was."""
        return False

    def next_due_ns(self):
        """Return the next moment at which something is due; -1: there is none."""
        return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def less(a: cython.pointer(Entry), b: cython.pointer(Entry)) -> cython.bint:
    return a.key < b.key or (a.key == b.key and a.tie < b.tie)


def sooner(a, b):
    """Whether the first item of heap `a` comes before that of `b`; neither is empty."""
    return less(a.entries, b.entries)


@cython.cfunc
@cython.exceptval(check=False)
def place(
    entries: cython.pointer(Entry),
    line: cython.pointer(cython.Py_ssize_t),
    hole: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
) -> cython.void:
    """Put the number of an entry into a heap of such numbers, which is in order but for the hole."""
    while hole > 0 and less(cython.address(entries[at]), cython.address(entries[line[(hole - 1) // 2]])):
        line[hole] = line[(hole - 1) // 2]
        hole = (hole - 1) // 2
    child: cython.Py_ssize_t
    while hole * 2 + 1 < size:
        child = hole * 2 + 1
        if child + 1 < size and less(cython.address(entries[line[child + 1]]), cython.address(entries[line[child]])):
            child += 1
        if not less(cython.address(entries[line[child]]), cython.address(entries[at])):
            break
        line[hole] = line[child]
        hole = child
    if hole < size:
        line[hole] = at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def prefetch(item: cython.p_void) -> cython.void:
    """Have the first lines of an item fetched that is needed soon: among many, it is in no cache."""
    __builtin_prefetch(item)
    __builtin_prefetch(cython.cast(cython.p_char, item) + 64)
    __builtin_prefetch(cython.cast(cython.p_char, item) + 128)


@cython.cclass
class Heap:
    """Items by (key, tie), the smallest first. The first one is ``entries[0]`` while ``count`` is not 0."""

    def __cinit__(self):
        self.in_order = True
        self.gone = PLACES_END - 100  # places begin again from 0 in the life of every heap, not of the oldest alone

    def __dealloc__(self):
        if self.entries is not cython.NULL:
            free(self.entries - self.room)

    def resize(self, capacity):
        """Give room for `capacity` entries, those in front among them. Raise MemoryError when there is none."""
        if self.room + self.count > capacity:
            self.fill_room()
        if capacity > PLACES_END:
            raise MemoryError
        entries = cython.cast(cython.pointer(Entry), realloc(self.entries - self.room, capacity * cython.sizeof(Entry)))
        if entries is cython.NULL:
            raise MemoryError
        self.entries = entries + self.room
        self.capacity = capacity
        return 0

    def fill_room(self):
        """Move all entries to the front."""
        memmove(self.entries - self.room, self.entries, self.count * cython.sizeof(Entry))
        self.entries -= self.room
        self.room = 0

    def push(self, item, key, tie):
        """Add an item that is in no heap: O(1) when it comes last, O(log n) at the worst."""
        full: cython.bint = self.room + self.count == self.capacity
        if self.room > self.count // 4 and (full or self.room >= KEPT_CAPACITY) and self.count <= MOVED_MAX:
            self.fill_room()
        elif full:
            self.resize(max(FIRST_CAPACITY, self.capacity * 2))
        entry: Entry
        entry.key = key
        entry.tie = tie
        entry.item = cython.cast(cython.p_void, item)
        if self.count == 0:
            self.in_order = True
        elif self.in_order:
            self.in_order = not less(cython.address(entry), self.entries + self.count - 1)
        self.count += 1
        self.put_at(self.count - 1, entry)
        return 0

    def remove(self, item):
        """Take out an item of this heap: O(1) when all are in order and it is the first or the last."""
        hole: cython.Py_ssize_t = entry_of(self, item) - self.entries
        assert item.heap_index >= 0, "an item is taken out of a heap that is in none"
        assert 0 <= hole < self.count, "an item is taken out of a heap that it is not in"
        item.heap_index = -1
        self.count -= 1
        if hole != self.count:
            if hole == 0 and self.in_order and (self.count < MOVED_MAX or self.room < self.count // 4):
                self.entries += 1
                self.room += 1
                self.gone = self.gone + 1 if self.gone + 1 < PLACES_END else 0
                prefetch(self.entries.item)
            else:
                self.in_order = False
                self.put_at(hole, self.entries[self.count])
        if self.capacity > KEPT_CAPACITY and self.count < self.capacity // 4:
            self.resize(self.capacity // 2)
        return 0

    def move(self, item, key):
        """Give an item of this heap another key."""
        hole: cython.Py_ssize_t = entry_of(self, item) - self.entries
        entry: Entry = self.entries[hole]
        entry.key = key
        self.in_order = self.count == 1
        self.put_at(hole, entry)

    def put_at(self, hole, entry):
        """Put an entry into the heap, which is in order but for the hole, up or down from there."""
        entries: cython.pointer(Entry) = self.entries
        gone: cython.Py_ssize_t = self.gone
        parent: cython.Py_ssize_t
        while hole > 0:
            parent = (hole - 1) // CHILDREN
            if not less(cython.address(entry), cython.address(entries[parent])):
                break
            entries[hole] = entries[parent]
            note_place(cython.cast(Item, entries[hole].item), hole + gone)
            hole = parent
        child: cython.Py_ssize_t
        best: cython.Py_ssize_t
        end: cython.Py_ssize_t
        key: int64_t
        tie: uint64_t
        is_less: cython.int
        while hole * CHILDREN + 1 < self.count:
            best = hole * CHILDREN + 1
            end = min(best + CHILDREN, self.count)
            key, tie = entries[best].key, entries[best].tie
            for child in range(best + 1, end):  # without branches: which one is the smallest can't be foreseen
                is_less = (entries[child].key < key) | ((entries[child].key == key) & (entries[child].tie < tie))
                key = entries[child].key if is_less else key
                tie = entries[child].tie if is_less else tie
                best = child if is_less else best
            if not less(cython.address(entries[best]), cython.address(entry)):
                break
            entries[hole] = entries[best]
            note_place(cython.cast(Item, entries[hole].item), hole + gone)
            hole = best
        entries[hole] = entry
        note_place(cython.cast(Item, entry.item), hole + gone)

    def first(self, count):
        """Return the first items in order, `count` at the most.

        The next item is always one of those whose parents are taken: these stand in a heap of two children a node.
        """
        found = []
        left: cython.Py_ssize_t = min(count, self.count)
        line = cython.cast(
            cython.pointer(cython.Py_ssize_t), malloc((left * CHILDREN + 1) * cython.sizeof(cython.Py_ssize_t))
        )
        if line is cython.NULL:
            raise MemoryError
        size: cython.Py_ssize_t = 1
        line[0] = 0
        try:
            while left:
                at: cython.Py_ssize_t = line[0]
                found.append(cython.cast(Item, self.entries[at].item))
                left -= 1
                size -= 1
                place(self.entries, line, 0, size, line[size])
                child: cython.Py_ssize_t
                for child in range(at * CHILDREN + 1, min(at * CHILDREN + 1 + CHILDREN, self.count)):
                    place(self.entries, line, size, size + 1, child)
                    size += 1
        finally:
            free(line)
        return found

    def count_before(self, item):
        """Return how many items come before one of this heap, COUNTED_MAX at the most.

        They are looked for from the first one down. A child of one that does not come before it does not either, so no
        more are looked at than eight for each that is counted.
        """
        pending: cython.Py_ssize_t[COUNTED_MAX]
        found: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = 0
        entries: cython.pointer(Entry) = self.entries
        last = entry_of(self, item)
        child: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 1
        while True:
            while child < end:
                if less(cython.address(entries[child]), last):
                    pending[size] = child
                    size += 1
                    found += 1
                    if found == COUNTED_MAX:
                        return found
                child += 1
            if size == 0:
                return found
            size -= 1
            child = pending[size] * CHILDREN + 1
            end = min(child + CHILDREN, self.count)

    def count_until(self, key, top):
        """Return how many items at or below the place `top` have a key up to this one; 0 is the place of the first."""
        if top >= self.count or self.entries[top].key > key:
            return 0
        found: cython.Py_ssize_t = 1
        child: cython.Py_ssize_t
        for child in range(top * CHILDREN + 1, min(top * CHILDREN + 1 + CHILDREN, self.count)):
            found += self.count_until(key, child)
        return found

    def check(self) -> None:
        """Raise AssertionError when the invariant is broken."""
        i: cython.Py_ssize_t
        for i in range(self.count):
            item: Item = cython.cast(Item, self.entries[i].item)
            assert entry_of(self, item) == self.entries + i, f"heap entry {i} does not know its place"
            parent = cython.address(self.entries[i - 1 if self.in_order else (i - 1) // CHILDREN])
            smaller: cython.bint = i > 0 and less(cython.address(self.entries[i]), parent)
            assert not smaller, f"heap entry {i} is smaller than its parent"

    def items(self) -> list[Item]:
        """Return all items in order."""
        i: cython.Py_ssize_t
        keyed = [(self.entries[i].key, self.entries[i].tie, i) for i in range(self.count)]
        return [cython.cast(Item, self.entries[i].item) for _, _, i in sorted(keyed)]
