# The header of groups.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.heap cimport Heap
from beanpole.engine.state.job cimport Job, State
from beanpole.engine.state.tube cimport Group, RuleSet, Tube

cdef bytes group_name(Job job)
cdef Group group_of(Job job)
cdef Job first_of_group(Tube tube, Group group)
cdef Heap first_ready(Tube tube)
cdef bint is_next(Job job) noexcept
cdef Py_ssize_t ready_count(Tube tube) noexcept
cdef Group add_group(Tube tube, bytes name, int64_t now_ns)
cdef int mark_pause(Tube tube, Group group, int64_t now_ns) except -1
cdef int open_groups(Tube tube, int64_t now_ns) except -1
cdef int close_groups(Tube tube) except -1
cdef bint has_group_rules(RuleSet rules) noexcept
cdef int enter_group(Tube tube, Job job, State state, int64_t now_ns) except -1
cdef int leave_group(Tube tube, Job job, int64_t now_ns) except -1
cdef int end_in_group(Tube tube, Job job, int64_t now_ns) except -1
cdef int recall(Tube tube) except -1
cdef int choose(Tube tube) except -1
cdef int take_group_token(Tube tube, Job job, int64_t now_ns) except -1
cdef bint open_timed(Tube tube, int64_t now_ns, int64_t started_at_ns) except -1
cdef int attach_groups(Tube tube, int64_t now_ns) except -1
cdef int begin_order(Tube tube, int64_t now_ns) except -1
cdef Py_ssize_t count_of(Group group) noexcept
cdef bint is_group_full(Tube tube, bytes name) except -1
