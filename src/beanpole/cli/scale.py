"""``beanpole scale``: how many workers a tube needs now. The arithmetic is in `beanpole.observe.scaling`."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from beanpole.cli.common import TUBE, Output, Server, verb
from beanpole.cli.errors import Failure
from beanpole.cli.inspect import async_client, interval, now_ns
from beanpole.cli.quantities import Duration
from beanpole.errors import ExitCode, NotFoundError
from beanpole.observe.units import count, plural

if TYPE_CHECKING:
    from beanpole.client import Rules
    from beanpole.observe.sampling import Sample
    from beanpole.observe.scaling import Need

LIMITS = {
    "pause": "it is paused, so that only the jobs that run now count",
    "breaker": "its breaker lets one job be tried at a time",
    "concurrency": "its rule concurrency lets no more run at a time",
    "rate": "its rule rate gives no more out",
}


@verb("scale")
@click.argument("tube", type=TUBE)
@click.option(
    "--drain",
    "drain_s",
    type=Duration(1),
    default=60,
    show_default=True,
    help="In which time the jobs that are ready shall be gone.",
)
@click.option(
    "--slots", type=click.IntRange(1), default=1, show_default=True, help="How many jobs a worker runs at a time."
)
@interval(5, "For how long it is looked at how many jobs come.")
def scale(server: Server, out: Output, *, tube: str, drain_s: float, slots: int, interval_s: float) -> None:
    """Say how many workers TUBE needs now: for the jobs that come, and for those that have piled up.

    That is (jobs that come a second + jobs that are ready / --drain) x seconds that a job runs, rounded up, within the
    rules rate and concurrency, and what its breaker or a pause lets through; and never fewer than run its jobs now. How
    long a job runs is looked at as well; if none ended just then, it is the average since the server started.
    """
    need = asyncio.run(look(server, tube, drain_s, slots, interval_s))
    record = {"tube": tube, **asdict(need)}
    ran = "no job has run yet" if need.run_s is None else f"a job runs for {need.run_s:.3g} s"
    text = f"{plural(need.workers, 'worker')}: {need.arrival:.3g} jobs come a second, {count(need.backlog)} are ready"
    out.record(record, f"{text}, {ran}" + (f"; {LIMITS[need.limit]}" if need.limit else ""))


async def look(server: Server, tube: str, drain_s: float, slots: int, interval_s: float) -> "Need":
    """Sample a tube twice, and return what it needs."""
    from beanpole.observe.growth import Change
    from beanpole.observe.sampling import take_sample
    from beanpole.observe.scaling import need_of, run_time

    async with async_client(server) as client:

        async def sample() -> "Sample":
            return await take_sample(client, now_ns, await client.stats(), lambda _: tube)

        first = await sample()
        await asyncio.sleep(interval_s)
        second = await sample()
        if tube not in second.tubes:
            raise Failure(f"there is no tube {tube}", ExitCode.NOT_FOUND)
        rules: Rules | None = None
        if "get-rules" in await client.features():
            try:
                rules = await client.get_rules(tube)
            except NotFoundError:
                rules = None
    before = Change(None, first)
    before.add(first.tubes.values())
    change = Change(before, second)
    change.add(second.tubes.values())
    arrival = change[tube].put or 0.0
    ran = run_time(first, second, tube)
    return need_of(second.tubes[tube], arrival, ran, rules, drain_s=drain_s, slots=slots)
