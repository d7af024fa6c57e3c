"""explain and explain-tube: why a job is not being done, and why a tube hands out no jobs.

The reply is a mapping in YAML, and ``reasons`` in it a list: each is a word, and the facts about it as a mapping on one
line, which is JSON as well; clients make sentences of them. Every reason that holds is there, in a fixed order; of jobs
and sessions that are reasons the first NAMED_MAX are named. All is as it was when the reply was written, and the work
for it is bounded: a place in the line is counted up to COUNTED_MAX (:meth:`Heap.count_before`), and which jobs are held
is looked up piece by piece, as list-jobs does.
"""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.commands.rights import may_see_all
from cython.cimports.beanpole.engine.policies.expiry import dies_of_age, expiry_of
from cython.cimports.beanpole.engine.policies.history import Ended, next_ended
from cython.cimports.beanpole.engine.policies.uniqueness import may_return, rival
from cython.cimports.beanpole.engine.state.breaker import Breaker
from cython.cimports.beanpole.engine.state.groupjobs import group_of, is_next, ready_count
from cython.cimports.beanpole.engine.state.heap import COUNTED_MAX
from cython.cimports.beanpole.engine.state.job import Flag, Job, JobCount, State, deadline_of, holder_of, job_count
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.session import Session, waiting_in, wide_waiting
from cython.cimports.beanpole.engine.state.tags import (
    Death,
    Scheduled,
    Tag,
    attempt_of,
    find_tag,
    read_death,
    read_scheduled,
)
from cython.cimports.beanpole.engine.state.tube import (
    Closed,
    Group,
    RuleSet,
    Space,
    Tube,
    Watch,
    is_broken,
    token_at_ns,
    token_ns,
)
from cython.cimports.beanpole.engine.state.walk import Walk
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.libc.stdint import int64_t

from beanpole.engine.commands.stats import STATE_NAMES, yaml
from beanpole.engine.policies.history import WORDS
from beanpole.engine.state.failures import WHY_WORDS

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
NAMED_MAX = cython.declare(cython.Py_ssize_t, 10)  # jobs, and sessions, that a reason of explain-tube names


def explain(queue, now_ns, session, command):
    """Explain a job or a tube."""
    if command.verb == Verb.EXPLAIN:
        job: Job = queue.jobs.find(command.args.id)
        if job is None:
            return queue.not_found(session)
        session.read_index = queue.records.index
        reasons = reasons_of(queue, now_ns, session, job) + past_reasons(now_ns, job)
        reasons += ended_reasons(now_ns, session, job)
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
    held = cython.declare(list)  # the ids of those that it has found

    @cython.cfunc
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
        return session.out.text(said(about_tube(tube), reasons_of_tube(queue, now_ns, session, tube, held)))


def said(pairs: list[tuple[str, object]], reasons: list[str]) -> bytes:
    """Return the text of the reply."""
    lines = "reasons:\n" + "".join([f"- {reason}\n" for reason in reasons]) if reasons else "reasons: []\n"
    return yaml(pairs) + lines.encode()


def seconds(ns: int) -> str:
    """Return a duration as JOB frames show it: with up to three decimals."""
    return f"{max(ns, 0) // 10**9}.{max(ns, 0) // 10**6 % 1000:03}".rstrip("0").rstrip(".")


def reason(word: str, **facts: str | int) -> str:
    """Return a reason: texts among the facts are JSON already."""
    listed = ", ".join([f'"{name.replace("_", "-")}": {value}' for name, value in facts.items()])
    return f"{word}: {{{listed}}}"


def truth(holds: bool) -> str:
    return "true" if holds else "false"


def may_name(asker: Session, session: Session) -> bool:
    """Whether a session hears who another one is."""
    return may_see_all(asker) or asker.user is session.user


def who(queue: Queue, asker: Session, session: Session) -> dict[str, str | int]:
    """Return how people recognize a session: its number, and its address and name as far as they are known.

    Of another user's session -1, and nothing else.
    """
    if not may_name(asker, session):
        return {"session": -1}
    found = {"session": session.number}
    peer: str = queue.describe(session.owner)
    if peer:
        found["peer"] = quoted(peer.encode())
    if session.name is not None:
        found["name"] = quoted(session.name)
    return found


# --- a job ------------------------------------------------------------------------------------------------------------


