# The header of extension.py.
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int apply(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int run(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int list_extensions(Session session) except -1
