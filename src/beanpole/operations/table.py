"""The table of operations: what people do to jobs, tubes, rules and schedules, and what can be given with it.

The options of the command line, the forms and the API of the console, and its dry run are made of these rows. What is
added here is everywhere; what a row does to jobs is a plan in :mod:`~beanpole.operations.jobs`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from beanpole.client import limits
from beanpole.client.extensions import RESTING, STATES
from beanpole.errors import NotFoundError
from beanpole.operations import jobs


@dataclass(frozen=True, slots=True)
class Option:
    """What can be given with an operation."""

    name: str
    kind: str = "number"
    """number, priority, ttr, seconds (with up to three decimals), moment (seconds since 1970), tube, text, choice,
    body, states, rules."""

    help: str = ""
    """For the command line; empty: it has no such option, or one of its own."""

    label: str = ""
    """Of a form; empty: a form does not ask for it."""

    hint: str = ""
    """Behind the label."""

    about: str = ""
    """For the API, if the name does not say it."""

    flag: str = ""
    """On the command line, if it is not the name."""

    value: int | None = None
    """What it is if it is not given; None: a job keeps what it has, or it is left out."""

    choices: tuple[tuple[str, str], ...] = ()
    """Words, and what each means in a form; the first, which may be empty, is what is done without the option."""

    is_wanted: bool = False
    """Whether it must be given."""

    is_required: bool = False
    """Whether a form wants something in its field."""

    need: str = ""
    """What the server must have listed for it."""

    def but(self, **changes: Any) -> "Option":  # noqa: ANN401 - values of fields
        """Return the same with other words or needs."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table."""

    name: str
    text: str
    """On a button."""

    done: str
    """What a job is then."""

    about: str
    """jobs, tube, pattern or schedule."""

    options: tuple[Option, ...] = ()
    states: tuple[str, ...] = RESTING
    """Jobs in these can be acted upon."""

    needs: tuple[str, ...] = ()
    """What the server must have listed."""

    act: jobs.Act | None = None
    """Does it to some jobs."""

    once: Callable[[Any, str, Mapping[str, Any]], Any] | None = None
    """Does it to a tube, a pattern or a schedule with a client; None: it is done to jobs, in pieces."""

    is_heavy: bool = False
    """Whether bodies go over the connection: then fewer jobs are a piece."""

    is_danger: bool = False
    """Whether something is lost that can't be brought back."""

    is_shown: bool = True
    """Whether the console has it."""

    def option(self, name: str) -> Option | None:
        """Return an option by its name; None: it has none."""
        return next((each for each in self.options if each.name == name), None)

    def missing(self, given: Mapping[str, Any], features: frozenset[str]) -> str:
        """Return what a server lacks for it; empty: nothing."""
        wanted = [*self.needs, *(each.need for each in self.options if each.need and given.get(each.name) is not None)]
        if self.name == "put" and (given.get("delay") or 0) % 1:
            wanted.append("put-job")
        for name, kind in (("rules", "rule"), ("lines", "schedule")):
            lines = str(given.get(name) or "").splitlines()
            wanted += [f"{kind}.{line.partition(':')[0].strip()}" for line in lines if ":" in line]
        return next((each for each in wanted if each not in features), "")


# --- Options ----------------------------------------------------------------------------------------------------------

PRIORITY = Option("priority", "priority", help="Their new priority.", label="Priority", hint="empty: as it is")
KEPT_PRIORITY = PRIORITY.but(help="Their new priority.  [default: the one they have]")
DELAY = Option("delay", "seconds", "How long until they are ready.", "Delay", "seconds until it is ready", value=0)
TTR = Option("ttr", "ttr", "How long a worker has.", "Time to run", "seconds that a worker has")
TO = Option("to", "tube", "The tube to move them into; they keep their ids.", about="The tube into which jobs go.")
BODY = Option("body", "body", label="Body")

