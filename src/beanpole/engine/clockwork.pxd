# The header of clockwork.py; the fields stand in store.pxd.
from libc.stdint cimport int64_t

from beanpole.engine.session cimport Session
from beanpole.engine.store cimport Store
from beanpole.engine.tube cimport Tube

cdef class Clockwork(Store):
    cdef int half_close(self, int64_t now_ns, Session session) except -1
    cdef int run_timers(self, int64_t now_ns) except -1
    cdef int run_tube_timer(self, int64_t now_ns, Tube tube, list changed) except -1
    cdef int run_session_timer(self, int64_t now_ns, Session session, list changed) except -1
    cdef int answer_waiting(self, int64_t now_ns, Session session) except -1
