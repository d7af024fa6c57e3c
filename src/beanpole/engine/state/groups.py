"""Groups: whose job it is. A tube whose jobs have groups hands them out in turn, and none above its limits.

Of a tube with groups, ``tube.ready`` holds one job, the *next*, so that whoever looks for the best job of several tubes
finds it there. All other ready jobs stand in the heaps of their groups. The next job is the first one of the first
group that is open: of the smallest priority, then of the smallest share of held jobs (held by weight), then of the one
that was served longest ago. That is max-min fairness of what is held. Jobs without a group are a group, of an empty
name.

A group is closed by its limits (:class:`Closed`), alone: the others go on. Those that are closed until a moment stand
in a heap by it. A group is there as long as it has a job, or is paused.

Whoever changes something takes the next job back first (:func:`recall`), and lets the next one be found after
(:func:`choose`). If there is one where there was none, the tube is noted as opened.
"""

import cython
from cython.cimports.beanpole.engine.state.breaker import Breaker
from cython.cimports.beanpole.engine.state.groupjobs import group_name, group_of
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.beanpole.engine.state.job import Job, JobCount, State, job_count
from cython.cimports.beanpole.engine.state.tube import (
    Closed,
    Group,
    Groups,
    RuleSet,
    Tube,
    filled_ns,
    has_token,
    taken_ns,
    token_ns,
)
from cython.cimports.libc.stdint import int64_t, uint8_t

READY = cython.declare(cython.int, State.READY)  # states as indices
RESERVED = cython.declare(cython.int, State.RESERVED)
DELAYED = cython.declare(cython.int, State.DELAYED)
BURIED = cython.declare(cython.int, State.BURIED)

BEGUN = cython.declare(int64_t, -1)  # the key of a ready job that has begun: no priority comes before it
SHARE_MAX = cython.declare(int64_t, (1 << 31) - 1)
STALE_MAX = cython.declare(cython.int, 100)  # groups in the way of the next job that are told of new rules at once
SHARES_PER_JOB = cython.declare(int64_t, 1_000)
"""Parts of a share that a held job is at a weight of 1: weights go up to 1000."""


# --- coming and going -------------------------------------------------------------------------------------------------


def open_groups(tube, buckets, now_ns, started_at_ns):
    """Let a tube have groups: all of its jobs are of none."""
    tube.groups = Groups(buckets)
    tube.groups.rated_at_ns = 0 if tube.rules is None else tube.rules.set_at_ns
    none: Group = add_group(tube, b"", now_ns, started_at_ns)
    none.ready = tube.ready
    tube.ready = Heap()
    none.counts[READY] = none.ready.count
    none.counts[RESERVED] = tube.reserved_count
    none.counts[DELAYED] = tube.delayed.count
    none.counts[BURIED] = tube.buried.count
    tube.groups.ready_count = none.ready.count
    none.is_new = count_of(none) == 0
    limit(none)
    place(tube, none)
    return choose(tube, now_ns, started_at_ns)


def close_groups(tube):
    """Let a tube have no groups any more if its jobs have none, and its rules say nothing of them."""
    groups: Groups = tube.groups
    if len(groups.by_name) > 1 or has_group_rules(tube.rules):
        return 0
    recall(tube)
    tube.ready = cython.cast(Group, groups.by_name[b""], typecheck=True).ready
    tube.groups = None
    return 0


def add_group(tube, name, now_ns, started_at_ns):
    """Make a group."""
    groups: Groups = tube.groups
    group: Group = Group(name)
    groups.by_name[name] = group
    group.place = len(groups.all)
    groups.all.append(group)
    group.is_new = True
    group.rules = tube.rules
    limit(group)
    begin_breaker(group, None)
    begin_group_bucket(tube, group, now_ns, started_at_ns)
    return group


def group_named(tube, name):
    return tube.groups.by_name.get(name)


def enter_group(tube, job, state, now_ns, started_at_ns):
    """Count a job in a state, and if that is READY let it stand in its group; :func:`recall` was called before."""
    groups: Groups = tube.groups
    name: bytes = group_name(job)
    group: Group = groups.by_name.get(name)
    if group is None:
        group = add_group(tube, name, now_ns, started_at_ns)
    if group.rules is not tube.rules:
        go_by_rules(tube, group, now_ns, started_at_ns)
    if group.is_new or state == State.RESERVED:
        group.is_new = False
        groups.served_count += 1
        group.served = groups.served_count
    group.counts[cython.cast(cython.int, state)] += 1
    if state == State.READY:
        groups.ready_count += 1
    elif state == State.RESERVED:
        close_if_held(group)
    keep_order(group, job, state)
    if state == State.READY:
        group.ready.push(job, key_of(group, job), job.id)
    return place(tube, group)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def key_of(group: Group, job: Job) -> int64_t:
    """Return the key of a ready job in its group: one that has begun comes before all others."""
    return BEGUN if job.id == group.begun else job.pri


