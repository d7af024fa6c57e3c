# The header of walk.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.state.heap cimport Heap
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.jobtable cimport JobTable
from beanpole.engine.state.tube cimport Tube

@cython.final
cdef class Walk:
    cdef JobTable jobs
    cdef Tube tube
    cdef bytes group                     # whose jobs: the name of a group; None: all
    cdef int states                      # the states to find: 1 << State, added up
    cdef bint down                       # the latest first
    cdef readonly bint done              # there is none left
    cdef public Py_ssize_t steps_left    # ids that it may still pass in this piece
    cdef uint64_t *ids                   # the ids to look up; NULL: every id from at to last
    cdef Py_ssize_t id_count
    cdef Py_ssize_t copied               # entries of heaps that were copied and that no piece has paid for
    cdef uint64_t at                     # the next id to look up
    cdef uint64_t last                   # the last one
    cdef int begin_piece(self) noexcept
    cdef Py_ssize_t piece_cost(self) noexcept
    cdef Job next(self)
    cdef Job look_up(self, uint64_t id)
    cdef Job next_of_all(self)
    cdef int skip_empty(self) except -1
    cdef Py_ssize_t count(self) except -1
    cdef Py_ssize_t count_of_tube(self) noexcept
    cdef int copy_ids(self, Heap heap, uint64_t after, uint64_t upto) except -1
    cdef uint64_t take_id(self) noexcept
    cdef void sink(self, Py_ssize_t hole, uint64_t id) noexcept
