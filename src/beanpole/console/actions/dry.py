"""Dry runs: what an action would do, without doing it; and the jobs that an action is about, a piece after the other.

A dry run counts, and shows some of the jobs. It finds the highest id of what it has counted: a run leaves alone what
has been put since.
"""

import difflib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from beanpole.client import AsyncClient, JobInfo
from beanpole.client.extensions import RESTING
from beanpole.console import limits
from beanpole.console.actions import commands
from beanpole.console.actions.action import (
    HELD,
    TARGETS,
    VERBS,
    Action,
    Filter,
    Group,
    Ids,
    Named,
    OfAction,
    Pattern,
    RefusedError,
    Tube,
)
from beanpole.console.reading.failures import pages_of_group
from beanpole.console.reading.jobs import JobFilter, highest_id, knows_lists, pages
from beanpole.console.reading.schedules import Times, times_of
from beanpole.console.servers import Console, Purpose, Server
from beanpole.errors import NotFoundError, RulesError, ScheduleError
from beanpole.operations.jobs import is_dead, known
from beanpole.operations.plan import run_async
from beanpole.operations.table import Operation, document_of
from beanpole.protocol.rules import parse
from beanpole.schedules.document import check as check_schedule
from beanpole.schedules.document import parse as parse_schedule

# --- Jobs -------------------------------------------------------------------------------------------------------------


def filters_of(action: Action) -> list[Filter]:
    """The filters that an action is about, one for each state; none: it is about something else."""
    match action.target:
        case Filter():
            return [action.target]
        case Tube(name=name) if action.verb == "clear":
            return [Filter(name, state) for state in action.given.get("states", RESTING)]
    return []


async def jobs_of(
    server: Server, action: Action, highest: int | None, size: int
) -> AsyncGenerator[list[JobInfo], None]:
    """The jobs, up to `size` at a time. Of ids nothing else is known, unless the verb asks where they died."""
    client = await server.client(Purpose.ACTIONS)
    if isinstance(action.target, Ids):
        for start in range(0, len(action.target.ids), size):
            ids = action.target.ids[start : start + size]
            yield [JobInfo(id) for id in ids] if action.verb != "redrive" else await run_async(client, known(ids))
        return
    if isinstance(action.target, Group):
        group = pages_of_group(server, action.target.tube, action.target.error, highest)
        async with aclosing(in_pieces(group, size)) as found:
            async for piece in found:
                yield piece
    for each in filters_of(action):
        wanted = JobFilter(each.tube, each.state, each.text)
        async with aclosing(in_pieces(pages(server, wanted, highest, purpose=Purpose.ACTIONS), size)) as found:
            async for piece in found:
                yield piece


async def in_pieces(pages: AsyncGenerator[list[JobInfo], None], size: int) -> AsyncGenerator[list[JobInfo], None]:
    """Pages in pieces of up to `size`. An empty page is one, so that a search that finds nothing can be ended."""
    async with aclosing(pages) as found:
        async for page in found:
            for start in range(0, max(len(page), 1), size):
                yield page[start : start + size]


# --- Dry runs ---------------------------------------------------------------------------------------------------------

ACTION_SAMPLE = 10  # jobs that a dry run shows
ACTION_LOOK_S = 10  # seconds in which a dry run counts jobs that only a search finds: people wait for it
ACTION_TYPED_ABOVE = 1_000  # jobs above which an action begins only when their number was typed
ACTION_BODY_BYTES = 16_777_216  # bytes of bodies in the dry runs that are remembered


@dataclass(frozen=True, slots=True)
class DryRun(OfAction):
    """What an action would do."""

    action: Action
    count: int = 1  # jobs; of what is about a tube, a pattern or a schedule 1
    is_exact: bool = True  # else there may be more, behind `highest`: they are left alone
    sample: tuple[JobInfo, ...] = ()
    highest: int | None = None  # the highest id that a run acts on; None: it acts on certain jobs, or on none
    notes: tuple[str, ...] = ()  # what one should know, in sentences
    diff: tuple[str, ...] = ()  # what becomes of rules, or of a schedule's lines, as lines with - and + in front
    times: Times | None = None  # when a schedule fires then
    command_line: str = ""
    server_id: str = ""
    """The `id` of the server: one that has started again has another, and other jobs may have the same ids."""

    @property
    def wants_number(self) -> bool:
        return self.count > ACTION_TYPED_ABOVE


