"""Jobs of a tube in a state, page by page, and one job: what pages, exports and actions are about.

A page says how far it looked. No request asks a server for more than a moment's worth: one that searches goes on where
the last one ended. Of a server that knows no `list-jobs`, the client asks for id after id.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal, get_args

from beanpole.client import AsyncClient, Explanation, JobField, JobInfo, StatsJob
from beanpole.client.fallback import info_of
from beanpole.console import limits
from beanpole.console.servers import Purpose, Server
from beanpole.errors import JobTooBigError, NotFoundError
from beanpole.operations.listing import peek, with_bodies
from beanpole.operations.plan import run_async

SEARCH_BYTES = 65_536  # bytes of each body that are searched


@dataclass(frozen=True, slots=True)
class Search:
    """A search for a text: byte for byte as it stands, in UTF-8."""

    text: str  # empty: everything fits
    in_bodies: bool = True  # whether bodies are searched as well as keys

    @property
    def bytes_needed(self) -> int:
        return SEARCH_BYTES if self.text and self.in_bodies else 0

    def fits(self, job: JobInfo) -> bool:
        if not self.text:
            return True
        if job.key is not None and self.text in job.key:
            return True
        return self.in_bodies and self.text.encode("utf-8", "surrogateescape") in job.body[:SEARCH_BYTES]


SEARCH_MS = 200
"""Milliseconds for which one request searches: then the page says how far it looked, and offers to go on."""

JOBS_PER_PIECE = 1_000  # jobs that are asked for at once where all are needed
BODIES_PER_PIECE = 100  # the same with their bodies
HIGHEST_STEP = 100  # jobs in which the search for the newest one ends

State = Literal["ready", "reserved", "delayed", "buried"]

STATES: tuple[State, ...] = get_args(State)
"""The states of a job, in the order of the pages."""

ONLY_FIRST = "needs list-jobs, which this server does not have: it shows the first job only"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some jobs, and behind which id there may be more; None: there are none."""

    jobs: list[JobInfo]
    next: int | None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs."""

    tube: str
    state: str = "ready"  # one of STATES
    text: str = ""  # what stands in the body, or in the key; empty: anything
    after: int = 0  # only jobs of a greater id
    order: str = "id"  # `id`, or `next`: as workers get them
    limit: int = 100  # the most jobs of a page
    group: str = ""  # whose jobs; empty: of any group


@dataclass(slots=True)
class Found:
    """A page of jobs."""

    jobs: list[JobInfo]
    next: int | None = None  # what to give as `after` to go on; None: there is nothing behind
    looked: int = 0  # how many jobs of the tube in the state were looked at
    looked_to: int = 0  # up to which id
    is_complete: bool = False  # whether that were all behind `after`
    bodies_cut_at: int | None = None  # up to which byte bodies were searched; None: not at all
    missing: str = ""  # what the server can't do of what was asked, for people
    has_reasons: bool = False  # whether jobs that failed have their reasons

    def add(self, piece: Piece, limit: int, search: Search) -> None:
        """Adds what fits of a piece, up to the limit of the page."""
        for count, job in enumerate(piece.jobs, 1):
            if search.fits(job):
                self.jobs.append(job)
                is_last = count == len(piece.jobs) and piece.next is None
                if len(self.jobs) == limit and not is_last:
                    self.next = self.looked_to = job.id
                    self.looked += count
                    return
        self.next = piece.next
        self.looked += len(piece.jobs)
        if piece.next is not None or piece.jobs:
            self.looked_to = piece.jobs[-1].id if piece.next is None else piece.next
        self.is_complete = piece.next is None


async def find(server: Server, wanted: JobFilter, bodies: int = 0) -> Found:
    """Returns a page of jobs; each has so many bytes of its body.

    With a text, it looks for at most SEARCH_MS, and at the first SEARCH_BYTES of bodies. Raises AwayError, and what a
    client does.
    """
    bodies = 0 if server.hide_bodies else bodies
    search = Search(wanted.text, in_bodies=not server.hide_bodies)
    client = await server.client(Purpose.SEARCH if wanted.text else Purpose.PAGES)
    found = Found([], bodies_cut_at=search.bytes_needed or None, has_reasons=bool(await fields_of(client)))
    if wanted.order == "next" and wanted.state != "reserved":  # these have none but that of their ids
        await find_first(client, wanted, max(bodies, search.bytes_needed), found)
        found.jobs = [job for job in found.jobs if search.fits(job)]
    else:
        found.looked_to = wanted.after
        loop = asyncio.get_running_loop()
        until = loop.time() + SEARCH_MS / 1000
        every = replace(wanted, limit=JOBS_PER_PIECE) if wanted.text else wanted
        async with aclosing(pieces(client, every, None, max(bodies, search.bytes_needed))) as walked:
            async for piece in walked:
                found.add(piece, wanted.limit, search)
                if len(found.jobs) == wanted.limit or loop.time() >= until:
                    break
    found.jobs = [cut(job, bodies) for job in found.jobs]
    return found


async def find_first(client: "AsyncClient[bytes]", wanted: JobFilter, bodies: int, found: Found) -> None:
    """Finds the jobs that leave the state first, whatever is in them."""
    if not await knows_lists(client):
        found.jobs, found.missing = await run_async(client, peek(wanted.tube, wanted.state)), ONLY_FIRST
    else:
        fields = await fields_of(client)
        page = await client.list_jobs(
            wanted.tube,
            wanted.state,
            wanted.limit,
            bodies=bodies or None,
            order="next",
            fields=fields,
            group=wanted.group or None,
        )
        found.jobs, found.is_complete = page.jobs, len(page.jobs) < wanted.limit
    found.looked = len(found.jobs)


def cut(job: JobInfo, bodies: int) -> JobInfo:
    return job if len(job.body) <= bodies else replace(job, body=job.body[:bodies])


async def pages(
    server: Server,
    wanted: JobFilter,
    highest: int | None = None,
    *,
    bodies: int = 0,
    purpose: Purpose = Purpose.SEARCH,
) -> AsyncGenerator[list[JobInfo], None]:
    """All jobs that fit, behind `after` and up to the id `highest`, in pieces of at most 1 000.

    A piece may be empty: whoever goes through a million jobs can stop in between. Raises what `find` does.
    """
    bodies = 0 if server.hide_bodies else bodies
    search = Search(wanted.text, in_bodies=not server.hide_bodies)
    client = await server.client(purpose)
    every = replace(wanted, limit=JOBS_PER_PIECE)
    async with aclosing(pieces(client, every, highest, max(bodies, search.bytes_needed))) as walked:
        async for piece in walked:
            yield [cut(job, bodies) for job in piece.jobs if search.fits(job)]


async def pieces(
    client: "AsyncClient[bytes]", wanted: JobFilter, highest: int | None, bodies: int
) -> AsyncGenerator[Piece, None]:
    """The jobs of a tube in a state, by their ids, a page of the server at a time."""
    lists = await knows_lists(client)
    # What is written of bodies counts for the time that a page takes: others wait for that long.
    most = BODIES_PER_PIECE if bodies > limits.BODY_SHOWN_BYTES else JOBS_PER_PIECE
    fields = await fields_of(client)
    after: int | None = wanted.after
    while after is not None:
        page = await client.list_jobs(
            wanted.tube,
            wanted.state,
            min(wanted.limit, most),
            after=after,
            bodies=(bodies or None) if lists else None,
            fields=fields,
            group=wanted.group or None,
        )
        jobs = page.jobs if lists or not bodies else await run_async(client, with_bodies(page.jobs, bodies))
        after = page.next if page.next is not None and (highest is None or page.next < highest) else None
        yield Piece([job for job in jobs if highest is None or job.id <= highest], after)


async def fields_of(client: "AsyncClient[bytes]") -> tuple[JobField, ...]:
    """What a list is asked for: why jobs failed, where the server says that."""
    return ("reason",) if "list-jobs.fields" in await client.features() else ()


async def knows_lists(client: "AsyncClient[bytes]") -> bool:
    """Whether the server lists jobs with their bodies."""
    return "list-jobs.bodies" in await client.features()


async def highest_id(server: Server, tube: str, state: str) -> int:
    """Returns an id above which no job of the tube in the state is now, and all are that are put later.

    A server that lists jobs is asked whether there are any behind an id, some 40 times at the most; another one for
    every job. 0: there are none.
    """
    client = await server.client(Purpose.ACTIONS)
    if not await knows_lists(client):
        every = JobFilter(tube, state, limit=JOBS_PER_PIECE)
        async with aclosing(pieces(client, every, None, 0)) as walked:
            return max([job.id async for piece in walked for job in piece.jobs], default=0)

    async def behind(after: int) -> list[JobInfo]:
        return (await client.list_jobs(tube, state, HIGHEST_STEP, after=after)).jobs

    # Ids below `low` are known to be there, and none is above `high`.
    low, step = 0, HIGHEST_STEP
    while jobs := await behind(low):
        low = jobs[-1].id
        if len(jobs) < HIGHEST_STEP:
            return low
        if not await behind(low + step):
            break
        low += step
        step *= 2
    high = low + step
    while low < high:
        middle = (low + high) // 2
        jobs = await behind(middle)
        if not jobs:
            high = middle
        elif len(jobs) < HIGHEST_STEP:
            return jobs[-1].id
        else:
            low = jobs[-1].id
    return low


# --- One job ----------------------------------------------------------------------------------------------------------

LIST_ATTEMPTS = 3  # how often a job is looked for in the state that it had a moment ago
DOWNLOAD_BYTES_MAX = 67_108_864  # bytes of a body that may be downloaded: it is in memory as a whole, more than once


@dataclass(frozen=True, slots=True)
class JobSeen:
    """What is known of a job."""

    info: JobInfo  # as a list has it, with so many bytes of the body as were asked for, and its `size`
    stats: StatsJob
    explanation: Explanation | None  # why it does not run; None: the server does not say


async def one_job(server: Server, id: int, bodies: int = 0) -> JobInfo:
    """Returns a job as a list has it, with so many bytes of its body.

    Raises NotFoundError, AwayError and what a client does.
    """
    return (await job_seen(server, id, bodies)).info


async def job_seen(server: Server, id: int, bodies: int = 0) -> JobSeen:
    """Returns what is known of a job. Raises what `one_job` does."""
    client = await server.client()
    stats = await client.stats_job(id)
    explanation = await client.explain(id) if "explain" in await client.features() else None
    if server.hide_bodies:
        bodies = 0
    if not await knows_lists(client):
        info = info_of(stats)
        if bodies:
            body = (await client.peek(id)).body
            info = replace(info, body=body[:bodies], size=len(body))
        return JobSeen(info, stats, explanation)
    return JobSeen(await listed_job(client, stats, bodies), stats, explanation)


async def listed_job(client: "AsyncClient[bytes]", stats: StatsJob, bodies: int) -> JobInfo:
    """Returns a job as the server lists it; one that changes its state again and again without key, death and body."""
    for _ in range(LIST_ATTEMPTS):
        page = await client.list_jobs(stats.tube, stats.state, 1, after=stats.id - 1, bodies=bodies or None)
        if page.jobs and page.jobs[0].id == stats.id:
            return page.jobs[0]
        stats = await client.stats_job(stats.id)
    return info_of(stats)


async def whole_body(server: Server, id: int) -> bytes:
    """Returns the whole body of a job, for a file. Raises NotFoundError, JobTooBigError, AwayError."""
    if server.hide_bodies:
        raise NotFoundError("bodies are hidden here")
    client = await server.client(Purpose.SEARCH)
    size = (await one_job(server, id)).size
    if size is not None and size > DOWNLOAD_BYTES_MAX:
        raise JobTooBigError(f"the body has {size} bytes; {DOWNLOAD_BYTES_MAX} may go through the console")
    return (await client.peek(id)).body
