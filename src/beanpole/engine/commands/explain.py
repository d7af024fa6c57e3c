"""explain and explain-tube: why a job is not being done, and why a tube hands out no jobs.

The reply is a mapping in YAML, and ``reasons`` in it a list: each begins with a word for programs, the rest is for
people. Every reason that holds is there, in a fixed order; of jobs and sessions that are reasons the first NAMED_MAX
are named. All is as it was when the reply was written, and the work for it is bounded: a place in the line is counted
up to COUNTED_MAX (:meth:`Heap.count_before`), and which jobs are held is looked up piece by piece, as list-jobs does.
"""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.policies.expiry import dies_of_age, expiry_of
from cython.cimports.beanpole.engine.policies.retry import Why, died_in
from cython.cimports.beanpole.engine.policies.uniqueness import may_return, rival
from cython.cimports.beanpole.engine.state.heap import COUNTED_MAX
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, deadline_of
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.rules import TubeRules, token_at_ns
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tags import Tag, attempt_of, find_tag, get_number
from cython.cimports.beanpole.engine.state.tube import Closed, Tube, Watch
from cython.cimports.beanpole.engine.state.walk import Walk
from cython.cimports.beanpole.engine.state.wide import waiting_in, wide_waiting
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits
from beanpole.engine.commands.stats import STATE_NAMES, yaml

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
NAMED_MAX = cython.declare(cython.Py_ssize_t, limits.NAMED_MAX)


def explain(queue, now_ns, session, command):
    """Explain a job or a tube."""
    if command.verb == Verb.EXPLAIN:
        job: Job = queue.jobs.find(command.args.id)
        if job is None:
            return queue.not_found(session)
        session.read_index = queue.records.index
        reasons = reasons_of(queue, now_ns, job) + past_reasons(now_ns, job)
        return session.out.text(said(about_job(queue, now_ns, job), reasons))
    tube: Tube = queue.tube_named(command.args.tube_at[: command.args.tube_bytes])
    if tube is None:
        return queue.not_found(session)
    work: ExplainTube = ExplainTube()
    work.tube = tube
    work.held = []
    work.walk = Walk(queue.jobs, tube, 1 << State.RESERVED, 0, queue.next_job_id - 1)
    return begin(queue, now_ns, session, work)


@cython.final
@cython.cclass
class ExplainTube(LongCommand):
    """An explain-tube that is under way: it looks for the jobs that are held."""

    tube = cython.declare(Tube)
    walk = cython.declare(Walk)
    held = cython.declare(list)
    """The ids of those that it has found."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Look for more, and reply when they are enough."""
        job: Job
        self.walk.begin_piece()
        while len(self.held) < NAMED_MAX:
            job = self.walk.next()
            if job is None:
                break
            self.held.append(job.id)
        session.moved_count += self.walk.piece_cost()
        if len(self.held) < NAMED_MAX and not self.walk.done:
            return 0
        session.work = None
        tube: Tube = queue.tube_named(self.tube.name)
        if tube is None:
            return queue.not_found(session)
        session.read_index = queue.records.index
        held = [id for id in self.held if self.walk.look_up(id) is not None]
        return session.out.text(said(about_tube(tube), reasons_of_tube(queue, now_ns, tube, held)))


def said(pairs: list[tuple[str, object]], reasons: list[str]) -> bytes:
    """Return the text of the reply."""
    listed = "reasons:\n" + "".join([f"- {reason}\n" for reason in reasons]) if reasons else "reasons: []\n"
    return yaml(pairs) + listed.encode()


def seconds(ns: int) -> str:
    """Return a duration as JOB frames show it: with up to three decimals."""
    return f"{max(ns, 0) // 10**9}.{max(ns, 0) // 10**6 % 1000:03}".rstrip("0").rstrip(".")


def number_of(count: int, one: str, more: str) -> str:
    """Return a number of things."""
    return f"{count} {one if count == 1 else more}"


def who(queue: Queue, session: Session) -> str:
    """Return how people recognize a session.

    In its name stands what must not end the string of YAML in which a reason is written without quotes.
    """
    name: str = "" if session.name is None else quoted(session.name).replace(": ", ":\\u0020").replace(" #", "\\u0020#")
    known = ", ".join([each for each in (queue.describe(session.owner), name) if each])
    return f"session {session.number} ({known})" if known else f"session {session.number}"


# --- a job ------------------------------------------------------------------------------------------------------------


def about_job(queue: Queue, now_ns: int64_t, job: Job) -> list[tuple[str, object]]:
    """Return what is said first of a job; the place is that among the jobs of its tube in its state."""
    pairs = [("id", job.id), ("tube", job.tube.name.decode()), ("state", STATE_NAMES[job.state])]
    if job.state != State.RESERVED:
        before: cython.Py_ssize_t = queue.heap_of(job).count_before(job)
        pairs.append(("place", before + 1 if before < COUNTED_MAX else f"more than {COUNTED_MAX}"))
    return pairs


