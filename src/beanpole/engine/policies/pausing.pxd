# The header of pausing.py.
from libc.stdint cimport int64_t, uint32_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.tube cimport GroupPause, Tube

cdef GroupPause set_pause(Queue queue, bytes tube, bytes name, uint32_t pause_s, int64_t until_ns)
cdef Tube end_pause(Queue queue, GroupPause pause)
cdef GroupPause first_over(Queue queue, int64_t now_ns)
cdef Py_ssize_t end_pauses(Queue queue, int64_t now_ns, Py_ssize_t most) except -1
