# The header of explain.py. Its class is not here: engine.py imports every class of a header that it reads, and the two
# modules need each other.
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int explain(Engine engine, int64_t now_ns, Session session, Command command) except -1
