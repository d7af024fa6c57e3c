# The header of tubes.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int use(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int watch(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int ignore(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int list_tube_used(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int pause_tube(Queue queue, int64_t now_ns, Session session, Command command) except -1

cdef int set_rules(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int get_rules(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int list_rules(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int drop_rules(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int bad_text(Session session, int word, Py_ssize_t line, str why) except -1
cdef int begin_recount(Queue queue, dict patterns) except -1
cdef int attach_all(Queue queue, bytes pattern) except -1