@cython.cfunc
def keep_order(group: Group, job: Job, state: State) -> cython.int:
    """Note which job of a group has begun, where the order is strict, as one comes into a state."""
    if group.rules is None or not group.rules.group_strict:
        return 0
    if group.begun == 0 and state != State.BURIED and (state == State.RESERVED or job_count(job, JobCount.RESERVES)):
        group.begun = job.id
    if group.begun != job.id:
        return 0
    group.begun_is_buried = state == State.BURIED
    if group.begun_is_buried and not group.rules.group_hold_buried:
        group.begun = 0
    if group.begun == 0 or state == State.READY:
        group.closed &= ~cython.cast(uint8_t, Closed.ORDER)
    else:
        group.closed |= Closed.ORDER
    return 0


def leave_group(tube, job, now_ns, started_at_ns):
    """Count a job no more in the state that it leaves; :func:`recall` was called before."""
    groups: Groups = tube.groups
    group: Group = group_of(job)
    if group.rules is not tube.rules:
        go_by_rules(tube, group, now_ns, started_at_ns)
    group.counts[job.state] -= 1
    if job.state == State.READY:
        groups.ready_count -= 1
        group.ready.remove(job)
    elif job.state == State.RESERVED:
        if group.closed & Closed.CONCURRENCY:
            limit(group)
        if group.breaker is not None and group.breaker.probe_id == job.id:  # it ends without having said how it went
            group.breaker.probe_id = 0
            group.closed &= ~cython.cast(uint8_t, Closed.BREAKER)
    return place(tube, group)


def count_of(group):
    """Return how many jobs a group has."""
    return group.counts[READY] + group.counts[RESERVED] + group.counts[DELAYED] + group.counts[BURIED]


def end_in_group(tube, job, now_ns):
    """Let a job that has left its tube have ended; forget its group if that was the last one, and all after the last.

    :func:`recall` was called before.
    """
    group: Group = group_of(job)
    if group.begun == job.id:
        group.begun = 0
        group.closed &= ~cython.cast(uint8_t, Closed.ORDER)
        place(tube, group)
    return drop_if_empty(tube, group, now_ns)


@cython.cfunc
def drop_if_empty(tube: Tube, group: Group, now_ns: int64_t) -> cython.int:
    """Forget a group without jobs, but for its bucket, unless it is paused; that of no name stays.

    In the list of all the last one takes its place.
    """
    if count_of(group):
        return 0
    group.is_new = True
    if len(group.name) == 0 or group.pause is not None:
        return 0
    keep_group_bucket(tube, group, now_ns)
    take_out(tube, group)
    groups: Groups = tube.groups
    del groups.by_name[group.name]
    last: Group = groups.all.pop()
    if last is not group:
        last.place = group.place
        groups.all[group.place] = last
    groups.stale_count = min(groups.stale_count, cython.cast(cython.Py_ssize_t, len(groups.all)))
    return 0


@cython.cfunc
def take_out(tube: Tube, group: Group) -> cython.int:
    """Take a group out of the heap in which it stands."""
    if group.heap_index >= 0:
        (tube.groups.timed if group.is_timed else tube.groups.open).remove(group)
    return 0


# --- who is next ------------------------------------------------------------------------------------------------------


def recall(tube):
    """Let the job that is next stand in its group again."""
    if tube.ready.count:
        job: Job = cython.cast(Job, tube.ready.entries[0].item)
        tube.ready.remove(job)
        tube.groups.next.ready.push(job, key_of(tube.groups.next, job), job.id)
        tube.groups.next = None
    return 0


def choose(tube, now_ns, started_at_ns):
    """Let the first job of the first open group be next.

    Groups that go by rules from before go by those of the tube now first. If too many are in the way, there is no next
    job for now: those rules come to all groups soon.
    """
    groups: Groups = tube.groups
    group: Group = None
    left: cython.int = STALE_MAX
    while left and groups.open.count:
        group = cython.cast(Group, groups.open.entries[0].item)
        if group.rules is tube.rules:
            break
        go_by_rules(tube, group, now_ns, started_at_ns)
        left -= 1
    if left == 0 or groups.open.count == 0:
        return 0
    job: Job = cython.cast(Job, group.ready.entries[0].item)
    group.ready.remove(job)
    groups.next = group
    return tube.ready.push(job, job.pri, job.id)


