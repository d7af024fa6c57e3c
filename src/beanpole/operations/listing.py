"""The jobs of a tube: listed, searched, and explained. No I/O.

A server that knows `list-jobs` is asked for page after page. Another one has no command for that: its jobs are looked
for by their ids (:func:`search`), in the neighbourhood of those that are known, as jobs that wait together were mostly
put together.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import methodcaller

from beanpole.client import JobInfo, Reason, StatsJob
from beanpole.client.extensions import ID_MAX, RESTING, STATES
from beanpole.client.fallback import info_of
from beanpole.client.session import DEFAULT_TUBE
from beanpole.errors import NotFoundError, UnsupportedError
from beanpole.operations.plan import Plan, Walk, ask, pieces, together
from beanpole.protocol.limits import FRAMES_MAX

FIELDS = ("left", "reason")  # what a list is asked for besides, where the server has it
STEP = 1_024  # ids that are asked for in one round trip

# What a server that can't list the beginnings of bodies is asked for in one round trip: each body comes whole.
PEEKS_AT_ONCE = 100
PEEKED_BYTES = 4_194_304

SEARCH_BYTES = 65_536  # of a body, in which a text is looked for
SCAN_IDS = 1_000_000  # that are tried to find the jobs of a tube, if nobody says how many: it takes a few seconds


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs of a tube."""

    states: Sequence[str] = STATES
    limit: int | None = None
    """The most jobs of each state; None: all."""

    after: int = 0
    """Only jobs of greater ids."""

    last: int = ID_MAX
    """Only jobs up to this id."""

    text: str = ""
    """What stands in the key, or in the first SEARCH_BYTES of the body."""

    reason: str = ""
    """What stands in what the worker said that failed last, or else in the server's word for the death."""

    group: str = ""
    """Of which group; empty: all."""

    is_dead: bool = False
    """Only those that have died."""

    in_order: bool = False
    """In the order in which workers get them, up to FRAMES_MAX of each state."""

    scan_ids: int = SCAN_IDS
    """The most ids to look at, where jobs are looked for by their ids."""

    @property
    def is_plain(self) -> bool:
        """Whether all jobs fit, so that no more are asked for than are wanted."""
        return not (self.text or self.reason or self.is_dead)

    def fits(self, job: JobInfo) -> bool:
        """Whether a job has its place, is dead and has the texts, as far as that is asked for."""
        has_text = self.text in (job.key or "") or self.text.encode("utf-8", "surrogateescape") in job.body
        has_reason = self.reason in (job.reason or job.why or "")
        is_there = self.after < job.id <= self.last
        return is_there and has_text and has_reason and (job.died is not None or not self.is_dead)


@dataclass(frozen=True, slots=True)
class Missed:
    """What a search has not found."""

    count: int = 0
    """Jobs, by the server's statistics."""

    ids: int = 0
    """Ids that were looked at."""


# --- What the server has ----------------------------------------------------------------------------------------------


def need(*features: str) -> Plan[None]:
    """Raise UnsupportedError before anything is sent that the server can't do."""
    known = yield from ask(lambda client: client.features())
    for each in features:
        if each not in known:
            raise UnsupportedError(each)


def count_of(tube: str, states: Collection[str]) -> Plan[int]:
    """Return how many jobs of a tube are in some states. Raises NotFoundError: there is no such tube."""
    stats = yield from ask(lambda client: client.stats_tube(tube))
    return sum(int(stats[f"current-jobs-{state}"]) for state in states)


# --- Lists ------------------------------------------------------------------------------------------------------------


