# The header of list_jobs.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.heap cimport Heap
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube
from beanpole.protocol.commands cimport Command

cdef int list_jobs(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef Heap heap_in(Tube tube, int states)
