# The header of pausing.py.
from libc.stdint cimport int64_t, uint32_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.tube cimport GroupPause

cdef GroupPause set_pause(Queue queue, bytes tube, bytes name, uint32_t pause_s, int64_t until_ns)
cdef int end_pause(Queue queue, GroupPause pause) except -1
cdef Py_ssize_t end_pauses(Queue queue, int64_t now_ns, Py_ssize_t most) except -1
