"""The invariants of the engine, asserted one by one against a recount. Tests call it after every step."""

from collections import Counter

import cython
from cython.cimports.beanpole.engine.commands.hiding import is_stale
from cython.cimports.beanpole.engine.engine import Engine, Leave
from cython.cimports.beanpole.engine.policies.expiry import expiry_of
from cython.cimports.beanpole.engine.policies.uniqueness import rival
from cython.cimports.beanpole.engine.state.failures import Failures
from cython.cimports.beanpole.engine.state.groupjobs import group_name, ready_count
from cython.cimports.beanpole.engine.state.groups import has_group_rules
from cython.cimports.beanpole.engine.state.heap import Heap, Item, entry_of
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, deadline_of, holder_of
from cython.cimports.beanpole.engine.state.once import OnceTable
from cython.cimports.beanpole.engine.state.schedule import Schedule, ScheduleTable
from cython.cimports.beanpole.engine.state.session import Session, told_of, wide_waiting
from cython.cimports.beanpole.engine.state.tags import read_flags
from cython.cimports.beanpole.engine.state.times import SPAN_NS, SPANS_MAX, JobTime, spans_of
from cython.cimports.beanpole.engine.state.tube import (
    Closed,
    Group,
    RuleSet,
    Space,
    Tube,
    Watch,
    awaits_probe,
    can_offer,
    can_serve,
    is_broken,
    token_at_ns,
)
from cython.cimports.beanpole.protocol.rights import Right

from beanpole.engine import limits

DEADLINE_MARGIN_NS = limits.DEADLINE_MARGIN_NS


def check(engine: Engine) -> None:
    """Raise AssertionError with a sentence when an invariant is broken."""
    engine.jobs.check()
    engine.timers.check()
    check_counts(engine)
    check_keys(engine)
    check_expiry(engine)
    check_once(engine)
    check_failures(engine)
    check_times(engine)
    check_schedules(engine)
    jobs = {tube: [] for tube in engine.tube_list}
    for each in engine.jobs.jobs():
        job: Job = each
        jobs[job.tube].append(job)
    for tube in engine.tube_list:
        check_tube(engine, tube, jobs[tube])
    check_spaces(engine, jobs)
    check_sessions(engine)


def check_spaces(engine: Engine, jobs: dict[Tube, list[Job]]) -> None:
    """Assert that each tube knows its space, and that spaces have what lies there, unless that is counted now."""
    if engine.recounting:
        return
    found: dict[Space, list[int]] = {}
    for tube in engine.tube_list:
        space: Space = None if engine.spaces is None else engine.spaces.of(tube.name)
        assert tube.space is space, f"tube {tube.name.decode()} has another space"
        if space is not None:
            counts = found.setdefault(space, [0, 0, 0])
            counts[0] += 1
            counts[1] += len(jobs[tube])
            counts[2] += tube.body_bytes
    for each in [] if engine.spaces is None else engine.spaces.spaces.values():
        space = each
        counted = [space.tube_count, space.job_count, space.body_bytes]
        assert counted == found.get(space, [0, 0, 0]), f"space {space.pattern.decode()} counts what is not there"


def waiting_sessions(tube: Tube) -> list[Session]:
    """Return the sessions of a tube's waiting line, the first one first."""
    found = []
    watch: Watch = tube.first_waiting
    while watch is not None:
        found.append(watch.session)
        watch = watch.later
    return found


def check_counts(engine: Engine) -> None:
    """Assert the counts over all jobs, and that each job is where its state says."""
    counts = [0] * 4
    urgent = 0
    for each in engine.jobs.jobs():
        job: Job = each
        heap: Heap = engine.heap_of(job)
        counts[job.state] += 1
        urgent += job.state == State.READY and job.pri < limits.URGENT_PRI_BELOW
        assert job.heap_index >= 0, f"job {job.id} stands in no heap"
        assert 0 <= entry_of(heap, job) - heap.entries < heap.count, f"job {job.id} stands in no place of its heap"
        assert entry_of(heap, job).item == cython.cast(cython.p_void, job), f"job {job.id} stands in another heap"
        assert engine.tubes.get(job.tube.name) is job.tube, f"job {job.id} is in a tube that is gone"
        is_held = job.state == State.RESERVED
        assert is_held == (holder_of(job) is not None), f"job {job.id} has no holder"
        assert is_held or job.flags & Flag.COUNTING or job.place.holder is cython.NULL, f"job {job.id} has a holder"
    for state in range(4):
        assert counts[state] == engine.state_counts[state], (
            f"{counts[state]} jobs are in state {state}, but {engine.state_counts[state]} are counted"
        )
    assert urgent == engine.urgent_count, f"{urgent} jobs are urgent, but {engine.urgent_count} are counted"


