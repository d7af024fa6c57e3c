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
from cython.cimports.beanpole.engine.state.heap import Heap, sooner
from cython.cimports.beanpole.engine.state.job import Flag, Job, State
from cython.cimports.beanpole.engine.state.tags import Tag, find_tag
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
SHARES_PER_JOB = cython.declare(int64_t, 1_000)
"""Parts of a share that a held job is at a weight of 1: weights go up to 1000."""


def group_name(job):
    """Return the group of a job; empty: it has none."""
    if not job.flags & Flag.GROUPED:
        return b""
    size: cython.Py_ssize_t = 0
    name: cython.p_const_char = find_tag(job, Tag.GROUP, cython.address(size))
    return name[:size]


def group_of(job):
    """Return the group of a job that is in a tube with groups, or has just left it."""
    return job.tube.groups.by_name[group_name(job)]


def ready_count(tube):
    return tube.ready.count if tube.groups is None else tube.groups.ready_count


def is_next(job):
    """Whether a ready job of a tube with groups is the one that is handed out next."""
    ready: Heap = job.tube.ready
    return ready.count != 0 and ready.entries[0].item == cython.cast(cython.p_void, job)


def first_ready(tube):
    """Return the heap of the ready jobs of a tube, or with groups one whose first job is next, or of a closed group."""
    if tube.groups is None or tube.ready.count or tube.groups.ready_count == 0:
        return tube.ready
    found: Heap = tube.ready
    for each in tube.groups.by_name.values():
        group: Group = cython.cast(Group, each, typecheck=True)
        if group.ready.count and (found.count == 0 or sooner(group.ready, found)):
            found = group.ready
    return found


def first_of_group(tube, group):
    """Return the ready job that a group hands out first; None: it has none."""
    if tube.groups.next is group:
        return cython.cast(Job, tube.ready.entries[0].item)
    return cython.cast(Job, group.ready.entries[0].item) if group.ready.count else None


# --- coming and going -------------------------------------------------------------------------------------------------


def open_groups(tube, now_ns):
    """Let a tube have groups: all of its jobs are of none."""
    tube.groups = Groups()
    none: Group = add_group(tube, b"", now_ns)
    none.ready = tube.ready
    tube.ready = Heap()
    none.counts[READY] = none.ready.count
    none.counts[RESERVED] = tube.reserved_count
    none.counts[DELAYED] = tube.delayed.count
    none.counts[BURIED] = tube.buried.count
    tube.groups.ready_count = none.ready.count
    none.is_new = count_of(none) == 0
    limit(tube, none)
    place(tube, none, now_ns)
    return choose(tube)


def close_groups(tube):
    """Let a tube have no groups any more if its jobs have none, and its rules say nothing of them."""
    groups: Groups = tube.groups
    if len(groups.by_name) > 1 or has_group_rules(tube.rules):
        return 0
    recall(tube)
    tube.ready = cython.cast(Group, groups.by_name[b""], typecheck=True).ready
    tube.groups = None
    return 0


def has_group_rules(rules):
    """Whether rules say something of the groups of a tube."""
    if rules is None:
        return False
    if rules.groups_fair or rules.group_concurrency != 0 or rules.group_rate.interval_ns != 0:
        return True
    return rules.group_jobs_max != 0 or rules.group_weights is not None or rules.group_strict


def add_group(tube, name, now_ns):
    """Make a group."""
    groups: Groups = tube.groups
    group: Group = Group(name)
    groups.by_name[name] = group
    group.is_new = True
    limit(tube, group)
    begin_group_bucket(tube, group, now_ns)
    return group


def enter_group(tube, job, state, now_ns):
    """Count a job in a state, and if that is READY let it stand in its group; :func:`recall` was called before."""
    groups: Groups = tube.groups
    name: bytes = group_name(job)
    group: Group = groups.by_name.get(name)
    if group is None:
        group = add_group(tube, name, now_ns)
    if group.is_new or state == State.RESERVED:
        group.is_new = False
        groups.served_count += 1
        group.served = groups.served_count
    group.counts[cython.cast(cython.int, state)] += 1
    if state == State.READY:
        groups.ready_count += 1
    elif state == State.RESERVED:
        close_if_held(tube, group)
    keep_order(tube, group, job, state, now_ns)
    if state == State.READY:
        group.ready.push(job, key_of(group, job), job.id)
    return place(tube, group, now_ns)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def key_of(group: Group, job: Job) -> int64_t:
    """Return the key of a ready job in its group: one that has begun comes before all others."""
    return BEGUN if job.id == group.begun else job.pri