def jobs_of(tube: str, wanted: Filter, *, bodies: int = 0, with_fields: bool = False) -> Walk[list[JobInfo], Missed]:
    """List jobs, state by state and by their ids, some at a time.

    They have so many bytes of their bodies, and with their fields what is left of a delay or a time to run, and why
    they failed, if the server knows that. Return what was missed: where ids are looked at, not all may be found.
    """
    if wanted.reason or wanted.is_dead:
        yield from need("list-jobs.fields")
    if wanted.group:
        yield from need("list-jobs.group")
    features = yield from ask(lambda client: client.features())
    size = max(bodies, SEARCH_BYTES if wanted.text else 0)
    if "list-jobs" in features or wanted.after or wanted.last < ID_MAX or wanted.in_order:
        for state in wanted.states:
            yield from listed(tube, state, wanted, size, with_fields=with_fields)
        return Missed()
    found, missed = yield from search(tube, wanted.states, wanted.scan_ids)
    for state in wanted.states:
        left = wanted.limit
        for piece in pieces([info_of(job) for job in found if job.state == state]):
            page = yield from fitting(piece, wanted, left, size, with_fields=with_fields)
            left = None if left is None else left - len(page)
            yield page
            if left == 0:
                break
    return missed


def listed(tube: str, state: str, wanted: Filter, bodies: int, *, with_fields: bool) -> Walk[list[JobInfo], None]:
    """List the jobs of one state, page by page."""
    features = yield from ask(lambda client: client.features())
    lists_bodies = wanted.in_order or "list-jobs.bodies" in features
    left, at = wanted.limit, wanted.after
    order = "next" if wanted.in_order else None
    while left != 0:
        most = min(left, FRAMES_MAX) if wanted.is_plain and left is not None else FRAMES_MAX
        size = (bodies or None) if lists_bodies else None
        fields = FIELDS if "list-jobs.fields" in features and (with_fields or wanted.reason) else ()
        if with_fields and "field.history" in features:
            fields = (*fields, "history")
        given = {"after": at, "bodies": size, "order": order, "fields": fields, "group": wanted.group or None}
        found = yield from ask(methodcaller("list_jobs", tube, state, most, **given))
        page = yield from fitting(found.jobs, wanted, left, 0 if lists_bodies else bodies, with_fields=with_fields)
        left = None if left is None else left - len(page)
        yield page
        if order or found.next is None or found.next >= wanted.last:
            return
        at = found.next


def fitting(
    jobs: Sequence[JobInfo], wanted: Filter, limit: int | None, bodies: int, *, with_fields: bool
) -> Plan[list[JobInfo]]:
    """Choose the jobs that are wanted, up to a limit; bodies that are still to be read are asked for."""
    if bodies:
        jobs = yield from with_bodies(jobs, bodies)
    chosen = [job for job in jobs if wanted.fits(job)][:limit]
    return (yield from with_left(chosen)) if with_fields else chosen


def with_left(jobs: Sequence[JobInfo]) -> Plan[list[JobInfo]]:
    """Add what is left of delays and times to run, where the list has not said it; jobs that are gone are left out."""
    if "list-jobs.fields" in (yield from ask(lambda client: client.features())):
        return list(jobs)
    found = {job.id: job for job in jobs}
    for piece in pieces([job.id for job in jobs if job.state in ("delayed", "reserved")]):
        for id, stats in (yield from together(piece, lambda line, id: line.stats_job(id))):
            if isinstance(stats.error, NotFoundError):
                del found[id]
            else:
                found[id] = replace(found[id], left=stats.result().time_left)
    return list(found.values())