def about_job(queue: Queue, now_ns: int64_t, job: Job) -> list[tuple[str, object]]:
    """Return what is said first of a job; the place is that among the jobs of its tube in its state."""
    pairs = [("id", job.id), ("tube", job.tube.name.decode()), ("state", STATE_NAMES[job.state])]
    if job.state != State.RESERVED:
        before = count_before(queue, job)
        pairs.append(("place", before + 1 if before < COUNTED_MAX else f"more than {COUNTED_MAX}"))
    return pairs


def count_before(queue: Queue, job: Job) -> int:
    """Return how many jobs of its tube, or of its group, come before one in its state, COUNTED_MAX or so at most."""
    count: cython.Py_ssize_t = queue.heap_of(job).count_before(job)
    if job.state == State.READY and job.tube.groups is not None and not is_next(job):
        count += job.tube.groups.next is group_of(job)  # whose first job stands in the tube
    return count


def reasons_of(queue: Queue, now_ns: int64_t, asker: Session, job: Job) -> list[str]:
    """Return why a job is not done."""
    if job.state == State.RESERVED:
        return held_reasons(queue, now_ns, asker, job)
    if job.state == State.BURIED:
        return buried_reasons(queue, job)
    reasons = []
    under_way: cython.bint = False
    if job.state == State.DELAYED:
        attempt = attempt_of(job, cython.address(under_way))
        after = {"attempt": attempt} if attempt else {}
        reasons.append(reason("delayed", left=seconds(deadline_of(job) - now_ns), **after))
    reasons += closed_reasons(now_ns, job.tube)
    if job.tube.groups is not None:
        reasons += group_reasons(now_ns, job)
    if job.state == State.READY:
        before = count_before(queue, job)
        if before:
            reasons.append(reason("order", before=before))
    reasons += nobody_reasons(queue, asker, job.tube)
    if job.flags & Flag.COUNTING:
        reasons.append(reason("expires", left=seconds(expiry_of(job) - now_ns), dead=truth(dies_of_age(job))))
    return reasons + log_reasons(queue)


def closed_reasons(now_ns: int64_t, tube: Tube) -> list[str]:
    """Return why nothing may be reserved from a tube."""
    reasons = []
    rules: RuleSet = tube.rules
    if tube.paused_until_ns:
        reasons.append(reason("paused", left=seconds(tube.paused_until_ns - now_ns)))
    if tube.closed & Closed.RATE:
        reasons.append(reason("rate", left=seconds(token_at_ns(tube) - now_ns)))
    if tube.closed & Closed.CONCURRENCY:
        reasons.append(reason("concurrency", held=tube.reserved_count, limit=rules.concurrency))
    if is_broken(tube):
        reasons.append(breaker_reason(now_ns, tube.breaker))
    return reasons


def breaker_reason(now_ns: int64_t, breaker: Breaker) -> str:
    """Return how a breaker came to be closed, and for how long it is."""
    ends, failures = breaker.ends + breaker.earlier_ends, breaker.failures + breaker.earlier_failures
    left = {"left": seconds(breaker.probe_at_ns - now_ns)} if breaker.probe_id == 0 else {"probe": breaker.probe_id}
    return reason("breaker", failed=failures, of=ends, ago=seconds(now_ns - breaker.closed_at_ns), **left)


def group_reasons(now_ns: int64_t, job: Job) -> list[str]:
    """Return whose a job is, and why nothing of that group may be reserved."""
    group: Group = group_of(job)
    rules: RuleSet = group.rules
    held: cython.Py_ssize_t = group.counts[cython.cast(cython.int, State.RESERVED)]
    facts = {"group": quoted(group.name), "held": held}
    if group.pause is not None:
        facts["paused"] = seconds(group.pause.until_ns - now_ns)
    if group.closed & Closed.CONCURRENCY:
        facts["limit"] = rules.group_concurrency
    if group.closed & Closed.RATE:
        facts["left"] = seconds(token_ns(rules.group_rate, group.full_at_ns) - now_ns)
    if group.closed & Closed.ORDER:
        facts["begun"] = group.begun
    reasons = [reason("group", **facts)] if group.name or group.closed else []
    if group.breaker is not None and group.breaker.probe_at_ns:
        reasons.append(breaker_reason(now_ns, group.breaker))
    return reasons


