"""The tubes of whoever has the jobs, their rules, and which of these are in force where."""

from collections.abc import Collection
from dataclasses import dataclass

from beanpole.client import GroupStats, Rules, StatsTube
from beanpole.client.ruling import ALL
from beanpole.console.servers import Server
from beanpole.errors import NotFoundError
from beanpole.observe.sampling import Sample, ask_pages, dead_tubes_of


async def tubes_of(server: Server) -> list[StatsTube]:
    """Returns the tubes in the order of their names, as they were a second ago at most.

    The sample of a node that follows has none: then its leader is asked. Raises AwayError, and what a client does.
    """
    sample = await server.sampler.sample.get()
    if sample.leads:
        return list(sample.tubes.values())
    client = await server.client()
    tubes, _ = await ask_pages(client, (await client.stats()).current_tubes)
    return list(tubes.values())


async def groups_of(server: Server, tube: str, limit: int) -> list[GroupStats]:
    """Returns the groups of a tube that have jobs, those first of which most are ready; none where it has no groups.

    Raises NotFoundError, AwayError, and what a client does.
    """
    client = await server.client()
    return await client.stats_groups(tube, limit=limit)


NEEDS_RULES = "needs list-rules, which this server does not have"  # why a server shows no rules


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a pattern, and where they are in force now."""

    pattern: str
    rules: Rules
    tubes: list[str]  # the tubes that are there and have these rules, in the order of their names


async def has_rules(server: Server) -> bool:
    return "list-rules" in await (await server.client()).features()


async def all_rules(server: Server) -> list[RuleSet]:
    """Returns all rules that are set, by pattern; none of a server that knows no rules.

    Raises AwayError, and what a client does.
    """
    client = await server.client()
    if "list-rules" not in await client.features():
        return []
    found = {each.pattern: each for each in await client.list_rules()}
    tubes: dict[str, list[str]] = {pattern: [] for pattern in found}
    for tube in await tubes_of(server):
        pattern = pattern_for(tube.name, found)
        if pattern is not None:
            tubes[pattern].append(tube.name)
    return [RuleSet(pattern, rules, tubes[pattern]) for pattern, rules in found.items()]


async def rules_of(server: Server, tube: str) -> Rules | None:
    """Returns the rules that apply to a tube, which need not exist. None: there are none, or the server knows no rules.

    Raises AwayError, and what a client does.
    """
    client = await server.client()
    if "get-rules" not in await client.features():
        return None
    try:
        return await client.get_rules(tube)
    except NotFoundError:
        return None


def pattern_for(tube: str, patterns: Collection[str]) -> str | None:
    """The pattern from which a tube has its rules: its own name, or the longest that it begins with; None: none."""
    if tube in patterns:
        return tube
    for size in range(len(tube), -1, -1):
        if tube[:size] + ALL in patterns:
            return tube[:size] + ALL
    return None


async def patterns_of_dead(server: Server, sample: Sample | None, tube: str) -> tuple[str, ...]:
    """Returns the patterns whose rules send the dead into a tube; a node that follows asks its leader.

    Raises AwayError, and what a client does.
    """
    if sample is not None and sample.leads:
        return sample.dead_tubes.get(tube, ())
    client = await server.client()
    if "list-rules" not in await client.features():
        return ()
    return dead_tubes_of(await client.list_rules()).get(tube, ())
