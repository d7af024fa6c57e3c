"""Jobs that failed for good: the dead, and the buried; grouped by the tube in which they failed and by their error.

How many are in each group is counted by the server (`stats-failures`). What is asked beyond that, with a text for
example or for the jobs of a group, is found by going through lists, in which each job has its reason. However many jobs
there are, a look ends after LOOK_MS and says how far it came; all places where such jobs are have their turns, so that
none hides another.

The dead are in the tubes that rules send them to, and in those that rules did since the console looks; a look
`within` a tube finds them in any.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self
from weakref import WeakKeyDictionary

from msgspec import Meta

from beanpole.client import AsyncClient, FailureGroup, JobField, JobInfo, StatsTube
from beanpole.client.explanation import ENDS
from beanpole.console import limits
from beanpole.console.fields import AnyTube, Number, Query, Text
from beanpole.console.reading.bodies import visible
from beanpole.console.reading.jobs import Found, JobFilter, pages
from beanpole.console.reading.tubes import tubes_of
from beanpole.console.servers import Purpose, Server
from beanpole.console.single_flight import look_ends_at
from beanpole.errors import ArgumentError, NotFoundError
from beanpole.observe.sampling import dead_tubes_of
from beanpole.protocol.reasons import error_of, first_line

FAILURES_PER_STEP = 1_000  # jobs that failed that are asked for at once, with their reasons: about 10 ms
ERROR_CHARS = 200  # characters of the first line of a reason that make a group
SAMPLE_IDS = 10  # jobs that a group names
BURIED = "(buried, no reason given)"  # the error of a job that was buried, if nobody said why
UNKNOWN = "(unknown: this server keeps no reasons)"  # the error of a buried job of a server that says no reasons
OTHERS = "(further errors, of which there are too many)"  # the error of what the server sums up

REASON: tuple[JobField, ...] = ("reason",)
"""What a list is asked for."""

NEEDS = "needs list-jobs with fields, which this server does not have"  # why a server shows less


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that failed."""

    job: JobInfo
    tube: str  # in which tube it failed; it lies in ``job.tube``
    reason: str | None  # what its worker said; None: nothing
    end: str = ""  # how it died: `the last attempt failed` for example; empty: it was buried

    @classmethod
    def of(cls, job: JobInfo) -> Self:
        """A job as a list has it that was asked for reasons."""
        return cls(job, job.origin or job.tube, job.reason, ENDS.get(job.why, job.why) if job.why else "")

    @property
    def line(self) -> str:
        """The first line of what was said, visible; if nobody said anything, what is known, in parentheses."""
        return shown(first_line(self.reason or "")) or nothing_said(self.end)

    @property
    def error(self) -> str:
        """The same without what differs from job to job: with the tube, what groups are made by."""
        return shown(error_of(first_line(self.reason or ""))) or nothing_said(self.end)

    @property
    def record(self) -> dict[str, Any]:
        """The job for JSON."""
        found = {"id": self.job.id, "tube": self.tube, "error": self.error, "reason": self.reason}
        found |= {"end": self.end or "buried", "died": self.job.died, "in": self.job.tube}
        others = ("state", "age", "attempt", "reserves", "timeouts", "size", "key")
        return found | {name: getattr(self.job, name) for name in others}


def shown(line: str) -> str:
    return visible(line)[:ERROR_CHARS]


def nothing_said(end: str) -> str:
    """The error of a job of which no worker said anything."""
    return f"({end})" if end else BURIED


@dataclass(slots=True)
class Group:
    """Jobs that failed in one tube with one error."""

    server: str
    tube: str
    error: str
    count: int = 0  # how many there are, as far as they were counted
    newest: float | None = None  # when the last died, in Unix seconds; None: that is not known of buried jobs
    oldest: float | None = None
    ids: list[int] = field(default_factory=list)  # some of them, the newest first
    kinds: Counter[str] = field(default_factory=Counter)  # how many died how; `buried` are those that did not
    places: Counter[tuple[str, str]] = field(default_factory=Counter)  # how many lie where: tube and state
    example: str = ""  # the first line of what one of them says

    def add(self, failed: Failure) -> None:
        job = failed.job
        if not self.count or job.id > self.ids[0]:
            self.example = failed.line
        self.count += 1
        self.ids = sorted([*self.ids, job.id], reverse=True)[:SAMPLE_IDS]
        self.kinds[failed.end or "buried"] += 1
        self.places[job.tube, job.state] += 1
        if job.died is not None:
            self.newest = max(self.newest or job.died, job.died)
            self.oldest = min(self.oldest or job.died, job.died)


Where = Literal["", "ready", "delayed", "buried"]


