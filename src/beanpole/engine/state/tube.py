"""A tube: its jobs by state, the sessions that wait for one, its counters and its rules.

A tube lives as long as a session uses or watches it or a job is in it; ``default`` lives for ever. Only the engine
changes a tube, so that its counters and the engine's always agree.

Rules are set for a pattern (a name, a prefix of names, or all); a tube without rules has None. One set applies to a
tube, and nothing is merged: that of its name, else that of the longest prefix.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice

import cython
from cython.cimports.beanpole.engine.state.heap import Heap, Item, Timed
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free

from beanpole.engine import limits
from beanpole.protocol.rules import NUMBERS, Rules

BUCKETS_MAX = cython.declare(cython.Py_ssize_t, limits.BUCKETS_MAX)
BUCKETS_LOOKED_AT = 2  # kept buckets that are looked at, whether they are full by now, whenever one more is kept


@cython.no_gc
@cython.cclass
class RuleSet:
    """The rules that were set for a pattern. The fields stand in ``tube.pxd``."""

    def __cinit__(self, pattern: bytes, rules: Rules, set_at_ns: int64_t):
        self.pattern = pattern
        self.text = rules.text
        self.set_at_ns = set_at_ns
        for name in NUMBERS:
            setattr(self, name, getattr(rules, name))
        self.rate.interval_ns, self.rate.burst = rules.rate_interval_ns, rules.rate_burst
        self.group_rate.interval_ns, self.group_rate.burst = rules.group_rate_interval_ns, rules.group_rate_burst


@cython.cclass
class RuleTable:
    """Every set of rules.

    Prefixes are kept in order, and each knows the longest other one that it begins with. The greatest one that is not
    greater than a name begins with all those that the name begins with: so the one wanted is found from there, from one
    to the next.
    """

    def __cinit__(self):
        self.sets = {}

    @property
    def count(self) -> int:
        return len(self.sets)

    def match(self, name):
        """Return the rules of a tube, or None."""
        found: RuleSet = self.sets.get(name)
        if found is not None:
            return found
        if self.prefixes is None:
            self.order()
        at: cython.Py_ssize_t = bisect_right(self.prefixes, name) - 1
        while at >= 0:
            prefix: bytes = self.prefixes[at]
            if name.startswith(prefix):
                return self.sets[prefix + b"*"]
            at = self.above[at]
        return None

    def home_of(self, name):
        """Return the name of the tube that gets what is put into one, of whose name a part may be that of a group."""
        rules: RuleSet = self.match(name) if b";" in name else None
        before, _, behind = name.partition(b";")
        return before if rules is not None and rules.groups_split and before and behind else name

    def order(self):
        """Put the prefixes in order, and link each to the longest other one that it begins with."""
        at: cython.Py_ssize_t
        i: cython.Py_ssize_t
        self.prefixes = sorted([pattern[:-1] for pattern in self.sets if pattern.endswith(b"*")])
        self.above = []
        for i in range(len(self.prefixes)):
            prefix: bytes = self.prefixes[i]
            at = i - 1
            while at >= 0 and not prefix.startswith(self.prefixes[at]):
                at = self.above[at]
            self.above.append(at)
        return 0

    def named(self, pattern):
        return self.sets.get(pattern)

    def add(self, rules):
        """Set rules for their pattern, in place of those that it has."""
        self.sets[rules.pattern] = rules
        self.prefixes = None
        return 0

    def drop(self, pattern):
        """Forget the rules of a pattern that has some."""
        del self.sets[pattern]
        self.prefixes = None
        return 0

    def all(self) -> list[RuleSet]:
        """Return all sets in the order of their patterns."""
        return [self.sets[pattern] for pattern in sorted(self.sets)]


@cython.no_gc
@cython.cclass
class Buckets:
    """Buckets that are kept by the name of what had them. The fields stand in ``tube.pxd``."""

    def __cinit__(self, count_max: cython.Py_ssize_t = BUCKETS_MAX):
        self.by_name = {}
        self.count_max = count_max

    def keep(self, name, rate, full_at_ns, now_ns):
        """Keep a bucket unless it is full; forget some that are full by now.

        While a log is read back (there is no time yet) none is kept: when the engine begins to serve, all are empty.
        There are never too many: who takes a token here and the next one there gets no more memory by that.
        """
        if rate.interval_ns == 0 or now_ns == 0 or full_at_ns <= now_ns:
            return 0
        kept: tuple
        for other in list(islice(self.by_name, BUCKETS_LOOKED_AT)):
            kept = self.by_name.pop(other)
            if cython.cast(int64_t, kept[0]) > now_ns:
                self.by_name[other] = kept  # behind the others
        if len(self.by_name) >= self.count_max:
            self.by_name.pop(next(iter(self.by_name)))
        self.by_name[name] = (full_at_ns, rate.interval_ns, rate.burst)
        return 0

    def take(self, name, rate):
        """Return when the bucket is full that was kept of a name, if it was of that rate, and keep it no more; or 0."""
        kept: tuple = self.by_name.pop(name, None)
        return 0 if kept is None or kept[1:] != (rate.interval_ns, rate.burst) else kept[0]


# --- tubes ------------------------------------------------------------------------------------------------------------


@cython.no_gc
@cython.cclass
class GroupPause(Item):
    """The pause of a group. The fields stand in ``tube.pxd``."""

    def __cinit__(self, tube: bytes, group: bytes):
        self.tube = tube
        self.group = group


@cython.no_gc
@cython.cclass
class Group(Item):
    """One group of a tube. The fields stand in ``tube.pxd``."""

    def __cinit__(self, name: bytes):
        self.name = name
        self.ready = Heap()
        self.weight = 1


@cython.no_gc
@cython.cclass
class Groups:
    """The groups of a tube. The fields stand in ``tube.pxd``, what is done with them in ``groups.py``."""

    def __cinit__(self, buckets: Buckets):
        self.by_name = {}
        self.all = []
        self.buckets = buckets
        self.open = Heap()
        self.timed = Heap()


@cython.no_gc
@cython.cclass
class Watch(Item):
    """That a session watches a tube; also the session's place in the tube's waiting line."""

    def __cinit__(self, session: Item, tube: Tube):
        self.session = session
        self.tube = tube


@cython.no_gc
@cython.cclass
class Space:
    """What may lie in the tubes of a pattern. The fields stand in ``tube.pxd``."""

    def __cinit__(self, pattern: bytes):
        self.pattern = pattern

    def limit(self, jobs_max: int64_t, bytes_max: int64_t, tubes_max: int64_t) -> None:
        """Set how much may lie there; 0: no limit."""
        self.jobs_max = jobs_max
        self.bytes_max = bytes_max
        self.tubes_max = tubes_max


@cython.cclass
class SpaceTable:
    """Every space. The fields stand in ``tube.pxd``."""

    def __cinit__(self, patterns: Iterable[bytes]):
        self.spaces = {pattern: Space(pattern) for pattern in patterns}
        sizes = {len(pattern) - 1 for pattern in self.spaces if pattern.endswith(b"*")}
        self.sizes = tuple(sorted(sizes, reverse=True))

    def of(self, name):
        """Return the space with the longest pattern for a name, or None."""
        space: Space = self.spaces.get(name)
        size: cython.Py_ssize_t
        for size in self.sizes:
            if space is not None:
                break
            if size <= len(name):
                space = self.spaces.get(name[:size] + b"*")
        return space

    def is_full(self, name):
        """Whether there can be no more tubes where that of a name would be."""
        space: Space = self.of(name)
        return space is not None and 0 < space.tubes_max <= space.tube_count

    def enter(self, tube, jobs):
        """Count a tube with so many jobs in its space, if it is not counted there."""
        space: Space = self.of(tube.name)
        if space is tube.space:
            return 0
        tube.space = space
        if space is not None:
            space.tube_count += 1
            space.job_count += jobs
            space.body_bytes += tube.body_bytes
        return 0


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
        if self.delayed.count and self.delayed.entries[0].key <= now_ns:
            return cython.cast(Item, self.delayed.entries[0].item)
        return None

    def pause(self, seconds, until_ns):
        """Note that the tube is paused until a moment, for which so many seconds were asked; 0: that it is not."""
        self.pause_s = seconds
        self.paused_until_ns = until_ns
        self.closed = self.closed & ~cython.cast(uint8_t, Closed.PAUSED) | (Closed.PAUSED if until_ns else 0)

    def end_pause(self, now_ns):
        if not 0 < self.paused_until_ns <= now_ns:
            return False
        self.pause(0, 0)
        return True

    def open_when_due(self, now_ns, started_at_ns):
        """Open the tube if it waits for a token, or a probe, whose time has come; after a start a bucket is empty."""
        opened: uint8_t = 0
        if self.closed & Closed.RATE:
            if has_token(self.rules.rate, cython.address(self.full_at_ns), now_ns, started_at_ns):
                opened = Closed.RATE
        if awaits_probe(self) and self.breaker.probe_at_ns <= now_ns:
            opened |= Closed.BREAKER
        self.closed &= ~opened
        return opened != 0 and self.closed == 0

    def next_due_ns(self):
        due_ns: int64_t = self.delayed.entries[0].key if self.delayed.count else -1
        if self.paused_until_ns and (due_ns < 0 or self.paused_until_ns < due_ns):
            due_ns = self.paused_until_ns
        if self.closed & Closed.RATE and (due_ns < 0 or token_at_ns(self) < due_ns):
            due_ns = token_at_ns(self)
        if awaits_probe(self) and (due_ns < 0 or self.breaker.probe_at_ns < due_ns):
            due_ns = self.breaker.probe_at_ns
        if self.groups is not None and self.groups.timed.count:
            group_ns: int64_t = self.groups.timed.entries[0].key
            due_ns = group_ns if due_ns < 0 else min(due_ns, group_ns)
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
