"""The rules of tubes: what was set for a pattern, and what one tube has of it.

Each tube has an object of its own, for a rule may have a state; a tube without rules has None.
"""

import cython


@cython.no_gc
@cython.cclass
class RuleSet:
    """The rules that were set for a pattern."""

    def __cinit__(self, pattern: bytes, text: bytes):
        self.pattern = pattern
        self.text = text


@cython.no_gc
@cython.cclass
class TubeRules:
    """The rules of one tube. The fields stand in ``tuberules.pxd``."""

    def __cinit__(self, source: RuleSet):
        self.source = source
