"""The rules of tubes: what was set for a pattern, and what one tube has of it.

Each tube has an object of its own, for a rule may have a state; a tube without rules has None.
"""

import cython
from cython.cimports.libc.stdint import int64_t

from beanpole.protocol.rules import Rules


@cython.no_gc
@cython.cclass
class RuleSet:
    """The rules that were set for a pattern. The fields stand in ``tuberules.pxd``."""

    def __cinit__(self, pattern: bytes, rules: Rules, set_at_ns: int64_t):
        self.pattern = pattern
        self.rules = rules
        self.text = rules.text
        self.set_at_ns = set_at_ns


@cython.no_gc
@cython.cclass
class TubeRules:
    """The rules of one tube. The fields stand in ``tuberules.pxd``."""

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
