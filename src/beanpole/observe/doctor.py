"""The doctor: the table of checks, how a server is visited for them, and what is found."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from beanpole.observe import map_checks, server_checks, tube_checks
from beanpole.observe.findings import Check, Finding, Severity, Visit
from beanpole.observe.sampling import Inspected, Sample, hides_numbers, next_jobs, take_sample

if TYPE_CHECKING:
    from beanpole.client import AsyncClient

SEEN_BY_ALL = (server_checks.restarted, server_checks.draining, server_checks.bodies, server_checks.version)
"""The checks of a server that need no number that is hidden from a user without `stats`."""


def hidden_numbers(visit: Visit) -> Iterator[Finding]:
    if hides_numbers(visit.server):
        left_out = [name_of(each) for each in CHECKS if each not in checks_for(visit)]
        yield Finding(
            Severity.NOTE,
            "this user may not see the numbers of the whole server: they come as 0, and are not checked",
            "Ask as a user who has stats = true.",
            (f"not checked: {', '.join(left_out)}",),
        )


def hidden_jobs(visit: Visit) -> Iterator[Finding]:
    if visit.refused:
        tubes = tuple(sorted(visit.refused))
        yield Finding(
            Severity.NOTE,
            "this user may not look into jobs: their age, time-outs and size are not checked",
            "Ask as a user who has the right look on these tubes.",
            tuple(f"{tube}: needs look" for tube in tubes),
            tubes,
        )


CHECKS: tuple[Check, ...] = (
    map_checks.shards_away,
    map_checks.misfits,
    map_checks.splits,
    server_checks.restarted,
    server_checks.log_stopped,
    server_checks.refused_puts,
    server_checks.draining,
    server_checks.schedules_due,
    server_checks.missed_times,
    server_checks.connections,
    server_checks.full_core,
    server_checks.tokens,
    server_checks.shard_ids,
    server_checks.access_ends,
    server_checks.open_to_all,
    server_checks.lost_users,
    server_checks.timeouts,
    server_checks.empty_reserves,
    tube_checks.no_workers,
    tube_checks.dead_jobs,
    tube_checks.idle_workers,
    tube_checks.far_behind,
    tube_checks.buried,
    tube_checks.failing_jobs,
    tube_checks.near_ttr,
    tube_checks.pauses,
    tube_checks.breakers,
    tube_checks.growing,
    tube_checks.waiting_in_vain,
    map_checks.pins,
    server_checks.paused_schedules,
    server_checks.clock_sets,
    server_checks.bodies,
    server_checks.durability,
    server_checks.version,
    server_checks.many_tubes,
    hidden_numbers,
    hidden_jobs,
)
"""The checks, in the order in which findings of the same severity are reported."""

TUBES_INSPECTED = 100  # tubes, those with the most jobs, of which a job is inspected; each brings its body with it
TUBES_TIMED = 1_000  # tubes, the first by name, of which it is looked at how long their jobs run


def name_of(check: Check) -> str:
    return check.__name__.replace("_", "-")


def checks_for(visit: Visit) -> list[Check]:
    """The checks of which the user sees the numbers."""
    hidden = hides_numbers(visit.server)
    return [
        check for check in CHECKS if not hidden or check.__module__ != server_checks.__name__ or check in SEEN_BY_ALL
    ]


def diagnose(visit: Visit) -> list[tuple[str, Finding]]:
    """What is found, with the names of the checks, the worst first.

    Of the shards of a map each is checked as a server; all else is checked of what they have together.
    """
    of_servers = [check for check in CHECKS if check.__module__ == server_checks.__name__]
    found = [
        (name_of(check), finding)
        for check in checks_for(visit)
        if not (visit.shards and check in of_servers)
        for finding in check(visit)
    ]
    alike: dict[tuple[str, Severity, str], Finding] = {}
    for name, shard in visit.shards.items():
        for check in checks_for(shard):
            for each in check(shard) if check in of_servers else ():
                key = name_of(check), each.severity, each.summary
                said = tuple(f"{name}: {line}" for line in each.evidence)
                alike[key] = replace(each, evidence=(*alike[key].evidence, *said) if key in alike else said)
    found += [(check, each) for (check, _, _), each in alike.items()]
    return sorted(found, key=lambda each: -each[1].severity)


def is_healthy(found: list[tuple[str, Finding]]) -> bool:
    """Whether there is nothing but notes."""
    return all(finding.severity is Severity.NOTE for _, finding in found)


async def visit(
    client: "AsyncClient[bytes]",
    now_ns: Callable[[], int],
    wait: Callable[[], Awaitable[None]],
    files_max: Callable[[Sample], int | None] = lambda _: None,
) -> Visit:
    """Samples a server twice, and inspects some jobs. Raises ConnectionLostError and UnexpectedReplyError."""
    before = await take_sample(client, now_ns, await client.stats())
    await wait()
    after = await take_sample(client, now_ns, await client.stats(), _last_timed)
    refused: set[str] = set()
    ready = await _inspect(client, after, "ready", refused)
    buried = await _inspect(client, after, "buried", refused)
    held = await _ttrs_of_held(client, after)
    peers = await _peers(client, after)
    return Visit(before, after, ready, buried, held, files_max(after), await _blocked(client), refused, peers=peers)


def _last_timed(names: Iterable[str]) -> str:
    """Up to which tube it is looked at how long jobs ran."""
    return max(islice(names, TUBES_TIMED), default="")


async def _ttrs_of_held(client: "AsyncClient[bytes]", sample: Sample) -> dict[str, float]:
    """The TTR of a job that is held of the tubes that have the most."""
    if "list-jobs" not in await client.features():
        return {}
    tubes = _most(sample, "reserved")[:TUBES_INSPECTED]
    async with client.pipeline(raise_errors=False) as asked:
        pages = [(tube, asked.list_jobs(tube, "reserved", 1)) for tube in tubes]
    return {tube: page.result().jobs[0].ttr for tube, page in pages if page.error is None and page.result().jobs}


async def _blocked(client: "AsyncClient[bytes]") -> dict[str, str]:
    """What keeps schedules from putting what is due: these fire first."""
    if "list-schedules" not in await client.features():
        return {}
    return {each.name: each.blocked for each in await client.schedules(limit=100, order="next") if each.blocked}


async def _peers(client: "AsyncClient[bytes]", sample: Sample) -> list[str]:
    """Clients of other machines, of a server that asks nobody who it is; of the first page of all."""
    if "list-sessions" not in await client.features() or {"users", "handshakes-ok"} & sample.stats.raw.keys():
        return []
    return [each.peer for each in await client.list_sessions() if server_checks.is_remote(each.peer)]


async def _inspect(client: "AsyncClient[bytes]", sample: Sample, state: str, refused: set[str]) -> dict[str, Inspected]:
    """Inspects a job of the tubes that have the most in a state."""
    return await next_jobs(client, _most(sample, state)[:TUBES_INSPECTED], state, refused)


def _most(sample: Sample, state: str) -> list[str]:
    """The tubes that have jobs in a state, those with the most first."""
    numbers = {name: getattr(tube, f"current_jobs_{state}") for name, tube in sample.tubes.items()}
    return [name for name, number in sorted(numbers.items(), key=lambda each: -each[1]) if number]