def reasons_of(queue: Queue, now_ns: int64_t, job: Job) -> list[str]:
    """Return why a job is not done."""
    if job.state == State.RESERVED:
        return held_reasons(queue, now_ns, job)
    if job.state == State.BURIED:
        return buried_reasons(queue, job)
    reasons = []
    under_way: cython.bint = False
    if job.state == State.DELAYED:
        attempt = attempt_of(job, cython.address(under_way))
        why = f"after attempt {attempt}" if attempt else "as was asked"
        reasons.append(f"delayed: it is ready in {seconds(deadline_of(job) - now_ns)} s, {why}")
    reasons += closed_reasons(now_ns, job.tube)
    if job.state == State.READY:
        before: cython.Py_ssize_t = job.tube.ready.count_before(job)
        if before:
            more = "or more " if before == COUNTED_MAX else ""
            reasons.append(f"order: {number_of(before, 'job', f'{more}jobs')} of the tube before it")
    reasons += nobody_reasons(queue, job.tube)
    if job.flags & Flag.COUNTING:
        what = "dead" if dies_of_age(job) else "deleted"
        reasons.append(f"expires: it is {what} in {seconds(expiry_of(job) - now_ns)} s")
    return reasons + log_reasons(queue)


def closed_reasons(now_ns: int64_t, tube: Tube) -> list[str]:
    """Return why nothing may be reserved from a tube."""
    reasons = []
    rules: TubeRules = tube.rules
    if tube.paused_until_ns:
        reasons.append(f"paused: the tube is paused for {seconds(tube.paused_until_ns - now_ns)} s more")
    if tube.closed & Closed.RATE:
        reasons.append(f"rate: the next token comes in {seconds(token_at_ns(rules) - now_ns)} s")
    if tube.closed & Closed.CONCURRENCY:
        held = number_of(tube.reserved_count, "job of the tube is", "jobs of the tube are")
        reasons.append(f"concurrency: {held} held, and reserve holds no more than {rules.concurrency}")
    return reasons


def nobody_reasons(queue: Queue, tube: Tube) -> list[str]:
    """Return why nobody takes a job of a tube."""
    reasons = []
    if tube.watching_count == 0:
        reasons.append("unwatched: no session watches the tube")
    elif waiting_in(tube) == 0:
        reasons.append(
            f"busy: of {number_of(tube.watching_count, 'session', 'sessions')} that watch the tube none waits"
        )
    others: cython.Py_ssize_t = queue.waiting_count - waiting_in(tube)
    if others and waiting_in(tube) == 0:
        wait = "session waits" if others == 1 else "sessions wait"
        reasons.append(f"elsewhere: {others} {wait}, but for other tubes")
    return reasons


def log_reasons(queue: Queue) -> list[str]:
    """Return what keeps the log, and with it whoever wants to reserve."""
    obstacle: str = queue.describe(None)
    if obstacle:
        return [f"log: {obstacle}"]
    return ["log: reserve waits until the log has written more"] if queue.records.backlog_full() else []


def held_reasons(queue: Queue, now_ns: int64_t, job: Job) -> list[str]:
    """Return who holds a job."""
    holder: Session = job.holder
    if holder.used is None:
        return [f"reserved: session {holder.number}, which held it, is closed, and gives its jobs back"]
    silent, left = seconds(now_ns - holder.heard_at_ns), seconds(deadline_of(job) - now_ns)
    reasons = [f"reserved: by {who(queue, holder)}, last heard of {silent} s ago; {left} s of {job.ttr_s} s are left"]
    if job.flags & Flag.EXPIRES and 0 < expiry_of(job) <= now_ns:
        what = "dead" if dies_of_age(job) else "deleted"
        reasons.append(f"expires: it has waited too long; when it comes back, it is {what}")
    if job.timeout_count:
        reasons.append(f"timeouts: its time to run has ended {number_of(job.timeout_count, 'time', 'times')} before")
    if job.flags & Flag.SUPERSEDED:
        reasons.append("superseded: another job has its key; when it comes back, it is deleted")
    return reasons


def buried_reasons(queue: Queue, job: Job) -> list[str]:
    """Return why a job stays buried."""
    reasons = ["buried: until it is kicked, moved or reserved by its id"]
    if job.flags & Flag.SUPERSEDED:
        reasons.append("superseded: another job took its key while it was held; kick passes over it")
    elif job.flags and not may_return(queue, job):
        reasons.append(f"key: job {rival(queue, job.tube, job).id} has its key; kick passes over it")
    return reasons


WHYS = {
    Why.ATTEMPTS: "as the last attempt failed",
    Why.EXPIRED: "as it had waited too long",
    Why.FAILED: "as its worker gave it up",
}
"""Why a job died."""