def check_keys(engine: Engine) -> None:
    """Assert that the flags of each job say what its tags say, and that the jobs which must hold their key do."""
    holders = 0
    for each in engine.jobs.jobs():
        job: Job = each
        flags = job.flags
        read_flags(job)
        assert job.flags == flags, f"the flags of job {job.id} are not what its tags say"
        holds = bool(flags & Flag.HOLDS_KEY)
        assert holds == bool(flags & Flag.KEYED and job.state != State.BURIED), f"job {job.id} has lost its key"
        assert not holds or rival(engine, job.tube, job) is job, f"job {job.id} is not found by its key"
        holders += holds
    assert holders == (0 if engine.keys is None else engine.keys.count), "the index has keys of jobs that are gone"
    if engine.keys is not None:
        engine.keys.check()


def check_once(engine: Engine) -> None:
    """Assert that each token is found by its hash, and that ticks look for those that have ended."""
    table: OnceTable = engine.once
    if table is not None:
        table.check()
        due_ns = engine.next_deadline_ns
        latest_ns = max(table.look_at_ns, engine.started_at_ns)
        assert table.count == 0 or 0 <= due_ns <= latest_ns, "nobody looks which tokens have ended"


def check_expiry(engine: Engine) -> None:
    """Assert that the jobs which expire, and whose time counts, stand in the queue of expiry with their moments."""
    counting = 0
    for each in engine.jobs.jobs():
        job: Job = each
        waits = job.state == State.READY or job.state == State.DELAYED
        at_ns = expiry_of(job) if job.flags & Flag.EXPIRES else 0
        assert bool(job.flags & Flag.COUNTING) == bool(waits and at_ns), f"job {job.id} expires, but is not looked at"
        assert not (waits and job.flags & Flag.EXPIRES) or at_ns, f"job {job.id} expires, but its time does not count"
        if job.flags & Flag.COUNTING:
            assert engine.expiry.at_ns_of(job) in {at_ns, deadline_of(job)}, f"job {job.id} expires at a wrong moment"
            counting += 1
    assert counting == (0 if engine.expiry is None else engine.expiry.count), "jobs that are gone expire"
    if counting:
        engine.expiry.check()
        check_timer(engine, engine.expiry, engine.expiry.next_due_ns())


def check_failures(engine: Engine) -> None:
    """Assert that the jobs that have failed are counted, each in one group."""
    recount: Failures = Failures()
    for each in engine.jobs.jobs():
        job: Job = each
        recount.add(job)
    counted = {(group.tube, group.error, *group.ends): group.count for group in engine.failures.groups()}
    found = {(group.tube, group.error, *group.ends): group.count for group in recount.groups()}
    assert engine.failures.total == recount.total == sum(counted.values()), "failed jobs are counted that are gone"
    is_summed = any(error is None for _, error, *_ in counted)  # then it depends on the order which groups there are
    assert is_summed or counted == found, f"{counted} jobs are counted as failed, but {found} have"


def check_times(engine: Engine) -> None:
    """Assert that no tube has timed what the server has not, and that only jobs that are ready are due."""
    timed = [tube for tube in engine.tube_list if tube.times is not None]
    assert len(timed) == engine.server_times.tube_count, "tubes that are gone are counted among those that are timed"
    for what in (JobTime.TIME_READY, JobTime.TIME_HELD, JobTime.TIME_LATE):
        places = zip(engine.server_times.counts(what), *[tube.times.counts(what) for tube in timed], strict=True)
        assert all(total >= sum(of_tubes) for total, *of_tubes in places), "a tube has timed more than the server"
    due = [
        job.id for job in engine.jobs.jobs() if job.flags & Flag.DUE and job.state not in {State.READY, State.DELAYED}
    ]
    assert not due, f"the delays of jobs {due} are over, but they are not ready"


def check_schedules(engine: Engine) -> None:
    """Assert that schedules are found by name and in order, and that those with a next time are looked at in time."""
    table: ScheduleTable = engine.schedules
    if table is None:
        return
    assert table.names == sorted(table.by_name), "the names of schedules are not in order"
    table.heap.check()
    waiting = paused = zoneless = 0
    for name in table.names:
        schedule: Schedule = table.by_name[name]
        waits = schedule.state.next_ns != 0 and not schedule.state.paused
        assert waits == (schedule.heap_index >= 0), f"schedule {name} waits for no time, or for one that it has not"
        waiting += waits
        paused += schedule.state.paused
        zoneless += waits and schedule.state.due_ns == 0
    counted = (table.heap.count, table.paused_count, table.zoneless_count)
    assert (waiting, paused, zoneless) == counted, "schedules that are gone are counted"
    follows = engine.started_at_ns == 0  # a node of a cluster that does not lead
    assert not table.names or follows or engine.schedules_at_ns >= 0, "nobody looks at the schedules"


