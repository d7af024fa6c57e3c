"""Actions that are being done, and those that were: in pieces, so that they can be seen, and stopped."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from beanpole.client import AsyncClient
from beanpole.console import limits
from beanpole.console.actions import dry
from beanpole.console.actions.action import (
    HELD,
    Action,
    Filter,
    Given,
    Group,
    Ids,
    Named,
    OfAction,
    Pattern,
    RefusedError,
    Tube,
    rights_of,
)
from beanpole.console.actions.dry import DryRun, DryRuns, filters_of, jobs_of
from beanpole.console.security.access import Visitor
from beanpole.console.servers import Console, Purpose, Server
from beanpole.console.single_flight import AwayError
from beanpole.errors import BeanpoleError, ConnectionLostError, NotFoundError, UnknownCommandError
from beanpole.operations.jobs import Outcome
from beanpole.operations.plan import run_async
from beanpole.operations.table import Operation

ACTION_RUNS = 100  # actions that are remembered
ACTIONS_AT_ONCE = 10  # actions that go on at a time
ACTION_STOP_S = 0.3  # seconds for the pieces that are under way when the console ends
ACTION_RESERVED_PIECE = 100  # jobs of a piece whose bodies the server sends, as it does when one is reserved


@dataclass(slots=True, eq=False)
class Run(OfAction):
    """An action that is being done, or was."""

    id: int
    who: str
    action: Action
    total: int  # jobs of the dry run
    highest: int | None
    command_line: str
    began: float  # Unix seconds
    server_id: str  # that of the dry run
    done: int = 0  # jobs that are done
    gone: int = 0  # they were not there any more
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    unknown: int = 0  # they were sent, and the connection broke before the answer came
    ids: list[int] = field(default_factory=list)  # of a put, or a schedule that was fired: the id of the job
    ended: float | None = None  # Unix seconds; None: it goes on
    stopped_by: str = ""  # who has stopped it; empty: nobody
    failed: str = ""  # why it could not go on
    undo: Action | None = None  # what brings back what was before
    task: "asyncio.Task[None] | None" = None

    @property
    def seen(self) -> int:
        return self.done + self.gone + self.refused.total() + self.unknown

    @property
    def state(self) -> str:
        """In a word: running, stopped, failed, done."""
        if self.ended is None:
            return "running"
        return "failed" if self.failed else "stopped" if self.stopped_by else "done"

    def add(self, do: str, outcomes: Iterable[Outcome]) -> None:
        """Add what became of jobs. Raises ConnectionLostError: the connection broke."""
        lost: ConnectionLostError | None = None
        for each in outcomes:
            match each.error:
                case _ if each.refusal:
                    self.refused[each.refusal + (f": {reason_of(each.error)}" if each.error else "")] += 1
                case None:
                    self.done += 1
                case ConnectionLostError() as error:
                    self.unknown += error.outcome_unknown
                    lost = lost or error
                case NotFoundError() if each.state is None:
                    self.refused["it was not there, or in a state that does not allow this"] += 1
                case NotFoundError() if not each.state:
                    self.gone += 1
                case NotFoundError():
                    self.refused[why_not(do, each.state or "")] += 1
                case error:
                    self.refused[reason_of(error)] += 1
        if lost is not None:
            raise lost

    def stop(self, who: str) -> None:
        """Ends it behind the piece that is under way."""
        if self.ended is None:
            self.stopped_by = self.stopped_by or who

    async def wait(self, seconds: float) -> None:
        """Waits for its end, but not for long."""
        if self.task is not None:
            await asyncio.wait([self.task], timeout=seconds)


def why_not(do: str, state: str) -> str:
    """Why a job that is there was not found by a command."""
    return HELD if state == "reserved" else f"it is {state}: there is nothing to {do}"


def reason_of(error: BeanpoleError) -> str:
    """The sentence of an error, which is the same for all jobs that have it."""
    if isinstance(error, UnknownCommandError):
        return "the server does not know the command"
    words = {"OutOfMemoryError": "the server has no room for it", "ExistsError": "another job has its key there"}
    return words.get(type(error).__name__, str(error))


async def undo_of(client: AsyncClient[bytes], action: Action) -> Action | None:
    """What undoes an action that has not been done yet: a pause, or one job that is buried or kicked; None: nothing."""
    try:
        match action:
            case Action("pause-schedule" | "resume-schedule", target=Named(name=name)):
                is_paused = (await client.schedule(name)).state == "paused"
                if is_paused == (action.verb == "resume-schedule"):
                    return Action("pause-schedule" if is_paused else "resume-schedule", action.server, action.target)
            case Action("pause" | "resume", target=Tube(name=name)):
                return paused(action, await pause_left_s(client, name, action.given.get("group")))
            case Action("kick" | "bury", target=Ids(ids=(id,))):
                before = await client.stats_job(id)
                if before.state == "delayed":
                    given = Given(delay=before.time_left, priority=before.pri)
                    return Action("snooze", action.server, action.target, given)
                if before.state == "buried" and action.verb == "kick":
                    return Action("bury", action.server, action.target, Given(priority=before.pri))
                if (
                    before.state == "ready"
                    and action.verb == "bury"
                    and action.given.get("priority", before.pri) == before.pri
                ):
                    return Action("kick", action.server, action.target)
    except NotFoundError:
        pass
    return None


async def pause_left_s(client: AsyncClient[bytes], tube: str, group: str | None) -> float:
    if group is None:
        return (await client.stats_tube(tube)).pause_time_left
    return sum(each.pause_time_left for each in await client.stats_groups(tube, group))


def paused(action: Action, left_s: float) -> Action | None:
    """A pause as it was; None: it was and is none."""
    group = Given(group=action.given.get("group"))
    if left_s:
        return Action("pause", action.server, action.target, Given(**group, seconds=max(1, int(left_s))))
    return Action("resume", action.server, action.target, group) if action.verb == "pause" else None


class Runs:
    """Those of a console, which keeps one of this class."""

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}
        self._last_id = 0
        self._once: dict[str, asyncio.Task[Run]] = {}

    async def once(self, mark: str, begin: Callable[[], Coroutine[Any, Any, Run]]) -> Run:
        """Begins a run, but only once for a mark: a form that is sent twice leads to the same run.

        Raises what `begin` does; then the form may be sent again.
        """
        if mark not in self._once:
            self._once[mark] = asyncio.get_running_loop().create_task(begin())
            if len(self._once) > limits.ACTION_DRY_RUNS:
                del self._once[next(iter(self._once))]
        task = self._once[mark]
        try:
            return await asyncio.shield(task)
        except BaseException:
            if task.done():
                self._once.pop(mark, None)
            raise

    def recent(self) -> list[Run]:
        return list(self._runs.values())[::-1]

    def get(self, id: int) -> Run | None:
        return self._runs.get(id)

    @property
    def running(self) -> list[Run]:
        return [each for each in self._runs.values() if each.ended is None]

    def add(self, who: str, made: DryRun, began: float) -> Run:
        """A new one. The oldest that is over goes when there are too many. Raises RefusedError: too many go on."""
        if len(self.running) >= ACTIONS_AT_ONCE:
            raise RefusedError(f"{ACTIONS_AT_ONCE} actions run already: wait for one, or stop one")
        self._last_id += 1
        run = Run(self._last_id, who, made.action, made.count, made.highest, made.command_line, began, made.server_id)
        self._runs[run.id] = run
        if len(self._runs) > ACTION_RUNS:
            del self._runs[next(id for id, each in self._runs.items() if each.ended is not None)]
        return run

    async def stop(self) -> None:
        """Ends all, as the console ends: each says how far it came."""
        going = [each.task for each in self.running if each.task is not None]
        for each in self.running:
            each.stop("the end of the console")
        if going:
            _, late = await asyncio.wait(going, timeout=ACTION_STOP_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


async def start(console: Console, action: Action, *, highest: int | None, typed: int | None, visitor: Visitor) -> Run:
    """Begins an action. Raises RefusedError, AwayError, and what a client does: nothing was changed.

    `highest` is that of the dry run, which must be one that the console remembers if the action is about a filter;
    `typed` is the number of jobs, where that has to be typed.
    """
    if not visitor.may_change:
        raise RefusedError("you may look, but not change anything")
    if lacks := set(rights_of(action)) - visitor.rights:
        raise RefusedError(f'this user lacks {min(lacks)} = ["*"]')
    server = console.server(action.server)
    client = await server.client(Purpose.ACTIONS)
    verb = await dry.check(client, action)
    made = console.kept(DryRuns).of(action, highest)
    if made is None:
        if isinstance(action.target, Filter | Group) or filters_of(action):
            raise RefusedError("there was no such dry run, or it was long ago: make one first")
        made = await dry.dry_run(console, action)
    elif verb.once is None and await is_another(await server.client(), made.server_id):
        console.kept(DryRuns).forget(made)
        raise RefusedError("the server has started again since the dry run: make one again")
    if made.wants_number and typed != made.count:
        raise RefusedError(f"these are {made.count} jobs: type this number")
    run = console.kept(Runs).add(visitor.name, made, console.clock.unix_s())
    run.task = asyncio.get_running_loop().create_task(go(console, server, verb, run))
    return run


async def undo(console: Console, run: Run, visitor: Visitor) -> Run:
    """Begins what brings back what was before a run, once. Raises what `start` does."""
    if run.undo is None:
        raise RefusedError("there is nothing to undo")
    action, run.undo = run.undo, None
    try:
        if await is_another(await console.server(action.server).client(), run.server_id):
            raise RefusedError("the server has started again since: other jobs may have these ids now")
        return await start(console, action, highest=None, typed=None, visitor=visitor)
    except BeanpoleError:
        run.undo = action
        raise


async def is_another(client: "AsyncClient[bytes]", server_id: str) -> bool:
    """Whether the server has started again since it had an `id`: then its jobs may be others."""
    return (await client.stats()).id != server_id


async def go(console: Console, server: Server, verb: Operation, run: Run) -> None:
    """Does it, whatever happens, and writes a line about it."""
    try:
        client = await server.client(Purpose.ACTIONS)
        undo = await undo_of(client, run.action)
        if verb.once is not None:
            await at_once(client, verb, run)
        else:
            await all_pieces(server, client, verb, run)
        run.undo = undo if run.done else None
    except asyncio.CancelledError:
        run.failed = "the console ended before an answer came"
        raise
    except (AwayError, ConnectionLostError, OSError) as error:
        run.failed = f"the server is gone: {error}"
    except BeanpoleError as error:
        run.failed = str(error)
    except Exception as error:
        run.failed = f"a fault of the console: {error!r}"
        raise
    finally:
        run.ended = console.clock.unix_s()
        run.action = replace(run.action, given=run.action.given.without("body"))  # which may be long
        for each in (server.sampler.stats, server.sampler.sample):
            each.outdate()  # who looks at the tube next sees what was done
        report(console, run)


async def at_once(client: "AsyncClient[bytes]", verb: Operation, run: Run) -> None:
    """Does what is about a tube, a pattern or a schedule. Raises ConnectionLostError."""
    assert verb.once is not None, "it is done at once"
    target = run.action.target
    assert isinstance(target, Tube | Pattern | Named), "the verb takes nothing else"
    try:
        made = await verb.once(client, target.name if isinstance(target, Tube) else str(target), run.action.given)
    except NotFoundError as error:
        run.add(verb.name, [Outcome(0, error, "")])
    except BeanpoleError as error:
        run.add(verb.name, [Outcome(0, error)])
    else:
        run.add(verb.name, [Outcome(0)])
        run.ids += [made] if verb.name in {"put", "fire-schedule"} else []


async def all_pieces(server: Server, client: "AsyncClient[bytes]", verb: Operation, run: Run) -> None:
    """Does it to one piece of the jobs after the other, until somebody stops it."""
    assert verb.act is not None, "it is done in pieces"
    size = ACTION_RESERVED_PIECE if verb.is_heavy else limits.ACTION_PIECE
    async with aclosing(jobs_of(server, run.action, run.highest, size)) as pieces:
        async for jobs in pieces:
            if run.stopped_by:
                return
            if not jobs:
                continue
            if await is_another(client, run.server_id):
                raise AwayError("it has started again")
            seen = run.seen
            try:
                run.add(verb.text.lower(), await run_async(client, verb.act(run.action.given, jobs)))
            except asyncio.CancelledError:
                run.unknown += len(jobs) - (run.seen - seen)
                raise
    run.stopped_by = ""  # somebody wanted to, but it was over


def report(console: Console, run: Run) -> None:
    is_ill = run.failed or run.unknown
    console.logger.log(
        "warning" if is_ill else "info",
        "action",
        who=run.who,
        verb=run.action.verb,
        server=run.action.server,
        target=str(run.action.target),
        run=run.id,
        state=run.state,
        done=run.done,
        gone=run.gone,
        refused=run.refused.total(),
        **({"unknown": run.unknown} if run.unknown else {}),
        **({"stopped_by": run.stopped_by} if run.stopped_by else {}),
        **({"reason": run.failed} if run.failed else {}),
    )
