"""The rules of tubes."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct
from starlette.exceptions import HTTPException

from beanpole.console.api.operations import Asked
from beanpole.console.reading import rules


class RuleSet(Struct, frozen=True):
    """The rules of a tube, of all whose names begin so, or of all."""

    pattern: Annotated[str, Meta(description="A tube's name, the beginning of one with * behind it, or *.")]
    rules: Annotated[Mapping[str, str], Meta(description="By their names.")]


class RulesInForce(RuleSet, frozen=True):
    """The same, and where they are in force."""

    tubes: Annotated[list[str], Meta(description="The tubes that are there and have these rules.")]


class RuleSets(Struct, frozen=True):
    """All rules of a server, by their patterns."""

    items: list[RulesInForce]


async def list_rules(asked: Asked) -> RuleSets:
    """The rules that are set. Needs `list-rules`."""
    await need_rules(asked)
    found = await rules.all_rules(asked.server)
    return RuleSets([RulesInForce(each.pattern, dict(each.rules), each.tubes) for each in found])


async def get_rules(asked: Asked) -> RuleSet:
    """The rules that apply to a tube, which need not exist. Needs `get-rules`."""
    await need_rules(asked)
    found = await rules.rules_of(asked.server, asked.places.tube)
    if found is None:
        raise HTTPException(404, f"no rules apply to the tube {asked.places.tube}")
    return RuleSet(found.pattern, dict(found))


async def need_rules(asked: Asked) -> None:
    """Raises HTTPException: the server knows no rules."""
    if not await rules.has_rules(asked.server):
        raise HTTPException(501, f"this {rules.NEEDS}")
