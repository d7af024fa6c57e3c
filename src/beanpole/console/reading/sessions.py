"""The sessions of a server: which are connected, which wait for jobs, and which hold some; and the jobs that are held.

Requests within a second share one look at a server's sessions, which stops after SESSIONS_LOOKED of them or after
LOOK_MS; a further look starts behind the number of a session. They share one look at its held jobs, which ends after
LOOK_MS or at HELD_MAX jobs, and says so: a server that has a million jobs may have to pass them all to find the held
ones of a tube.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from beanpole.client import AsyncClient, JobField, JobInfo, SessionInfo, StatsTube
from beanpole.console import limits
from beanpole.console.fields import AnyTube, Next, Number, PageSize, Query, Text
from beanpole.console.reading.tubes import tubes_of
from beanpole.console.servers import Purpose, Server
from beanpole.console.single_flight import OnAnswer, look_ends_at
from beanpole.errors import NotFoundError

SESSIONS_PER_STEP = 250
"""Sessions that are asked for at once: reading them takes 8 ms, in which nothing else is answered."""

NEEDS = "needs list-sessions, which this server does not have"  # why a server shows no sessions

Order = Literal["number", "held", "silent", "waiting", "since"]

ORDERS: tuple[Order, ...] = get_args(Order)
"""By what sessions can be sorted: all but the first the longest first."""


class SessionFilter(Query, frozen=True):
    """Which sessions, and how many."""

    text: Annotated[Text, Meta(description="What stands in the name or the address.")] = ""
    tube: Annotated[AnyTube, Meta(description="A tube that it uses or watches; empty: any.")] = ""
    waiting: Annotated[bool, Meta(description="Only those that wait for a job.")] = False
    holding: Annotated[bool, Meta(description="Only those that hold jobs.")] = False
    number: Annotated[Number | None, Meta(description="Only that of this number.")] = None
    after: Annotated[Number | None, Meta(description="Only those of a greater number: the `next` of a page.")] = None
    order: Annotated[Order, Meta(description="By any but `number` the longest first, in one page.")] = "number"
    limit: PageSize = 100

    def fits(self, session: SessionInfo) -> bool:
        text = self.text.casefold()
        return (
            (text in session.name.casefold() or text in session.peer.casefold())
            and self.number in {None, session.number}
            and (not self.tube or self.tube == session.used or self.tube in session.watched)
            and (not self.waiting or session.waiting is not None)
            and (not self.holding or session.jobs_held > 0)
        )

    def key(self, session: SessionInfo) -> tuple[float, int]:
        values = {
            "held": session.oldest_held,
            "silent": session.last_command_age,
            "waiting": session.waiting,
            "since": session.since,
        }
        value = values.get(self.order)
        return (-value if value is not None else 0, session.number)


@dataclass(frozen=True, slots=True)
class Process:
    """The sessions of one client program: those of a name from a host; of those without a name all from it."""

    name: str  # empty: they have none
    host: str  # without the ports
    sessions: list[SessionInfo]  # at least one, in the order that was asked for

    @property
    def number(self) -> int:
        """That of its first session: the same in whatever order they stand."""
        return min(each.number for each in self.sessions)

    @property
    def used(self) -> list[str]:
        """The tubes that they use."""
        return list(dict.fromkeys(each.used for each in self.sessions))

    @property
    def watched(self) -> list[str]:
        """The tubes that they watch, as far as the server names them."""
        return list(dict.fromkeys(tube for each in self.sessions for tube in each.watched))

    @property
    def waiting(self) -> list[float]:
        """For how long those wait that do."""
        return [each.waiting for each in self.sessions if each.waiting is not None]

    @property
    def jobs_held(self) -> int:
        return sum(each.jobs_held for each in self.sessions)

    @property
    def oldest_held(self) -> float | None:
        return max((each.oldest_held for each in self.sessions if each.oldest_held is not None), default=None)

    @property
    def latest(self) -> SessionInfo:
        """The session that has sent the last command."""
        return min(self.sessions, key=lambda each: (not each.last_command, each.last_command_age))

    @property
    def since(self) -> float:
        return max(each.since for each in self.sessions)


def processes_of(sessions: list[SessionInfo]) -> list[Process]:
    """The programs that some sessions are of, in the order of the first session of each."""
    found: dict[tuple[str, str], Process] = {}
    for each in sessions:
        host = each.peer.rpartition(":")[0] or each.peer
        found.setdefault((each.name, host), Process(each.name, host, [])).sessions.append(each)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Look:
    """Sessions as they were at a moment."""

    sessions: list[SessionInfo]
    next: int | None  # behind which number there are more; None: these are all
    missing: str = ""  # why there are none, as a sentence for people

    def waiting_for(self, tube: str) -> "Waiting":
        """The sessions that wait for jobs of a tube, the longest first."""
        waiting = [each for each in self.sessions if each.waiting is not None]
        found = sorted((each for each in waiting if tube in each.watched), key=lambda each: -(each.waiting or 0))
        unknown = any(tube not in each.watched and each.watched_count > len(each.watched) for each in waiting)
        return Waiting(found, self.next is None and not unknown, self.missing)


class FoundSessions(Struct, frozen=True):
    """A page of sessions."""

    sessions: list[SessionInfo] = msgspec.field(name="items")
    next: Next
    looked: Annotated[int, Meta(description="How many were looked at.")] = 0
    fitting: Annotated[int, Meta(description="How many of these fit.")] = 0
    is_complete: Annotated[bool, Meta(description="Whether that were all behind `after`.")] = True
    missing: Annotated[str, Meta(description="Why there are none.")] = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The sessions that wait for jobs of a tube."""

    sessions: list[SessionInfo] = field(default_factory=list)  # those that have waited longest first
    is_complete: bool = True  # whether that are all: of a session the server names its first tubes only
    missing: str = ""  # why it is not known, as a sentence for people


