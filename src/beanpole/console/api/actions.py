"""Actions: what they would do, doing it, and how far they are."""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, convert, defstruct, field
from msgspec.structs import asdict
from starlette.exceptions import HTTPException

from beanpole.console import limits
from beanpole.console.actions import action, dry, runs
from beanpole.console.actions.action import (
    VERBS,
    Action,
    Filter,
    Given,
    Group,
    Ids,
    Named,
    Pattern,
    RefusedError,
    Target,
    Tube,
)
from beanpole.console.api.operations import Asked, JobId, ScheduleName, ServerName, TubeName
from beanpole.console.fields import Number, Query
from beanpole.console.reading.jobs import State
from beanpole.limits import MOMENT_S_MAX, PRI_MAX
from beanpole.operations.table import Option

Whole = Annotated[int, Meta(ge=0, le=PRI_MAX)]
Seconds = Annotated[float, Meta(ge=0, le=PRI_MAX, description="Seconds, with up to three decimals.")]
Moment = Annotated[float, Meta(ge=0, le=MOMENT_S_MAX, description="Seconds since 1970, with up to three decimals.")]
Base64 = Annotated[str, Meta(pattern="^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$")]

DONE_WITHIN_S = 1  # seconds that an answer waits for the end of an action: most are over by then


if TYPE_CHECKING:
    VerbName = str
else:
    VerbName = Literal[tuple(VERBS)]


class Wanted(Query, frozen=True):
    """Something to be done: to jobs that are named, to those of a filter or of a group of failures, or to a tube.

    Each verb takes some of the fields; what it does not take is refused.
    """

    verb: VerbName
    server: ServerName
    dry_run: Annotated[bool, Meta(description="Only say what would be done.")] = False
    ids: Annotated[
        Annotated[list[JobId], Meta(min_length=1, max_length=limits.ACTION_IDS_MAX)] | None,
        Meta(description="Jobs by their ids."),
    ] = None
    tube: TubeName | None = None
    state: Annotated[State | None, Meta(description="Of a filter: the state.")] = None
    text: Annotated[str | None, Meta(description="Of a filter: what stands in the body or the key.")] = None
    error: Annotated[str | None, Meta(description="The error of a group of failures in the tube.")] = None
    pattern: Annotated[
        str | None, Meta(description="What rules are for: a tube, the beginning of names and *, or *.")
    ] = None
    schedule: Annotated[ScheduleName | None, Meta(description="A schedule.")] = None
    highest: Annotated[Number | None, Meta(description="`highest` of the dry run, if it had one.")] = None
    typed: Annotated[Number | None, Meta(description="`count` of the dry run, if it asks for that: `typed`.")] = None
    body_base64: Annotated[Base64 | None, Meta(description="A body that is no text.")] = None


KINDS: dict[str, Any] = {
    "seconds": Seconds,
    "moment": Moment,
    "tube": TubeName,
    "states": list[Literal["ready", "delayed", "buried"]],
}
"""The types of options, by their kind."""

NUMBERS = ("number", "priority", "ttr")  # kinds that are whole numbers

OPTIONS = {option.name: option for verb in VERBS.values() for option in verb.options}
"""What can be given with any verb."""


def field_of(option: Option) -> tuple[str, Any, None]:
    words = tuple(word for word, _ in option.choices if word)
    kind = Literal[words] if words else KINDS.get(option.kind, Whole if option.kind in NUMBERS else str)
    named = Annotated[kind | None, Meta(description=option.about)] if option.about else kind | None
    return option.name, named, None


if TYPE_CHECKING:

    class ActionAsked(Wanted, frozen=True):
        """With a field for each option."""
else:
    ActionAsked = defstruct(
        "ActionAsked",
        [field_of(each) for each in OPTIONS.values()],
        bases=(Wanted,),
        module=__name__,
        namespace={"__doc__": Wanted.__doc__},
        frozen=True,
        kw_only=True,
    )


class SampleJob(Struct, frozen=True):
    """A job that a dry run has found; of one that is gone only the id is known."""

    id: int
    tube: str = ""
    state: str = ""
    pri: int = 0
    age: float = 0
    size: int | None = None


class DryRun(Struct, frozen=True):
    """What an action would do."""

    verb: str
    server: str
    target: Annotated[str, Meta(description="What it is about, in words.")]
    count: Annotated[int, Meta(description="How many jobs; of what is about a tube, a pattern or a schedule 1.")]
    is_exact: Annotated[bool, Meta(description="Else there may be more, behind `highest`: they are left alone.")]
    sample: list[SampleJob]
    highest: Annotated[
        int | None, Meta(description="To be sent with the action, so that jobs put since are left alone.")
    ]
    wants_number: Annotated[bool, Meta(description="Whether `count` must be sent with the action, as `typed`.")] = (
        field(name="typed")
    )
    command_line: Annotated[str, Meta(description="What does the same in a shell, if that is one command.")]
    notes: Annotated[list[str], Meta(description="What one should know.")]