def check_tube(engine: Engine, tube: Tube, jobs: list[Job]) -> None:
    """Assert what concerns one tube, which has these jobs."""
    name = tube.name
    assert engine.tubes.get(name) is tube, f"tube {name} is listed but not found by name"
    assert engine.tube_list[tube.list_index] is tube, f"tube {name} does not know its place in the list"
    for heap in (tube.ready, tube.delayed, tube.buried):
        heap.check()
    reserved = sum(1 for job in jobs if cython.cast(Job, job, typecheck=True).state == State.RESERVED)
    assert reserved == tube.reserved_count, f"tube {name} counts {tube.reserved_count} of {reserved} reserved jobs"
    body_bytes = sum(cython.cast(Job, job, typecheck=True).body_bytes for job in jobs)
    assert body_bytes == tube.body_bytes, f"tube {name} counts {tube.body_bytes} of {body_bytes} bytes of bodies"
    paused = bool(tube.closed & Closed.PAUSED)
    assert paused == bool(tube.paused_until_ns), f"tube {name} is closed by a pause that is none, or not by one that is"
    check_limits(engine, tube)
    check_groups(engine, tube, jobs)
    check_ages(tube, jobs)
    line = waiting_sessions(tube)
    assert len(line) == tube.waiting_count, f"tube {name} counts {tube.waiting_count} of {len(line)} waiting sessions"
    waits = line or wide_waiting(tube)
    assert not (waits and can_offer(tube)), f"a session waits for tube {name}, with jobs that are left to nobody"
    is_paused = tube.groups is not None and tube.groups.paused_count
    is_needed = tube.using_count or tube.watching_count or jobs or name == b"default" or is_paused
    assert is_needed, f"tube {name} should be gone"
    if tube.delayed.count:
        check_timer(engine, tube, tube.delayed.entries[0].key)
    if tube.paused_until_ns:
        check_timer(engine, tube, tube.paused_until_ns)


