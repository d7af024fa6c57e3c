# The header of poller.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.server.connection cimport Connection
from beanpole.server.eventqueue cimport EventQueue

@cython.final
cdef class Poller(EventQueue):
    cdef readonly Engine engine
    cdef object log                      # what makes records durable; see log.log.Log
    cdef object loop                     # the asyncio loop that calls run()
    cdef public object observer          # told of what an operator wants to know; see server.app.Observer
    cdef public bint observe_connections # tell the observer of every connection that comes and goes
    cdef readonly bint one_reply_per_send
    cdef char *read_buffer
    cdef list by_fd                      # Connection or None, by its socket's descriptor
    cdef dict listeners                  # descriptors that accept -> whether they are Unix sockets
    cdef Py_ssize_t connections_max      # connections above which accepting pauses
    cdef int64_t accept_retry_ns         # when accepting is tried again, engine clock; 0: it is not paused
    cdef int64_t accept_tell_ns          # the observer is not told again before, engine clock
    cdef uint64_t turn
    cdef list queue                      # connections to serve in the next turn
    cdef list touched                    # connections to send for in this turn
    cdef list held                       # connections whose output waits for the log
    cdef bint stopped                    # no more turns
    cdef bint scheduled                  # run() is called again without an event
    cdef uint64_t appended_index         # records that the log was given
    cdef int turn_once(self) except -1
    cdef int serve(self, int64_t now_ns, Connection connection) except -1
    cdef int receive(self, int64_t now_ns, Connection connection) except -1
    cdef int serve_woken(self, int64_t now_ns) except -1
    cdef int handle(self, int64_t now_ns, Connection connection, unsigned int events) except -1
    cdef int touch(self, Connection connection) except -1
    cdef int enqueue(self, Connection connection) except -1
    cdef int commit(self, int64_t now_ns) except -1
    cdef int flush(self, int64_t now_ns, Connection connection, uint64_t durable_index) except -1
    cdef int settle(self, int64_t now_ns, Connection connection) except -1
    cdef int accept(self, int64_t now_ns, int listener) except -1
    cdef int pause_accepting(self, int64_t now_ns, int reason) except -1
    cdef int resume_accepting(self) except -1
    cdef int drop(self, int64_t now_ns, Connection connection) except -1
    cdef int arm(self, int64_t now_ns) except -1
