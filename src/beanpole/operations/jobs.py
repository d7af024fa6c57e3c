"""What is done to jobs that are named by their ids, some at a time: the same for the command line and the console.

Each plan returns an :class:`Outcome` for each job. Nobody can do anything to a job that a worker has reserved, but
cancel it. What
only the client may do that holds a job reserves it first; both commands go together, so that a program that ends in the
middle leaves no job half done.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beanpole.client import JobInfo, Result, StatsJob
from beanpole.client.extensions import RESTING
from beanpole.client.fallback import info_of
from beanpole.errors import BatchError, BeanpoleError, ConnectionLostError, NotFoundError
from beanpole.operations.batches import copy_of, put_copies
from beanpole.operations.plan import Plan, ask, several, together

MOVES = "change-job.tube"  # what a server has that can move a job
TWICE = "a worker has it: it is in both tubes now"

Given = Mapping[str, Any]
"""Options of an operation by name (:mod:`~beanpole.operations.table`). None: a job keeps what it has."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job."""

    id: int
    error: BeanpoleError | None = None
    """Why it was not done; None: it was, or `refusal` says why not."""

    state: str | None = None
    """Of one that the command did not find: the state in which it is; empty: it is gone; None: not known."""

    refusal: str = ""
    """Why it was not done, where no error of the server says so."""

    value: Any = None
    """What the command has returned."""

    @property
    def is_done(self) -> bool:
        return self.error is None and not self.refusal


Act = Callable[[Given, Sequence[JobInfo]], Plan[list[Outcome]]]
"""Does something to some jobs."""


def outcomes_of(results: Iterable[tuple[int, Result[Any]]]) -> Plan[list[Outcome]]:
    """Return what became of jobs; the server is asked for those that it did not find."""
    found = [Outcome(id, each.error, None, "", None if each.error else each.result()) for id, each in results]
    return (yield from explained(found))


def explained(outcomes: Sequence[Outcome]) -> Plan[list[Outcome]]:
    """Ask for the jobs that were not found, to say why. A connection that broke is not used for that."""
    absent = [each.id for each in outcomes if isinstance(each.error, NotFoundError) and each.state is None]
    if not absent or any(isinstance(each.error, ConnectionLostError) for each in outcomes):
        return list(outcomes)
    states: dict[int, str] = {}
    for id, stats in (yield from together(absent, lambda line, id: line.stats_job(id))):
        if stats.error is None:
            states[id] = stats.result().state
        elif isinstance(stats.error, NotFoundError):
            states[id] = ""
    is_absent = set(absent)
    return [replace(each, state=states.get(each.id)) if each.id in is_absent else each for each in outcomes]


# --- What nobody has to hold ------------------------------------------------------------------------------------------