class FailureFilter(Query, frozen=True):
    """Which jobs."""

    tube: Annotated[AnyTube, Meta(description="In which tube they failed; empty: any.")] = ""
    text: Annotated[Text, Meta(description="What stands in the reason.")] = ""
    error: Annotated[
        Annotated[str, Meta(max_length=ERROR_CHARS)] | None,
        Meta(description="Only those of the groups with this error, whose jobs are named."),
    ] = None
    within: Annotated[AnyTube, Meta(description="In which tube they lie; empty: any.")] = ""
    state: Annotated[Where, Meta(description="In which state they are.")] = ""
    after: Annotated[Number, Meta(description="Only jobs of a greater id: the `next` of a place.")] = 0

    def fits(self, failed: Failure) -> bool:
        return (self.error is None or failed.error == self.error) and (
            not self.text or self.text.casefold() in (failed.reason or failed.line).casefold()
        )


@dataclass(slots=True)
class Stretch:
    """A place where such jobs are, and how far a look came there."""

    tube: str
    state: str
    count: int  # how many jobs are there, dead or not
    looked: int = 0
    next: int | None = 0  # behind which id there may be more; None: that were all

    def __post_init__(self) -> None:
        if not self.count:
            self.next = None


@dataclass(frozen=True, slots=True)
class Failures:
    """What a look has found."""

    groups: list[Group]  # the largest first
    stretches: list[Stretch]
    jobs: list[Failure]  # the first jobs, if one group was asked for
    missing: str = ""  # what the server can't say, as a sentence for people
    counted: int = 0  # how many jobs have failed, if the server has counted them

    @property
    def total(self) -> int:
        """How many jobs there are where the look was."""
        return self.counted + sum(each.count for each in self.stretches)

    @property
    def looked(self) -> int:
        """How many of them were looked at."""
        return self.counted + sum(each.looked for each in self.stretches)

    @property
    def unfinished(self) -> list[Stretch]:
        return [each for each in self.stretches if each.next is not None]


DEAD_TUBES: WeakKeyDictionary[Server, set[str]] = WeakKeyDictionary()
"""Where rules of each server send the dead, or did."""


# --- Looks ------------------------------------------------------------------------------------------------------------


async def find(server: Server, wanted: FailureFilter, until: float | None = None) -> Failures:
    """Returns the groups of what was found until a moment of the loop's clock, by default LOOK_MS from now.

    Raises AwayError, and what a client does.
    """
    until = look_ends_at() if until is None else until
    client = await server.client(Purpose.SEARCH)
    if not await says_why(client):
        return await plain_look(server, client, wanted)
    if wanted == FailureFilter(wanted.tube):
        try:
            found = await client.stats_failures(wanted.tube or None)
        except ArgumentError:  # no tube can have that name, so none of its jobs has failed
            return Failures([], [], [], counted=0)
        return Failures([counted_by(server, each) for each in found.groups], [], [], counted=found.total)
    stretches = await stretches_of(server, client, wanted)
    groups: dict[tuple[str, str], Group] = {}
    jobs: list[Failure] = []
    async with aclosing(walk(client, stretches, wanted)) as walked:
        async for piece in walked:
            for failed in piece:
                key = (failed.tube, failed.error)
                groups.setdefault(key, Group(server.name, *key)).add(failed)
            if wanted.error is not None:
                jobs += piece[: limits.FAILURES_PER_PAGE - len(jobs)]
            if asyncio.get_running_loop().time() >= until:
                break
    return Failures(in_order(groups.values()), stretches, jobs)


def counted_by(server: Server, group: FailureGroup) -> Group:
    """A group as the server has counted it."""
    kinds = {ENDS["attempts"]: group.attempts, ENDS["expired"]: group.expired, ENDS["given-up"]: group.given_up}
    kinds["buried"] = group.buried
    ends = [end for end, count in kinds.items() if count]
    nothing = nothing_said("" if group.buried else ", ".join(ends))
    return Group(
        server.name,
        group.tube or "",
        OTHERS if group.error is None else shown(group.error) or nothing,
        group.count,
        group.last_died,
        group.first_died,
        [group.last],
        Counter({end: kinds[end] for end in ends}),
        example=shown(group.line) or nothing,
    )


async def failures_of(
    server: Server, wanted: FailureFilter, highest: int | None = None, purpose: Purpose = Purpose.SEARCH
) -> AsyncGenerator[list[Failure], None]:
    """All jobs that failed, up to the id `highest`, in pieces, which may be empty.

    Of a server that keeps no reasons these are its buried jobs. Raises AwayError, and what a client does.
    """
    client = await server.client(purpose)
    if await says_why(client):
        stretches = await stretches_of(server, client, wanted)
        async with aclosing(walk(client, stretches, wanted, highest)) as walked:
            async for piece in walked:
                yield piece
        return
    for tube in [each.name for each in buried_tubes(await tubes_of(server), wanted)]:
        async with aclosing(pages(server, JobFilter(tube, "buried"), highest, purpose=purpose)) as listed:
            async for jobs in listed:
                found = [Failure(job, tube, None, UNKNOWN[1:-1]) for job in jobs]
                yield [each for each in found if wanted.fits(each)]


