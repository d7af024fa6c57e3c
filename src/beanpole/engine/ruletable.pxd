# The header of ruletable.py.
cimport cython

from beanpole.engine.tuberules cimport RuleSet

@cython.final
cdef class RuleTable:
    cdef dict sets                       # pattern -> RuleSet
    cdef dict prefixes                   # length -> (a beginning of names, of this length -> RuleSet), the longest first
    cdef RuleSet match(self, bytes name)
    cdef RuleSet named(self, bytes pattern)
    cdef int add(self, RuleSet rules) except -1
    cdef int drop(self, bytes pattern) except -1
