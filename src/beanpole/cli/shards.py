"""``beanpole shards``: which of several servers has a tube, by a map (docs/shards.md), and whether they fit it."""

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beanpole.cli.common import EXIT_CODES, MAP, TARGET, Output, Server, file_verb, login_of, login_options
from beanpole.cli.errors import Failure
from beanpole.cli.inspect import async_client
from beanpole.cli.wrapping import SETTINGS
from beanpole.errors import BeanpoleError, ExitCode
from beanpole.observe.sampling import role_of
from beanpole.observe.shards import Review, ShardSample, take_shard_sample
from beanpole.shards.file import load
from beanpole.shards.map import Places, Shard, ShardMap, base_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from beanpole.client import AsyncClient
    from beanpole.client.login import Login

T = TypeVar("T")

FILE = click.Path(path_type=Path)
STATUS = ("shard", "number", "server", "version", "jobs", "tubes", "links", "map", "state")


@click.group(context_settings=SETTINGS, epilog=EXIT_CODES)
def shards() -> None:
    """Find the server that has a tube, where several share the tubes by a map."""


verb = functools.partial(file_verb, shards)


@verb("check")
@click.argument("file", type=FILE, envvar="BEANPOLE_MAP")
def check(out: Output, file: Path) -> None:
    """Check the map FILE, and those before it that it names.

    Each shard is shown with its share of the tubes that no line names. What is wrong is said with its file and line.
    """
    found = load(file)
    total = sum(each.weight for each in found.shards.values())
    if not out.as_json:
        before = [f"{each.file} (epoch {each.epoch})" for each in found.before]
        older = f"; jobs may still lie as in {', '.join(before)}" if before else ""
        out.prose(f"{found.file}: epoch {found.epoch}{older}")
    rows = [
        record_of(each) | {"weight": each.weight, "share": round(each.weight / total, 4)}
        for each in found.shards.values()
    ]
    out.table(("shard", "number", "weight", "share", "nodes"), rows)


def record_of(shard: Shard) -> dict[str, object]:
    return {"shard": shard.name, "number": shard.numbers[0], "numbers": shard.numbers, "nodes": str(shard.nodes)}


@verb("where")
@click.argument("what", type=TARGET, metavar="TUBE|ID")
@click.option("--map", "file", required=True, **(MAP | {"help": "The map."}))
def where(out: Output, what: int | str, file: Path) -> None:
    """Say which shards have TUBE, or which has given out ID, by the map. No server is asked.

    New jobs go to a tube's home. Older ones may be where a map before this one says, and those of a tube that is
    everywhere on any shard, as are those of tubes into which rules send the dead. A tube whose name is a number is
    written tube:123.
    """
    places = Places(load(file))
    if isinstance(what, int):
        shard = places.shard_of_id(what)
        if shard is None:
            raise Failure(f"no shard of {file} has given out {what}", ExitCode.NOT_FOUND)
        found = [(shard, f"it has given out {what}")]
    else:
        found = [(shard, reason_of(places.map, shard, what.encode())) for shard in places.place(what.encode()).shards]
    out.table(("shard", "number", "nodes", "why"), [record_of(shard) | {"why": why} for shard, why in found])


def reason_of(newest: ShardMap, shard: Shard, tube: bytes) -> str:
    """Return why jobs of a tube may be on a shard."""
    name = base_of(tube)
    homes = newest.homes(name)
    if shard in homes:
        pattern = newest.pattern_of(name)
        by = f" by {pattern.decode()}" if pattern else ""
        return f"home{by}" if len(homes) == 1 else f"one of {len(homes)} homes{by}"
    if name in newest.everywhere:
        return "everywhere"
    files = [each.file for each in newest.before if shard.name in {one.name for one in each.holds(name)}]
    return f"before, by {', '.join(files)}"


@verb("status")
@click.argument("file", type=FILE, envvar="BEANPOLE_MAP")
def status(out: Output, file: Path, **given: Any) -> ExitCode:
    """Ask the shards of the map FILE what they have, and say what does not fit the map.

    That is: jobs where nobody looks for them, rules and limits that are not the same on all, schedules in the wrong
    place or twice, and numbers that are not the map's. It also says what may be taken out of the map by now.
    """
    newest = load(file)
    nodes = [each.nodes for each in newest.shards.values()]
    login = login_of(click.get_current_context(), given, *nodes, url="")
    samples, failures = asyncio.run(ask_all(newest, take_shard_sample, login))
    review = Review(newest, samples)
    rows = [row_of(each, samples.get(each.name), failures.get(each.name, "")) for each in newest.shards.values()]
    warnings, advice = list(review.warnings()), list(review.advice())
    if out.as_json:
        out.record({"epoch": newest.epoch, "shards": rows, "warnings": warnings, "advice": advice}, "")
    else:
        out.table(STATUS, rows)
        for line in (*(f"warning: {each}" for each in warnings), *advice):
            out.prose(line)
    return ExitCode.NO_SERVER if failures else ExitCode.OK


status.params += login_options()


async def ask_all(
    newest: ShardMap, question: "Callable[[AsyncClient[bytes]], Awaitable[T]]", login: "Login"
) -> tuple[dict[str, T], dict[str, str]]:
    """Ask all shards at once; return what they answer, and of those that did not why."""

    async def ask(shard: Shard) -> T | BeanpoleError | OSError:
        try:
            async with async_client(Server(str(shard.nodes), None, login if shard.nodes.tls else None)) as client:
                return await question(client)
        except (BeanpoleError, OSError) as error:
            return error

    answers = dict(zip(newest.shards, await asyncio.gather(*map(ask, newest.shards.values())), strict=True))
    failures = {name: str(each) for name, each in answers.items() if isinstance(each, BeanpoleError | OSError)}
    return {name: each for name, each in answers.items() if not isinstance(each, BeanpoleError | OSError)}, failures


def row_of(shard: Shard, found: ShardSample | None, failure: str) -> dict[str, object]:
    """Return what is shown of a shard; of one that did not answer only why."""
    if found is None:
        return record_of(shard) | dict.fromkeys(STATUS[2:-1], "") | {"state": failure}
    stats = found.stats
    numbers = ",".join(map(str, shard.numbers))
    return record_of(shard) | {
        "server": stats.hostname + (f", leads in epoch {stats['cluster-epoch']}" if role_of(stats) else ""),
        "version": stats.get("beanpole-version", stats.version),
        "jobs": sum(found.jobs.values()),
        "tubes": len(found.jobs),
        "links": stats.get("links", 0),
        "map": "?" if found.map_epoch is None else found.map_epoch,
        "state": "draining"
        if stats.draining
        else "ok"
        if found.number == numbers
        else f"has the number {found.number}",
    }
