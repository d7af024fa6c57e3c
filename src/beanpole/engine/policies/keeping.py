"""Sessions that lose their connections and may return: until when their jobs wait for them, and who takes them over.

A session that has a token keeps its jobs when its connection is lost, for the seconds that it asked for. It is closed
then, and stays in the list of sessions as one without a connection. Its jobs are held: nobody else can take, touch or
delete them, and their times to run go on. The next session that says the token takes them over; when the time for that
is over, or a time to run, they come back as after any lost connection.

The time to return counts only while clients can: not while a server leads that can't confirm anything. After a start it
is counted from the front (``Queue.takes_clients``, ``engine/restore.py``).
"""

import cython
from cython.cimports.beanpole.engine.policies.attempts import come_back
from cython.cimports.beanpole.engine.policies.breaker import is_excused
from cython.cimports.beanpole.engine.policies.history import End
from cython.cimports.beanpole.engine.state.job import Job, holder_of
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.session import Keep, Session
from cython.cimports.beanpole.protocol.replies import ReplyBuffer
from cython.cimports.libc.stdint import int64_t, uint32_t

from beanpole.engine import limits

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
FAR_NS = cython.declare(int64_t, 2**62)  # later than any moment
KEPT_JOBS_MAX = cython.declare(cython.Py_ssize_t, limits.KEPT_JOBS_MAX)
LOST_SESSIONS_MAX = cython.declare(cython.Py_ssize_t, limits.LOST_SESSIONS_MAX)


def keep(queue, session, token, seconds, always):
    """Let a session have a token, and keep the jobs that it holds and will hold."""
    is_new: cython.bint = session.keep is None
    if queue.kept is None:
        queue.kept = {}
    if is_new:
        session.keep = Keep()
    queue.kept[token] = session
    session.keep.token = token
    session.keep.seconds = seconds
    session.keep.always = always
    return note_held(queue, session, True) if is_new else 0


def forget(queue, session):
    """Let a session that is open keep its jobs no more, but hold them as any other."""
    if session.keep is not None:
        note_held(queue, session, False)
        forget_token(queue, session)
        session.keep = None
    return 0


@cython.cfunc
def note_held(queue: Queue, session: Session, kept: cython.bint) -> cython.int:
    """Record of the jobs that a session holds whether they wait for it."""
    at: cython.Py_ssize_t
    for at in range(min(session.reserved.count, KEPT_JOBS_MAX)):
        queue.records.job_kept(cython.cast(Job, session.reserved.entries[at].item), kept)
    return 0


def may_be_lost(queue, session, by_server):
    """Whether a session whose connection ends may return; `by_server`: not its client has ended that."""
    if session.keep is None or session.quitting or session.reserved.count == 0:
        return False
    return (by_server or session.keep.always) and queue.lost_count < LOST_SESSIONS_MAX


def lose(queue, now_ns, session):
    """Let a session that is closed wait for its return."""
    queue.lost_count += 1
    session.lost = True
    session.keep.lost_at_ns = now_ns
    return wait_for(queue, now_ns, session)


def slim(session):
    """Give back what a session without a connection has no use for: a hundred thousand of them may wait."""
    session.watches = []
    session.watch_of = {}
    session.standing = None
    session.out = ReplyBuffer()
    return 0


@cython.cfunc
def wait_for(queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
    """Say until when a session may return: while no client can, no time counts that its jobs have."""
    if queue.takes_clients:
        session.keep.until_ns = now_ns + session.keep.seconds * SECOND_NS
        return queue.arm(session, session.next_due_ns())
    session.keep.until_ns = FAR_NS
    return extend(session, FAR_NS, 0)


@cython.cfunc
def extend(session: Session, now_ns: int64_t, least_s: uint32_t) -> cython.int:
    """Let the times to run of a session's jobs begin now, and last for some seconds at least."""
    at: cython.Py_ssize_t
    jobs = [cython.cast(Job, session.reserved.entries[at].item) for at in range(session.reserved.count)]
    for each in jobs:
        job: Job = cython.cast(Job, each, typecheck=True)
        session.reserved.move(job, now_ns if now_ns == FAR_NS else now_ns + max(job.ttr_s, least_s) * SECOND_NS)
    return 0


def stop_waiting_for(queue):
    """Let no time to return count from here on: nobody can return."""
    queue.takes_clients = False
    for each in () if queue.kept is None else queue.kept.values():
        session: Session = cython.cast(Session, each, typecheck=True)
        if session.lost:
            wait_for(queue, 0, session)
    return 0


def wait_again(queue, now_ns):
    """Let all times to return begin: clients are taken again."""
    queue.takes_clients = True
    for each in () if queue.kept is None else queue.kept.values():
        session: Session = cython.cast(Session, each, typecheck=True)
        if session.lost:
            extend(session, now_ns, session.keep.seconds)
            wait_for(queue, now_ns, session)
    return 0


def take_over(queue, now_ns, session, other):
    """Give a session that keeps jobs those of another one that has its token, each touched; that one ends.

    What is too much, and all where the session keeps none, comes back.
    """
    while session.keep is not None and other.reserved.count and session.reserved.count < KEPT_JOBS_MAX:
        job: Job = cython.cast(Job, other.reserved.entries[0].item)
        other.reserved.remove(job)
        job.place.holder = cython.cast(cython.p_void, session)
        session.reserved.push(job, now_ns + job.ttr_s * SECOND_NS, job.id)
    if session.reserved.count:
        queue.arm(session, session.reserved.entries[0].key)
    if not other.lost:
        # Its client has come back, so that nobody is at the other end: whoever serves it closes it.
        queue.stop_waiting(other)
        other.quitting = True
        queue.woken.append(other)
        return 0
    queue.resumed_count += session.keep is not None
    if other.reserved.count == 0:
        return end_lost(queue, other)
    other.keep.until_ns = now_ns
    return queue.arm(other, now_ns)


def forget_token(queue, session):
    """Let no session be found by a token, unless another one has it now."""
    if session.keep is not None and queue.kept.get(session.keep.token) is session:
        del queue.kept[session.keep.token]
    return 0


def end_lost(queue, session):
    """Forget a session that has lost its connection, and that holds nothing any more."""
    forget_token(queue, session)
    session.lost = False
    queue.lost_count -= 1
    if session.heap_index >= 0:
        queue.timers.remove(session)
    queue.sessions.remove(session)
    return 0


def give_up(queue, now_ns, job):
    """Let a job come back whose holder lost its connection; return what it wrote, in bytes."""
    kept: cython.bint = holder_of(job).keep is not None
    index = queue.records.index
    written: int64_t = 0
    job.tube.total_lost_count += 1
    if job.tube.rules is None and job.tag_bytes == 0:
        queue.make_ready(job)
    else:
        written = come_back(queue, now_ns, job, End.EXCUSED if is_excused(job, now_ns) else End.LOST, 0, False)
    if kept and queue.records.index == index:
        queue.records.job_kept(job, False)  # else the next start would keep it for nobody
    return written
