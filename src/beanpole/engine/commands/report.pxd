# The header of report.py. Its class is not here: engine.py imports every class of a header that it reads, and the two
# modules need each other.
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int report(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int peek(Engine engine, Session session, Job job) except -1
cdef int list_tubes(Engine engine, int64_t now_ns, Session session) except -1
