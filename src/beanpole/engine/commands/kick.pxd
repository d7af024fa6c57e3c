# The header of kick.py. Its class is not here: engine.py imports every class of a header that it reads, and the two
# modules need each other.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.session cimport Session

cdef int kick(Engine engine, int64_t now_ns, Session session, uint32_t bound) except -1
cdef int kick_one(Engine engine, int64_t now_ns, Job job) except -1
cdef int kick_job(Engine engine, int64_t now_ns, Session session, uint64_t id) except -1
