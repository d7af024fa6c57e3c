"""The rule `breaker`: a tube of which too many attempts fail is closed, and one job at a time is tried.

Whoever ends an attempt says here how: :func:`note_failure`, :func:`note_success`. Where the share of failures reaches
the rule's, the tube is closed (``Closed.BREAKER``): `reserve` passes over it. When the time for a probe comes its timer
opens it (``Tube.open_when_due``), the next job that is handed out is the probe, and closes it again
(:func:`begin_probe`). The probe's success opens the tube; its failure begins the next interval; a probe that ends
otherwise is as if there had been none (:func:`free_probe`). While the tube is closed nothing else counts, neither here
nor as an attempt (:func:`is_excused`): the job was handed out before anybody knew.

Where the rule says `by group` each group has a breaker, which closes that group alone, and that of the tube counts
nothing. A group is forgotten with its last job, and its breaker with it.

Nothing of it is in the log: a tube that is made, or gets the rule, is open.
"""

import cython
from cython.cimports.beanpole.engine.state.breaker import Breaker, count_end
from cython.cimports.beanpole.engine.state.groupjobs import group_of
from cython.cimports.beanpole.engine.state.groups import breaker_of
from cython.cimports.beanpole.engine.state.job import Job
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.tube import Closed, Group, RuleSet, Tube
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t

SECOND_NS = cython.declare(int64_t, 1_000_000_000)


def note_failure(queue, now_ns, job):
    """Note that the attempt at a held job fails, before the job leaves the hands of its holder."""
    tube: Tube = job.tube
    breaker: Breaker = breaker_of(job)
    if breaker is None:
        return 0
    if breaker.probe_at_ns:
        return wait_for_probe(queue, now_ns, job, breaker) if breaker.probe_id == job.id else 0
    rules: RuleSet = tube.rules
    count_end(breaker, now_ns, rules.breaker_window_ns >> 1, True)
    ends: uint64_t = cython.cast(uint64_t, breaker.ends) + breaker.earlier_ends
    failures: uint64_t = cython.cast(uint64_t, breaker.failures) + breaker.earlier_failures
    if ends < rules.breaker_count or failures * 100 < ends * rules.breaker_percent:
        return 0
    breaker.closed_at_ns = now_ns
    wait_for_probe(queue, now_ns, job, breaker)
    if breaker is not tube.breaker:
        return 0
    every, window = rules.breaker_probe_ns // SECOND_NS, rules.breaker_window_ns // SECOND_NS
    said = f"{failures} of {ends} attempts failed within {window} s; one job is tried every {every} s"
    return note(queue, f"tube {tube.name.decode()} is closed by its breaker: {said}")


def note_success(queue, job):
    """Note that a job of a tube with a breaker is deleted by its holder, before it leaves."""
    tube: Tube = job.tube
    breaker: Breaker = breaker_of(job)
    if breaker is None:
        return 0
    if breaker.probe_at_ns == 0:
        count_end(breaker, queue.now_ns, tube.rules.breaker_window_ns >> 1, False)
    elif breaker.probe_id == job.id:
        closed_ns: int64_t = queue.now_ns - breaker.closed_at_ns
        breaker.open()
        if breaker is not tube.breaker:
            return mark_group(job, False)
        let_go(queue, tube)
        note(queue, f"tube {tube.name.decode()} is open again after {closed_ns // SECOND_NS} s: job {job.id} was done")
    return 0


@cython.cfunc
def wait_for_probe(queue: Queue, now_ns: int64_t, job: Job, breaker: Breaker) -> cython.int:
    """Close the tube of a job, or its group, until the time for the next probe."""
    breaker.probe_id = 0
    breaker.probe_at_ns = now_ns + job.tube.rules.breaker_probe_ns
    if breaker is not job.tube.breaker:
        return mark_group(job, True)
    job.tube.closed |= Closed.BREAKER
    return queue.arm(job.tube, breaker.probe_at_ns)


@cython.cfunc
def mark_group(job: Job, is_closed: cython.bint) -> cython.int:
    """Note whether its breaker has closed a job's group, which is placed when the job leaves its state, next."""
    group: Group = group_of(job)
    group.closed &= ~cython.cast(uint8_t, Closed.BREAKER)
    if is_closed:
        group.closed |= Closed.BREAKER
    return 0


@cython.cfunc
def let_go(queue: Queue, tube: Tube) -> cython.int:
    """Let a tube be closed by its breaker no more."""
    tube.closed &= ~cython.cast(uint8_t, Closed.BREAKER)
    return queue.note_opened(tube) if tube.closed == 0 else 0


@cython.cfunc
def note(queue: Queue, text: str) -> cython.int:
    """Say something in the server's own log."""
    queue.notice(text)
    return 0


def begin_probe(job):
    """Let a job that is about to be handed out be the probe, if its tube with a breaker is closed but for one."""
    breaker: Breaker = breaker_of(job)
    if breaker is not None and breaker.probe_at_ns:
        breaker.probe_id = job.id
        if breaker is job.tube.breaker:
            job.tube.closed |= Closed.BREAKER
        else:
            mark_group(job, True)
    return 0


def free_probe(queue, job):
    """Let another job be the probe if this one was, and nobody holds it any more without having said how it went."""
    breaker: Breaker = job.tube.breaker
    if breaker is not None and breaker.probe_id == job.id:
        breaker.probe_id = 0
        let_go(queue, job.tube)
    return 0
