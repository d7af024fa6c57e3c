"""A session: what the queue knows of one client. It has no socket and no bytes of input.

While ``waiting`` is set, the session stands in the waiting line of every tube that it watches, and whoever feeds it
commands must hold them back until a reply has come.
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
