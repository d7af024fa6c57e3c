"""A session: what the queue knows of one client. It has no socket and no bytes of input.

While ``waiting`` is set, the session stands in the waiting line of every tube that it watches, and whoever feeds it
commands must hold them back until a reply has come.

The open sessions stand in the order of their numbers, which is that in which they came. One that closes leaves its
place empty; when most places are, they are taken out. So coming and going cost the same however many there are, and a
page of list-sessions finds where it begins by halving.
"""

import cython
from cython.cimports.beanpole.engine.state.heap import Heap, Item, Timed
from cython.cimports.beanpole.protocol.replies import ReplyBuffer
from cython.cimports.libc.stdint import uint64_t


@cython.no_gc
@cython.cclass
class Session(Timed):
    """One client of the engine. The fields stand in ``session.pxd``."""

    def __cinit__(self, number: uint64_t, owner: object):
        self.number = number
        self.owner = owner
        self.out = ReplyBuffer()
        self.watches = []
        self.watch_of = {}
        self.reserved = Heap()
        self.wait_until_ns = -1

    def due_job(self, now_ns):
        """Return the job whose TTR is over."""
        if self.reserved.count and self.reserved.entries[0].key <= now_ns:
            return cython.cast(Item, self.reserved.entries[0].item)
        return None

    def next_due_ns(self):
        """Return when the next TTR is over."""
        return self.reserved.entries[0].key if self.reserved.count else -1

    @property
    def reserved_count(self) -> int:
        """Jobs that the session holds."""
        return self.reserved.count

    def take_replies(self) -> bytes:
        """Return all replies that nobody took yet."""
        return self.out.take()


PLACES_MIN = cython.declare(cython.Py_ssize_t, 64)
"""Places up to which empty ones are left alone."""


@cython.cclass
class SessionList:
    """Every open session of an engine, each of which knows its place."""

    def __cinit__(self):
        self.places = []

    def add(self, session):
        """Append a session: no number is greater than its own."""
        session.list_index = len(self.places)
        self.places.append(session)
        self.count += 1
        return 0

    def remove(self, session):
        """Remove a session."""
        self.places[session.list_index] = None
        self.count -= 1
        if len(self.places) > PLACES_MIN and len(self.places) > 2 * self.count:
            self.squeeze()
        return 0

    def squeeze(self):
        """Take out the empty places."""
        session: Session
        self.places = [each for each in self.places if each is not None]
        for index, each in enumerate(self.places):
            session = cython.cast(Session, each, typecheck=True)
            session.list_index = index
        return 0

    def first_from(self, number):
        """Return a place before which every number is below this one, and behind which none is."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = len(self.places)
        while low < high:
            middle: cython.Py_ssize_t = (low + high) // 2
            at: cython.Py_ssize_t = middle
            while at < high and self.places[at] is None:
                at += 1
            if at < high and cython.cast(Session, self.places[at], typecheck=True).number < number:
                low = at + 1
            else:
                high = middle
        return low

    def all_sessions(self) -> list[Session]:
        """Return every session in order."""
        return [each for each in self.places if each is not None]
