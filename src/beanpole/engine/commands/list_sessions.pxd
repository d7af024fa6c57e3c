# The header of list_sessions.py. Its class is not here, as that of tubepage.py is not.
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int list_sessions(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int name_session(Session session, Command command) except -1
