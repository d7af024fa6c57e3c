"""Schedules: what puts jobs by the wall clock, and where they stand until then.

A schedule is a document (``beanpole.schedules``), which a client set, and a state, which says what has become of it.
Those that have a next time stand in a heap by wall time; those that are paused, or have nothing left, in none. What
fires them is in ``policies/firing.py``. A document is read when it fires first: a log that is read back, and a node
that follows one, need neither its lines nor zones.
"""

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING
from zlib import crc32

import cython
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.libc.stdint import int64_t

if TYPE_CHECKING:
    from beanpole.schedules.document import Document
    from beanpole.schedules.timing import Timing


MINUTE_NS = cython.declare(int64_t, 60_000_000_000)


def parsed(text: bytes) -> Document:
    """Return the document that a text is."""
    from beanpole.schedules.document import parse  # noqa: PLC0415 - who has no schedules loads nothing of them

    return parse(text)


def timing_of(document: Document) -> Timing | None:
    """Return the times of a document; None: this machine has no data of its zone."""
    from beanpole.schedules.zones import ZoneError  # noqa: PLC0415 - as above

    try:
        return document.timing()
    except ZoneError:
        return None


@cython.no_gc
@cython.cclass
class Schedule:
    """One schedule. The fields stand in ``schedule.pxd``."""

    def __init__(self, name: bytes, text: bytes):
        self.name = name
        self.text = text

    def read(self):
        """Read the document, unless that is done."""
        return 0 if self.is_read else self.take(parsed(self.text))

    def take(self, document):
        """Let the fields be what the document says."""
        self.is_read = True
        self.overlap = document.overlap
        self.catch_up = document.catch_up
        self.until_reserve = document.until_reserve
        self.tube = document.tube
        self.key = document.key
        self.body_at = len(self.text) - len(document.body)
        self.pri = document.pri
        self.ttr_s = document.ttr_s
        self.delay_ns = document.delay_ns
        self.expire_ns = document.expire_ns
        self.late_ns = document.late_ns
        self.spread_ns = crc32(self.name) * document.spread_ns >> 32
        self.timing = timing_of(document)
        return 0

    def forget(self):
        """Forget what was read of the document: it takes memory, and is read again when it is needed."""
        self.is_read = False
        self.timing = None
        self.tube = self.key = None
        return 0

    def tube_name(self):
        """Return the name of its tube, for which the document need not be read."""
        header, _, _ = self.text.partition(b"\n\n")
        _, _, tube = header.partition(b"\ntube: ")
        return tube.partition(b"\n")[0] or b"default"

    def times(self):
        """Return its times; None: this machine has no data of its zone."""
        if not self.is_read or self.timing is None:
            self.take(parsed(self.text))
        return self.timing


@cython.cclass
class ScheduleTable:
    """All schedules of a server. The fields stand in ``schedule.pxd``."""

    def __cinit__(self):
        self.by_name = {}
        self.names = []
        self.heap = Heap()

    @property
    def count(self) -> int:
        return len(self.names)

    def named(self, name):
        return self.by_name.get(name)

    def add(self, name, text, set_at_ns, level):
        """Make the schedule of a name, or give it another document; its state stays. The caller places it."""
        schedule: Schedule = self.by_name.get(name)
        if schedule is None:
            schedule = Schedule(name, text)
            schedule.number = self.made_count
            self.made_count += 1
            self.by_name[name] = schedule
            self.names.insert(bisect_left(self.names, name), name)
        schedule.text = text
        schedule.set_at_ns = set_at_ns
        schedule.level = level
        schedule.forget()
        return schedule

    def drop(self, schedule):
        """Forget a schedule."""
        if schedule.heap_index >= 0:
            self.heap.remove(schedule)
        self.paused_count -= schedule.state.paused
        self.zoneless_count -= schedule.zoneless
        del self.by_name[schedule.name]
        del self.names[bisect_left(self.names, schedule.name)]
        return 0

    def names_after(self, name, count):
        """Return the first names behind one, in the order of their bytes."""
        at: cython.Py_ssize_t = bisect_right(self.names, name)
        return self.names[at : at + count]

    def set_state(self, schedule, state):
        """Give a schedule a state, and let it wait as that says."""
        self.paused_count += state.paused - schedule.state.paused
        schedule.state = state[0]
        return self.place(schedule)

    def place(self, schedule):
        """Let a schedule stand in the heap as its state says; one whose next time is not known yet, for a minute."""
        waits: cython.bint = schedule.state.next_ns != 0 and not schedule.state.paused
        zoneless: cython.bint = waits and schedule.state.due_ns == 0
        self.zoneless_count += zoneless - schedule.zoneless
        schedule.zoneless = zoneless
        if not waits:
            return self.heap.remove(schedule) if schedule.heap_index >= 0 else 0
        until_ns: int64_t = self.latest_wall_ns + MINUTE_NS if zoneless else schedule.state.due_ns
        if schedule.heap_index < 0:
            return self.heap.push(schedule, until_ns, schedule.number)
        self.heap.move(schedule, until_ns)
        return 0

    def due_count(self, wall_ns):
        """Return how many should have fired by now; it takes as long as that are many."""
        return self.heap.count_until(wall_ns, 0) + self.zoneless_count
