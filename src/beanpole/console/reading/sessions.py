"""The sessions of a server: which are connected, which wait for jobs, and which hold some.

Requests within a second share one look at a server's sessions, which stops after SESSIONS_LOOKED of them or after
LOOK_MS; a further look starts behind the number of a session.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from beanpole.client import SessionInfo
from beanpole.console import limits
from beanpole.console.fields import AnyTube, Next, Number, PageSize, Query, Text
from beanpole.console.servers import Server
from beanpole.console.single_flight import OnAnswer, look_ends_at

SESSIONS_PER_STEP = 250
"""Sessions that are asked for at once: reading them takes 8 ms, in which nothing else is answered."""

NEEDS = "needs list-sessions, which this server does not have"
"""Why a server shows no sessions."""

Order = Literal["number", "held", "silent", "waiting", "since"]

ORDERS: tuple[Order, ...] = get_args(Order)
"""By what sessions can be sorted: all but the first the longest first."""


class SessionFilter(Query, frozen=True):
    """Which sessions, and how many."""

    text: Annotated[Text, Meta(description="What stands in the name or the address.")] = ""
    tube: Annotated[AnyTube, Meta(description="A tube that it uses or watches; empty: any.")] = ""
    waiting: Annotated[bool, Meta(description="Only those that wait for a job.")] = False
    holding: Annotated[bool, Meta(description="Only those that hold jobs.")] = False
    number: Annotated[Number | None, Meta(description="Only that of this number.")] = None
    after: Annotated[Number | None, Meta(description="Only those of a greater number: the `next` of a page.")] = None
    order: Annotated[Order, Meta(description="By any but `number` the longest first, in one page.")] = "number"
    limit: PageSize = 100

    def fits(self, session: SessionInfo) -> bool:
        """Whether a session is one."""
        text = self.text.casefold()
        return (
            (text in session.name.casefold() or text in session.peer.casefold())
            and self.number in {None, session.number}
            and (not self.tube or self.tube == session.used or self.tube in session.watched)
            and (not self.waiting or session.waiting is not None)
            and (not self.holding or session.jobs_held > 0)
        )

    def key(self, session: SessionInfo) -> tuple[float, int]:
        """What sessions are sorted by."""
        values = {
            "held": session.oldest_held,
            "silent": session.last_command_age,
            "waiting": session.waiting,
            "since": session.since,
        }
        value = values.get(self.order)
        return (-value if value is not None else 0, session.number)


@dataclass(frozen=True, slots=True)
class Look:
    """Sessions as they were at a moment."""

    sessions: list[SessionInfo]
    next: int | None
    """Behind which number there are more; None: these are all."""
    missing: str = ""
    """Why there are none, as a sentence for people."""

    def waiting_for(self, tube: str) -> "Waiting":
        """The sessions that wait for jobs of a tube, the longest first."""
        waiting = [each for each in self.sessions if each.waiting is not None]
        found = sorted((each for each in waiting if tube in each.watched), key=lambda each: -(each.waiting or 0))
        unknown = any(tube not in each.watched and each.watched_count > len(each.watched) for each in waiting)
        return Waiting(found, self.next is None and not unknown, self.missing)


class FoundSessions(Struct, frozen=True):
    """A page of sessions."""

    sessions: list[SessionInfo] = msgspec.field(name="items")
    next: Next
    looked: Annotated[int, Meta(description="How many were looked at.")] = 0
    fitting: Annotated[int, Meta(description="How many of these fit.")] = 0
    is_complete: Annotated[bool, Meta(description="Whether that were all behind `after`.")] = True
    missing: Annotated[str, Meta(description="Why there are none.")] = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The sessions that wait for jobs of a tube."""

    sessions: list[SessionInfo] = field(default_factory=list)
    """Those that have waited longest first."""
    is_complete: bool = True
    """Whether that are all: of a session the server names its first tubes only."""
    missing: str = ""
    """Why it is not known, as a sentence for people."""


async def look_behind(server: Server, number: int | None, heard: OnAnswer = lambda: None) -> Look:
    """Looks behind a number, and says so each time the server has answered.

    Raises AwayError, and what a client does.
    """
    client = await server.client()
    if "list-sessions" not in await client.features():
        return Look([], None, NEEDS)
    until = look_ends_at()
    found: list[SessionInfo] = []
    while len(found) < limits.SESSIONS_LOOKED:
        page = await client.list_sessions(found[-1].number if found else number, SESSIONS_PER_STEP)
        heard()
        if not page:
            return Look(found, None)
        found += page
        if asyncio.get_running_loop().time() >= until:
            break
    return Look(found, found[-1].number)


async def first(server: Server, heard: OnAnswer) -> Look:
    """Looks at the first sessions."""
    return await look_behind(server, None, heard)


async def look(server: Server) -> Look:
    """The first sessions of a server, as they were a second ago at most. Raises AwayError."""
    return await server.shared(first)


async def find(server: Server, wanted: SessionFilter) -> FoundSessions:
    """Returns a page of sessions. Raises AwayError, and what a client does."""
    if wanted.number is not None:
        return await of_number(server, wanted, wanted.number)
    seen = await (look(server) if wanted.after is None else look_behind(server, wanted.after))
    fitting = sorted((each for each in seen.sessions if wanted.fits(each)), key=wanted.key)
    shown = fitting[: wanted.limit]
    behind = seen.next
    if len(fitting) > len(shown):
        behind = shown[-1].number if wanted.order == "number" else None
    return FoundSessions(shown, behind, len(seen.sessions), len(fitting), seen.next is None, seen.missing)


async def of_number(server: Server, wanted: SessionFilter, number: int) -> FoundSessions:
    """Returns the session of a number, if it fits. What is behind it is not looked at."""
    client = await server.client()
    if "list-sessions" not in await client.features():
        return FoundSessions([], None, missing=NEEDS)
    page = await client.list_sessions(number - 1 if number else None, 1)
    fitting = [each for each in page if wanted.fits(each)]
    return FoundSessions(fitting, None, len(page), len(fitting))


async def who_waits(server: Server, tube: str) -> Waiting:
    """Returns the sessions that wait for jobs of a tube. Raises AwayError, and what a client does."""
    return (await look(server)).waiting_for(tube)
