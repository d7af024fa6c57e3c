"""What an operation of the API is: a path, a method, and a function whose types say what goes in and comes out.

The types are Structs of msgspec: what they say is the schema, the check of what is sent, and the form of an answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, get_type_hints

from msgspec import Meta, Struct
from starlette.requests import Request

from beanpole.console import limits
from beanpole.console.fields import ID_MAX, Query
from beanpole.console.security.access import Visitor, visitor_of
from beanpole.console.servers import Console, Server
from beanpole.limits import TUBE_NAME_BYTES_MAX

PREFIX = "/api/v1"

ServerName = Annotated[
    str,
    Meta(min_length=1, max_length=limits.NAME_CHARS_MAX, description="The name of a server, as `/servers` lists it."),
]

NAME = r"^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]*$"


def name_meta(what: str) -> Meta:
    """What there is to say of a name: tubes and schedules are named alike."""
    about = f"The name of a {what}; write %2F for / in a path."
    return Meta(min_length=1, max_length=TUBE_NAME_BYTES_MAX, pattern=NAME, description=about)


TubeName = Annotated[str, name_meta("tube")]
ScheduleName = Annotated[str, name_meta("schedule")]

JobId = Annotated[int, Meta(ge=1, le=ID_MAX, description="The id of a job.")]

RunId = Annotated[int, Meta(ge=1, le=ID_MAX, description="The number of an action.")]


class Places(Query, frozen=True):
    """What may stand in braces in a path."""

    server: ServerName = ""
    tube: TubeName = ""
    schedule: ScheduleName = ""
    id: JobId = 0
    run: RunId = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for an operation."""

    request: Request
    console: Console
    places: Places

    @property
    def server(self) -> Server:
        return self.console.server(self.places.server)

    @property
    def visitor(self) -> Visitor:
        return visitor_of(self.request)


@dataclass(frozen=True, slots=True)
class Example:
    """A request as somebody would send it."""

    what: str = ""  # what it is for; empty: the summary of its operation says it
    query: Mapping[str, object] = field(default_factory=dict)
    body: Mapping[str, object] | None = None  # without the server


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked of the API."""

    method: str
    path: str  # behind the prefix, with the names of `Places` in braces
    run: Callable[..., Awaitable[object]]
    """Takes an Asked, and what was sent as Structs, `query` and `body`, if it is annotated with these.

    Its docstring is the description. Raises HTTPException, AwayError, and what the client raises.
    """
    examples: tuple[Example, ...] = (Example(),)

    @property
    def name(self) -> str:
        """What it is called in the document."""
        return self.run.__name__

    @property
    def segments(self) -> list[str]:
        return self.path.split("/")[1:]

    @property
    def places(self) -> list[str]:
        """The names in braces."""
        return [each[1:-1] for each in self.segments if each.startswith("{")]

    @property
    def query(self) -> type[Struct] | None:
        """What may stand behind the question mark; None: nothing."""
        return hints_of(self.run).get("query")

    @property
    def body(self) -> type[Struct] | None:
        """The type of the request's body; None: it has none."""
        return hints_of(self.run).get("body")

    @property
    def answer(self) -> Any:  # noqa: ANN401 - a type
        return hints_of(self.run)["return"]

    @property
    def summary(self) -> str:
        return (self.run.__doc__ or "").partition("\n")[0]


@cache
def hints_of(run: Callable[..., Awaitable[object]]) -> dict[str, Any]:
    return get_type_hints(run, include_extras=True)
