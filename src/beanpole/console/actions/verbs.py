"""The table of verbs: what each is about, what it takes, what the server must know for it, and how it is done."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from beanpole.client import JobInfo
from beanpole.client.extensions import RESTING
from beanpole.console import limits
from beanpole.console.actions import pieces, tubes
from beanpole.console.actions.action import Filter, Group, Ids, Pattern, Target, Tube
from beanpole.console.actions.pieces import Doing

JOBS: tuple[type[Target], ...] = (Ids, Filter, Group)


@dataclass(frozen=True, slots=True)
class Verb:
    """What can be done."""

    name: str
    text: str
    """On a button."""

    done: str
    """What a job is then."""

    targets: tuple[type[Target], ...]
    takes: tuple[str, ...] = ()
    """Fields of `Given`."""

    wants: tuple[str, ...] = ()
    """Those that must be there."""

    states: tuple[str, ...] = RESTING
    """Jobs in these can be acted upon."""

    needs: tuple[str, ...] = ()
    """What the server must have listed."""

    piece: Callable[[Doing, Sequence[JobInfo]], Awaitable[None]] | None = None
    """Does it to some jobs."""

    once: Callable[[Doing], Awaitable[None]] | None = None
    """Does all of it; None: it is done in pieces."""

    piece_jobs: int = limits.ACTION_PIECE
    is_danger: bool = False
    """Whether something is lost that can't be brought back."""


OPTIONS = ("priority", "delay", "ttr", "expire")

VERBS: dict[str, Verb] = {
    each.name: each
    for each in (
        Verb("delete", "Delete", "deleted", JOBS, piece=pieces.delete, is_danger=True),
        Verb("kick", "Kick", "kicked", JOBS, states=("delayed", "buried"), piece=pieces.kick),
        Verb(
            "bury",
            "Bury",
            "buried",
            JOBS,
            ("priority",),
            states=("ready", "delayed"),
            piece=pieces.bury,
            piece_jobs=limits.ACTION_RESERVED_PIECE,
        ),
        Verb(
            "snooze",
            "Put off",
            "put off",
            JOBS,
            ("priority", "delay"),
            piece=pieces.snooze,
            piece_jobs=limits.ACTION_RESERVED_PIECE,
        ),
        Verb("move", "Move", "moved", JOBS, ("to",), ("to",), piece=pieces.move),
        Verb("redrive", "Redrive", "brought back", JOBS, piece=pieces.redrive),
        Verb(
            "change",
            "Change",
            "changed",
            JOBS,
            ("to", *OPTIONS, "body"),
            piece=pieces.change,
            piece_jobs=limits.ACTION_RESERVED_PIECE,
        ),
        Verb("clear", "Clear", "deleted", (Tube,), ("states",), piece=pieces.delete, is_danger=True),
        Verb("put", "Put", "put", (Tube,), (*OPTIONS, "body", "key", "taken", "until"), ("body",), once=tubes.put),
        Verb("pause", "Pause", "paused", (Tube,), ("seconds",), ("seconds",), once=tubes.pause),
        Verb("resume", "Resume", "resumed", (Tube,), once=tubes.resume),
        Verb(
            "set-rules",
            "Set rules",
            "set",
            (Pattern,),
            ("rules",),
            ("rules",),
            needs=("set-rules",),
            once=tubes.set_rules,
        ),
        Verb(
            "drop-rules",
            "Drop rules",
            "dropped",
            (Pattern,),
            needs=("drop-rules",),
            once=tubes.drop_rules,
            is_danger=True,
        ),
    )
}
"""By name."""


def missing(verb: Verb, action_needs: Sequence[str], features: frozenset[str]) -> str:
    """What a server lacks for a verb; empty: nothing."""
    return next((each for each in (*verb.needs, *action_needs) if each not in features), "")
