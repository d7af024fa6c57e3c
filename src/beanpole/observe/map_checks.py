"""What can be wrong with the shards of a map, seen as one. Each check is a function; `doctor` has the table of them."""

from collections.abc import Iterator

from beanpole.observe.findings import Finding, Severity, Visit
from beanpole.observe.tube_checks import Troubled, finding
from beanpole.observe.units import count, plural, rate

CORE_BUSY = 0.7  # share of a core from which a shard's largest tube is better spread: it has one thread
LARGEST_SHARE = 0.5  # of a shard's work, from which one tube is the reason for it
PIN_JOBS_PER_S = 1_000  # put into a spread tube, up to which one shard has it beside others: some hundredths of a core


def shards_away(visit: Visit) -> Iterator[Finding]:
    away = visit.server.get("shards-away")
    if away is not None:
        yield Finding(
            Severity.ERROR,
            "shards are away: commands for them wait, and nothing of what they have is counted here",
            "See whether their servers run, and say the numbers that the map gives them: beanpole shards status FILE.",
            (f"{away}, of {plural(int(visit.server['shards']), 'shard')}",),
        )


def misfits(visit: Visit) -> Iterator[Finding]:
    if visit.misfits:
        yield Finding(
            Severity.WARNING,
            "what the shards have does not fit the map",
            "docs/shards.md says what becomes of it; beanpole shards status FILE shows it with each shard.",
            tuple(visit.misfits),
        )


def pins(visit: Visit) -> Iterator[Finding]:
    """Tubes that are spread, though one shard could have them: there priorities and limits are exact."""
    found: Troubled = []
    for before, tube in visit.tubes():
        if visit.places is None or before is None or len(visit.places.place(tube.name.encode()).homes) == 1:
            continue
        per_s = (tube.total_jobs - before.total_jobs) / max(visit.seconds, 1e-9)
        compares = 0 < tube.current_jobs_urgent < tube.current_jobs_ready
        if compares or 0 < per_s < PIN_JOBS_PER_S:
            line = f"{rate(per_s)} jobs are put a second"
            line += f", {count(tube.current_jobs_urgent)} urgent ones are among others" if compares else ""
            found.append((int(compares), tube.name, line))
    yield from finding(
        Severity.NOTE,
        "tubes are spread that one shard could have: its order, priorities and limits would be exact",
        'Unless they are to take jobs while a shard is away, give them one home in a further map: TUBE = "SHARD".',
        found,
    )


def splits(visit: Visit) -> Iterator[Finding]:
    """Tubes that fill the core of the one shard that they have."""
    found: Troubled = []
    for name, shard in visit.shards.items():
        busy = shard.cores_used
        work = {
            tube.name: tube.total_jobs - before.total_jobs + tube.cmd_delete - before.cmd_delete
            for before, tube in shard.tubes()
            if before is not None
        }
        largest = max(work, key=lambda tube: work[tube], default="")
        if busy < CORE_BUSY or not work[largest] or work[largest] < LARGEST_SHARE * sum(work.values()):
            continue
        if visit.places is not None and len(visit.places.place(largest.encode()).homes) == 1:
            share = work[largest] / sum(work.values())
            found.append(
                (int(100 * busy), largest, f"{share:.0%} of the work of {name}, which uses {busy:.0%} of a core")
            )
    yield from finding(
        Severity.WARNING,
        "one tube fills the core of its shard",
        'Spread it in a further map, TUBE = ["a", "b"]: then order and limits hold within each shard alone.',
        found,
    )