def delete(_: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    ids = [job.id for job in jobs]
    found = [Outcome(id) for id in ids]
    try:
        yield from ask(lambda client: client.delete_many(ids))
    except BatchError as error:
        errors = [each if isinstance(each, BeanpoleError) else None for each in error.results]
        found = [Outcome(id, each) for id, each in zip(ids, errors, strict=True)]
    return (yield from explained(found))


def cancel(_: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    """Delete jobs, whoever has them."""
    results = yield from together([job.id for job in jobs], lambda line, id: line.cancel_job(id))
    return (yield from outcomes_of(results))


def kick(_: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    results = yield from together([job.id for job in jobs], lambda line, id: line.kick_job(id))
    return (yield from outcomes_of(results))


def change(given: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    """Change jobs: first the body, then, of those that have taken it, the rest."""
    ids, body = [job.id for job in jobs], given.get("body")
    options = {"tube" if name == "to" else name: value for name, value in given.items() if name != "body"}
    results: dict[int, Result[Any]] = dict.fromkeys(ids, Result())
    if body is not None:
        results |= yield from together(ids, lambda line, id: line.change_body(id, body))
    left = [id for id, result in results.items() if result.error is None]
    if any(value is not None for value in options.values()):
        results |= yield from together(left, lambda line, id: line.change_job(id, **options))
    half = {id for id in left if body is not None and is_refusal(results[id].error)}
    found = [
        Outcome(id, result.error, refusal="its body was changed, but nothing else" if id in half else "")
        for id, result in results.items()
    ]
    return (yield from explained(found))


def move(given: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    """Give jobs another tube; they keep their states, and where the server can move them their ids."""
    to = given["to"]
    if MOVES in (yield from ask(lambda client: client.features())):
        results = yield from together([job.id for job in jobs], lambda line, id: line.change_job(id, tube=to))
        return (yield from outcomes_of(results))
    return (yield from move_by_copy(to, jobs))


def redrive(_: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    """Bring dead jobs back to where they died, ready and with all attempts."""
    dead = [job for job in jobs if is_dead(job)]
    found = [Outcome(job.id, refusal="it has not died") for job in jobs if not is_dead(job)]
    away = {job.id: job.origin for job in dead if job.origin}
    results: dict[int, Result[Any]] = {job.id: Result() for job in dead}
    results |= yield from together(away, lambda line, id: line.change_job(id, tube=away[id]))
    # What stays where it is stays buried.
    down = [job.id for job in dead if job.state == "buried" and results[job.id].error is None]
    results |= yield from together(down, lambda line, id: line.kick_job(id))
    return (yield from explained([*found, *(Outcome(id, each.error) for id, each in results.items())]))


def is_dead(job: JobInfo) -> bool:
    """Whether a job has died. Where nothing is known of that, a buried one has."""
    return job.died is not None or job.origin is not None or job.state == "buried"


def known(ids: Sequence[int]) -> Plan[list[JobInfo]]:
    """Return what is known of jobs: all that a list says, where the server has lists. One that is gone has no tube."""
    results = yield from together(ids, lambda line, id: line.stats_job(id))
    stats = {id: each.result() for id, each in results if not isinstance(each.error, NotFoundError)}
    found = {id: info_of(each) for id, each in stats.items()}
    if "list-jobs.bodies" in (yield from ask(lambda client: client.features())):
        lists = yield from together(
            list(stats), lambda line, id: line.list_jobs(stats[id].tube, stats[id].state, 1, after=id - 1)
        )
        found |= {job.id: job for id, page in lists for job in page.result().jobs if job.id == id}
    return [found.get(id, JobInfo(id)) for id in ids]


# --- What is reserved first -------------------------------------------------------------------------------------------

Issue = Callable[[Any, StatsJob], Result[Any]]
"""Sends what finishes a job that was reserved; it is given how the job was before."""


def finish(jobs: Sequence[JobInfo], issue: Issue, states: Sequence[str] = RESTING) -> Plan[list[Outcome]]:
    """Reserve jobs that are in one of some states and finish them, in one go."""
    found: list[Outcome] = []
    there: list[StatsJob] = []
    for id, stats in (yield from together([job.id for job in jobs], lambda line, id: line.stats_job(id))):
        if stats.error is not None:
            found.append(Outcome(id, stats.error, "" if isinstance(stats.error, NotFoundError) else None))
        elif stats.result().state in states:
            there.append(stats.result())
        else:
            found.append(Outcome(id, NotFoundError(), stats.result().state))
    asked = yield from several(there, lambda line, job: (line.reserve_job(job.id), issue(line, job)))
    kept = {job.id: job.pri for job, (taken, ended) in asked if taken.error is None and is_refusal(ended.error)}
    yield from together(kept, lambda line, id: line.release(id, kept[id]))
    for job, (taken, ended) in asked:
        error = taken.error or ended.error
        found.append(Outcome(job.id, error, value=None if error else ended.result()))
    order = {job.id: place for place, job in enumerate(jobs)}
    return (yield from explained(sorted(found, key=lambda each: order[each.id])))


def is_refusal(error: BeanpoleError | None) -> bool:
    """Whether the server has kept a job as it was, for want of room."""
    return error is not None and not isinstance(error, (ConnectionLostError, NotFoundError))


def priority_of(given: Given, job: StatsJob) -> int:
    priority: int | None = given.get("priority")
    return job.pri if priority is None else priority


def release(given: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    delay = given.get("delay") or 0
    return (yield from finish(jobs, lambda line, job: line.release(job.id, priority_of(given, job), delay)))


def bury(given: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    """Bury jobs that are ready or delayed; they keep their priority, unless one is given."""
    states = ("ready", "delayed")
    return (yield from finish(jobs, lambda line, job: line.bury(job.id, priority_of(given, job)), states))


def snooze(given: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    """Put jobs off, which is no failed attempt. A server that does not count attempts has no word for it."""
    delay = given.get("delay") or 0
    if "snooze-job" not in (yield from ask(lambda client: client.features())):
        return (yield from release({**given, "delay": int(delay)}, jobs))
    return (yield from finish(jobs, lambda line, job: line.snooze_job(job.id, delay, priority_of(given, job))))


def fail(given: Given, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    options = {**given, "reason": given.get("reason") or ""}
    return (yield from finish(jobs, lambda line, job: line.fail_job(job.id, **options)))


# --- What is copied ---------------------------------------------------------------------------------------------------


def move_by_copy(to: str, jobs: Sequence[JobInfo]) -> Plan[list[Outcome]]:
    """Put a copy of each job into another tube, and then delete the job.

    No job is lost, whatever breaks, but those of a piece may be in both tubes. A ready job is reserved for that, so
    that no worker has it as well; what is delayed or buried stays that until it is deleted.
    """
    found: list[Outcome] = []
    there: list[StatsJob] = []
    for id, stats in (yield from together([job.id for job in jobs], lambda line, id: line.stats_job(id))):
        if stats.error is None and stats.result().state in RESTING:
            there.append(stats.result())
        else:
            found.append(Outcome(id, stats.error or NotFoundError(), None if stats.error else stats.result().state))
    bodies = yield from together(
        there, lambda line, job: line.reserve_job(job.id) if job.state == "ready" else line.peek(job.id)
    )
    copies = [copy_of(job, body.result().body) for job, body in bodies if body.error is None]
    found += [Outcome(job.id, body.error) for job, body in bodies if body.error is not None]
    puts = list(zip(copies, (yield from put_copies(to, copies)), strict=True))
    back = [job for job, put in puts if put.error and job.state == "ready"]
    yield from together(back, lambda line, job: line.release(job.id, job.pri))
    found += [Outcome(job.id, put.error) for job, put in puts if put.error]
    copied = [job.id for job, put in puts if not put.error]
    for id, gone in (yield from together(copied, lambda line, id: line.delete(id))):
        is_taken = isinstance(gone.error, NotFoundError)
        found.append(Outcome(id, None if is_taken else gone.error, refusal=TWICE if is_taken else ""))
    return (yield from explained(found))
