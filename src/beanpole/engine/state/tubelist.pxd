# The header of tubelist.py.
cimport cython

from beanpole.engine.state.tube cimport Tube

@cython.final
cdef class TubeList:
    cdef list tubes                      # `list[Tube]`
    cdef list texts                      # what list-tubes says of each TUBES_PER_BLOCK tubes; None where it has changed
    cdef int add(self, Tube tube) except -1
    cdef int remove(self, Tube tube) except -1
    cdef int changed(self, Py_ssize_t index) except -1
    cdef bytes text(self, Py_ssize_t block)
    cdef list all_texts(self)