async def look_behind(server: Server, heard: OnAnswer = lambda: None, number: int | None = None) -> Look:
    """Looks behind a number, by default at the first sessions, and says so each time the server has answered.

    Raises AwayError, and what a client does.
    """
    client = await server.client()
    if "list-sessions" not in await client.features():
        return Look([], None, NEEDS)
    until = look_ends_at()
    found: list[SessionInfo] = []
    while len(found) < limits.SESSIONS_LOOKED:
        page = await client.list_sessions(found[-1].number if found else number, SESSIONS_PER_STEP)
        heard()
        if not page:
            return Look(found, None)
        found += page
        if asyncio.get_running_loop().time() >= until:
            break
    return Look(found, found[-1].number)


async def look(server: Server) -> Look:
    """The first sessions of a server, as they were a second ago at most. Raises AwayError."""
    return await server.shared(look_behind)


async def find(server: Server, wanted: SessionFilter) -> FoundSessions:
    """Returns a page of sessions. Raises AwayError, and what a client does."""
    if wanted.number is not None:
        return await of_number(server, wanted, wanted.number)
    seen = await (look(server) if wanted.after is None else look_behind(server, number=wanted.after))
    fitting = sorted((each for each in seen.sessions if wanted.fits(each)), key=wanted.key)
    shown = fitting[: wanted.limit]
    behind = seen.next
    if len(fitting) > len(shown):
        behind = shown[-1].number if wanted.order == "number" else None
    return FoundSessions(shown, behind, len(seen.sessions), len(fitting), seen.next is None, seen.missing)


async def of_number(server: Server, wanted: SessionFilter, number: int) -> FoundSessions:
    """Returns the session of a number, if it fits. What is behind it is not looked at."""
    client = await server.client()
    if "list-sessions" not in await client.features():
        return FoundSessions([], None, missing=NEEDS)
    page = await client.list_sessions(number - 1 if number else None, 1)
    fitting = [each for each in page if wanted.fits(each)]
    return FoundSessions(fitting, None, len(page), len(fitting))


async def who_waits(server: Server, tube: str) -> Waiting:
    """Returns the sessions that wait for jobs of a tube. Raises AwayError, and what a client does."""
    return (await look(server)).waiting_for(tube)


# --- Held jobs --------------------------------------------------------------------------------------------------------