def place(tube, group):
    """Let a group stand among those that are open, if it has a ready job, or those that are closed for a time."""
    groups: Groups = tube.groups
    take_out(tube, group)
    if group.closed & Closed.RATE:
        group.is_timed = True
        return groups.timed.push(group, token_ns(group.rules.group_rate, group.full_at_ns), group.served)
    if group.closed & Closed.BREAKER and group.breaker.probe_id == 0:
        group.is_timed = True
        return groups.timed.push(group, group.breaker.probe_at_ns, group.served)
    if group.closed or group.ready.count == 0:
        return 0
    group.is_timed = False
    held: int64_t = group.counts[RESERVED]
    share: int64_t = min(held * SHARES_PER_JOB // group.weight, SHARE_MAX)
    pri: int64_t = cython.cast(Job, group.ready.entries[0].item).pri
    if group.rules is not None and group.rules.groups_fair:
        pri = 0
    return groups.open.push(group, pri << 31 | share, group.served)


# --- limits -----------------------------------------------------------------------------------------------------------


@cython.cfunc
def close_if_held(group: Group) -> cython.int:
    """Close a group of which so many jobs are held as may be."""
    rules: RuleSet = group.rules
    held: cython.Py_ssize_t = group.counts[RESERVED]
    if rules is not None and 0 < rules.group_concurrency <= held:
        group.closed |= Closed.CONCURRENCY
    return 0


@cython.cfunc
def limit(group: Group) -> cython.int:
    """Let a group have the weight and the limit of held jobs that its rules say."""
    rules: RuleSet = group.rules
    weights: dict = None if rules is None else rules.group_weights
    group.weight = 1 if weights is None else weights.get(group.name, 1)
    group.closed &= ~cython.cast(uint8_t, Closed.CONCURRENCY)
    return close_if_held(group)


@cython.cfunc
def begin_group_bucket(tube: Tube, group: Group, now_ns: int64_t, started_at_ns: int64_t) -> cython.int:
    """Let the bucket of a group be empty since the rules were set, as that of a tube, or go on where it was kept."""
    rules: RuleSet = group.rules
    group.closed &= ~cython.cast(uint8_t, Closed.RATE)
    group.full_at_ns = 0
    if rules is None or rules.group_rate.interval_ns == 0:
        return 0
    since_ns: int64_t = max(tube.groups.rated_at_ns, started_at_ns)
    kept_ns: int64_t = tube.groups.buckets.take(bucket_name(tube, group), rules.group_rate)
    group.full_at_ns = max(filled_ns(rules.group_rate, since_ns), kept_ns)
    if token_ns(rules.group_rate, group.full_at_ns) > now_ns:
        group.closed |= Closed.RATE
    return 0


def begin_breaker(group, before):
    """Give a group a breaker if its rules say so; it goes on if the rule is as before."""
    if not has_same_breaker(group.rules, before):
        group.closed &= ~cython.cast(uint8_t, Closed.BREAKER)
        group.breaker = Breaker() if group.rules is not None and group.rules.breaker_by_group else None
    return 0


def breaker_of(job):
    """Return what counts how the attempts at a job end: its group's breaker, or its tube's; None: nothing does."""
    tube: Tube = job.tube
    if tube.breaker is None or not tube.rules.breaker_by_group:
        return tube.breaker
    return group_of(job).breaker


@cython.cfunc
def bucket_name(tube: Tube, group: Group) -> bytes:
    """Return the name by which the bucket of a group is kept; that of no tube has a space."""
    return b"%b %b" % (tube.name, group.name)


def keep_group_bucket(tube, group, now_ns):
    """Keep the bucket of a group that is forgotten."""
    if group.rules is None or group.full_at_ns <= now_ns:
        return 0
    return tube.groups.buckets.keep(bucket_name(tube, group), group.rules.group_rate, group.full_at_ns, now_ns)


def take_group_token(tube, job, now_ns):
    """Take the token for a reservation from the group of a job that is about to be handed out."""
    rules: RuleSet = tube.rules
    if rules is None or rules.group_rate.interval_ns == 0:
        return 0
    group: Group = group_of(job)
    group.full_at_ns = taken_ns(rules.group_rate, group.full_at_ns, now_ns)
    if token_ns(rules.group_rate, group.full_at_ns) > now_ns:
        group.closed |= Closed.RATE  # the job leaves it now: it is placed then
    return 0


def mark_pause(tube, group, now_ns):
    """Close a group that has a pause now, or open one that has none any more; :func:`recall` was called before."""
    if group.pause is not None:
        group.closed |= Closed.PAUSED
    else:
        group.closed &= ~cython.cast(uint8_t, Closed.PAUSED)
    place(tube, group)
    return drop_if_empty(tube, group, now_ns)


def open_timed(tube, now_ns, started_at_ns, most):
    """Open the groups for which a token has come by now, as many as `most`; return how many were looked at."""
    groups: Groups = tube.groups
    count: cython.Py_ssize_t = 0
    if groups.timed.count == 0 or groups.timed.entries[0].key > now_ns:
        return 0
    recall(tube)
    while count < most and groups.timed.count and groups.timed.entries[0].key <= now_ns:
        group: Group = cython.cast(Group, groups.timed.entries[0].item)
        count += 1
        if group.rules is not tube.rules:
            go_by_rules(tube, group, now_ns, started_at_ns)
        elif not group.closed & Closed.RATE:
            group.closed &= ~cython.cast(uint8_t, Closed.BREAKER)  # the next job is the probe
        elif has_token(group.rules.group_rate, cython.address(group.full_at_ns), now_ns, started_at_ns):
            group.closed &= ~cython.cast(uint8_t, Closed.RATE)
        place(tube, group)
    choose(tube, now_ns, started_at_ns)
    return count


# --- rules that change ------------------------------------------------------------------------------------------------


def renew(tube, before, now_ns):
    """Let each group of a tube, whose rules have changed, go by them before it is used next."""
    if not have_same_rate(before, tube.rules):
        tube.groups.rated_at_ns = now_ns
    tube.groups.stale_count = len(tube.groups.all)
    return 0


def follow_rules(tube, most, now_ns, started_at_ns):
    """Let the next groups of a tube, as many as `most`, go by its rules; return how many were looked at.

    The list of all is looked at from its end: a group that is forgotten gives its place to the last one, which is
    looked at already, and a new one goes by the rules of the tube. :func:`recall` was called before.
    """
    groups: Groups = tube.groups
    count: cython.Py_ssize_t = 0
    while count < most and groups.stale_count:
        groups.stale_count -= 1
        count += 1
        group: Group = cython.cast(Group, groups.all[groups.stale_count], typecheck=True)
        if group.rules is not tube.rules:
            go_by_rules(tube, group, now_ns, started_at_ns)
    return count


@cython.cfunc
def go_by_rules(tube: Tube, group: Group, now_ns: int64_t, started_at_ns: int64_t) -> cython.int:
    """Let a group go by the rules of its tube; its bucket goes on where its rate is as before."""
    before: RuleSet = group.rules
    group.rules = tube.rules
    limit(group)
    begin_breaker(group, before)
    if not have_same_rate(before, tube.rules):
        begin_group_bucket(tube, group, now_ns, started_at_ns)
    order(group)
    return place(tube, group)


def order(group):
    """Let the job of a group that has begun come before the others, or hold them up; else let none have begun."""
    at: cython.Py_ssize_t
    group.closed &= ~cython.cast(uint8_t, Closed.ORDER)
    if group.begun == 0:
        return 0
    strict: cython.bint = group.rules is not None and group.rules.group_strict
    if strict and group.begun_is_buried and not group.rules.group_hold_buried:
        group.begun = 0
        return 0
    for at in range(group.ready.count):
        if group.ready.entries[at].tie == group.begun:
            job: Job = cython.cast(Job, group.ready.entries[at].item)
            group.begun *= strict
            group.ready.move(job, key_of(group, job))
            return 0
    group.begun *= strict
    if strict:
        group.closed |= Closed.ORDER
    return 0


def is_group_full(tube, name):
    """Whether a tube, if it is there, takes no more jobs of a group; None: of those without one."""
    if tube is None or tube.groups is None or tube.rules is None or tube.rules.group_jobs_max == 0:
        return False
    group: Group = tube.groups.by_name.get(b"" if name is None else name)
    if group is None:
        return False
    return group.counts[READY] + group.counts[DELAYED] >= tube.rules.group_jobs_max
