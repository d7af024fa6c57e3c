"""How jobs get into the hands of sessions: one by one, or as they become ready to the sessions that wait.

- No session waits while a tube that it watches, and that is not closed, has more ready jobs than sessions were told
  of (:func:`can_offer`): whatever makes a job ready offers it (:func:`offer`), and so does the end of having been told.
- A job whose time is over is never handed out: it is passed over, and gone (:func:`is_over`).
"""

import heapq

import cython
from cython.cimports.beanpole.engine.commands.hiding import is_stale, may_be_served
from cython.cimports.beanpole.engine.commands.list_jobs import add_frame
from cython.cimports.beanpole.engine.policies.attempts import begin_attempt, ends
from cython.cimports.beanpole.engine.policies.breaker import begin_probe
from cython.cimports.beanpole.engine.policies.expiry import dies_of_age, expiry_of
from cython.cimports.beanpole.engine.policies.throttle import and_opened, close_if_taken, take_token
from cython.cimports.beanpole.engine.policies.uniqueness import end_key
from cython.cimports.beanpole.engine.state.groups import take_group_token
from cython.cimports.beanpole.engine.state.job import Flag, Job, JobCount, State, body_of, count_one
from cython.cimports.beanpole.engine.state.queue import note_reserved, note_wait
from cython.cimports.beanpole.engine.state.session import Session, Want, next_in_line, note_best
from cython.cimports.beanpole.engine.state.tags import KeyBit
from cython.cimports.beanpole.engine.state.tube import Tube, can_offer, is_awaited
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
FAILED_BYTES_PER_JOB = cython.declare(cython.int, limits.FAILED_BYTES_PER_JOB)
KEPT_JOBS_MAX = cython.declare(cython.Py_ssize_t, limits.KEPT_JOBS_MAX)
ENDS_PER_TURN = cython.declare(cython.int, limits.ENDS_PER_TURN)


def hold(queue, now_ns, session, job):
    """Reserve a job for a session."""
    due_ns: int64_t = now_ns + job.ttr_s * SECOND_NS
    frees_key: cython.bint = job.flags & Flag.UNTIL_RESERVE
    records_key: cython.bint = frees_key and job.state == State.READY  # of others reserve-job records all
    if job.state == State.READY:
        note_reserved(queue, job)
    queue.leave(job)
    if frees_key:
        end_key(queue, job, KeyBit.FREED)
    job.place.holder = cython.cast(cython.p_void, session)
    count_one(job, JobCount.RESERVES)
    job.tube.total_reserve_count += 1
    queue.enter_at(job, State.RESERVED, due_ns, now_ns)
    queue.arm(session, due_ns)
    if job.tube.rules is not None:
        close_if_taken(job.tube)
        begin_attempt(queue, job)
    if records_key and queue.records.room_for_timeout(job.tag_bytes):
        queue.records.job_changed(job)
    if queue.records.wants_reservations:
        queue.records.job_reserved(job)
    if session.keep is not None and session.reserved.count <= KEPT_JOBS_MAX:
        queue.records.job_kept(job, True)
    return queue.count_worker(session)


def take(queue, now_ns, session, job):
    """Reserve the job that is next in its tube for a session."""
    if job.tube.rules is not None:
        take_token(queue, now_ns, job.tube)
        if job.tube.breaker is not None:
            begin_probe(job)
        if job.tube.groups is not None:
            take_group_token(job.tube, job, now_ns)
    return hold(queue, now_ns, session, job)


def reserve_for(queue, now_ns, session, job):
    """Reserve the job that is next in its tube for a session, and reply with it."""
    take(queue, now_ns, session, job)
    note_wait(queue, session)
    session.read_index = queue.records.index
    return session.out.body(Word.RESERVED, job.id, body_of(job), job.body_bytes)