PUT = (
    BODY.but(is_wanted=True),
    PRIORITY.but(help="The smallest comes first.", hint="from 0, the most urgent", value=limits.PRI_DEFAULT),
    DELAY,
    Option(
        "at",
        "moment",
        "When they are ready, instead of a delay: a time with its offset, or seconds since 1970.",
        "Ready at",
        "instead of a delay, as in 2026-12-31T18:00Z",
        about="When the job is ready, instead of a delay.",
    ),
    TTR.but(value=limits.TTR_S_DEFAULT),
    Option(
        "expire",
        "seconds",
        "How long until a job that nobody works on is deleted. (*)",
        "Expires after",
        "seconds; deleted if nobody works on it then; empty: never",
        need="put-job.expire",
    ),
    Option(
        "key",
        "text",
        "Put nothing if the tube has a job with this key. (*)",
        "Key",
        "of the jobs of a tube only one can have it",
        need="put-job.key",
    ),
    Option(
        "group",
        "text",
        "Whose they are: the groups of a tube take turns. (*)",
        "Group",
        "whose job it is: the groups of a tube take turns",
        need="put-job.group",
    ),
    Option(
        "taken",
        "choice",
        "What to do when a job has the key: keep it, or give it the new body and options.  [default: keep] (*)",
        "If a job has the key already",
        about="What a put does when a job has the key.",
        choices=(("keep", "it stays"), ("replace", "it is replaced")),
        need="put-job.taken",
    ),
    Option(
        "within",
        "seconds",
        "With --taken replace: how long after it was put first a job is ready at the latest. (*)",
        "Ready within",
        "seconds since it was put first, however often it is replaced",
        about="With `taken` = `replace`: after how many seconds since the job was put first it is ready at the latest.",
        need="put-job.within",
    ),
    Option(
        "until",
        "choice",
        "When the key is free again: when the job is deleted, or first reserved.  [default: delete] (*)",
        "The key is free again",
        about="When the key is free again.",
        choices=(("delete", "when the job is deleted"), ("reserve", "when it is first reserved")),
        need="put-job.until",
    ),
    Option(
        "once",
        "text",
        "Put nothing if a put with this token was done: for a command that is given again. (*)",
        about="A token: another put with it into the tube changes nothing, and says the id of then.",
        need="put-job.once",
    ),
    Option(
        "once_for",
        "ttr",
        "For how long --once counts, at most 1d.  [default: 5m] (*)",
        about="For how many seconds `once` counts, at most 86400; if it is not given, 300.",
        flag="--for",
        need="put-job.for",
    ),
)
CHANGE = (
    PRIORITY.but(need="change-job.pri"),
    DELAY.but(
        help="How long from now until they are ready.",
        hint="seconds until ready; empty: as it is",
        value=None,
        need="change-job.delay",
    ),
    TTR.but(hint="seconds that a worker has; empty: as it is", need="change-job.ttr"),
    Option(
        "expire",
        "seconds",
        "How long from now until they are deleted.",
        "Expires after",
        "seconds from now; 0: never; empty: as it is",
        need="change-job.expire",
    ),
    TO.but(flag="-t --tube", label="Tube", hint="empty: where it is", need=jobs.MOVES),
    BODY.but(need="change-body"),
)
SNOOZE = (DELAY.but(hint="seconds until ready", is_required=True), KEPT_PRIORITY)
FAIL = (
    Option("reason", "text", "Why; the server keeps 1 024 bytes of it."),
    KEPT_PRIORITY,
    DELAY.but(help="How long until they are ready.  [default: what the rules of the tube say]", value=None),
)

PAUSE = Option(
    "seconds", label="For", hint="seconds", about="Of `pause`.", value=3600, is_wanted=True, is_required=True
)

GROUP = Option(
    "group",
    "text",
    "Only this group of TUBE. (*)",
    about="Whose job it is; of `pause` and `resume`: only this group of the tube.",
    need="pause-group",
)


def pause_for(client: Any, tube: str, given: Mapping[str, Any], seconds: int) -> Any:  # noqa: ANN401 - of either client
    """Pause a tube, or a group of it; for 0 seconds ends a pause."""
    group = given.get("group")
    return client.pause_tube(tube, seconds) if group is None else client.pause_group(tube, group, seconds)