def nobody_reasons(queue: Queue, asker: Session, tube: Tube) -> list[str]:
    """Return why nobody takes a job of a tube."""
    reasons = [reason("told", count=tube.told_count)] if tube.told_count else []
    if tube.watching_count == 0:
        reasons.append(reason("unwatched"))
    elif waiting_in(tube) == 0:
        reasons.append(reason("busy", watching=tube.watching_count))
    others: cython.Py_ssize_t = queue.waiting_count - waiting_in(tube)
    if others and waiting_in(tube) == 0 and may_see_all(asker):
        reasons.append(reason("elsewhere", waiting=others))
    return reasons


def log_reasons(queue: Queue) -> list[str]:
    """Return what keeps the log, and with it whoever wants to reserve."""
    obstacle: str = queue.describe(None)
    if obstacle:
        return [reason("log", obstacle=quoted(obstacle.encode()))]
    return [reason("log")] if queue.records.backlog_full() else []


def held_reasons(queue: Queue, now_ns: int64_t, asker: Session, job: Job) -> list[str]:
    """Return who holds a job."""
    holder: Session = holder_of(job)
    number = holder.number if may_name(asker, holder) else -1
    if holder.used is None and not holder.lost:
        return [reason("reserved", session=number, closed="true")]
    if holder.lost:
        lost, left = seconds(now_ns - holder.keep.lost_at_ns), until(queue, now_ns, holder)
        reasons = [reason("lost", session=number, silent=lost, left=left, ttr=job.ttr_s)]
    else:
        silent, left = seconds(now_ns - holder.heard_at_ns), seconds(deadline_of(job) - now_ns)
        reasons = [reason("reserved", **who(queue, asker, holder), silent=silent, left=left, ttr=job.ttr_s)]
    if job.flags & Flag.EXPIRES and 0 < expiry_of(job) <= now_ns:
        reasons.append(reason("expires", dead=truth(dies_of_age(job))))
    if job_count(job, JobCount.TIMEOUTS):
        reasons.append(reason("timeouts", count=job_count(job, JobCount.TIMEOUTS)))
    if job.flags & Flag.SUPERSEDED:
        reasons.append(reason("superseded", state='"reserved"'))
    return reasons


def until(queue: Queue, now_ns: int64_t, session: Session) -> str:
    """Return for how long a session may return that has lost its connection."""
    return seconds(session.keep.until_ns - now_ns) if queue.takes_clients else str(session.keep.seconds)


def buried_reasons(queue: Queue, job: Job) -> list[str]:
    """Return why a job stays buried."""
    reasons = [reason("buried")]
    if job.flags & Flag.SUPERSEDED:
        reasons.append(reason("superseded", state='"buried"'))
    elif job.flags and not may_return(queue, job):
        reasons.append(reason("key", job=rival(queue, job.tube, job).id))
    return reasons


def past_reasons(now_ns: int64_t, job: Job) -> list[str]:
    """Return what has gone wrong with a job before: attempts that failed, its death, and what its worker said."""
    reasons: list[str] = []
    if job.tag_bytes == 0:
        return reasons
    under_way: cython.bint = False
    attempt = attempt_of(job, cython.address(under_way))
    if attempt:
        limit = {"limit": job.tube.rules.attempts} if job.tube.rules is not None and job.tube.rules.attempts else {}
        reasons.append(reason("attempts", attempt=attempt, **limit, under_way=truth(under_way)))
    size: cython.Py_ssize_t = 0
    scheduled: Scheduled
    if read_scheduled(job, cython.address(scheduled)):
        fire = {"fire": scheduled.fire} if scheduled.fire else {}
        name = quoted(scheduled.name[: scheduled.name_bytes])
        reasons.append(reason("scheduled", schedule=name, scheduled=seconds(scheduled.at_ns), **fire))
    at: cython.p_const_char = find_tag(job, Tag.META, cython.address(size))
    if at is not cython.NULL:
        reasons.append(reason("meta", meta=quoted(at[:size])))
    death: Death
    if read_death(job, cython.address(death)):
        ago, why = seconds(now_ns - death.at_ns), quoted(WHY_WORDS.get(death.why, b""))
        tube = quoted(death.tube[: death.tube_bytes])
        reasons.append(reason("died", ago=ago, tube=tube, attempts=death.attempts, why=why))
    at = find_tag(job, Tag.FAILURE_TEXT, cython.address(size))
    if at is not cython.NULL:
        reasons.append(reason("failed", reason=quoted(at[:size])))
    return reasons


