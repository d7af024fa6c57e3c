# The header of groups.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.breaker cimport Breaker
from beanpole.engine.state.heap cimport Heap
from beanpole.engine.state.job cimport Job, State
from beanpole.engine.state.tube cimport Buckets, Group, RuleSet, Tube, is_same_rate

cdef Group add_group(Tube tube, bytes name, int64_t now_ns, int64_t started_at_ns)
cdef int mark_pause(Tube tube, Group group, int64_t now_ns) except -1
cdef int open_groups(Tube tube, Buckets buckets, int64_t now_ns, int64_t started_at_ns) except -1
cdef int close_groups(Tube tube) except -1
cdef int enter_group(Tube tube, Job job, State state, int64_t now_ns, int64_t started_at_ns) except -1
cdef int leave_group(Tube tube, Job job, int64_t now_ns, int64_t started_at_ns) except -1
cdef int end_in_group(Tube tube, Job job, int64_t now_ns) except -1
cdef int recall(Tube tube) except -1
cdef int choose(Tube tube, int64_t now_ns, int64_t started_at_ns) except -1
cdef int take_group_token(Tube tube, Job job, int64_t now_ns) except -1
cdef Group group_named(Tube tube, bytes name)
cdef int keep_group_bucket(Tube tube, Group group, int64_t now_ns) except -1
cdef Py_ssize_t open_timed(Tube tube, int64_t now_ns, int64_t started_at_ns, Py_ssize_t most) except -1
cdef int begin_breaker(Group group, RuleSet before) except -1
cdef Breaker breaker_of(Job job)
cdef int place(Tube tube, Group group) except -1
cdef int order(Group group) except -1
cdef int renew(Tube tube, RuleSet before, int64_t now_ns) except -1
cdef Py_ssize_t follow_rules(Tube tube, Py_ssize_t most, int64_t now_ns, int64_t started_at_ns) except -1
cdef Py_ssize_t count_of(Group group) noexcept
cdef bint is_group_full(Tube tube, bytes name) except -1

cdef inline bint has_group_rules(RuleSet rules) noexcept:
    # Whether rules say something of the groups of a tube.
    if rules is None:
        return False
    if rules.groups_fair or rules.group_concurrency != 0 or rules.group_rate.interval_ns != 0:
        return True
    if rules.group_jobs_max != 0 or rules.group_weights is not None:
        return True
    return rules.group_strict or rules.breaker_by_group

cdef inline bint have_same_rate(RuleSet rules, RuleSet before) noexcept:
    # Whether rules that follow others have the same `group-rate`.
    return rules is not None and before is not None and is_same_rate(rules.group_rate, before.group_rate)

cdef inline bint has_same_breaker(RuleSet rules, RuleSet before) noexcept:
    # Whether rules that follow others have the same `breaker`, or neither has one.
    if rules is None or before is None:
        return (rules is None or rules.breaker_percent == 0) and (before is None or before.breaker_percent == 0)
    return (
        rules.breaker_percent == before.breaker_percent
        and rules.breaker_count == before.breaker_count
        and rules.breaker_window_ns == before.breaker_window_ns
        and rules.breaker_probe_ns == before.breaker_probe_ns
        and rules.breaker_by_group == before.breaker_by_group
    )
