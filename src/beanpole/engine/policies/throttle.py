"""The limits of a tube: jobs-max and bytes-max refuse what is put, rate and concurrency hold back what is reserved.

Besides its own limits those of its space hold, which has other tubes, too.

A tube that a limit holds back is closed (``Tube.closed``), as by a pause: `reserve` passes over it. What opens it again
notes it in ``Engine.opened``, and its jobs are offered before the command or the tick ends.

`rate` is a bucket of tokens, of which every reservation takes one. It is one number: when the bucket will be full
(``Tube.full_at_ns``, the virtual time of GCRA, ATM Forum 1996). A token is there when that is not further away
than the time in which all tokens but one come; who takes one moves it by the time in which one comes. Times are whole
nanoseconds and the time for a token is rounded up, so that no window of any length sees more tokens than the bucket
holds and as many as come in it. The bucket of a tube that is forgotten before it is full is kept by the tube's name.
"""

import cython
from cython.cimports.beanpole.engine.state.breaker import Breaker
from cython.cimports.beanpole.engine.state.groupjobs import ready_count
from cython.cimports.beanpole.engine.state.groups import (
    close_groups,
    follow_rules,
    group_named,
    has_group_rules,
    has_same_breaker,
    keep_group_bucket,
    open_groups,
    recall,
    renew,
)
from cython.cimports.beanpole.engine.state.times import Count
from cython.cimports.beanpole.engine.state.tube import (
    Closed,
    RuleSet,
    RuleTable,
    Space,
    filled_ns,
    is_broken,
    is_same_rate,
    taken_ns,
    token_at_ns,
)
from cython.cimports.libc.stdint import int64_t, uint8_t

GROUPS_AT_ONCE = cython.declare(cython.Py_ssize_t, 100)  # that go by new rules before any turn ends
LIMITS = cython.declare(uint8_t, Closed.RATE | Closed.CONCURRENCY | Closed.BREAKER)


# --- jobs-max, bytes-max, spaces --------------------------------------------------------------------------------------


def is_full(tube, jobs, size):
    """Whether a tube that has rules takes no more: so many jobs, ready or delayed, with so many bytes of bodies."""
    rules: RuleSet = tube.rules
    if jobs and rules.jobs_max and ready_count(tube) + tube.delayed.count + jobs > rules.jobs_max:
        return True
    return size > 0 and rules.bytes_max != 0 and tube.body_bytes + size > rules.bytes_max


def lacks_room(space, jobs, size):
    """Whether a space takes no more: so many jobs, with so many bytes of bodies."""
    if jobs and space.jobs_max and space.job_count + jobs > space.jobs_max:
        return True
    return size > 0 and space.bytes_max != 0 and space.body_bytes + size > space.bytes_max


def refuses(queue, name, tube, jobs, size, before):
    """Whether the tube of a name, there or not (None), takes no more; a job that moves comes from the tube `before`.

    Such a job counts in its space in any state, and may move there however much lies in it.
    """
    if queue.spaces is not None:
        space: Space = queue.spaces.of(name) if tube is None else tube.space
        stays: cython.bint = before is not None and before.space is space
        if space is not None and not stays and lacks_room(space, jobs if before is None else 1, size):
            return True
    if tube is not None:
        return tube.rules is not None and is_full(tube, jobs, size)
    rules: RuleSet = None if queue.rules is None else queue.rules.match(name)
    return rules is not None and 0 < rules.bytes_max < size  # it has no job yet, and one is always allowed


def refuse_put(queue, tube):
    """Count a put that was refused by a rule or a space, of a tube that may not be there."""
    if tube is None:
        return queue.total.add(Count.PUTS_REFUSED, 1)
    return queue.tally(tube, Count.PUTS_REFUSED, 1)


# --- rate -------------------------------------------------------------------------------------------------------------


def begin_bucket(queue, tube, rules, before):
    """Let the bucket of a tube that gets rules be empty since they were set, or go on if its rate stays the same."""
    full_at_ns: int64_t
    if before is None:
        full_at_ns = filled_ns(rules.rate, max(rules.set_at_ns, queue.started_at_ns))
    elif is_same_rate(before.rate, rules.rate):
        full_at_ns = tube.full_at_ns
    else:
        full_at_ns = filled_ns(rules.rate, queue.now_ns)
    tube.full_at_ns = max(full_at_ns, queue.buckets.take(tube.name, rules.rate))
    return 0