def is_over(queue, now_ns, job):
    """Whether the time of a job that is about to be handed out is over: then it is gone, and offered where it went."""
    before: Tube = job.tube
    if not ends(queue, now_ns, job):
        return False
    if job.tube is not before:
        offer(queue, now_ns, job.tube)
    return True


def end_cost(job):
    """As how many of ENDS_PER_TURN the end of a job counts that is in the way: one that dies is written whole."""
    if job.flags & Flag.COUNTING and dies_of_age(job):
        return 1 + job.body_bytes // FAILED_BYTES_PER_JOB
    return 1


def may_offer(now_ns, tube, passed):
    """Whether a tube goes on to offer its jobs after it has passed over some that were over.

    After ENDS_PER_TURN of them it does not if the next one is over as well: the next tick takes that, and goes on then.
    """
    job: Job = cython.cast(Job, tube.ready.entries[0].item)
    return passed < ENDS_PER_TURN or not (job.flags & Flag.COUNTING and expiry_of(job) <= now_ns)


def offer(queue, now_ns, tube):
    """Hand a tube's ready jobs to the sessions that wait for them, the longest waiting first."""
    if queue.opened is not None:
        return offer_all(queue, now_ns, and_opened(queue, [tube]))
    if tube.wide is not None:
        note_best(tube)
    passed: cython.int = 0
    while is_awaited(tube) and can_offer(tube) and may_offer(now_ns, tube, passed):
        session: Session = next_in_line(tube)
        if session is None:
            break
        cost: cython.int = end_cost(cython.cast(Job, tube.ready.entries[0].item))
        passed += 0 if serve(queue, now_ns, tube, session) else cost
    return 0


def serve(queue, now_ns, tube, session):
    """Hand a tube's best job to a session that waits for one, or tell it.

    False: the job's time was over, it is gone; or the session has no right to the tube any more, and waits elsewhere.
    After ENDS_PER_TURN of those a tube is left to the next tick, in which more of them go.
    """
    job: Job = cython.cast(Job, tube.ready.entries[0].item)
    if job.flags & Flag.COUNTING and is_over(queue, now_ns, job):
        return False
    if session.user is not None and is_stale(session) and not may_be_served(queue, session, tube):
        return False
    queue.wake(session)
    if session.wants == Want.JOB:
        reserve_for(queue, now_ns, session, job)
    elif session.wants == Want.FRAME:
        take(queue, now_ns, session, job)
        reply_jobs(queue, now_ns, session, [job])
    else:
        queue.tell(session, tube)
    return True


def offer_all(queue, now_ns, tubes):
    """Hand out the ready jobs of several tubes, over all of them the smallest (pri, id) first."""
    tube: Tube
    heads = []
    for tube in dict.fromkeys(tubes):
        if tube.wide is not None:
            note_best(tube)
        if is_awaited(tube) and can_offer(tube):
            heads.append((tube.ready.entries[0].key, tube.ready.entries[0].tie, tube.number, tube))
    heapq.heapify(heads)
    passed: cython.int = 0
    while heads:
        tube = heapq.heappop(heads)[3]
        session: Session = next_in_line(tube) if can_offer(tube) else None
        if session is not None:
            cost: cython.int = end_cost(cython.cast(Job, tube.ready.entries[0].item))
            passed += 0 if serve(queue, now_ns, tube, session) else cost
            if can_offer(tube) and may_offer(now_ns, tube, passed):
                heapq.heappush(heads, (tube.ready.entries[0].key, tube.ready.entries[0].tie, tube.number, tube))
    return 0


def offer_opened(queue, now_ns):
    return offer_all(queue, now_ns, and_opened(queue, []))


def reply_jobs(queue, now_ns, session, jobs):
    """Reply with jobs that were just reserved."""
    session.read_index = queue.records.index
    session.moved_count += len(jobs)
    note_wait(queue, session)
    session.out.number(Word.JOBS, len(jobs))
    for job in jobs:
        add_frame(session.out, queue, cython.cast(Job, job, typecheck=True), now_ns)
    return 0