@cython.cfunc
def keep_order(tube: Tube, group: Group, job: Job, state: State, now_ns: int64_t) -> cython.int:
    """Note which job of a group has begun, where the order is strict, as one comes into a state."""
    if tube.rules is None or not tube.rules.group_strict:
        return 0
    if group.begun == 0 and state != State.BURIED and (state == State.RESERVED or job.reserve_count):
        group.begun = job.id
    if group.begun != job.id:
        return 0
    if state == State.BURIED and not tube.rules.group_hold_buried:
        group.begun = 0
    if group.begun == 0 or state == State.READY:
        group.closed &= ~cython.cast(uint8_t, Closed.ORDER)
    else:
        group.closed |= Closed.ORDER
    return 0


def leave_group(tube, job, now_ns):
    """Count a job no more in the state that it leaves; :func:`recall` was called before."""
    groups: Groups = tube.groups
    group: Group = group_of(job)
    group.counts[job.state] -= 1
    if job.state == State.READY:
        groups.ready_count -= 1
        group.ready.remove(job)
    elif job.state == State.RESERVED and group.closed & Closed.CONCURRENCY:
        limit(tube, group)
    return place(tube, group, now_ns)


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
        place(tube, group, now_ns)
    return drop_if_empty(tube, group, now_ns)


@cython.cfunc
def drop_if_empty(tube: Tube, group: Group, now_ns: int64_t) -> cython.int:
    """Forget a group without jobs, unless it is paused or its bucket is not full; that of no name stays."""
    if count_of(group):
        return 0
    group.is_new = True
    if len(group.name) == 0 or group.full_at_ns > now_ns or group.pause is not None:
        return 0
    take_out(tube, group)
    del tube.groups.by_name[group.name]
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


def choose(tube):
    """Let the first job of the first open group be next."""
    groups: Groups = tube.groups
    if groups.open.count == 0:
        return 0
    group: Group = cython.cast(Group, groups.open.entries[0].item)
    job: Job = cython.cast(Job, group.ready.entries[0].item)
    group.ready.remove(job)
    groups.next = group
    return tube.ready.push(job, job.pri, job.id)