def check_ages(tube: Tube, jobs: list[Job]) -> None:
    """Assert that the ready jobs of a tube are counted where they became ready, in few spans."""
    name = tube.name
    ready = [cython.cast(Job, job, typecheck=True) for job in jobs]
    seconds = [job.since_ns // SPAN_NS for job in ready if job.state == State.READY]
    spans = spans_of(cython.address(tube.ages), ready_count(tube))
    assert len(spans) <= SPANS_MAX, f"tube {name} has {len(spans)} spans of ages"
    assert sum(count for _, _, count in spans) == len(seconds), f"tube {name} counts ages of jobs that are not ready"
    before_s = None
    for first_s, last_s, count in spans:
        assert first_s <= last_s, f"tube {name} has a span that ends before it begins"
        assert before_s is None or before_s < first_s, f"tube {name} has spans of ages that are not in order"
        before_s = last_s
        counted = sum(1 for each in seconds if first_s <= each <= last_s)
        assert counted == count, f"tube {name} counts {count} of {counted} jobs of an age"


def check_limits(engine: Engine, tube: Tube) -> None:
    """Assert that a tube has the rules that are set for it, and is closed for their limits exactly when they say so."""
    name = tube.name
    source: RuleSet = None if engine.rules is None else engine.rules.match(name)
    rules: RuleSet = tube.rules
    assert rules is source, f"tube {name} does not have the rules that are set"
    limits = tube.closed & (Closed.RATE | Closed.CONCURRENCY | Closed.BREAKER)
    has_breaker = rules is not None and rules.breaker_percent != 0
    assert has_breaker == (tube.breaker is not None), f"tube {name} has a breaker without a rule, or none with one"
    check_breaker(engine, tube)
    assert rules is not None or not limits, f"tube {name} is closed for limits, but has none"
    if rules is None:
        return
    is_taken = 0 < rules.concurrency <= tube.reserved_count
    assert bool(limits & Closed.CONCURRENCY) == is_taken, f"tube {name} is closed for its held jobs, or is not"
    if limits & Closed.RATE:
        check_timer(engine, tube, token_at_ns(tube))
    else:
        has_token = rules.rate.interval_ns == 0 or token_at_ns(tube) <= engine.now_ns
        assert has_token, f"tube {name} is open, but its bucket is empty"


def check_breaker(engine: Engine, tube: Tube) -> None:
    """Assert that a tube that its breaker has closed waits for a probe, has one, or may hand one out."""
    name = tube.name
    if not is_broken(tube):
        assert not tube.closed & Closed.BREAKER, f"tube {name} is closed by its breaker, which is not"
        assert tube.breaker is None or tube.breaker.probe_id == 0, f"tube {name} has a probe, but is not closed"
    elif tube.breaker.probe_id:
        probe: Job = engine.jobs.find(tube.breaker.probe_id)
        is_held = probe is not None and probe.tube is tube and probe.state == State.RESERVED
        assert is_held, f"nobody holds the probe of tube {name}"
        assert tube.closed & Closed.BREAKER, f"tube {name} may hand out a second probe"
    elif awaits_probe(tube):
        check_timer(engine, tube, tube.breaker.probe_at_ns)
    else:
        assert tube.breaker.probe_at_ns <= engine.now_ns, f"tube {name} may hand out a probe before its time"


def check_groups(engine: Engine, tube: Tube, jobs: list[Job]) -> None:
    """Assert that the jobs of a tube with groups are counted by them, and that the right one is next."""
    if tube.groups is None:
        names = [group_name(job) for job in jobs if cython.cast(Job, job, typecheck=True).flags & Flag.GROUPED]
        assert not names, f"tube {tube.name} has no groups, but {names}"
        assert not has_group_rules(tube.rules), f"tube {tube.name} has no groups, but rules of them"
        return
    counts = {name: [0] * 4 for name in tube.groups.by_name}
    for each in jobs:
        job: Job = each
        counts[group_name(job)][job.state] += 1
    tube.groups.open.check()
    tube.groups.timed.check()
    servable = []
    for name, found in counts.items():
        group: Group = tube.groups.by_name[name]
        is_next = tube.groups.next is group
        assert [group.counts[i] for i in range(4)] == found, f"group {name} counts jobs that it has not"
        assert group.ready.count + is_next == found[State.READY], f"group {name} has lost a ready job"
        group.ready.check()
        assert tube.groups.all[group.place] is group, f"group {name} stands elsewhere in the list"
        is_stale = group.place < tube.groups.stale_count
        assert group.rules is tube.rules or is_stale, f"group {name} goes by rules from before, and nobody knows"
        limit = 0 if group.rules is None else group.rules.group_concurrency
        is_taken = 0 < limit <= found[State.RESERVED]
        assert bool(group.closed & Closed.CONCURRENCY) == is_taken, f"group {name} is closed for its held jobs, or not"
        is_open = found[State.READY] > 0 and group.closed == 0
        assert is_open == (group.heap_index >= 0 and not group.is_timed), f"group {name} is open, but not in line"
        servable += [name] * is_open
        paused = bool(group.closed & Closed.PAUSED)
        assert paused == (group.pause is not None), f"group {name} is closed by a pause that is none, or not by one"
        assert not paused or group.pause.heap_index >= 0, f"nobody looks for the end of the pause of group {name}"
    paused_count = sum(
        1 for each in tube.groups.by_name.values() if cython.cast(Group, each, typecheck=True).pause is not None
    )
    assert paused_count == tube.groups.paused_count, f"tube {tube.name} has {paused_count} paused groups"
    has_next = tube.ready.count == 1
    assert bool(servable) == has_next or (tube.groups.stale_count and not has_next), (
        f"tube {tube.name} has groups {servable}, but no next job"
    )
    assert sum(each[State.READY] for each in counts.values()) == tube.groups.ready_count, (
        "ready jobs of groups are lost"
    )
    if tube.groups.timed.count:
        check_timer(engine, tube, tube.groups.timed.entries[0].key)


def check_sessions(engine: Engine) -> None:
    """Assert that the sessions are listed in the order of their numbers, and counted without the server's own."""
    sessions = engine.sessions.all_sessions()
    numbers = [session.number for session in sessions]
    assert numbers == sorted(set(numbers)), "the sessions are not listed in order"
    assert len(sessions) == engine.sessions.count, "sessions that are gone are counted"
    for each in sessions:
        session: Session = each
        assert engine.sessions.places[session.list_index] is session, f"session {session.number} has another place"
        check_session(engine, session)
    leaving = [
        cython.cast(Leave, each, typecheck=True).session for each in engine.unattended or [] if isinstance(each, Leave)
    ]
    for each in engine.jobs.jobs():
        job: Job = each
        holder = holder_of(job)
        is_held = holder is None or holder.used is not None or holder.lost or holder in leaving
        assert is_held, f"job {job.id} is held by a session that is closed"
    lost = [session for session in sessions if session.lost]
    assert len(lost) == engine.lost_count, f"{len(lost)} sessions may return, but {engine.lost_count} are counted"
    for token, session in ({} if engine.kept is None else engine.kept).items():
        assert session.keep.token == token, f"session {session.number} is found by a token that it has not"
        assert session in sessions, f"session {session.number} is gone, but found by its token"
    told = Counter([told_of(each) for each in sessions if cython.cast(Session, each, typecheck=True).told_at])
    for each in engine.tube_list:
        tube: Tube = each
        assert tube.told_count == told[tube], f"tube {tube.name} counts {tube.told_count} of {told[tube]} told sessions"
    clients = [session for session in sessions if not session.own and not session.lost]
    found = [len(clients), sum(each.producer for each in clients), sum(each.worker for each in clients)]
    found.append(sum(each.waiting for each in clients))
    counted = [engine.session_count, engine.producer_count, engine.worker_count, engine.waiting_count]
    assert found == counted, f"{found} sessions are open, put, reserve, wait, but {counted} are counted"


def check_session(engine: Engine, session: Session) -> None:
    """Assert what concerns one session."""
    name = f"session {session.number}"
    assert (session.used is None) == bool(session.lost), f"{name} is closed but still in use"
    assert not session.lost or not session.waiting, f"{name} waits without a connection"
    session.reserved.check()
    for index, each in enumerate(session.watches):
        watch: Watch = each
        assert watch.index == index, f"{name} has a watch that does not know its place"
        in_line = watch.earlier is not None or watch.tube.first_waiting is watch
        is_wide = session.heads is not None
        assert in_line == (session.waiting and not is_wide), f"{name} does not wait in each of its tubes alike"
        assert is_wide == (watch in (watch.tube.wide or ())), f"{name} is wide, and a tube doesn't know, or is not"
    check_hidden(engine, session)
    if session.heads is not None:
        check_heads(session)
    if session.reserved.count:
        due_ns = session.next_due_ns()
        check_timer(engine, session, due_ns - DEADLINE_MARGIN_NS if session.waiting else due_ns)
    if session.waiting and session.wait_until_ns >= 0:
        check_timer(engine, session, session.wait_until_ns)
    if session.told_at:
        assert not session.waiting, f"{name} was told, and waits"
        check_timer(engine, session, session.wait_until_ns)


def check_hidden(engine: Engine, session: Session) -> None:
    """Assert that a session has hidden tubes in the place of those to which its user has no right, and no others."""
    name = f"session {session.number}"
    tubes = [(cython.cast(Watch, each, typecheck=True).tube, Right.RESERVE) for each in session.watches]
    hidden = sum(1 for tube, _ in tubes if cython.cast(Tube, tube, typecheck=True).hidden)
    counted = 0 if session.standing is None else session.standing.hidden_count
    assert hidden == counted, f"{name} counts {counted} of {hidden} hidden tubes"
    if session.used is not None and b";" not in session.used.name:  # else its rights follow rules, one command late
        tubes.append((session.used, Right.EVERYTHING))
    for each, right in tubes:
        tube: Tube = each
        is_known = engine.tubes.get(tube.name) is tube
        assert is_known != tube.hidden, f"{name} has a tube {tube.name} that is gone, or one for which there is none"
        if session.user is not None and session.standing is not None and not is_stale(session):
            may = session.user.rights(tube.name, len(tube.name)) & right != 0
            assert may != tube.hidden, f"{name} has the wrong tube for its rights to {tube.name}"
        if tube.hidden:
            jobs = tube.ready.count + tube.delayed.count + tube.buried.count + tube.reserved_count
            assert jobs == 0, f"a hidden tube {tube.name} has jobs"


def check_heads(session: Session) -> None:
    """Assert that the tubes of a wide session that have jobs stand in its heap, not behind their best job."""
    session.heads.check()
    for each in session.watches:
        watch: Watch = each
        name = watch.tube.name
        if can_serve(watch.tube):
            assert watch.heap_index >= 0, f"session {session.number} was not told of the jobs of tube {name}"
            known, best = entry_of(session.heads, watch)[0], watch.tube.ready.entries[0]
            is_before = (known.key, known.tie) <= (best.key, best.tie)
            assert is_before, f"session {session.number} was not told of a better job of tube {name}"


def check_timer(engine: Engine, item: Item, due_ns: cython.longlong) -> None:
    """Assert that a tube or session is looked at in time."""
    assert item.heap_index >= 0, "something is due, but its timer is not armed"
    assert entry_of(engine.timers, item).key <= due_ns, "a timer is armed too late"