def put_job(client: Any, tube: str, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of either client
    """Put a job. What nobody has asked for is not sent, so that any server takes a plain put."""
    options = {name: value for name, value in given.items() if value is not None and name != "body"}
    if (delay := options.get("delay", 0)) % 1 == 0:
        options["delay"] = int(delay)
    return client.put(given["body"], tube=tube, **options)


LINES = Option(
    "lines",
    "rules",
    label="Lines",
    hint="exactly one of cron, every and at",
    about="Lines of a schedule, `cron: 30 2 * * *` for example.",
    is_wanted=True,
)


def document_of(lines: str, body: bytes) -> bytes:
    """Return a schedule as text. Its lines may have empty ones between them."""
    kept = [line for line in lines.split("\n") if line.strip()]
    return "".join(f"{line}\n" for line in kept).encode("utf-8", "surrogateescape") + b"\n" + body


async def set_schedule(client: Any, name: str, given: Mapping[str, Any]) -> None:  # noqa: ANN401 - an AsyncClient
    """Set a schedule. Without a body it keeps the one that it has."""
    body = given.get("body")
    if body is None:
        body = await body_of(client, name)
    await client.set_schedule_text(name, document_of(given["lines"], body))


async def body_of(client: Any, name: str) -> bytes:  # noqa: ANN401 - an AsyncClient
    """Return the body of a schedule's jobs; empty: there is no such schedule."""
    try:
        document: bytes = (await client.schedule(name)).document
    except NotFoundError:
        return b""
    return document.partition(b"\n\n")[2]


# --- Operations -------------------------------------------------------------------------------------------------------

# By name.
OPERATIONS: Mapping[str, Operation] = {
    each.name: each
    for each in (
        # What mends first, what destroys last: so stand the buttons.
        Operation("redrive", "Redrive", "brought back", "jobs", act=jobs.redrive),
        Operation("kick", "Kick", "kicked", "jobs", states=("delayed", "buried"), act=jobs.kick),
        Operation("snooze", "Snooze", "snoozed", "jobs", SNOOZE, act=jobs.snooze, is_heavy=True),
        Operation("change", "Change", "changed", "jobs", CHANGE, act=jobs.change, is_heavy=True),
        Operation(
            "move",
            "Move",
            "moved",
            "jobs",
            (TO.but(flag="--tube", label="Into the tube", is_wanted=True, is_required=True),),
            act=jobs.move,
        ),
        Operation(
            "bury", "Bury", "buried", "jobs", (KEPT_PRIORITY,), ("ready", "delayed"), act=jobs.bury, is_heavy=True
        ),
        Operation(
            "cancel",
            "Cancel",
            "cancelled",
            "jobs",
            states=STATES,
            needs=("cancel-job",),
            act=jobs.cancel,
            is_danger=True,
        ),
        Operation("delete", "Delete", "deleted", "jobs", act=jobs.delete, is_danger=True),
        Operation(
            "clear",
            "Clear",
            "deleted",
            "tube",
            (Option("states", "states", label="Jobs that are", about="Of `clear`; none: all of these."),),
            act=jobs.delete,
            is_danger=True,
        ),
        Operation("put", "Put", "put", "tube", PUT, once=put_job),
        Operation(
            "pause",
            "Pause",
            "paused",
            "tube",
            (PAUSE, GROUP),
            once=lambda client, tube, given: pause_for(client, tube, given, given["seconds"]),
        ),
        Operation(
            "resume",
            "Resume",
            "resumed",
            "tube",
            (GROUP,),
            once=lambda client, tube, given: pause_for(client, tube, given, 0),
        ),
        Operation(
            "set-rules",
            "Set rules",
            "set",
            "pattern",
            (
                Option(
                    "rules",
                    "rules",
                    label="Rules, a line each",
                    hint="without any, the rules of other patterns don't apply either",
                    about="Lines, `attempts: 5` for example.",
                    is_wanted=True,
                ),
            ),
            needs=("set-rules",),
            once=lambda client, pattern, given: client.set_rules(pattern, given["rules"]),
        ),
        Operation(
            "drop-rules",
            "Drop rules",
            "dropped",
            "pattern",
            needs=("drop-rules",),
            once=lambda client, pattern, _: client.drop_rules(pattern),
            is_danger=True,
        ),
        Operation(
            "set-schedule",
            "Set schedule",
            "set",
            "schedule",
            (LINES, BODY.but(hint="of its jobs")),
            needs=("set-schedule",),
            once=set_schedule,
        ),
        Operation(
            "fire-schedule",
            "Fire now",
            "fired",
            "schedule",
            (
                Option(
                    "at",
                    "seconds",
                    about="Of `fire-schedule`: Unix seconds, for when the job is told that it was scheduled.",
                ),
            ),
            needs=("fire-schedule",),
            once=lambda client, name, given: client.fire_schedule(name, given.get("at")),
        ),
        Operation(
            "pause-schedule",
            "Pause",
            "paused",
            "schedule",
            needs=("pause-schedule",),
            once=lambda client, name, _: client.pause_schedule(name),
        ),
        Operation(
            "resume-schedule",
            "Resume",
            "resumed",
            "schedule",
            needs=("pause-schedule",),
            once=lambda client, name, _: client.resume_schedule(name),
        ),
        Operation(
            "drop-schedule",
            "Drop",
            "dropped",
            "schedule",
            needs=("drop-schedule",),
            once=lambda client, name, _: client.drop_schedule(name),
            is_danger=True,
        ),
        Operation("release", "Release", "released", "jobs", (KEPT_PRIORITY, DELAY), act=jobs.release, is_shown=False),
        Operation("fail", "Fail", "failed", "jobs", FAIL, needs=("fail-job",), act=jobs.fail, is_shown=False),
    )
}