@cython.cfunc
def place(tube: Tube, group: Group, now_ns: int64_t) -> cython.int:
    """Let a group stand among those that are open, if it has a ready job, or those that are closed for a time."""
    groups: Groups = tube.groups
    take_out(tube, group)
    if group.closed & Closed.RATE:
        group.is_timed = True
        return groups.timed.push(group, token_ns(tube.rules.group_rate, group.full_at_ns), group.served)
    if count_of(group) == 0 and group.full_at_ns > now_ns:
        group.is_timed = True  # it is forgotten then
        return groups.timed.push(group, group.full_at_ns, group.served)
    if group.closed or group.ready.count == 0:
        return 0
    group.is_timed = False
    held: int64_t = group.counts[RESERVED]
    share: int64_t = min(held * SHARES_PER_JOB // group.weight, SHARE_MAX)
    pri: int64_t = cython.cast(Job, group.ready.entries[0].item).pri
    if tube.rules is not None and tube.rules.groups_fair:
        pri = 0
    return groups.open.push(group, pri << 31 | share, group.served)


# --- limits -----------------------------------------------------------------------------------------------------------


@cython.cfunc
def close_if_held(tube: Tube, group: Group) -> cython.int:
    """Close a group of which so many jobs are held as may be."""
    rules: RuleSet = tube.rules
    held: cython.Py_ssize_t = group.counts[RESERVED]
    if rules is not None and 0 < rules.group_concurrency <= held:
        group.closed |= Closed.CONCURRENCY
    return 0


@cython.cfunc
def limit(tube: Tube, group: Group) -> cython.int:
    """Let a group have the weight and the limit of held jobs that the rules of its tube say."""
    rules: RuleSet = tube.rules
    weights: dict = None if rules is None else rules.group_weights
    group.weight = 1 if weights is None else weights.get(group.name, 1)
    group.closed &= ~cython.cast(uint8_t, Closed.CONCURRENCY)
    return close_if_held(tube, group)


@cython.cfunc
def begin_group_bucket(tube: Tube, group: Group, now_ns: int64_t) -> cython.int:
    """Let the bucket of a group be empty since the rules were set, as that of a tube."""
    rules: RuleSet = tube.rules
    group.closed &= ~cython.cast(uint8_t, Closed.RATE)
    group.full_at_ns = 0
    if rules is None or rules.group_rate.interval_ns == 0:
        return 0
    group.full_at_ns = filled_ns(rules.group_rate, rules.set_at_ns)
    if token_ns(rules.group_rate, group.full_at_ns) > now_ns:
        group.closed |= Closed.RATE
    return 0


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
    place(tube, group, now_ns)
    return drop_if_empty(tube, group, now_ns)


def open_timed(tube, now_ns, started_at_ns):
    """Open the groups for which a token has come by now, and forget those that wait for nothing else; whether any."""
    groups: Groups = tube.groups
    rules: RuleSet = tube.rules
    if groups.timed.count == 0 or groups.timed.entries[0].key > now_ns:
        return False
    recall(tube)
    while groups.timed.count and groups.timed.entries[0].key <= now_ns:
        group: Group = cython.cast(Group, groups.timed.entries[0].item)
        if group.closed & Closed.RATE:
            if has_token(rules.group_rate, cython.address(group.full_at_ns), now_ns, started_at_ns):
                group.closed &= ~cython.cast(uint8_t, Closed.RATE)
        place(tube, group, now_ns)
        drop_if_empty(tube, group, now_ns)
    choose(tube)
    return tube.ready.count != 0


def attach_groups(tube, now_ns):
    """Let the groups of a tube be as its rules say, which have changed."""
    if tube.groups is None:
        return open_groups(tube, now_ns) if has_group_rules(tube.rules) else 0
    recall(tube)
    for each in tube.groups.by_name.values():
        group: Group = cython.cast(Group, each, typecheck=True)
        limit(tube, group)
        begin_group_bucket(tube, group, now_ns)
        order(tube, group)
        place(tube, group, now_ns)
    choose(tube)
    return close_groups(tube)


@cython.cfunc
def order(tube: Tube, group: Group) -> cython.int:
    """Let the job of a group that has begun come before the others, or hold them up; without strict order none has."""
    at: cython.Py_ssize_t
    group.closed &= ~cython.cast(uint8_t, Closed.ORDER)
    if group.begun == 0:
        return 0
    strict: cython.bint = tube.rules is not None and tube.rules.group_strict
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


def begin_order(tube, now_ns):
    """Let after a start of each group the first job have begun that was handed out and has not ended."""
    if tube.groups is None or tube.rules is None or not tube.rules.group_strict:
        return 0
    recall(tube)
    groups: list = list(tube.groups.by_name.values())
    for each in groups:
        cython.cast(Group, each, typecheck=True).begun = 0
    for each in groups:
        note_begun(tube, cython.cast(Group, each, typecheck=True).ready)
    note_begun(tube, tube.delayed)
    if tube.rules.group_hold_buried:
        note_begun(tube, tube.buried)
    for each in groups:
        order(tube, cython.cast(Group, each, typecheck=True))
        place(tube, cython.cast(Group, each, typecheck=True), now_ns)
    return choose(tube)


@cython.cfunc
def note_begun(tube: Tube, heap: Heap) -> cython.int:
    """Note which jobs of a heap are the first of their groups that were handed out."""
    at: cython.Py_ssize_t
    for at in range(heap.count):
        job: Job = cython.cast(Job, heap.entries[at].item)
        if job.reserve_count:
            group: Group = tube.groups.by_name[group_name(job)]
            if group.begun == 0 or job.id < group.begun:
                group.begun = job.id
    return 0


def is_group_full(tube, name):
    """Whether a tube, if it is there, takes no more jobs of a group; None: of those without one."""
    if tube is None or tube.groups is None or tube.rules is None or tube.rules.group_jobs_max == 0:
        return False
    group: Group = tube.groups.by_name.get(b"" if name is None else name)
    if group is None:
        return False
    return group.counts[READY] + group.counts[DELAYED] >= tube.rules.group_jobs_max
