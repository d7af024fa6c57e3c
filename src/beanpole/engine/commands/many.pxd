# The header of many.py. Its class is not here, see kick.pxd.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef struct Head:
    # A tube that may give a job, and its best one: a node of a heap of two children.
    int64_t key
    uint64_t tie
    Py_ssize_t place                     # among the session's watches

cdef int reserve_many(Engine engine, int64_t now_ns, Session session, uint32_t count, int64_t timeout_ns) except -1
cdef list hold_many(Engine engine, int64_t now_ns, Session session, uint32_t count)
cdef list hold_best(Engine engine, int64_t now_ns, Session session, uint32_t count, Head *heads, Py_ssize_t size)
cdef int reply_one(Engine engine, int64_t now_ns, Session session, Job job) except -1
cdef int reply_jobs(Engine engine, int64_t now_ns, Session session, list jobs) except -1
cdef int delete_many(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int touch_many(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int cancel(Engine engine, Session session) except -1
