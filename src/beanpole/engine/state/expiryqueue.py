"""The jobs whose time to wait is limited, by the moment at which it is over, while they are ready or delayed.

A heap of four children a node, like ``heap.py``; it is one of the engine's timers. A job stands in the
heap of its state besides, so that it has a second place, ``Job.slot``.

Invariant: no entry is over before its parent, by (moment, id), and each job knows its place.
"""

import cython
from cython.cimports.beanpole.engine.state.heap import Timed
from cython.cimports.beanpole.engine.state.job import Flag, Job
from cython.cimports.libc.stdint import UINT64_MAX, uint8_t, uint32_t
from cython.cimports.libc.stdlib import free, realloc

CHILDREN = cython.declare(cython.Py_ssize_t, 4)
FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 64)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def less(a: cython.pointer(Expiring), b: cython.pointer(Expiring)) -> cython.bint:
    """Whether `a` is over before `b`."""
    return a.at_ns < b.at_ns or (a.at_ns == b.at_ns and cython.cast(Job, a.job).id < cython.cast(Job, b.job).id)


@cython.no_gc
@cython.cclass
class ExpiryQueue(Timed):
    """The jobs of an engine that expire. The fields stand in ``expiryqueue.pxd``."""

    def __cinit__(self):
        self.number = UINT64_MAX  # of timers that fire at the same moment it is the last

    def __dealloc__(self):
        free(self.entries)

    def due_job(self, now_ns):
        """Return the job whose time is over first, if it is over."""
        if self.count and self.entries[0].at_ns <= now_ns:
            return cython.cast(Job, self.entries[0].job)
        return None

    def next_due_ns(self):
        """Return when the next one is over."""
        return self.entries[0].at_ns if self.count else -1

    def add(self, job, at_ns):
        """Add a job that is not in here."""
        if self.count == self.capacity:
            self.resize(max(FIRST_CAPACITY, self.capacity * 2))
        entry: Expiring
        entry.at_ns = at_ns
        entry.job = cython.cast(cython.p_void, job)
        job.flags |= Flag.COUNTING
        self.count += 1
        self.put_at(self.count - 1, entry)
        return 0

    def remove(self, job):
        """Take out a job that is in here."""
        hole: cython.Py_ssize_t = job.slot
        assert hole < self.count, "a job is taken out of the queue of expiry that is not in it"
        job.slot = 0
        job.flags &= ~cython.cast(uint8_t, Flag.COUNTING)
        self.count -= 1
        if hole != self.count:
            self.put_at(hole, self.entries[self.count])
        if self.capacity > FIRST_CAPACITY and self.count < self.capacity // 4:
            self.resize(self.capacity // 2)
        return 0

    def at_ns_of(self, job):
        """Return when a job in here is over."""
        return self.entries[job.slot].at_ns

    def put_at(self, hole, entry):
        """Put an entry into the heap, which is in order but for the hole, up or down from there."""
        entries: cython.pointer(Expiring) = self.entries
        parent: cython.Py_ssize_t
        while hole > 0:
            parent = (hole - 1) // CHILDREN
            if not less(cython.address(entry), cython.address(entries[parent])):
                break
            entries[hole] = entries[parent]
            cython.cast(Job, entries[hole].job).slot = cython.cast(uint32_t, hole)
            hole = parent
        child: cython.Py_ssize_t
        best: cython.Py_ssize_t
        while hole * CHILDREN + 1 < self.count:
            best = hole * CHILDREN + 1
            for child in range(best + 1, min(best + CHILDREN, self.count)):
                if less(cython.address(entries[child]), cython.address(entries[best])):
                    best = child
            if not less(cython.address(entries[best]), cython.address(entry)):
                break
            entries[hole] = entries[best]
            cython.cast(Job, entries[hole].job).slot = cython.cast(uint32_t, hole)
            hole = best
        entries[hole] = entry
        cython.cast(Job, entry.job).slot = cython.cast(uint32_t, hole)

    def resize(self, capacity):
        """Give room for `capacity` entries. Raise MemoryError when there is none."""
        entries = cython.cast(cython.pointer(Expiring), realloc(self.entries, capacity * cython.sizeof(Expiring)))
        if entries is cython.NULL:
            raise MemoryError
        self.entries = entries
        self.capacity = capacity
        return 0

    def check(self) -> None:
        """Raise AssertionError when the invariant is broken."""
        i: cython.Py_ssize_t
        for i in range(self.count):
            job: Job = cython.cast(Job, self.entries[i].job)
            assert job.slot == i, f"job {job.id} does not know when it expires"
            assert job.flags & Flag.COUNTING, f"job {job.id} expires, and does not know"
            smaller: cython.bint = i > 0 and less(
                cython.address(self.entries[i]), cython.address(self.entries[(i - 1) // CHILDREN])
            )
            assert not smaller, f"job {job.id} expires before its parent"