HELD_MAX = 500  # held jobs that one look takes
HELD_IDS_NEAR = 20_000  # ids behind the newest one among which a look for held jobs begins: about a millisecond
TUBES_AT_ONCE = 20  # tubes whose held jobs are asked for at once, at the most
QUICK_MS = 10  # milliseconds within which such an answer came quickly: then twice as many are asked for at once
NEEDS_LISTS = "which jobs they are needs list-jobs, which this server does not have"  # why a server names no held jobs

NEEDS_FIELDS = "who holds them needs list-jobs with fields, which this server does not have"
"""Why a server names no holders."""


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job that is held. Durations are in seconds."""

    job: JobInfo
    left_s: float  # what is left of its time to run
    session: int | None = None  # the number of the session that holds it; None: unknown
    name: str = ""  # what that one calls itself
    peer: str = ""  # its address
    silent_s: float | None = None  # for how long nothing was heard of it

    @property
    def ran_s(self) -> float:
        """What of its time to run is over: since it was reserved, or touched."""
        return max(self.job.ttr - self.left_s, 0)

    @property
    def share(self) -> float:
        """The same as a part of the whole, from 0 to 1."""
        return min(self.ran_s / self.job.ttr, 1.0) if self.job.ttr else 1.0

    @property
    def record(self) -> dict[str, object]:
        return {
            "id": self.job.id,
            "tube": self.job.tube,
            "ttr": self.job.ttr,
            "left": round(self.left_s, 3),
            "ran": round(self.ran_s, 3),
            "session": self.session,
            "name": self.name,
            "peer": self.peer,
            "silent": self.silent_s,
            "age": self.job.age,
            "reserves": self.job.reserves,
            "timeouts": self.job.timeouts,
            "attempt": self.job.attempt,
        }


@dataclass(frozen=True, slots=True)
class Worker:
    """A session that holds jobs."""

    number: int | None  # None: all those that are not known
    name: str
    peer: str
    jobs: list[HeldJob]  # those of them that are known, the one that has run longest first
    session: SessionInfo | None = None  # what else is known of it

    @property
    def count(self) -> int:
        return max(self.session.jobs_held if self.session else 0, len(self.jobs))


@dataclass(frozen=True, slots=True)
class Held:
    """What is held."""

    jobs: list[HeldJob]  # the one that has run longest first
    total: int  # how many jobs are held by the counts of their tubes
    tubes: list[StatsTube] = field(default_factory=list)  # the tubes of these
    workers: list[Worker] = field(default_factory=list)  # who holds them; who holds most first
    is_complete: bool = True  # whether all tubes were looked at to their ends
    missing: tuple[str, ...] = ()  # what the server can't say, each a sentence for people

    def of(self, tube: str) -> "Held":
        """The same of one tube; of no name: all."""
        if not tube:
            return self
        tubes = [each for each in self.tubes if each.name == tube]
        jobs = [each for each in self.jobs if each.job.tube == tube]
        here = [replace(each, jobs=[job for job in each.jobs if job.job.tube == tube]) for each in self.workers]
        total = sum(each.current_jobs_reserved for each in tubes)
        return replace(self, jobs=jobs, tubes=tubes, total=total, workers=[each for each in here if each.jobs])


async def look_at_held(server: Server, heard: OnAnswer = lambda: None) -> Held:
    """Looks now, and says so each time the server has answered. Raises AwayError, and what a client does."""
    tubes = [each for each in await tubes_of(server) if each.current_jobs_reserved]
    total = sum(each.current_jobs_reserved for each in tubes)
    client = await server.client(Purpose.SEARCH)
    known = await client.features()
    if "list-jobs" not in known:
        return Held([], total, tubes, missing=(NEEDS_LISTS,))
    newest = (await server.sampler.stats.get()).total_jobs
    until = look_ends_at()
    listed, is_complete = await listed_in(client, tubes, newest, until, heard)
    if "list-jobs.fields" not in known:
        held = await timed(client, listed)
        return Held(in_order(held), total, tubes, [], is_complete, (NEEDS_FIELDS,))
    who = (await look(server)).sessions
    held = in_order(held_by(listed, who))
    return Held(held, total, tubes, workers_of(held, who), is_complete)


async def find_held(server: Server, tube: str = "") -> Held:
    """Returns what is held, as it was a second ago at most. Raises AwayError."""
    return (await server.shared(look_at_held)).of(tube)


def in_order(held: list[HeldJob]) -> list[HeldJob]:
    return sorted(held, key=lambda each: (-each.ran_s, each.job.id))


async def listed_in(
    client: "AsyncClient[bytes]", tubes: list[StatsTube], newest: int, until: float, heard: OnAnswer
) -> tuple[list[JobInfo], bool]:
    """The held jobs of tubes, as many of each, and whether they are all; no job has a much greater id than `newest`.

    A server looks through its jobs by their ids, up to as many held ones as it was asked for. So the newest ids come
    first, and all of them only where these were not enough. More tubes are asked at once as long as that is quick.
    """
    loop = asyncio.get_running_loop()
    fields: tuple[JobField, ...] = ()
    if "list-jobs.fields" in await client.features():
        fields = ("session", "peer", "left")
    count = len(tubes)
    tubes = sorted(tubes, key=lambda each: -each.current_jobs_reserved)[:HELD_MAX]
    most = HELD_MAX // max(len(tubes), 1)
    found: dict[str, list[JobInfo]] = {}
    waiting, at_once = deque((tube, max(newest - HELD_IDS_NEAR, 0)) for tube in tubes), 1
    while waiting and loop.time() < until:
        began = loop.time()
        batch = [waiting.popleft() for _ in range(min(at_once, len(waiting)))]
        async with client.pipeline(raise_errors=False) as asked:
            results = [
                asked.list_jobs(
                    tube.name, "reserved", min(tube.current_jobs_reserved, most), after=after, fields=fields
                )
                for tube, after in batch
            ]
        heard()
        for (tube, after), result in zip(batch, results, strict=True):
            found[tube.name] = result.result().jobs
            if after and len(found[tube.name]) < min(tube.current_jobs_reserved, most):
                waiting.append((tube, 0))
        is_quick = loop.time() - began < QUICK_MS / 1000
        at_once = min(at_once * 2, TUBES_AT_ONCE) if is_quick else max(at_once // 2, 1)
    is_complete = not waiting and len(tubes) == count and all(tube.current_jobs_reserved <= most for tube in tubes)
    return [job for jobs in found.values() for job in jobs], is_complete


def held_by(jobs: list[JobInfo], who: list[SessionInfo]) -> list[HeldJob]:
    """Who holds each, and how long still."""
    known = {each.number: each for each in who}
    held = []
    for job in jobs:
        session = known.get(job.session) if job.session is not None else None
        name, silent = (session.name, session.last_command_age) if session else ("", None)
        held.append(HeldJob(job, job.left or 0, job.session, name, job.peer or "", silent))
    return held


async def timed(client: "AsyncClient[bytes]", jobs: list[JobInfo]) -> list[HeldJob]:
    """How long each is held still, in whole seconds, by whomever."""
    if not jobs:
        return []
    async with client.pipeline(raise_errors=False) as asked:
        results = [(job, asked.stats_job(job.id)) for job in jobs]
    found = [(job, each.result()) for job, each in results if not isinstance(each.error, NotFoundError)]
    return [HeldJob(job, stats.time_left) for job, stats in found if stats.state == "reserved"]


def workers_of(held: list[HeldJob], who: list[SessionInfo]) -> list[Worker]:
    jobs: dict[int | None, list[HeldJob]] = {each.number: [] for each in who if each.jobs_held}
    for each in held:
        jobs.setdefault(each.session, []).append(each)
    known = {each.number: each for each in who}
    found: list[Worker] = []
    for number, theirs in jobs.items():
        session = known.get(number) if number is not None else None
        name, peer = (session.name, session.peer) if session else (theirs[0].name, theirs[0].peer)
        found.append(Worker(number, name, peer, theirs, session))
    return sorted(found, key=lambda each: (-each.count, each.number or 0))
