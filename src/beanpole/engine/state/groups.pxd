# The header of groups.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.heap cimport Heap
from beanpole.engine.state.job cimport Job, State
from beanpole.engine.state.tube cimport Buckets, Group, RuleSet, Tube

cdef bytes group_name(Job job)
cdef Group group_of(Job job)
cdef Job first_of_group(Tube tube, Group group)
cdef Heap first_ready(Tube tube)
cdef bint is_next(Job job) noexcept
cdef Py_ssize_t ready_count(Tube tube) noexcept
cdef Group add_group(Tube tube, bytes name, int64_t now_ns, int64_t started_at_ns)
cdef int mark_pause(Tube tube, Group group, int64_t now_ns) except -1
cdef int open_groups(Tube tube, Buckets buckets, int64_t now_ns, int64_t started_at_ns) except -1
cdef int close_groups(Tube tube) except -1
cdef bint has_group_rules(RuleSet rules) noexcept
cdef int enter_group(Tube tube, Job job, State state, int64_t now_ns, int64_t started_at_ns) except -1
cdef int leave_group(Tube tube, Job job, int64_t now_ns, int64_t started_at_ns) except -1
cdef int end_in_group(Tube tube, Job job, int64_t now_ns) except -1
cdef int recall(Tube tube) except -1
cdef int choose(Tube tube, int64_t now_ns, int64_t started_at_ns) except -1
cdef int take_group_token(Tube tube, Job job, int64_t now_ns) except -1
cdef Group group_named(Tube tube, bytes name)
cdef int keep_group_bucket(Tube tube, Group group, int64_t now_ns) except -1
cdef Py_ssize_t open_timed(Tube tube, int64_t now_ns, int64_t started_at_ns, Py_ssize_t most) except -1
cdef bint have_same_rate(RuleSet rules, RuleSet before) noexcept
cdef int place(Tube tube, Group group) except -1
cdef int order(Group group) except -1
cdef int renew(Tube tube, RuleSet before, int64_t now_ns) except -1
cdef Py_ssize_t follow_rules(Tube tube, Py_ssize_t most, int64_t now_ns, int64_t started_at_ns) except -1
cdef Py_ssize_t count_of(Group group) noexcept
cdef bint is_group_full(Tube tube, bytes name) except -1
