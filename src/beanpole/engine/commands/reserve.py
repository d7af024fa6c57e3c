"""reserve in all its forms: of the next job, of one by its id, of many; and cancel-reserve.

Each job that reserve-many hands out is the one that ``reserve`` would have handed out next. A session that waits is
given the first job that becomes ready, alone: it is not kept waiting for more.

``reserve-many 0`` takes no job: its session is told that there is one. Until it says something, or for a second, one
ready job of that tube is left to it: those that wait get the jobs beyond. Whoever does not have to wait takes what is
there, as ever, so that a session that was told may find nothing.
"""

import cython
from cython.cimports.beanpole.engine.commands.serve import (
    end_cost,
    hold,
    is_over,
    offer_opened,
    reply_jobs,
    reserve_for,
    take,
)
from cython.cimports.beanpole.engine.policies.attempts import is_unsettled
from cython.cimports.beanpole.engine.policies.expiry import count_expiry
from cython.cimports.beanpole.engine.policies.uniqueness import may_return
from cython.cimports.beanpole.engine.state.groupjobs import group_name, next_of_group
from cython.cimports.beanpole.engine.state.heap import Heap, sooner
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, body_of
from cython.cimports.beanpole.engine.state.queue import Outcome
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Want, best_of, best_tube, is_first_best
from cython.cimports.beanpole.engine.state.tube import Tube, Watch, can_offer, can_serve
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
NEVER = cython.declare(int64_t, -1)
BODIES_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.BODIES_BYTES_MAX)
ENDS_PER_TURN = cython.declare(cython.int, limits.ENDS_PER_TURN)
TUBES_PER_MOVE = cython.declare(cython.Py_ssize_t, 5)
"""Tubes that reserve-many compares in the time in which a job is moved: each lies elsewhere in memory."""


def reserve(queue, now_ns, session, command):
    """reserve: the ready job of the smallest (pri, id) in the watched tubes that are not paused, or wait for one."""
    return reserve_until(queue, now_ns, session, NEVER)


def reserve_with_timeout(queue, now_ns, session, command):
    """reserve-with-timeout: the same, but wait no longer than this."""
    return reserve_until(queue, now_ns, session, now_ns + command.timeout_s * SECOND_NS)


def reserve_until(queue, now_ns, session, until_ns):
    """Reserve the best job that there is, or wait for one; NEVER: for ever."""
    queue.count_worker(session)
    left: cython.int = ENDS_PER_TURN
    while left > 0:
        best: Heap = best_of(session, cython.address(left))
        if best is None:
            break
        job: Job = cython.cast(Job, best.entries[0].item)
        cost: cython.int = end_cost(job)
        if not (job.flags & Flag.COUNTING and is_over(queue, now_ns, job)):
            return reserve_for(queue, now_ns, session, job)
        left -= cost
    if left <= 0:
        return Outcome.AGAIN
    return wait_for(queue, now_ns, session, until_ns, Want.JOB)


def wait_for(queue, now_ns, session, until_ns, wants):
    """Let a session that found no job wait for what it wants; answer it if it may not wait."""
    if queue.deadline_soon(now_ns, session):
        return session.out.word(Word.DEADLINE_SOON)
    if session.half_closed or until_ns == now_ns:
        return session.out.word(Word.TIMED_OUT)
    session.wants = wants
    return queue.wait(session, until_ns)


def reserve_job(queue, now_ns, session, command):
    """reserve-job: a job by its id, unless somebody holds it."""
    job: Job = queue.jobs.find(command.id)
    if (
        job is None
        or job.state == State.RESERVED
        or (job.state == State.DELAYED and is_unsettled(job))
        or (job.flags and (not may_return(queue, job) or is_over(queue, now_ns, job)))
    ):
        return queue.not_found(session)
    changes: cython.bint = job.state != State.READY
    room: cython.int = queue.records.room_for_change(job.tag_bytes) if changes else Room.OK
    if room != Room.OK:
        return queue.no_room(session, room)
    if job.flags & Flag.EXPIRES and job.state == State.BURIED:
        count_expiry(job, now_ns)
    hold(queue, now_ns, session, job)
    session.read_index = queue.records.index
    session.out.body(Word.RESERVED, job.id, body_of(job), job.body_bytes)
    if changes:
        # When it comes back it is ready, whatever it was: now or, should the server end here, at the next start.
        queue.records.job_changed(job)
        session.read_index = queue.records.index
    return 0


def reserve_many(queue, now_ns, session, command):
    """reserve-many: the jobs that as many reserves would get, at once; where there is none, wait for the first."""
    queue.count_worker(session)
    until_ns: int64_t = now_ns + command.args.timeout_ns
    if command.args.count == 0:
        return ask(queue, now_ns, session, until_ns)
    is_same: cython.bint = command.args.given & bit(Kind.SAME) != 0
    jobs: list = hold_many(queue, now_ns, session, 1 if is_same else command.args.count)
    if is_same and jobs:
        hold_same(queue, now_ns, session, command.args.count, jobs)
    if jobs is None:
        return Outcome.AGAIN
    if jobs:
        return reply_jobs(queue, now_ns, session, jobs)
    return wait_for(queue, now_ns, session, until_ns, Want.FRAME)


