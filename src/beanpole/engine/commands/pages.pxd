# The header of pages.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.times cimport ServerTimes
from beanpole.engine.state.tube cimport Tube
from beanpole.protocol.commands cimport Command

cdef int stats_tubes(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int stats_histograms(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef bytes head_of(ServerTimes times)
cdef bytes item_of(Tube tube)

cdef int stats_failures(Queue queue, int64_t now_ns, Session session, Command command) except -1

cdef int list_sessions(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int name_session(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int keep_session(Queue queue, int64_t now_ns, Session session, Command command) except -1