async def check(client: "AsyncClient[bytes]", action: Action) -> Operation:
    """The verb of an action that makes sense and that the server knows. Raises RefusedError."""
    verb = VERBS.get(action.verb)
    if verb is None:
        raise RefusedError(f"there is no action {action.verb!r}; there are {', '.join(VERBS)}")
    if not isinstance(action.target, TARGETS[verb.about]):
        raise RefusedError(f"{verb.name} is not about {action.target}")
    check_given(verb, action)
    for each in filters_of(action):
        if each.state not in verb.states:
            raise RefusedError(f"{each.state} jobs: {HELD if each.state == 'reserved' else f'nothing to {verb.name}'}")
    if isinstance(action.target, Ids) and not 0 < len(action.target.ids) <= limits.ACTION_IDS_MAX:
        raise RefusedError(f"{len(action.target.ids)} jobs were chosen; from 1 to {limits.ACTION_IDS_MAX} can be")
    if lacks := verb.missing(action.given, await client.features()):
        raise RefusedError(f"{verb.name} needs {lacks}, which this server does not have")
    if verb.name == "move" and action.given.get("to") in {each.tube for each in filters_of(action)}:
        raise RefusedError("they are in this tube already")
    return verb


def check_given(verb: Operation, action: Action) -> None:
    """Raises RefusedError: something is given that the verb does not take, or not given that it needs."""
    if wrong := set(action.given) - {each.name for each in verb.options}:
        raise RefusedError(f"{verb.name} takes no {min(wrong)}")
    if absent := [each.name for each in verb.options if each.is_wanted and each.name not in action.given]:
        raise RefusedError(f"{verb.name} needs {absent[0]}")
    if verb.name == "change" and not action.given:
        raise RefusedError("nothing would be changed: give something")


class DryRuns:
    """Those that were made: what acts on a filter is only begun when its dry run is remembered."""

    def __init__(self) -> None:
        self._made: dict[tuple[Action, int | None], DryRun] = {}

    def remember(self, made: DryRun) -> None:
        """Keeps one; the oldest goes when there are too many."""
        key = (made.action, made.highest)
        self._made.pop(key, None)
        self._made[key] = made
        while len(self._made) > limits.ACTION_DRY_RUNS or self._body_bytes > ACTION_BODY_BYTES:
            del self._made[next(iter(self._made))]

    @property
    def _body_bytes(self) -> int:
        return sum(len(action.given.get("body", b"")) for action, _ in self._made)

    def of(self, action: Action, highest: int | None) -> DryRun | None:
        return self._made.get((action, highest))

    def forget(self, made: DryRun) -> None:
        self._made.pop((made.action, made.highest), None)


async def dry_run(console: Console, action: Action) -> DryRun:
    """Counts what an action would act on. Raises RefusedError, AwayError, and what a client does."""
    server = console.server(action.server)
    client = await server.client(Purpose.ACTIONS)
    await check(client, action)
    server_id = (await (await server.client()).stats()).id
    match action.target:
        case Ids(ids=ids):
            made = await of_ids(client, action, ids)
        case Tube(name=name) if not filters_of(action):
            made = await of_tube(client, action, name)
        case Pattern(text=pattern):
            made = await of_rules(client, action, pattern)
        case Named(name=name):
            made = await of_schedule(client, action, name, console.clock.unix_s())
        case _:
            made = await of_jobs(console, server, client, action)
    line = commands.command_line(server, await client.features(), action)
    made = replace(made, server_id=server_id, command_line=line)
    console.kept(DryRuns).remember(made)
    return made


async def of_ids(client: "AsyncClient[bytes]", action: Action, ids: Sequence[int]) -> DryRun:
    verb, jobs = VERBS[action.verb], await run_async(client, known(ids))
    there = [job for job in jobs if job.state]
    held = sum(job.state == "reserved" for job in there if "reserved" not in verb.states)
    idle = sum(job.state not in verb.states for job in there) - held
    notes = [
        f"{number} {'is' if number == 1 else 'are'} {what}"
        for number, what in (
            (len(jobs) - len(there), "gone"),
            (held, "held by workers: only these can finish them"),
            (idle, f"in a state in which there is nothing to {verb.text.lower()}"),
        )
        if number
    ]
    return DryRun(action, len(ids), sample=tuple(there[:ACTION_SAMPLE]), notes=tuple(notes))


