# The header of throttle.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.tube cimport RuleSet, Space, Tube

cdef bint is_full(Tube tube, int jobs, int64_t size) noexcept
cdef bint lacks_room(Space space, int jobs, int64_t size) noexcept
cdef bint refuses(Queue queue, bytes name, Tube tube, int jobs, int64_t size, Tube before) except -1
cdef int refuse_put(Queue queue, Tube tube) except -1
cdef int begin_bucket(Queue queue, Tube tube, RuleSet rules, RuleSet before) except -1
cdef int keep_bucket(Queue queue, Tube tube) except -1
cdef int take_token(Queue queue, int64_t now_ns, Tube tube) except -1
cdef int close_or_open(Queue queue, Tube tube) except -1
cdef list and_opened(Queue queue, list tubes)
cdef int close_if_taken(Tube tube) noexcept
cdef int open_if_free(Queue queue, Tube tube) except -1
cdef Py_ssize_t attach(Queue queue, Tube tube) except -1
cdef Py_ssize_t follow(Queue queue, Tube tube, Py_ssize_t most) except -1
cdef int replace_rules(Queue queue, bytes pattern, RuleSet rules) except -1
