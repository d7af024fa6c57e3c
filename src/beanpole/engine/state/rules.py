"""The rules of tubes: what was set for a pattern (a name, a prefix of names, or all), and what one tube has of it.

Each tube has an object of its own, for a rule may have a state; a tube without rules has None. One set applies to a
tube, and nothing is merged: that of its name, else that of the longest prefix. Prefixes are kept in order, and each
knows the longest other one that it begins with. The greatest one that is not greater than a name begins with all those
that the name begins with: so the one wanted is found from there, from one to the next.
"""

from bisect import bisect_right

import cython
from cython.cimports.libc.stdint import int64_t

from beanpole.protocol.rules import Rules


@cython.no_gc
@cython.cclass
class RuleSet:
    """The rules that were set for a pattern. The fields stand in ``rules.pxd``."""

    def __cinit__(self, pattern: bytes, rules: Rules, set_at_ns: int64_t):
        self.pattern = pattern
        self.rules = rules
        self.text = rules.text
        self.set_at_ns = set_at_ns


@cython.no_gc
@cython.cclass
class TubeRules:
    """The rules of one tube. The fields stand in ``rules.pxd``."""

    def __cinit__(self, source: RuleSet):
        self.source = source
        rules = source.rules
        self.attempts = rules.attempts
        self.dead = rules.dead
        self.backoff_ns = rules.backoff_ns
        self.backoff_factor_1000 = rules.backoff_factor_1000
        self.backoff_max_ns = rules.backoff_max_ns
        self.expire_ns = rules.expire_ns
        self.expire_dead = rules.expire_dead
        self.unique = rules.unique
        self.unique_until_reserve = rules.unique_until_reserve
        self.unique_replace = rules.unique_replace
        self.jobs_max = rules.jobs_max
        self.bytes_max = rules.bytes_max
        if rules.rate is not None:
            self.rate_interval_ns = rules.rate.interval_ns
            self.rate_burst = rules.rate.burst
        self.concurrency = rules.concurrency


@cython.cclass
class RuleTable:
    """Every set of rules. The fields stand in ``rules.pxd``."""

    def __cinit__(self):
        self.sets = {}

    @property
    def count(self) -> int:
        """The patterns that have rules."""
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
        """Return the rules that are set for a pattern, or None."""
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
