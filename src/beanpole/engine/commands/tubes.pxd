# The header of tubes.py.
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int use(Engine engine, Session session, bytes name) except -1
cdef int reply_used(Session session) except -1
cdef int watch(Engine engine, Session session, bytes name) except -1
cdef int ignore(Engine engine, Session session, bytes name) except -1
cdef int pause(Engine engine, int64_t now_ns, Session session, Command command) except -1
