"""Samples as `top` shows them: a row for each tube, with what changed since it was last asked.

Of more than `tubes_max` tubes each sample asks about the wanted ones and the next `tubes_max` of the others, so that
all are seen in a few samples and no sample costs more. Where the server does not say how old the oldest ready job is,
the next one is inspected of the wanted tubes.

Rates are differences of counters, each over its own time. A server with another `id` is another server: everything
starts again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from beanpole.client.extensions import RESTING
from beanpole.errors import NotFoundError
from beanpole.observe.growth import Quantiles, grown
from beanpole.observe.sampling import HELD, OLDEST, READY, Inspected, ask_each, hides_numbers, next_jobs, take_sample

if TYPE_CHECKING:
    from beanpole.client import AsyncClient, GroupStats, Histograms, Stats, StatsJob, StatsTube

ALL = 2**63  # as `tubes_max`: each sample asks about every tube

TUBES_PER_SAMPLE = 1000
"""Tubes that one sample asks about beside the wanted ones: about 30 ms of work for us, 2 ms for the server."""

PUTS = ("cmd-put", "cmd-put-job")
RESERVES = ("cmd-reserve", "cmd-reserve-with-timeout", "cmd-reserve-many")
"""The counters of the commands that put, and that reserve: our own worker reserves with ``reserve-many``."""

GROUPS_SHOWN = 20
"""Groups of a tube that is shown alone."""

WHOLE = ""  # in place of the name of a tube: all of them


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
    waits: Quantiles | None = None
    """How long the jobs had been ready that were reserved since the last sample; None: there are none, or not known."""
    runs: Quantiles | None = None
    """How long those were held that came out of the hands of workers since then, likewise."""

    @property
    def oldest_s(self) -> int | None:
        """Seconds since the oldest ready job became ready; None: there is none, or the server does not say."""
        return self.stats.oldest_ready if OLDEST in self.stats and self.stats.current_jobs_ready else None


@dataclass(frozen=True, slots=True)
class CommandRates:
    """Commands a second of the whole server, and jobs whose time to run ended."""

    put: float
    reserve: float
    delete: float
    timeout: float


@dataclass(frozen=True)
class TopSample:
    """What is known of a server and its tubes."""

    at_ns: int
    server: "Stats"
    rates: CommandRates | None
    """None: there was no sample before, or the user may not see them."""
    rows: dict[str, Row]
    """By name. Those that this sample did not ask about are as they were."""
    tube_count: int
    """Tubes that there are to be asked about; `rows` may have fewer."""
    waits: Quantiles | None = None
    """As in Row, over all tubes."""
    runs: Quantiles | None = None
    timed: bool = False
    """Whether the server says how long jobs waited, and were held."""
    heads: Mapping[str, Inspected] = field(default_factory=dict)
    """The first job in each state of the tube that is shown alone."""
    groups: Sequence["GroupStats"] = ()
    """The groups of that tube of which most jobs are ready."""


def rates_between(before: "Stats", after: "Stats", seconds: float) -> CommandRates:
    def of(*keys: str) -> float:
        then, now = (sum(int(stats.get(key, 0)) for key in keys) for stats in (before, after))
        return grown(then, now) / seconds

    return CommandRates(of(*PUTS), of(*RESERVES), of("cmd-delete"), of("job-timeouts"))


def seconds_between(from_ns: int, until_ns: int) -> float:
    """The time between two moments; never 0."""
    return max(until_ns - from_ns, 1) / 1e9


def times_between(name: str, before: "Histograms | None", after: "Histograms | None") -> dict[str, Quantiles]:
    """The times of one kind that were counted in between: over all tubes (WHOLE), and by tube."""
    if before is None or after is None:
        return {}
    pairs = {tube: (before.tubes.get(tube, {}).get(name), each.get(name)) for tube, each in after.tubes.items()}
    pairs[WHOLE] = before.server.get(name), after.server.get(name)
    bounds = after.bounds["job"]
    found = {tube: Quantiles.between(then, now, bounds) for tube, (then, now) in pairs.items() if now is not None}
    return {tube: times for tube, times in found.items() if times is not None}


def matches(name: str, pattern: str) -> bool:
    """Whether a filter lets a tube through: its name has the text somewhere, whatever the case."""
    return pattern.lower() in name.lower()


class TopSampler:
    """Takes samples of one server, over one client."""

    def __init__(
        self, client: "AsyncClient[bytes]", now_ns: Callable[[], int], tubes_max: int = TUBES_PER_SAMPLE
    ) -> None:
        self._client = client
        self._now_ns = now_ns
        self._tubes_max = tubes_max
        self._last: TopSample | None = None
        self._rows: dict[str, Row] = {}
        self._names: dict[str, None] = {}
        """The tubes that there were when the sweep began, in the server's order, as far as the filter lets through."""
        self._sweep: list[str] = []
        """Those of them that are not asked about yet."""
        self._pattern = ""
        self._histograms: Histograms | None = None
        """Those of the last sample."""

    async def take(self, wanted: Iterable[str] = (), pattern: str = "", alone: str = "") -> TopSample:
        """Asks the server. `wanted`: tubes to ask about in any case, and of which the next job is inspected.

        `alone` is a tube of which the first job in each state is inspected, and the groups are asked for.

        Raises ConnectionLostError and UnexpectedReplyError; the next call connects again.
        """
        if pattern != self._pattern:
            self._pattern, self._sweep = pattern, []
        wanted = list(wanted)
        stats, before, last = await self._client.stats(), self._histograms, self._last
        if last is not None and last.server.id != stats.id:
            self._rows, before, last = {}, None, None
        if stats.current_tubes <= self._tubes_max:
            sample = await take_sample(self._client, self._now_ns, stats, max)
            at_ns, self._histograms = sample.at_ns, sample.histograms
            self._show({name: each for name, each in sample.tubes.items() if matches(name, pattern)}, at_ns)
        else:
            timed = "stats-histograms" in await self._client.features()
            self._histograms = await self._client.stats_histograms(limit=1) if timed else None
            at_ns = await self._go_on(wanted)
        waits, runs = (times_between(kind, before, self._histograms) for kind in (READY, HELD))
        self._rows = {
            name: replace(row, waits=waits.get(name), runs=runs.get(name)) for name, row in self._rows.items()
        }
        await self._inspect_next([name for name in wanted if name in self._rows])
        first = (
            {state: await next_jobs(self._client, [alone], state) for state in RESTING} if alone in self._rows else {}
        )
        groups = await self._groups_of(alone) if alone in self._rows else []
        heads = {state: jobs[alone] for state, jobs in first.items() if alone in jobs}
        rates = (
            None
            if last is None or hides_numbers(stats)
            else rates_between(last.server, stats, seconds_between(last.at_ns, at_ns))
        )
        timed = self._histograms is not None
        whole = waits.get(WHOLE), runs.get(WHOLE)
        self._last = TopSample(at_ns, stats, rates, dict(self._rows), len(self._names), *whole, timed, heads, groups)
        return self._last

    async def _groups_of(self, tube: str) -> "list[GroupStats]":
        if "stats-groups" not in await self._client.features():
            return []
        try:
            return await self._client.stats_groups(tube, limit=GROUPS_SHOWN)
        except NotFoundError:
            return []

    def _show(self, tubes: "Mapping[str, StatsTube]", at_ns: int) -> None:
        self._names, self._sweep = dict.fromkeys(tubes), []
        self._rows = {name: self._row(each, at_ns) for name, each in tubes.items()}

    async def _go_on(self, wanted: Sequence[str]) -> int:
        """Asks about some tubes, and the next ones of the sweep. Returns when that was."""
        if not self._sweep:
            self._names = dict.fromkeys(name for name in await self._client.tubes() if matches(name, self._pattern))
            self._sweep = list(self._names)
            self._rows = {name: row for name, row in self._rows.items() if name in self._names}
        due, self._sweep = self._sweep[: self._tubes_max], self._sweep[self._tubes_max :]
        names = list(dict.fromkeys([*(name for name in wanted if name in self._names), *due]))
        tubes = await ask_each(self._client, names)
        at_ns = self._now_ns()
        for name in names:
            if name in tubes:
                self._rows[name] = self._row(tubes[name], at_ns)
            else:
                self._rows.pop(name, None)
                self._names.pop(name, None)
        return at_ns

    def _row(self, stats: "StatsTube", at_ns: int) -> Row:
        before = self._rows.get(stats.name)
        if before is None:
            return Row(stats, at_ns)
        seconds = seconds_between(before.at_ns, at_ns)
        return Row(
            stats,
            at_ns,
            grown(before.stats.total_jobs, stats.total_jobs) / seconds,
            grown(before.stats.cmd_delete, stats.cmd_delete) / seconds,
            before.next_job if stats.current_jobs_ready else None,
        )

    async def _inspect_next(self, names: Sequence[str]) -> None:
        """Finds out about the next ready job of some tubes, if the server does not say how old the oldest is."""
        rows = {name: self._rows[name] for name in names}
        names = [name for name, row in rows.items() if row.stats.current_jobs_ready and OLDEST not in row.stats]
        jobs = await next_jobs(self._client, names)
        for name in names:
            self._rows[name] = replace(rows[name], next_job=jobs[name][1] if name in jobs else None)
