# The header of engine.py; the fields stand in store.pxd.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.clockwork cimport Clockwork
from beanpole.engine.heap cimport Heap
from beanpole.engine.job cimport Job
from beanpole.engine.session cimport Session
from beanpole.engine.tube cimport Tube
from beanpole.protocol.commands cimport Command

@cython.final
cdef class Engine(Clockwork):
    cdef int apply(self, int64_t now_ns, Session session, Command command) except -1
    cdef int go_on(self, int64_t now_ns, Session session) except -1
    cdef int put(self, int64_t now_ns, Session session, Command command) except -1
    cdef int reserve(self, int64_t now_ns, Session session, int64_t until_ns) except -1
    cdef int reserve_job(self, int64_t now_ns, Session session, uint64_t id) except -1
    cdef int not_found(self, Session session) except -1
    cdef int delete(self, int64_t now_ns, Session session, uint64_t id) except -1
    cdef int release(self, int64_t now_ns, Session session, Command command) except -1
    cdef int bury(self, int64_t now_ns, Session session, Command command) except -1
    cdef int touch(self, int64_t now_ns, Session session, uint64_t id) except -1
    cdef int kick(self, int64_t now_ns, Session session, uint32_t bound) except -1
    cdef int kick_one(self, int64_t now_ns, Job job) except -1
    cdef int kick_job(self, int64_t now_ns, Session session, uint64_t id) except -1
    cdef int peek(self, Session session, Job job) except -1
    cdef int peek_first(self, Session session, Heap heap) except -1
    cdef int tell_used(self, Session session) except -1
    cdef int use(self, Session session, bytes name) except -1
    cdef int watch(self, Session session, bytes name) except -1
    cdef int ignore(self, Session session, bytes name) except -1
    cdef int pause(self, int64_t now_ns, Session session, Command command) except -1
    cdef int tell(self, int64_t now_ns, Session session, Command command) except -1