def ask(queue, now_ns, session, until_ns):
    """reserve-many 0: tell a session that there is a job, and reserve none, or wait for one.

    A job that was left to it is offered to those who wait first: else one that asks again and again would keep it.
    """
    if queue.opened is not None:
        offer_opened(queue, now_ns)
    left: cython.int = ENDS_PER_TURN
    while left > 0:
        tube: Tube = best_offer(session, cython.address(left))
        if tube is None:
            break
        job: Job = cython.cast(Job, tube.ready.entries[0].item)
        cost: cython.int = end_cost(job)
        if not (job.flags & Flag.COUNTING and is_over(queue, now_ns, job)):
            return queue.tell(session, tube)
        left -= cost
    if left <= 0:
        return Outcome.AGAIN
    return wait_for(queue, now_ns, session, until_ns, Want.NOTICE)


def best_offer(session, left):
    """Return a watched tube that has more ready jobs than sessions were told of; None as :func:`best_of`.

    It is the tube with the best job of those, but of a wide session any: most often the first one is one of them.
    """
    watch: Watch
    best: Tube = None
    if session.heads is None:
        for watch in session.watches:
            if can_offer(watch.tube) and (best is None or sooner(watch.tube.ready, best.ready)):
                best = watch.tube
        return best
    best = best_tube(session.heads, left)
    at: cython.Py_ssize_t = 0
    while best is not None and not can_offer(best):
        at += 1
        best = None if at == session.heads.count else cython.cast(Watch, session.heads.entries[at].item).tube
    session.moved_count += at // TUBES_PER_MOVE
    return best


def hold_many(queue, now_ns, session, count):
    """Reserve the best jobs of the watched tubes for a session, up to `count` of them and to BODIES_BYTES_MAX.

    None: too many jobs whose time was over were in the way.
    """
    if session.heads is not None:
        return hold_best(queue, now_ns, session, count, session.heads)
    heads: Heap = Heap()
    for each in session.watches:
        watch: Watch = cython.cast(Watch, each, typecheck=True)
        if can_serve(watch.tube):
            heads.push(watch, watch.tube.ready.entries[0].key, watch.tube.ready.entries[0].tie)
    session.moved_count += heads.count // TUBES_PER_MOVE
    try:
        return hold_best(queue, now_ns, session, count, heads)
    finally:
        while heads.count:  # the watches outlive this heap
            heads.remove(cython.cast(Watch, heads.entries[heads.count - 1].item))


def hold_best(queue, now_ns, session, count, heads):
    """Do what `hold_many` does, with a heap of the tubes that have jobs, by the best one."""
    left: cython.int = ENDS_PER_TURN
    bytes_left: cython.Py_ssize_t = BODIES_BYTES_MAX
    jobs: list = []
    while len(jobs) < count:
        tube: Tube = best_tube(heads, cython.address(left))
        if tube is None:
            break
        job: Job = cython.cast(Job, tube.ready.entries[0].item)
        cost: cython.int = end_cost(job)
        if job.flags & Flag.COUNTING and is_over(queue, now_ns, job):
            left -= cost
        else:
            bytes_left -= job.body_bytes
            if bytes_left < 0 and jobs:
                break
            take(queue, now_ns, session, job)
            jobs.append(job)
        is_first_best(heads)  # else the tube would stand before its best job
    return jobs if jobs or left > 0 else None


def hold_same(queue, now_ns, session, count, jobs):
    """Reserve of the group of a job that was reserved what else it hands out, up to `count` jobs in all."""
    job: Job = jobs[0]
    tube: Tube = job.tube
    name: bytes = group_name(job)
    left: cython.int = ENDS_PER_TURN
    bytes_left: cython.Py_ssize_t = BODIES_BYTES_MAX - job.body_bytes
    while len(jobs) < count and left > 0 and can_serve(tube):
        job = next_of_group(tube, name)
        if job is None:
            break
        cost: cython.int = end_cost(job)
        if job.flags & Flag.COUNTING and is_over(queue, now_ns, job):
            left -= cost
            continue
        bytes_left -= job.body_bytes
        if bytes_left < 0:
            break
        take(queue, now_ns, session, job)
        jobs.append(job)
    return 0


def cancel_reserve(queue, now_ns, session, command):
    """cancel-reserve of a session that does not wait; the connection sees to those that do (:func:`cancel`)."""
    return session.out.word(Word.NOT_WAITING)


def cancel(queue, session):
    """End the waiting of a session, of its own will: the reply of its reserve is TIMED_OUT."""
    queue.count_command(Verb.CANCEL_RESERVE, 1)
    queue.stop_waiting(session)
    session.heard_at_ns = queue.now_ns
    session.last_verb = Verb.CANCEL_RESERVE
    return session.out.word(Word.TIMED_OUT)