def keep_bucket(queue, tube):
    """Keep the bucket of a tube with rules that is forgotten, and that of its jobs without a group."""
    if tube.groups is not None:
        keep_group_bucket(tube, group_named(tube, b""), queue.now_ns)
    return queue.buckets.keep(tube.name, tube.rules.rate, tube.full_at_ns, queue.now_ns)


def take_token(queue, now_ns, tube):
    """Take the token for a reservation from a tube with rules, and close the tube if it was the last one."""
    rules: RuleSet = tube.rules
    if rules.rate.interval_ns == 0:
        return 0
    tube.full_at_ns = taken_ns(rules.rate, tube.full_at_ns, now_ns)
    if token_at_ns(tube) <= now_ns:
        return 0
    tube.closed |= Closed.RATE
    return queue.arm(tube, token_at_ns(tube))


# --- concurrency ------------------------------------------------------------------------------------------------------


def close_if_taken(tube):
    """Close a tube with rules, of which a job was reserved, if it was the last one that may be held."""
    if tube.rules.concurrency and tube.reserved_count >= tube.rules.concurrency:
        tube.closed |= Closed.CONCURRENCY
    return 0


def open_if_free(queue, tube):
    """Open a tube of which a job is held no more, if that was the reason why it is closed."""
    if tube.closed & Closed.CONCURRENCY and tube.reserved_count < tube.rules.concurrency:
        tube.closed &= ~cython.cast(uint8_t, Closed.CONCURRENCY)
        if tube.closed == 0:
            queue.note_opened(tube)
    return 0


# --- both -------------------------------------------------------------------------------------------------------------


def and_opened(queue, tubes):
    """Add to a list, from which tubes are offered, those that were opened."""
    if queue.opened is not None:
        tubes += queue.opened
        queue.opened = None
    return tubes


def close_or_open(queue, tube):
    """Close a tube whose rules have changed, or open it, as its limits say.

    While a log is read back no time has come yet, so that a bucket is empty: its timer is due at the first tick.
    """
    rules: RuleSet = tube.rules
    closed: uint8_t = tube.closed & ~LIMITS
    if rules is not None:
        if rules.concurrency and tube.reserved_count >= rules.concurrency:
            closed |= Closed.CONCURRENCY
        if rules.rate.interval_ns and token_at_ns(tube) > queue.now_ns:
            closed |= Closed.RATE
            queue.arm(tube, token_at_ns(tube))
        if is_broken(tube):
            closed |= tube.closed & Closed.BREAKER
    opened: cython.bint = tube.closed != 0 and closed == 0
    tube.closed = closed
    return queue.note_opened(tube) if opened else 0


# --- the rules of a tube ----------------------------------------------------------------------------------------------


def attach(queue, tube):
    """Let a tube have the rules that are set for it; what has a state goes on if its rule is the same as before.

    The first of its groups go by them now: return how many. The others follow (:func:`follow`).
    """
    rules: RuleSet = None if queue.rules is None else queue.rules.match(tube.name)
    before: RuleSet = tube.rules
    if rules is before:
        return 0
    tube.rules = rules
    if rules is not None and rules.rate.interval_ns:
        begin_bucket(queue, tube, rules, before)
    if not has_same_breaker(rules, before):
        tube.breaker = Breaker() if rules is not None and rules.breaker_percent else None
    count: cython.Py_ssize_t = 0
    if tube.groups is not None:
        renew(tube, before, queue.now_ns)
        count = follow(queue, tube, GROUPS_AT_ONCE)
        close_groups(tube)
    elif has_group_rules(rules):
        open_groups(tube, queue.buckets, queue.now_ns, queue.started_at_ns)
        if tube.groups.timed.count:
            queue.arm(tube, tube.next_due_ns())
    close_or_open(queue, tube)
    queue.note_told(tube)
    return count


def follow(queue, tube, most):
    """Let the next groups of a tube, as many as `most`, go by its rules, which have changed; return how many did."""
    had_next: cython.bint = tube.ready.count != 0
    recall(tube)
    count: cython.Py_ssize_t = follow_rules(tube, most, queue.now_ns, queue.started_at_ns)
    queue.settle_next(tube, had_next)
    return count


def replace_rules(queue, pattern, rules):
    """Let a pattern have rules, or none. Those that it had are counted no more; the tubes keep theirs for now."""
    old: RuleSet = None if queue.rules is None else queue.rules.named(pattern)
    if old is not None:
        queue.records.rules_dropped(old)
        queue.rules.drop(pattern)
    if rules is not None:
        if queue.rules is None:
            queue.rules = RuleTable()
        queue.rules.add(rules)
    elif queue.rules is not None and queue.rules.count == 0:
        queue.rules = None
    return 0