class Run(Struct, frozen=True):
    """An action that is being done, or was."""

    id: int
    who: Annotated[str, Meta(description="Whose token it was.")]
    verb: str
    server: str
    target: Annotated[str, Meta(description="What it is about, in words.")]
    state: Literal["running", "stopped", "failed", "done"]
    total: Annotated[int, Meta(description="Jobs of the dry run.")]
    done: int
    gone: Annotated[int, Meta(description="Jobs that were not there any more.")]
    refused: Annotated[Mapping[str, int], Meta(description="How many the server refused, by reason.")]
    unknown: Annotated[int, Meta(description="Jobs of which nobody knows whether they are done: the connection broke.")]
    ids: Annotated[list[int], Meta(description="Of a put, or of a schedule that was fired: the id of the job.")]
    began: Annotated[float, Meta(description="In Unix seconds.")]
    ended: Annotated[float | None, Meta(description="In Unix seconds; null: it goes on.")]
    stopped_by: str
    failed: Annotated[str, Meta(description="Why it could not go on; empty: it could.")]
    command_line: str


class ActionAnswer(Struct, frozen=True):
    """What would be done, or what is being done."""

    dry_run: Annotated[DryRun | None, Meta(description="Null: it was none.")]
    run: Annotated[Run | None, Meta(description="Null: it was a dry run.")]


class RunsShown(Struct, frozen=True):
    """The last actions, the newest first."""

    items: list[Run]


TARGETS: Mapping[type[Target], frozenset[str]] = {
    Ids: frozenset({"ids"}),
    Filter: frozenset({"tube", "state", "text"}),
    Group: frozenset({"tube", "error"}),
    Tube: frozenset({"tube"}),
    Pattern: frozenset({"pattern"}),
    Named: frozenset({"schedule"}),
}
"""The fields that each target is made of."""

TEXTS = ("tube", "state", "text", "error", "pattern", "schedule")  # those of them that are no list


def action_of(body: ActionAsked) -> Action:
    sent = {name: value for name, value in asdict(body).items() if value is not None}
    fields = {name: [str(sent[name])] for name in (*TEXTS, "group") if name in sent}
    target = action.target_of(VERBS[body.verb], fields | {"id": [str(each) for each in sent.get("ids", ())]})
    for name in frozenset().union(*TARGETS.values()) - TARGETS[type(target)]:
        if name in sent:
            raise RefusedError(f"{body.verb} is about {target} here, and takes no {name}")
    given = {name: sent[name] for name in OPTIONS if name in sent}
    given |= {"states": tuple(dict.fromkeys(sent.get("states", ()))), "body": bytes_of(sent)}
    return Action(body.verb, body.server, target, Given(**given))


def bytes_of(sent: Mapping[str, Any]) -> bytes | None:
    """The body of a job; None: there is none. Raises RefusedError."""
    if "body_base64" not in sent:
        return sent["body"].encode() if "body" in sent else None
    if "body" in sent:
        raise RefusedError("body and body_base64 are two bodies, and a job has one")
    return base64.b64decode(sent["body_base64"])


async def act(asked: Asked, body: ActionAsked) -> ActionAnswer:
    """Do something to jobs, tubes, rules or schedules, or say what would be done.

    What acts on a filter or on a group of failures needs a dry run first, and its `highest`. The answer comes when all
    is done, or after a second: then the action goes on.
    """
    action = action_of(body)
    if body.dry_run:
        return ActionAnswer(convert(await dry.dry_run(asked.console, action), DryRun, from_attributes=True), None)
    run = await runs.start(asked.console, action, highest=body.highest, typed=body.typed, visitor=asked.visitor)
    await run.wait(DONE_WITHIN_S)
    return ActionAnswer(None, convert(run, Run, from_attributes=True))


async def list_actions(asked: Asked) -> RunsShown:
    """The last actions, and those that are under way."""
    return RunsShown([convert(each, Run, from_attributes=True) for each in asked.console.kept(runs.Runs).recent()])


async def get_action(asked: Asked) -> Run:
    """One action, and how far it is."""
    return convert(found_of(asked), Run, from_attributes=True)


async def stop_action(asked: Asked) -> Run:
    """Stop an action after the piece that is under way. What is done stays done."""
    run = found_of(asked)
    run.stop(asked.visitor.name)
    await run.wait(DONE_WITHIN_S)
    return convert(run, Run, from_attributes=True)


def found_of(asked: Asked) -> runs.Run:
    number = asked.places.run
    found = asked.console.kept(runs.Runs).get(number)
    if found is None:
        raise HTTPException(404, f"there is no action {number}, or it was long ago")
    return found