async def pages_of_group(
    server: Server, tube: str, error: str, highest: int | None
) -> AsyncGenerator[list[JobInfo], None]:
    """All jobs of a group, for an action, up to the id `highest`, in pieces, which may be empty.

    Raises AwayError, and what a client does.
    """
    wanted = FailureFilter(tube=tube, error=error)
    async with aclosing(failures_of(server, wanted, highest, Purpose.ACTIONS)) as walked:
        async for piece in walked:
            yield [each.job for each in piece]


def in_order(groups: Iterable[Group]) -> list[Group]:
    """Groups, the largest first, and of equal ones the one whose last job died last."""
    return sorted(groups, key=lambda each: (-each.count, -(each.newest or 0), each.tube, each.error))


async def says_why(client: "AsyncClient[bytes]") -> bool:
    """Whether the server lists jobs with their reasons, and counts them."""
    return {"list-jobs.fields", "stats-failures"} <= await client.features()


async def stretches_of(server: Server, client: "AsyncClient[bytes]", wanted: FailureFilter) -> list[Stretch]:
    known = DEAD_TUBES.setdefault(server, set())
    known |= dead_tubes_of(await client.list_rules()).keys()
    found = []
    for tube in await tubes_of(server):
        if wanted.within and tube.name != wanted.within:
            continue
        is_for_dead = tube.name in known or tube.name == wanted.within
        for state, count in (
            ("buried", tube.current_jobs_buried),
            ("ready", tube.current_jobs_ready if is_for_dead else 0),
            ("delayed", tube.current_jobs_delayed if is_for_dead else 0),
        ):
            if count and state == (wanted.state or state):
                found.append(Stretch(tube.name, state, count, next=wanted.after))
    return found


async def walk(
    client: "AsyncClient[bytes]",
    stretches: list[Stretch],
    wanted: FailureFilter,
    highest: int | None = None,
) -> AsyncGenerator[list[Failure], None]:
    """The jobs that fit, in pieces; each stretch has its turns, and says how far it came."""
    waiting = deque(each for each in stretches if each.next is not None)
    while waiting:
        batch = batch_of(waiting)
        async with client.pipeline(raise_errors=False) as asked:
            pages = [
                asked.list_jobs(each.tube, each.state, FAILURES_PER_STEP, after=each.next or 0, fields=REASON)
                for each in batch
            ]
        jobs: list[JobInfo] = []
        for stretch, result in zip(batch, pages, strict=True):
            page = result.result()
            stretch.looked += len(page.jobs)
            stretch.next = page.next if page.next is None or highest is None or page.next < highest else None
            if stretch.next is not None:
                waiting.append(stretch)
            jobs += [each for each in page.jobs if highest is None or each.id <= highest]
        failed = [Failure.of(each) for each in jobs if has_failed(each)]
        yield [each for each in failed if wanted.tube in {"", each.tube} and wanted.fits(each)]


def batch_of(waiting: "deque[Stretch]") -> list[Stretch]:
    """Takes the stretches that are asked for in one round trip: one that is long, or some that are short."""
    batch: list[Stretch] = []
    jobs = 0
    while waiting and jobs < FAILURES_PER_STEP:
        batch.append(waiting.popleft())
        jobs += max(batch[-1].count - batch[-1].looked, FAILURES_PER_STEP // 10)
    return batch


def has_failed(job: JobInfo) -> bool:
    """Whether a job is buried, or dead in another tube than the one in which it died."""
    return job.state == "buried" or job.origin is not None


def first_lines(found: Found) -> dict[int, str]:
    """The first line of why jobs of a page have failed, by id: of those that have, where the server says it."""
    return (
        {each.id: Failure.of(each).line for each in found.jobs if each.died is not None or each.state == "buried"}
        if found.has_reasons
        else {}
    )


async def plain_look(server: Server, client: "AsyncClient[bytes]", wanted: FailureFilter) -> Failures:
    """What a server without reasons says: how many jobs of each tube are buried, and which of them is the first."""
    tubes = buried_tubes(await tubes_of(server), wanted)
    groups = [Group(server.name, each.name, UNKNOWN, each.current_jobs_buried, example=UNKNOWN) for each in tubes]
    groups = in_order(each for each in groups if wanted.error in {None, UNKNOWN} and wanted.text in each.error)
    async with client.pipeline(raise_errors=False) as asked:
        firsts = [(each, asked.peek_buried(tube=each.tube)) for each in groups[: limits.FAILURES_PER_PAGE]]
        asked.use("default")  # a tube that is used does not go
    for group, first in firsts:
        if not isinstance(first.error, NotFoundError):
            group.ids = [first.result().id]
    stretches = [
        Stretch(each.name, "buried", each.current_jobs_buried, each.current_jobs_buried, None) for each in tubes
    ]
    return Failures(groups, stretches, [], NEEDS)


def buried_tubes(tubes: list[StatsTube], wanted: FailureFilter) -> list[StatsTube]:
    """Those with buried jobs that may be wanted."""
    return [each for each in tubes if each.current_jobs_buried and {wanted.tube, wanted.within} <= {"", each.name}]