def ended_reasons(now_ns: int64_t, asker: Session, job: Job) -> list[str]:
    """Return how the last attempts at a job failed, the latest first."""
    size: cython.Py_ssize_t = 0
    ended: Ended
    reasons: list[str] = []
    at: cython.p_const_char = find_tag(job, Tag.HISTORY, cython.address(size)) if job.tag_bytes else cython.NULL
    stop: cython.p_const_char = at + size
    while at is not cython.NULL and next_ended(cython.address(at), stop, cython.address(ended)):
        facts = {"ago": seconds(now_ns - ended.at_ns), "how": quoted(WORDS.get(ended.how, b""))}
        if ended.holder_bytes and may_see_all(asker):
            facts["by"] = quoted(ended.holder[: ended.holder_bytes])
        if ended.error_bytes:
            facts["error"] = quoted(ended.error[: ended.error_bytes])
        reasons.append(reason("ended", **facts))
    return reasons


def quoted(text: bytes) -> str:
    """Return what somebody wrote as a string of YAML, and of JSON: on one line, with what is not printed escaped."""
    found = text.decode("utf-8", "backslashreplace").replace("\\", "\\\\").replace('"', '\\"')
    if not found.isprintable():
        # Behind the first 65 536 characters JSON and YAML have no escape in common, and neither needs one.
        found = "".join([each if each.isprintable() or each > "\uffff" else f"\\u{ord(each):04x}" for each in found])
    return f'"{found}"'


# --- a tube -----------------------------------------------------------------------------------------------------------


def about_tube(tube: Tube) -> list[tuple[str, object]]:
    return [
        ("tube", tube.name.decode()),
        ("ready", ready_count(tube)),
        ("reserved", tube.reserved_count),
        ("delayed", tube.delayed.count),
        ("buried", tube.buried.count),
        ("watching", tube.watching_count),
        ("waiting", waiting_in(tube)),
    ]


def full_reasons(tube: Tube) -> list[str]:
    """Return why a tube takes no jobs."""
    reasons: list[str] = []
    rules: RuleSet = tube.rules
    space: Space = tube.space
    if space is not None:
        name = quoted(space.pattern)
        if 0 < space.jobs_max <= space.job_count:
            reasons.append(reason("full", space=name, of='"jobs"', limit=space.jobs_max, count=space.job_count))
        if 0 < space.bytes_max <= space.body_bytes:
            reasons.append(reason("full", space=name, of='"bytes"', limit=space.bytes_max, count=space.body_bytes))
    if rules is None:
        return reasons
    count: cython.Py_ssize_t = ready_count(tube) + tube.delayed.count
    if 0 < rules.jobs_max <= count:
        reasons.append(reason("full", rule='"jobs-max"', limit=rules.jobs_max, count=count))
    if 0 < rules.bytes_max <= tube.body_bytes:
        reasons.append(reason("full", rule='"bytes-max"', limit=rules.bytes_max, count=tube.body_bytes))
    return reasons


def reasons_of_tube(queue: Queue, now_ns: int64_t, asker: Session, tube: Tube, held: list[int]) -> list[str]:
    """Return why a tube hands out or takes no jobs; `held` are some of those that sessions hold."""
    reasons = closed_reasons(now_ns, tube) + full_reasons(tube)
    if ready_count(tube) == 0:
        reasons.append(reason("empty"))
    elif tube.ready.count == 0:
        reasons.append(reason("groups", ready=ready_count(tube)))
    if tube.delayed.count:
        next_job: Job = cython.cast(Job, tube.delayed.entries[0].item)
        left = seconds(deadline_of(next_job) - now_ns)
        reasons.append(reason("delayed", count=tube.delayed.count, first=next_job.id, left=left))
    if held:
        reasons.append(reason("reserved", count=tube.reserved_count, ids=listed(held)))
    if tube.buried.count:
        ids = [cython.cast(Job, each, typecheck=True).id for each in tube.buried.first(NAMED_MAX)]
        reasons.append(reason("buried", count=tube.buried.count, ids=listed(ids)))
    if waiting_in(tube):
        named = [session for session in first_waiting(tube) if may_name(asker, session)]
        names = [reason("", **who(queue, asker, session))[2:] for session in named]
        reasons.append(reason("waiting", count=waiting_in(tube), sessions=listed(names)))
    return reasons + nobody_reasons(queue, asker, tube) + log_reasons(queue)


def listed(some: list[object]) -> str:
    return f"[{', '.join(map(str, some))}]"


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
    return session.wait_number