def with_bodies(jobs: Sequence[JobInfo], bodies: int) -> Plan[list[JobInfo]]:
    """Add the beginnings of bodies to jobs; those that are gone are left out."""
    found = []
    size = (yield from ask(lambda client: client.stats())).max_job_size if jobs else 0
    for piece in pieces(jobs, max(1, min(PEEKS_AT_ONCE, PEEKED_BYTES // max(size, 1)))):
        for job, result in (yield from together(piece, lambda line, job: line.peek(job.id))):
            if not isinstance(result.error, NotFoundError):
                body = result.result().body
                found.append(replace(job, body=body[:bodies], size=len(body)))
    return found


def peek(tube: str, state: str) -> Plan[list[JobInfo]]:
    """Return the job that leaves a state first, with its whole body; none if there is none, or it is not to be seen.

    A peek makes its tube used: then another one is, as a tube that is used does not go.
    """
    if state not in RESTING or tube not in (yield from ask(lambda client: client.tubes())):
        return []
    results = yield from together([state], lambda line, each: getattr(line, f"peek_{each}")(tube=tube))
    yield from ask(lambda client: client.use(DEFAULT_TUBE))
    try:
        body = results[0][1].result()
        stats = yield from ask(lambda client: client.stats_job(body.id))
    except NotFoundError:
        return []
    return [replace(info_of(stats), body=body.body, size=len(body.body))]


def reasons_of(ids: Sequence[int]) -> Plan[dict[int, dict[str, Reason]]]:
    """Find out why jobs have failed of which only the ids are known, by words; those that are gone are left out."""
    found: dict[int, dict[str, Reason]] = {}
    features = yield from ask(lambda client: client.features())
    for piece in pieces(list(ids) if "explain" in features else []):
        for id, result in (yield from together(piece, lambda line, id: line.explain(id))):
            if not isinstance(result.error, NotFoundError):
                found[id] = {each.word: each for each in result.result().reasons}
    return found


def with_reason(ids: Sequence[int], reason: str) -> Plan[list[int]]:
    """Leave out those of some jobs that are there and whose reason lacks a text."""
    yield from need("explain")
    found = yield from reasons_of(ids)
    return [id for id in ids if id not in found or reason in reason_text(found[id])]


def reason_text(reasons: Mapping[str, Reason]) -> str:
    """Return what the worker said that failed last, or else the server's word for the death."""
    failed, died = reasons.get("failed"), reasons.get("died")
    return (failed.text if failed else "") or (str(died.facts.get("why", "")) if died else "")


# --- By ids -----------------------------------------------------------------------------------------------------------


def search(tube: str, states: Collection[str], ids_max: int) -> Plan[tuple[list[StatsJob], Missed]]:
    """Look for the jobs of a tube that are in some states among up to `ids_max` ids.

    It begins at the ids of the next ready, delayed and buried job and the newest one, goes down and up from each, and
    ends when it has found as many jobs as there were. Jobs that are deleted while it runs are missing in the end, so in
    a busy tube it looks at all of its ids; it never ends early.
    """
    there = yield from count_of(tube, states)
    jobs: list[StatsJob] = []
    looked = 0
    for ids in around((yield from starts(tube))) if there else ():
        for _, result in (yield from together(ids, lambda line, id: line.stats_job(id))):
            if not isinstance(result.error, NotFoundError):
                job = result.result()
                if job.tube == tube and job.state in states:
                    jobs.append(job)
        looked += len(ids)
        if len(jobs) >= there or looked >= ids_max:
            break
    left = (yield from count_of(tube, states)) - len(jobs) if len(jobs) < there else 0
    return sorted(jobs, key=lambda job: job.id), Missed(max(0, left), looked)


def starts(tube: str) -> Plan[list[int]]:
    """Return ids in whose neighbourhood the jobs of a tube may be."""
    peeks = ("peek_ready", "peek_delayed", "peek_buried")
    found = yield from together(peeks, lambda line, peek: getattr(line, peek)(tube=tube))
    newest = (yield from ask(lambda client: client.stats())).total_jobs
    known = {each.result().id for _, each in found if not isinstance(each.error, NotFoundError)}
    return sorted(known | {max(1, newest)})


def around(ids: list[int]) -> Iterator[range]:
    """Return ranges of ids: around each of some ids, in turn, down and up to the middle between it and the next."""
    middles = [(low + high) // 2 for low, high in pairwise(ids)]
    lows, highs = [1, *(middle + 1 for middle in middles)], [*middles, ID_MAX]
    turns = [outward(*each) for each in zip(ids, lows, highs, strict=True)]
    while turns:
        for turn in list(turns):
            piece = next(turn, None)
            if piece is None:
                turns.remove(turn)
            else:
                yield piece


def outward(id: int, low: int, high: int) -> Iterator[range]:
    """Return ranges that begin at an id and go down to `low` and up to `high`, by turns."""
    below, above = id, id + 1
    while below >= low or above <= high:
        if below >= low:
            yield range(max(low, below - STEP + 1), below + 1)
            below -= STEP
        if above <= high:
            yield range(above, min(high, above + STEP - 1) + 1)
            above += STEP
