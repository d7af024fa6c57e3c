"""The rules that are set, by pattern: for one tube by its name, for a prefix of names, or for all.

One set applies to a tube, and nothing is merged: that of its name, else that of the longest prefix.
"""

import cython
from cython.cimports.beanpole.engine.tuberules import RuleSet


@cython.cclass
class RuleTable:
    """Every set of rules. The fields stand in ``ruletable.pxd``."""

    def __cinit__(self):
        self.sets = {}
        self.prefixes = {}

    @property
    def count(self) -> int:
        """The patterns that have rules."""
        return len(self.sets)

    def match(self, name):
        """Return the rules of a tube, or None."""
        found: RuleSet = self.sets.get(name)
        if found is not None:
            return found
        for length, sets in self.prefixes.items():
            found = sets.get(name[:length])
            if found is not None and len(name) >= length:
                return found
        return None

    def named(self, pattern):
        """Return the rules that are set for a pattern, or None."""
        return self.sets.get(pattern)

    def add(self, rules):
        """Set rules for their pattern, in place of those that it has."""
        self.sets[rules.pattern] = rules
        if rules.pattern.endswith(b"*"):
            prefix: bytes = rules.pattern[:-1]
            if len(prefix) not in self.prefixes:
                self.prefixes[len(prefix)] = {}
                self.prefixes = dict(sorted(self.prefixes.items(), reverse=True))
            self.prefixes[len(prefix)][prefix] = rules
        return 0

    def drop(self, pattern):
        """Forget the rules of a pattern that has some."""
        del self.sets[pattern]
        if pattern.endswith(b"*"):
            prefix: bytes = pattern[:-1]
            del self.prefixes[len(prefix)][prefix]
            if not self.prefixes[len(prefix)]:
                del self.prefixes[len(prefix)]
        return 0

    def all(self) -> list[RuleSet]:
        """Return all sets in the order of their patterns."""
        return [self.sets[pattern] for pattern in sorted(self.sets)]
