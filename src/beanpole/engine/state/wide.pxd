# The header of wide.py.
from beanpole.engine.state.heap cimport Heap
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube, Watch

cdef int add_wide(Session session, Watch watch) except -1
cdef int drop_wide(Session session, Watch watch) except -1
cdef int note_best(Tube tube) except -1
cdef Heap best_of(Session session, int *left)
cdef Tube best_tube(Session session, int *left)
cdef Session next_in_line(Tube tube)
cdef list wide_waiting(Tube tube)
cdef Py_ssize_t waiting_in(Tube tube) except -1
