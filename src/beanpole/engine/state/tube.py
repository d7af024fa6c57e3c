"""A tube: its jobs by state, the sessions that wait for one, and its counters.

A tube lives as long as a session uses or watches it or a job is in it; ``default`` lives for ever. Only the engine
changes a tube, so that its counters and the engine's always agree.

The tubes stand in the order of list-tubes, and its text in blocks: that of a block is kept until a tube of it comes or
goes: for a million tubes the whole takes 0.1 s and 20 MB. So a client never waits for more of it to be written than has
changed.
"""

import cython
from cython.cimports.beanpole.engine.state.heap import Heap, Item, Timed
from cython.cimports.beanpole.engine.state.rules import TubeRules, token_at_ns
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free

from beanpole.engine import limits


@cython.no_gc
@cython.cclass
class Watch(Item):
    """That a session watches a tube; also the session's place in the tube's waiting line."""

    def __cinit__(self, session: Item, tube: Tube):
        self.session = session
        self.tube = tube


@cython.no_gc
@cython.cclass
class Tube(Timed):
    """One tube. The fields stand in ``tube.pxd``."""

    def __cinit__(self, name: bytes, number: uint64_t):
        self.name = name
        self.number = number
        self.ready = Heap()
        self.delayed = Heap()
        self.buried = Heap()

    def __dealloc__(self):
        free(self.ages.spans)

    def due_job(self, now_ns):
        """Return the delayed job that is due."""
        if self.delayed.count and self.delayed.entries[0].key <= now_ns:
            return cython.cast(Item, self.delayed.entries[0].item)
        return None

    def pause(self, seconds, until_ns):
        """Note that the tube is paused until a moment, for which so many seconds were asked; 0: that it is not."""
        self.pause_s = seconds
        self.paused_until_ns = until_ns
        self.closed = self.closed & ~cython.cast(uint8_t, Closed.PAUSED) | (Closed.PAUSED if until_ns else 0)

    def end_pause(self, now_ns):
        """End a pause that is over."""
        if not 0 < self.paused_until_ns <= now_ns:
            return False
        self.pause(0, 0)
        return True

    def take_in_tokens(self, now_ns, started_at_ns):
        """Open the tube if it is closed for a token that has come by now; after a start the bucket is empty."""
        if not self.closed & Closed.RATE:
            return False
        rules: TubeRules = self.rules
        rules.full_at_ns = max(rules.full_at_ns, started_at_ns + rules.rate_burst * rules.rate_interval_ns)
        if token_at_ns(rules) > now_ns:
            return False
        self.closed &= ~cython.cast(uint8_t, Closed.RATE)
        return self.closed == 0

    def next_due_ns(self):
        """Return when the pause ends, the next delay does, or the next token comes."""
        due_ns: int64_t = self.delayed.entries[0].key if self.delayed.count else -1
        if self.paused_until_ns and (due_ns < 0 or self.paused_until_ns < due_ns):
            due_ns = self.paused_until_ns
        if self.closed & Closed.RATE and (due_ns < 0 or token_at_ns(self.rules) < due_ns):
            due_ns = token_at_ns(self.rules)
        return due_ns

    def join_waiting(self, watch):
        """Put a session at the end of the waiting line."""
        watch.earlier = self.last_waiting
        if self.last_waiting is None:
            self.first_waiting = watch
        else:
            self.last_waiting.later = watch
        self.last_waiting = watch
        self.waiting_count += 1

    def leave_waiting(self, watch):
        """Take a session out of the waiting line."""
        if watch.earlier is None:
            self.first_waiting = watch.later
        else:
            watch.earlier.later = watch.later
        if watch.later is None:
            self.last_waiting = watch.earlier
        else:
            watch.later.earlier = watch.earlier
        watch.earlier = None
        watch.later = None
        self.waiting_count -= 1


TUBES_PER_BLOCK = cython.declare(cython.Py_ssize_t, limits.TUBES_PER_BLOCK)


@cython.cclass
class TubeList:
    """Every tube of an engine, each of which knows its index."""

    def __cinit__(self):
        self.tubes = []
        self.texts = []

    def add(self, tube):
        """Append a tube. The text of a block is written when its last tube comes."""
        tube.list_index = len(self.tubes)
        self.tubes.append(tube)
        self.changed(tube.list_index)
        if len(self.tubes) % TUBES_PER_BLOCK == 0:
            self.text(tube.list_index // TUBES_PER_BLOCK)
        return 0

    def remove(self, tube):
        """Remove a tube; the last one takes its place."""
        last: Tube = self.tubes.pop()
        if last is not tube:
            self.changed(last.list_index)
            last.list_index = tube.list_index
            self.tubes[tube.list_index] = last
        return self.changed(tube.list_index)

    def changed(self, index):
        """Forget the text of the block with this index, or the block if the list now ends where it began."""
        block: cython.Py_ssize_t = index // TUBES_PER_BLOCK
        if block == len(self.texts):
            self.texts.append(None)
        elif index % TUBES_PER_BLOCK == 0 and index == len(self.tubes):
            self.texts.pop()
        else:
            self.texts[block] = None
        return 0

    def text(self, block):
        """Return the text of a block."""
        if self.texts[block] is None:
            first: cython.Py_ssize_t = block * TUBES_PER_BLOCK
            self.texts[block] = names(self.tubes[first : first + TUBES_PER_BLOCK])
        return self.texts[block]

    def all_texts(self):
        """Return the text of every block, in order."""
        for block in range(len(self.texts)):
            self.text(block)
        return list(self.texts)


def names(tubes):
    """Return the items of a YAML list of tube names."""
    return b"".join([b"- %b\n" % cython.cast(Tube, tube, typecheck=True).name for tube in tubes])
