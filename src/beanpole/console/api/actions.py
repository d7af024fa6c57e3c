"""Actions: what they would do, doing it, and how far they are."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from starlette.exceptions import HTTPException

from beanpole.client.extensions import ID_MAX
from beanpole.console import limits
from beanpole.console.actions import dry, reading, runs
from beanpole.console.actions.action import Action, Filter, Given, Group, Ids, Pattern, RefusedError, Target, Tube
from beanpole.console.actions.verbs import VERBS
from beanpole.console.api.kinds import Form, Length, Range
from beanpole.console.api.operations import Asked, JobId, ServerName, TubeName
from beanpole.limits import PRI_MAX

Whole = Annotated[int, Range(0, PRI_MAX)]
Seconds = Annotated[float, Range(0, PRI_MAX), "Seconds, with up to three decimals."]

BASE64 = Form("^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", "base64")

DONE_WITHIN_S = 1
"""Seconds that an answer waits for the end of an action: most are over by then."""


@dataclass(frozen=True, slots=True)
class ActionAsked:
    """Something to be done: to jobs that are named, to those of a filter or of a group of failures, or to a tube.

    Each verb takes some of the fields; what it does not take is refused.
    """

    verb: Literal[
        "delete", "kick", "bury", "snooze", "move", "redrive", "change", "clear", "put", "pause", "resume",
        "set-rules", "drop-rules",
    ]  # fmt: skip
    server: ServerName
    dry_run: Annotated[bool, "Only say what would be done."] = False
    ids: Annotated[list[JobId] | None, Length(1, limits.ACTION_IDS_MAX), "Jobs by their ids."] = None
    tube: TubeName | None = None
    state: Annotated[Literal["ready", "reserved", "delayed", "buried"] | None, "Of a filter: the state."] = None
    text: Annotated[str | None, "Of a filter: what stands in the body or the key."] = None
    error: Annotated[str | None, "The error of a group of failures in the tube."] = None
    pattern: Annotated[str | None, "What rules are for: a tube, the beginning of names and *, or *."] = None
    highest: Annotated[int | None, Range(0, ID_MAX), "`highest` of the dry run, if it had one."] = None
    typed: Annotated[int | None, Range(0, ID_MAX), "`count` of the dry run, if it asks for that: `typed`."] = None
    states: Annotated[list[Literal["ready", "delayed", "buried"]] | None, "Of `clear`; none: all of these."] = None
    to: Annotated[TubeName | None, "The tube into which jobs go."] = None
    priority: Whole | None = None
    delay: Seconds | None = None
    ttr: Whole | None = None
    expire: Seconds | None = None
    body: str | None = None
    body_base64: Annotated[str | None, BASE64, "A body that is no text."] = None
    key: str | None = None
    taken: Annotated[Literal["keep", "replace"] | None, "What a put does when a job has the key."] = None
    until: Annotated[Literal["delete", "reserve"] | None, "When the key is free again."] = None
    seconds: Annotated[Whole | None, "Of `pause`."] = None
    rules: Annotated[str | None, "Lines, `attempts: 5` for example."] = None


@dataclass(frozen=True, slots=True)
class SampleJob:
    """A job that a dry run has found; of one that is gone only the id is known."""

    id: int
    tube: str = ""
    state: str = ""
    pri: int = 0
    age: float = 0
    size: int | None = None


@dataclass(frozen=True, slots=True)
class DryRun:
    """What an action would do."""

    verb: str
    server: str
    target: Annotated[str, "What it is about, in words."]
    count: Annotated[int, "How many jobs; of what is about a tube or a pattern 1."]
    is_exact: Annotated[bool, "Else there may be more, behind `highest`: they are left alone."]
    sample: list[SampleJob]
    highest: Annotated[int | None, "To be sent with the action, so that jobs put since are left alone."]
    typed: Annotated[bool, "Whether `count` must be sent with the action, as `typed`."]
    command_line: Annotated[str, "What does the same in a shell."]
    notes: Annotated[list[str], "What one should know."]


@dataclass(frozen=True, slots=True)
class Run:
    """An action that is being done, or was."""

    id: int
    who: Annotated[str, "Whose token it was."]
    verb: str
    server: str
    target: Annotated[str, "What it is about, in words."]
    state: Literal["running", "stopped", "failed", "done"]
    total: Annotated[int, "Jobs of the dry run."]
    done: int
    gone: Annotated[int, "Jobs that were not there any more."]
    refused: Annotated[Mapping[str, int], "How many the server refused, by reason."]
    unknown: Annotated[int, "Jobs of which nobody knows whether they are done: the connection broke."]
    ids: Annotated[list[int], "Of a put: the id of the job."]
    began: Annotated[float, "In Unix seconds."]
    ended: Annotated[float | None, "In Unix seconds; null: it goes on."]
    stopped_by: str
    failed: Annotated[str, "Why it could not go on; empty: it could."]
    command_line: str


@dataclass(frozen=True, slots=True)
class ActionAnswer:
    """What would be done, or what is being done."""

    dry_run: Annotated[DryRun | None, "Null: it was none."]
    run: Annotated[Run | None, "Null: it was a dry run."]


@dataclass(frozen=True, slots=True)
class RunsShown:
    """The last actions, the newest first."""

    items: list[Run]


TARGETS: Mapping[type[Target], frozenset[str]] = {
    Ids: frozenset({"ids"}),
    Filter: frozenset({"tube", "state", "text"}),
    Group: frozenset({"tube", "error"}),
    Tube: frozenset({"tube"}),
    Pattern: frozenset({"pattern"}),
}
"""The fields that each target is made of."""


def action_of(body: ActionAsked) -> Action:
    """The action that was sent. Raises RefusedError."""
    sent = {name: value for name in ActionAsked.__slots__ if (value := getattr(body, name)) is not None}
    fields = {name: [str(sent[name])] for name in ("tube", "state", "text", "error", "pattern") if name in sent}
    target = reading.target_of(VERBS[body.verb], fields | {"id": [str(each) for each in sent.get("ids", ())]})
    for name in frozenset().union(*TARGETS.values()) - TARGETS[type(target)]:
        if name in sent:
            raise RefusedError(f"{body.verb} is about {target} here, and takes no {name}")
    given: dict[str, Any] = {name: sent[name] for name in reading.SINGLE if name in sent}
    states = tuple(dict.fromkeys(sent.get("states", ())))
    return Action(body.verb, body.server, target, Given(**given, states=states, body=bytes_of(body)))


def bytes_of(body: ActionAsked) -> bytes | None:
    """The body of a job; None: there is none. Raises RefusedError."""
    if body.body_base64 is None:
        return None if body.body is None else body.body.encode()
    if body.body is not None:
        raise RefusedError("body and body_base64 are two bodies, and a job has one")
    return base64.b64decode(body.body_base64)


async def act(asked: Asked, body: ActionAsked) -> ActionAnswer:
    """Do something to jobs, tubes or rules, or say what would be done.

    What acts on a filter or on a group of failures needs a dry run first, and its `highest`. The answer comes when all
    is done, or after a second: then the action goes on.
    """
    action = action_of(body)
    if body.dry_run:
        return ActionAnswer(dry_of(await dry.dry_run(asked.console, action)), None)
    run = await runs.start(asked.console, action, highest=body.highest, typed=body.typed, visitor=asked.visitor)
    await run.wait(DONE_WITHIN_S)
    return ActionAnswer(None, run_of(run))


async def list_actions(asked: Asked) -> RunsShown:
    """The last actions, and those that are under way."""
    return RunsShown([run_of(each) for each in asked.console.kept(runs.Runs).recent()])


async def get_action(asked: Asked) -> Run:
    """One action, and how far it is."""
    return run_of(found_of(asked))


async def stop_action(asked: Asked) -> Run:
    """Stop an action after the piece that is under way. What is done stays done."""
    run = found_of(asked)
    run.stop(asked.visitor.name)
    await run.wait(DONE_WITHIN_S)
    return run_of(run)


def found_of(asked: Asked) -> runs.Run:
    """The run of the path. Raises HTTPException: there is none."""
    number = int(asked.places["run"])
    found = asked.console.kept(runs.Runs).get(number)
    if found is None:
        raise HTTPException(404, f"there is no action {number}, or it was long ago")
    return found


def dry_of(made: dry.DryRun) -> DryRun:
    """A dry run as the API shows it."""
    record = made.record
    return DryRun(**record | {"sample": [SampleJob(**each) for each in record["sample"]]})


def run_of(run: runs.Run) -> Run:
    """An action as the API shows it."""
    return Run(**run.record)
