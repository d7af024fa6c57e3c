"""Samples: the statistics of a server and its tubes at one time, and the rates of change between two.

A sample costs a few round trips: the server; the tubes and how long their jobs waited, page by page. Of more than
`tubes_max` tubes, and where the server has no pages (``stats-tubes``), each sample asks tube by tube, in one pipeline:
about the wanted ones and the next `tubes_max` of the others, so that all are seen in a few samples and no sample costs
more. Where the server does not say how old the oldest ready job is, the next one is inspected of the wanted tubes.

Rates are differences of counters, each over its own time. A server with another `id` is another server: everything
starts again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from beanpole.client.errors import NotFoundError
from beanpole.observe.waits import Waits

if TYPE_CHECKING:
    from beanpole.client import AsyncClient, Histogram, Job, Result, Stats, StatsJob, StatsTube

ALL = 2**63
"""As `tubes_max`: each sample asks about every tube."""

TUBES_PER_SAMPLE = 1000
"""Tubes that one sample asks about beside the wanted ones: about 30 ms of work for us, 2 ms for the server."""

TUBES_PER_PAGE = 1000
"""Tubes in a page of a server that is not asked for another number of them."""

OLDEST = "oldest-ready"
"""The key of the tubes of a server that knows the age of the oldest ready job."""

READY = "job-ready"
"""The histogram of the times for which jobs were ready before they were reserved."""

PUTS = ("cmd-put", "cmd-put-job")
RESERVES = ("cmd-reserve", "cmd-reserve-with-timeout", "cmd-reserve-many")
"""The counters of the commands that put, and that reserve: our own worker reserves with ``reserve-many``."""

WHOLE = ""
"""In place of the name of a tube: all of them."""

DEFAULT = "default"
"""The tube that a connection goes back to: one that it used would stay in being."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a tube."""

    stats: "StatsTube"
    at_ns: int
    """When it said so, on the clock of the sampler."""
    put_rate: float | None = None
    """Jobs put a second since it was last asked; None: it was asked once."""
    delete_rate: float | None = None
    """Jobs deleted a second, likewise."""
    next_job: "StatsJob | None" = None
    """The ready job that is reserved next, if it was inspected: not always the oldest."""
    waits: Waits | None = None
    """How long the jobs had been ready that were reserved since the last sample; None: there are none, or not known."""

    @property
    def oldest_s(self) -> int | None:
        """Seconds since the oldest ready job became ready; None: there is none, or the server does not say."""
        return self.stats.oldest_ready if OLDEST in self.stats and self.stats.current_jobs_ready else None


@dataclass(frozen=True, slots=True)
class Rates:
    """Commands a second of the whole server, and jobs whose time to run ended."""

    put: float
    reserve: float
    delete: float
    timeout: float


@dataclass(frozen=True)
class Sample:
    """What is known of a server and its tubes."""

    at_ns: int
    server: "Stats"
    rates: Rates | None
    """None: there was no sample before."""
    rows: dict[str, Row]
    """By name. Those that this sample did not ask about are as they were."""
    tube_count: int
    """Tubes that there are to be asked about; `rows` may have fewer."""
    waits: Waits | None = None
    """As in Row, over all tubes."""
    timed: bool = False
    """Whether the server says how long jobs waited."""


def per_second(before: int, after: int, from_ns: int, until_ns: int) -> float:
    """How fast a counter grew; a counter that fell was reset."""
    grown = after - before if after >= before else after
    return grown * 1e9 / max(until_ns - from_ns, 1)


def rates_between(before: "Stats", after: "Stats", from_ns: int, until_ns: int) -> Rates:
    """The rates of a server."""

    def of(*keys: str) -> float:
        return per_second(total(before, keys), total(after, keys), from_ns, until_ns)

    return Rates(of(*PUTS), of(*RESERVES), of("cmd-delete"), of("job-timeouts"))


def total(stats: "Stats", keys: Sequence[str]) -> int:
    """The sum of some counters, as far as the server has them."""
    return sum(int(stats.get(key, 0)) for key in keys)


