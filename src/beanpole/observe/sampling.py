"""A sample: what a server says of itself, its tubes and the times of its jobs at one moment.

`top`, the doctor, the console's pages and charts, and the metrics are made of samples and of nothing else. One costs a
few round trips: the tubes, and how long their jobs waited, come page by page; a server without pages (``stats-tubes``)
is asked tube by tube, in pipelines.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from beanpole.errors import ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from beanpole.client import AsyncClient, Histograms, Job, Result, Rights, Rules, Stats, StatsJob, StatsTube

TUBES_PER_PAGE = 500  # tubes that are asked for at once: reading them takes 12 ms, in which nothing else is done
TIMED_TUBES = 100  # tubes of the first page of histograms, each of which has three of 31 numbers
OLDEST = "oldest-ready"  # the key of the tubes of a server that knows the age of the oldest ready job
READY = "job-ready"  # the histogram of the times for which jobs were ready before they were reserved
HELD = "job-held"  # that of the times for which connections held jobs: how long they ran, whatever came of it
DEFAULT = "default"  # the tube that a connection goes back to: one that it used would stay in being


def role_of(stats: "Stats") -> str:
    """The role of a server in its cluster; empty: it is in none."""
    return str(stats.get("cluster-role", ""))


def has_jobs(stats: "Stats") -> bool:
    """Whether the server has the jobs: it is in no cluster, or leads it."""
    return role_of(stats) in {"", "leader"}


def hides_numbers(stats: "Stats") -> bool:
    """Whether the server keeps everybody's numbers from this user, who lacks `stats`: they come as 0.

    It says how many connections the user has, this one among them, and that there never were any.
    """
    return "total-connections" in stats and stats.current_connections > stats.total_connections == 0


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of a server."""

    at_ns: int
    """When it was complete, on the clock of who takes it."""

    stats: "Stats"

    tubes: "Mapping[str, StatsTube]"
    """All tubes in the order of their names; none of a node that follows, whose counts mean nothing."""

    histograms: "Histograms | None" = None
    """None: the server has none, or nobody wants them."""

    is_complete: bool = True
    """Whether there are no tubes behind the last of these."""

    dead_tubes: "Mapping[str, tuple[str, ...]]" = field(default_factory=dict)
    """The tubes into which rules send the dead, and the patterns of these rules; none where the server has no rules."""

    rights: "Rights | None" = None
    """The rights of the user that asks, and the usage of users and spaces; None: the server has no users."""

    @property
    def leads(self) -> bool:
        """Whether the server has the jobs: it is in no cluster, or leads it."""
        return has_jobs(self.stats)


def nothing() -> None:
    """Called where nobody wants to know."""


async def take_sample(
    client: "AsyncClient[bytes]",
    now_ns: Callable[[], int],
    stats: "Stats",
    timed: Callable[[Iterable[str]], str] | None = None,
    heard: Callable[[], None] = nothing,
) -> Sample:
    """Asks a server about all that is behind its `stats`, and calls `heard` after each answer.

    `timed` says of the names of all tubes up to which one histograms are wanted; None: of none. Raises
    ConnectionLostError and UnexpectedReplyError.
    """
    features = await client.features()
    if "stats-tubes" in features:
        tubes, is_complete = await ask_pages(client, stats.current_tubes, heard)
    else:
        tubes, is_complete = await ask_each(client, sorted(await client.tubes()), heard), True
    histograms = None
    if timed is not None and "stats-histograms" in features:
        histograms = await ask_histograms(client, len(tubes), timed(tubes) if tubes else "", heard)
    dead_tubes: dict[str, tuple[str, ...]] = {}
    if "list-rules" in features:
        dead_tubes = dead_tubes_of(await client.list_rules())
        heard()
    rights = await client.rights() if "list-rights" in features else None
    return Sample(now_ns(), stats, tubes, histograms, is_complete, dead_tubes, rights)


def dead_tubes_of(rules: "Iterable[Rules]") -> dict[str, tuple[str, ...]]:
    """The tubes into which rules send the dead, and the patterns of these rules; a tube's own dead are buried there."""
    found: dict[str, tuple[str, ...]] = {}
    for each in rules:
        if each.get("dead", each.pattern) != each.pattern:
            found[each["dead"]] = (*found.get(each["dead"], ()), each.pattern)
    return found


def pages_for(tube_count: int) -> int:
    """How many pages are asked for where there were so many tubes: some more, for tubes come and go between them.

    Not as many as there are: a client that goes on making tubes, each behind the last page, would keep us asking.
    """
    return 2 + (tube_count + tube_count // 4) // TUBES_PER_PAGE


async def ask_pages(
    client: "AsyncClient[bytes]", tube_count: int, heard: Callable[[], None] = nothing
) -> "tuple[dict[str, StatsTube], bool]":
    """Asks for the tubes, a page after the other. Returns also whether the last was reached."""
    tubes: dict[str, StatsTube] = {}
    last = None
    for _ in range(pages_for(tube_count)):
        page = await client.stats_tubes(last, TUBES_PER_PAGE)
        heard()
        if not page:
            return tubes, True
        tubes |= {each.name: each for each in page}
        last = page[-1].name
    return tubes, False


async def ask_each(
    client: "AsyncClient[bytes]", names: Sequence[str], heard: Callable[[], None] = nothing
) -> "dict[str, StatsTube]":
    """Asks for one tube after the other, many in a pipeline. One that has gone since is left out."""
    tubes: dict[str, StatsTube] = {}
    for start in range(0, len(names), TUBES_PER_PAGE):
        async with client.pipeline(raise_errors=False) as asked:
            results = {name: asked.stats_tube(name) for name in names[start : start + TUBES_PER_PAGE]}
        heard()
        tubes |= {name: each.result() for name, each in results.items() if not isinstance(each.error, NotFoundError)}
    return tubes


async def ask_histograms(
    client: "AsyncClient[bytes]", tube_count: int, last: str, heard: Callable[[], None] = nothing
) -> "Histograms":
    """Asks for histograms, up to those of the tube `last`."""
    page = await client.stats_histograms(None, TIMED_TUBES)
    tubes = dict(page.tubes)
    for _ in range(pages_for(tube_count)):
        if not page.tubes or max(page.tubes) >= last:
            break
        heard()
        page = await client.stats_histograms(max(page.tubes), TUBES_PER_PAGE)
        tubes |= page.tubes
    return replace(page, tubes=tubes)


Inspected = tuple[int, "StatsJob"]
"""The bytes of a job's body, and what `stats-job` says of it."""


async def next_jobs(
    client: "AsyncClient[bytes]", tubes: Sequence[str], state: str = "ready", refused: set[str] | None = None
) -> dict[str, Inspected]:
    """Inspects the job of each tube that `peek-ready`, `peek-delayed` or `peek-buried` shows.

    A tube without one is left out, and so is a job that was gone a moment later. A tube into which the user may not
    look is left out too, and added to `refused`.
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
    if refused is not None:
        refused |= {tube for tube, result in found if isinstance(result.error, ForbiddenError)}
    left_out = (NotFoundError, ForbiddenError)
    jobs = [(tube, result.result()) for tube, result in found if not isinstance(result.error, left_out)]
    async with client.pipeline(raise_errors=False) as second:
        asked = [(tube, len(job.body), second.stats_job(job)) for tube, job in jobs]
    return {tube: (size, result.result()) for tube, size, result in asked if result.error is None}
