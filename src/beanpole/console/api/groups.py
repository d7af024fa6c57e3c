"""What can be asked of the groups of a tube."""

from typing import Annotated

from msgspec import Meta, Struct, convert
from starlette.exceptions import HTTPException

from beanpole.console.api.operations import Asked
from beanpole.console.fields import PageSize, Query
from beanpole.console.reading import tubes
from beanpole.errors import NotFoundError


class GroupsQuery(Query, frozen=True):
    """Which groups."""

    limit: PageSize = 100


class Group(Struct, frozen=True):
    """A group of a tube."""

    group: Annotated[str, Meta(description="Its name; empty: of the jobs without one.")]
    weight: int
    ready: int
    reserved: int
    delayed: int
    buried: int
    next: Annotated[int | None, Meta(description="The ready job that it hands out first; null: none is ready.")]
    next_age: Annotated[float | None, Meta(description="For how many seconds that has been there.")]
    closed: Annotated[list[str], Meta(description="The rules that hold it back now.")]


class GroupsShown(Struct, frozen=True):
    """Groups of a tube, those first of which most jobs are ready."""

    items: list[Group]


async def list_groups(asked: Asked, query: GroupsQuery) -> GroupsShown:
    """The groups of a tube that have jobs, those first of which most are ready. Needs `stats-groups`."""
    try:
        found = await tubes.groups_of(asked.server, asked.places.tube, query.limit)
    except NotFoundError:
        raise HTTPException(404, f"there is no tube {asked.places.tube}") from None
    return convert({"items": found}, GroupsShown, from_attributes=True)