def past_reasons(now_ns: int64_t, job: Job) -> list[str]:
    """Return what has gone wrong with a job before: attempts that failed, its death, and what its worker said."""
    reasons: list[str] = []
    if job.tag_bytes == 0:
        return reasons
    under_way: cython.bint = False
    attempt = attempt_of(job, cython.address(under_way))
    if attempt:
        of = f" of {job.tube.rules.attempts}" if job.tube.rules is not None and job.tube.rules.attempts else ""
        reasons.append(f"attempts: attempt {attempt}{of} {'is under way' if under_way else 'is over'}")
    size: cython.Py_ssize_t = 0
    died: bytes = died_in(job)
    if died is not None:
        at: cython.p_const_char = find_tag(job, Tag.DEATH, cython.address(size))
        ago = seconds(now_ns - cython.cast(int64_t, get_number(at, 8)))
        count = number_of(get_number(at + 8, 4), "attempt", "attempts")
        why = WHYS.get(cython.cast(cython.int, at[12]), "")
        reasons.append(f"died: {ago} s ago in {died.decode()}, after {count}, {why}")
    at = find_tag(job, Tag.FAILURE_TEXT, cython.address(size))
    if at is not cython.NULL:
        reasons.append(f"failed: {quoted(at[:size])}")
    return reasons


def quoted(text: bytes) -> str:
    """Return what somebody wrote as a string of YAML, and of JSON: on one line, with what is not printed escaped."""
    found = text.decode("utf-8", "backslashreplace").replace("\\", "\\\\").replace('"', '\\"')
    # Behind the first 65 536 characters JSON and YAML have no escape in common, and neither needs one.
    shown = [each if each.isprintable() or each > "\uffff" else f"\\u{ord(each):04x}" for each in found]
    return '"' + "".join(shown) + '"'


# --- a tube -----------------------------------------------------------------------------------------------------------


def about_tube(tube: Tube) -> list[tuple[str, object]]:
    """Return what is said first of a tube."""
    return [
        ("tube", tube.name.decode()),
        ("ready", tube.ready.count),
        ("reserved", tube.reserved_count),
        ("delayed", tube.delayed.count),
        ("buried", tube.buried.count),
        ("watching", tube.watching_count),
        ("waiting", waiting_in(tube)),
    ]


def full_reasons(tube: Tube) -> list[str]:
    """Return why a tube takes no jobs."""
    reasons: list[str] = []
    rules: TubeRules = tube.rules
    if rules is None:
        return reasons
    count: cython.Py_ssize_t = tube.ready.count + tube.delayed.count
    if 0 < rules.jobs_max <= count:
        reasons.append(f"full: jobs-max is {rules.jobs_max}, and {count} are ready or delayed")
    if 0 < rules.bytes_max <= tube.body_bytes:
        reasons.append(f"full: bytes-max is {rules.bytes_max}, and the bodies have {tube.body_bytes} bytes")
    return reasons


def reasons_of_tube(queue: Queue, now_ns: int64_t, tube: Tube, held: list[int]) -> list[str]:
    """Return why a tube hands out or takes no jobs; `held` are some of those that sessions hold."""
    reasons = closed_reasons(now_ns, tube) + full_reasons(tube)
    if tube.ready.count == 0:
        reasons.append("empty: no job is ready")
    if tube.delayed.count:
        next_job: Job = cython.cast(Job, tube.delayed.entries[0].item)
        left = seconds(deadline_of(next_job) - now_ns)
        count = number_of(tube.delayed.count, "job", "jobs")
        reasons.append(f"delayed: {count}, the first of them, {next_job.id}, is ready in {left} s")
    if held:
        count = number_of(tube.reserved_count, "job", "jobs")
        reasons.append(f"reserved: {count}, by id {named(held, tube.reserved_count)}")
    if tube.buried.count:
        ids = [cython.cast(Job, each, typecheck=True).id for each in tube.buried.first(NAMED_MAX)]
        count = number_of(tube.buried.count, "job", "jobs")
        reasons.append(f"buried: {count}, by id {named(ids, tube.buried.count)}")
    if waiting_in(tube):
        names = [who(queue, session) for session in first_waiting(tube)]
        reasons.append(f"waiting: {named(names, waiting_in(tube))}")
    else:
        reasons += nobody_reasons(queue, tube)
    return reasons + log_reasons(queue)


def named(some: list[object], count: int) -> str:
    """Return some of what there is, and whether there is more."""
    return ", ".join(map(str, some)) + (" and others" if count > len(some) else "")


def first_waiting(tube: Tube) -> list[Session]:
    """Return the sessions that have waited longest for a job of a tube."""
    found = []
    watch: Watch = tube.first_waiting
    while watch is not None and len(found) < NAMED_MAX:
        found.append(watch.session)
        watch = watch.later
    found += wide_waiting(tube)
    found.sort(key=wait_number)
    return found[:NAMED_MAX]


def wait_number(session: Session) -> int:
    """Return how many waits had begun before that of a session."""
    return session.wait_number