def pages_for(tube_count: int, tubes_per_page: int = TUBES_PER_PAGE) -> int:
    """How many pages are asked for where there were so many tubes: some more, for tubes come and go between them.

    Not as many as there are: a client that goes on making tubes, each behind the last page, would keep us asking.
    """
    return 2 + (tube_count + tube_count // 4) // tubes_per_page


def matches(name: str, pattern: str) -> bool:
    """Whether a filter lets a tube through: its name has the text somewhere, whatever the case."""
    return pattern.lower() in name.lower()


class Sampler:
    """Takes samples of one server, over one client."""

    def __init__(
        self, client: "AsyncClient[bytes]", now_ns: Callable[[], int], tubes_max: int = TUBES_PER_SAMPLE
    ) -> None:
        self._client = client
        self._now_ns = now_ns
        self._tubes_max = tubes_max
        self._last: Sample | None = None
        self._rows: dict[str, Row] = {}
        self._names: dict[str, None] = {}
        """The tubes that there were when the sweep began, in the server's order, as far as the filter lets through."""
        self._sweep: list[str] = []
        """Those of them that are not asked about yet."""
        self._pattern = ""
        self._histograms: dict[str, Histogram] = {}
        """Those of the last sample, by tube; WHOLE: over all tubes."""

    async def take(self, wanted: Iterable[str] = (), pattern: str = "") -> Sample:
        """Asks the server. `wanted`: tubes to ask about in any case, and of which the next job is inspected.

        Raises ConnectionLostError and UnexpectedReplyError; the next call connects again.
        """
        if pattern != self._pattern:
            self._pattern, self._sweep = pattern, []
        wanted = list(wanted)
        features = await self._client.features()
        async with self._client.pipeline() as first:
            stats = first.stats()
            listed = None if self._sweep or "stats-tubes" in features else first.tubes()
        at_ns, server = self._now_ns(), stats.result()
        last = self._last
        if last is not None and last.server.id != server.id:
            self._rows, self._histograms, last = {}, {}, None
        few = server.current_tubes <= self._tubes_max
        timed = "stats-histograms" in features
        pages = pages_for(server.current_tubes)
        waits = await self._ask_histograms(pages if few else 0) if timed else {}
        if few and "stats-tubes" in features:
            await self._ask_pages(pages, waits)
        else:
            if not self._sweep:
                self._begin_sweep(listed.result() if listed else await self._client.tubes())
            await self._ask_tubes([name for name in wanted if name in self._names])
        await self._inspect_next([name for name in wanted if name in self._names])
        rates = None if last is None else rates_between(last.server, server, last.at_ns, at_ns)
        self._last = Sample(at_ns, server, rates, dict(self._rows), len(self._names), waits.get(WHOLE), timed)
        return self._last

    def _begin_sweep(self, listed: list[str]) -> None:
        self._names = dict.fromkeys(name for name in listed if matches(name, self._pattern))
        self._sweep = list(self._names)
        self._rows = {name: row for name, row in self._rows.items() if name in self._names}

    async def _ask_histograms(self, pages: int) -> dict[str, Waits]:
        """Asks how long jobs were ready that were reserved since the last sample: over all tubes, and by tube.

        `pages`: how many at most there may be by tube.
        """
        page = await self._client.stats_histograms(limit=None if pages else 1)
        before = self._histograms
        found = {WHOLE: page.server[READY]} if pages else {**before, WHOLE: page.server[READY]}
        for _ in range(pages):
            if not page.tubes:
                break
            found |= {name: each[READY] for name, each in page.tubes.items() if READY in each}
            page = await self._client.stats_histograms(after=max(page.tubes))
        self._histograms = found
        if WHOLE not in before:
            return {}
        bounds = page.bounds["job"]
        between = {name: Waits.between(before.get(name), each, bounds) for name, each in found.items()}
        return {name: waits for name, waits in between.items() if waits is not None}

    async def _ask_pages(self, pages: int, waits: dict[str, Waits]) -> None:
        """Asks about all tubes at once, in so many pages at most."""
        found: list[StatsTube] = []
        for _ in range(pages):
            page = await self._client.stats_tubes(after=found[-1].name if found else None)
            if not page:
                break
            found += page
        at_ns = self._now_ns()
        seen = [stats for stats in found if matches(stats.name, self._pattern)]
        self._names, self._sweep = dict.fromkeys(stats.name for stats in seen), []
        rows = {stats.name: self._row(stats, self._rows.get(stats.name), at_ns) for stats in seen}
        self._rows = {name: replace(row, waits=waits.get(name)) for name, row in rows.items()}

    async def _ask_tubes(self, seen: Sequence[str]) -> None:
        """Asks about some tubes, and the next ones of the sweep."""
        due, self._sweep = self._sweep[: self._tubes_max], self._sweep[self._tubes_max :]
        names = list(dict.fromkeys([*seen, *due]))
        async with self._client.pipeline(raise_errors=False) as second:
            asked = [(name, second.stats_tube(name)) for name in names]
        at_ns = self._now_ns()
        for name, result in asked:
            if isinstance(result.error, NotFoundError):
                self._rows.pop(name, None)
                self._names.pop(name, None)
                continue
            self._rows[name] = self._row(result.result(), self._rows.get(name), at_ns)

    @staticmethod
    def _row(stats: "StatsTube", before: Row | None, at_ns: int) -> Row:
        if before is None:
            return Row(stats, at_ns)
        return Row(
            stats,
            at_ns,
            per_second(before.stats.total_jobs, stats.total_jobs, before.at_ns, at_ns),
            per_second(before.stats.cmd_delete, stats.cmd_delete, before.at_ns, at_ns),
            before.next_job if stats.current_jobs_ready else None,
        )

    async def _inspect_next(self, seen: Sequence[str]) -> None:
        """Finds out about the next ready job of some tubes, if the server does not say how old the oldest is."""
        rows = [self._rows[name] for name in seen if name in self._rows]
        names = [row.stats.name for row in rows if row.stats.current_jobs_ready and OLDEST not in row.stats]
        jobs = await next_jobs(self._client, names)
        for name in names:
            self._rows[name] = replace(self._rows[name], next_job=jobs[name][1] if name in jobs else None)


Inspected = tuple[int, "StatsJob"]
"""The bytes of a job's body, and what `stats-job` says of it."""


async def next_jobs(client: "AsyncClient[bytes]", tubes: Sequence[str], state: str = "ready") -> dict[str, Inspected]:
    """Inspects the job of each tube that `peek-ready`, `peek-delayed` or `peek-buried` shows.

    A tube without one is left out, and so is a job that was gone a moment later.
    """
    if not tubes:
        return {}
    found: list[tuple[str, Result[Job[bytes]]]] = []
    async with client.pipeline(raise_errors=False) as peeks:
        for tube in tubes:
            peeks.use(tube)
            found.append(
                (tube, {"ready": peeks.peek_ready, "delayed": peeks.peek_delayed}.get(state, peeks.peek_buried)())
            )
        peeks.use(DEFAULT)
    jobs = [(tube, result.result()) for tube, result in found if not isinstance(result.error, NotFoundError)]
    async with client.pipeline(raise_errors=False) as second:
        asked = [(tube, len(job.body), second.stats_job(job)) for tube, job in jobs]
    return {tube: (size, result.result()) for tube, size, result in asked if result.error is None}
