# The header of ruletable.py.
cimport cython

from beanpole.engine.state.tuberules cimport RuleSet

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
