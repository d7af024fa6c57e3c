# The header of rules.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef enum:
    RULE_TAGS_BYTES = 32                 # of the tags that rules give a job: of its attempts, expiry and key

@cython.final
cdef class RuleSet:
    cdef readonly bytes pattern          # the tubes that it is for: a name, a prefix with `*` behind it, or `*`
    cdef readonly bytes text             # its lines, as get-rules shows them
    cdef readonly int64_t set_at_ns      # when they were set, engine clock
    cdef readonly object rules           # `Rules`: what they say
    cdef readonly uint64_t segment       # the log's segment with their record; 0: none

@cython.final
cdef class TubeRules:
    cdef readonly RuleSet source         # the rules that the tube has
    # What they say, as numbers; 0 or None: there is no such rule.
    cdef readonly uint32_t attempts      # attempts after which a job is dead
    cdef readonly bytes dead             # the tube of the dead
    cdef readonly int64_t backoff_ns     # delay after the first attempt
    cdef readonly uint32_t backoff_factor_1000   # how much longer each next one is, in thousandths
    cdef readonly int64_t backoff_max_ns
    cdef readonly int64_t expire_ns      # how long a job may wait
    cdef readonly bint expire_dead       # who waited so long is dead, not deleted
    cdef readonly bint unique            # the body is the key
    cdef readonly bint unique_until_reserve
    cdef readonly bint unique_replace
    cdef readonly uint32_t jobs_max      # ready and delayed jobs beyond which puts are refused
    cdef readonly int64_t bytes_max      # bytes of all bodies beyond which puts are refused
    cdef readonly int64_t rate_interval_ns   # from one token to the next
    cdef readonly int64_t rate_burst     # tokens that there can be at once
    cdef readonly uint32_t concurrency   # held jobs beyond which reserve takes none
    cdef readonly int64_t full_at_ns     # when the bucket of `rate` is full if nobody takes a token, engine clock

cdef inline int64_t token_at_ns(TubeRules rules) noexcept:
    # When the next token can be taken: the bucket lacks all but one.
    return rules.full_at_ns - (rules.rate_burst - 1) * rules.rate_interval_ns

@cython.final
cdef class RuleTable:
    cdef dict sets                       # pattern -> RuleSet
    cdef list prefixes                   # what patterns with a `*` have before it, in order; None: it has changed
    cdef list above                      # of each of them the index of the longest other one that it begins with, or -1
    cdef RuleSet match(self, bytes name)
    cdef int order(self) except -1
    cdef RuleSet named(self, bytes pattern)
    cdef int add(self, RuleSet rules) except -1
    cdef int drop(self, bytes pattern) except -1