async def of_tube(client: "AsyncClient[bytes]", action: Action, tube: str) -> DryRun:
    notes: tuple[str, ...] = ()
    try:
        await client.stats_tube(tube)
    except NotFoundError:
        if action.verb != "put":
            raise RefusedError(f"there is no tube {tube}") from None
        notes = ("there is no such tube yet: it is made",)
    return DryRun(action, notes=notes)


async def of_rules(client: "AsyncClient[bytes]", action: Action, pattern: str) -> DryRun:
    """Of a change of rules: line by line. Raises RefusedError: a line is wrong, or there are none to drop."""
    there = {each.pattern: each.text for each in await client.list_rules()}.get(pattern)
    wanted = action.given.get("rules", "")
    if action.verb == "drop-rules" and there is None:
        raise RefusedError(f"no rules are set for {pattern}")
    try:
        wanted = parse(wanted.encode()).text.decode()
    except RulesError as error:
        raise RefusedError(str(error)) from None
    return DryRun(action, diff=difference(there or "", wanted))


def difference(before: str, after: str) -> tuple[str, ...]:
    return tuple(line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] != "?")


async def of_schedule(client: "AsyncClient[bytes]", action: Action, name: str, now_s: float) -> DryRun:
    """Of what is done to a schedule. Raises RefusedError: there is none, or a line of what is to be set is wrong."""
    try:
        there = (await client.schedule(name)).document
    except NotFoundError:
        if action.verb != "set-schedule":
            raise RefusedError(f"there is no schedule {name}") from None
        there = b""
    if action.verb != "set-schedule":
        return DryRun(action)
    header, _, body = there.partition(b"\n\n")
    try:
        wanted = parse_schedule(document_of(action.given["lines"], action.given.get("body", body)))
    except ScheduleError as error:
        raise RefusedError(str(error)) from None
    notes = [] if wanted.body == body or not there else ["the body of its jobs becomes another"]
    notes += [] if wanted.body else ["the body of its jobs is empty"]
    try:
        check_schedule(wanted)
    except ScheduleError as error:  # the server may have another opinion, if it has other zones
        notes.append(str(error))
    diff = difference(f"{header.decode(errors='replace')}\n" if header else "", wanted.header.decode(errors="replace"))
    return DryRun(action, notes=tuple(notes), diff=diff, times=times_of(wanted, now_s))


async def of_jobs(console: Console, server: Server, client: "AsyncClient[bytes]", action: Action) -> DryRun:
    """Of what a filter finds. Where the server says how many there are, nothing is counted."""
    found, wanted = Counted(), filters_of(action)
    has_text = any(each.text for each in wanted)
    if wanted and not has_text and action.verb != "redrive" and await knows_lists(client):
        for each in wanted:
            await found.ask(server, client, each)
    else:
        until_ns = console.clock.now_ns() + ACTION_LOOK_S * 10**9
        async with aclosing(jobs_of(server, action, None, limits.ACTION_PIECE)) as pieces:
            async for piece in pieces:
                found.add([job for job in piece if action.verb != "redrive" or is_dead(job)])
                if console.clock.now_ns() >= until_ns:
                    found.is_exact = False
                    break
    # A group lies in several tubes: it is not looked for in the order of its ids.
    rest = "is left alone" if wanted else "is left alone, and up to it there may be more jobs than these"
    notes = [] if found.is_exact else [f"looked for {ACTION_LOOK_S} s: what is behind id {found.highest} {rest}"]
    return DryRun(action, found.count, found.is_exact, tuple(found.sample), found.highest, tuple(notes))


@dataclass(slots=True)
class Counted:
    """What was found."""

    count: int = 0
    highest: int = 0
    is_exact: bool = True
    sample: list[JobInfo] = field(default_factory=list)  # the first of them

    async def ask(self, server: Server, client: "AsyncClient[bytes]", wanted: Filter) -> None:
        """Adds what the server knows of a tube's jobs in a state. One that is not there has none."""
        try:
            stats = await client.stats_tube(wanted.tube)
        except NotFoundError:
            return
        self.count += int(stats[f"current-jobs-{wanted.state}"])
        self.highest = max(self.highest, await highest_id(server, wanted.tube, wanted.state))
        if len(self.sample) < ACTION_SAMPLE:
            page = await client.list_jobs(wanted.tube, wanted.state, ACTION_SAMPLE - len(self.sample))
            self.sample += page.jobs

    def add(self, page: Sequence[JobInfo]) -> None:
        self.count += len(page)
        self.highest = max([self.highest, *(job.id for job in page)])
        self.sample += page[: ACTION_SAMPLE - len(self.sample)]
