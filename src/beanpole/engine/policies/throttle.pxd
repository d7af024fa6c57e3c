# The header of throttle.py.
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.tube cimport Tube
from beanpole.engine.state.tuberules cimport TubeRules

cdef bint is_full(Tube tube, int jobs, int64_t size) noexcept
cdef bint refuses(Engine engine, bytes name, Tube tube, int jobs, int64_t size) except -1
cdef int refuse_put(Engine engine, Tube tube) except -1
cdef int begin_bucket(Engine engine, Tube tube, TubeRules rules, TubeRules before) except -1
cdef int keep_bucket(Engine engine, Tube tube) except -1
cdef int take_token(Engine engine, int64_t now_ns, Tube tube) except -1
cdef int close_or_open(Engine engine, Tube tube) except -1
cdef list and_opened(Engine engine, list tubes)
cdef int note_held(Tube tube) noexcept
cdef int note_free(Engine engine, Tube tube) except -1
