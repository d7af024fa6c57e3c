"""A job as a client sees it."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Generic, Self, TypeVar
from urllib.parse import unquote_to_bytes

from beanpole.errors import UnexpectedReplyError
from beanpole.protocol.wire import Reply

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """How an attempt at a job failed."""

    at: float
    """When, in Unix seconds."""
    how: str
    """``failed``, ``released`` or ``buried`` (by its worker), ``timed-out`` or ``lost`` (its connection)."""
    by: str
    """The name or the address of its worker; empty: the server didn't know it any more."""
    error: str
    """The first line of what the worker said; empty: nothing."""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """What the server says of a job beside its body. Times are in seconds.

    What stands behind `kicks` is None where it does not apply: a tube without a limit of attempts, a job without a key.
    """

    id: int
    tube: str = ""
    state: str = ""
    pri: int = 0
    ttr: int = 0
    age: float = 0.0
    delay: float = 0.0
    reserves: int = 0
    timeouts: int = 0
    releases: int = 0
    buries: int = 0
    kicks: int = 0
    attempt: int | None = None
    """Which attempt this is, from 1, by the server's count."""
    attempts: int | None = None
    """How many attempts the job has, by a rule of its tube."""
    key: str | None = None
    group: str | None = None
    meta: dict[str, str] | None = field(default=None, hash=False)
    """Its headers."""
    origin: str | None = None
    """The tube in which it died (``from=``)."""
    died: float | None = None
    """When it died, in Unix seconds."""
    size: int | None = None
    """Bytes of its body, in a list, where `body` may be cut."""
    body: bytes = field(default=b"", repr=False)
    """The beginning of its body, as the server keeps it, if the list was to have it."""
    session: int | None = None
    """The number of the session that holds it: this and what follows, if the list was to have it."""
    peer: str | None = None
    """The address of that session's client."""
    left: float | None = None
    """How long it is still held, or delayed."""
    reason: str | None = None
    """Why its last attempt failed, as its worker said."""
    tried: int | None = None
    """After how many attempts it died."""
    why: str | None = None
    """How it died: ``attempts`` (the last one failed), ``expired`` or ``given-up`` (by its worker)."""
    history: tuple[FailedAttempt, ...] | None = None
    """How its last attempts failed, the latest first; up to five."""
    schedule: str | None = None
    """The schedule that has put it."""
    scheduled: float | None = None
    """For which of the schedule's times, in Unix seconds."""
    fire: int | None = None
    """How many of the schedule's times had become jobs with this one; None: `fire_schedule` has put it."""

    @property
    def scheduled_at(self) -> datetime | None:
        """For which of the schedule's times it was put, in UTC; None: no schedule has put it."""
        return None if self.scheduled is None else datetime.fromtimestamp(self.scheduled, UTC)

    @classmethod
    def parse(cls, frame: Reply) -> Self:
        """Reads a JOB. Fields that are not known say nothing. Raises UnexpectedReplyError for a number that is none."""
        given: dict[str, Any] = {}
        for each in (frame.fields or b"").decode("utf-8", "surrogateescape").split(" "):
            name, _, value = each.partition("=")
            known = KINDS.get(name)
            if known is not None:
                field_name, kind = known
                try:
                    given[field_name] = value if kind is str else kind(value)
                except ValueError:
                    raise UnexpectedReplyError(f"{name} of job {frame.number} is {value!r}") from None
        return cls(id=frame.number, body=frame.body, **given)

    def as_dict(self) -> dict[str, Any]:
        """All that is known, by name; for lists of many, of which ``dataclasses.asdict`` would copy every value."""
        return {name: getattr(self, name) for name in NAMES}


def unescaped(text: str) -> str:
    """A text in which ``%`` and two digits stand for what a line can't have; bytes that are not UTF-8 are escaped."""
    return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode("utf-8", "backslashreplace")


def seconds(text: str) -> float:
    """A duration or a moment; whole ones are whole numbers."""
    return float(text) if "." in text else int(text)


def meta_of(text: str) -> dict[str, str]:
    """Headers by name, as the server has them: of a name that is there twice the last."""
    pairs = (each.partition(":") for each in text.split(",") if each)
    return {unescaped(name): unescaped(value) for name, _, value in pairs}


def history(text: str) -> tuple[FailedAttempt, ...]:
    """What a line of each attempt says. Raises ValueError for one that does not."""
    lines = [line.split("\t", 3) for line in unescaped(text).split("\n")]
    return tuple(FailedAttempt(seconds(at), how, by, error) for at, how, by, error in lines)


Kind = Callable[[str], int | float | str | dict[str, str] | tuple[FailedAttempt, ...]]

KINDS: dict[str, tuple[str, Kind]] = {
    "from": ("origin", str),
    **{name: (name, str) for name in ("tube", "state", "key", "group")},
    **{name: (name, int) for name in ("pri", "ttr", "reserves", "timeouts", "releases", "buries", "kicks")},
    **{name: (name, int) for name in ("attempt", "attempts", "size", "session", "tried", "fire")},
    **{name: (name, seconds) for name in ("age", "delay", "died", "left", "scheduled")},
    **{name: (name, str) for name in ("why", "schedule")},
    **{name: (name, unescaped) for name in ("peer", "reason")},
    "meta": ("meta", meta_of),
    "history": ("history", history),
}
"""The fields of a JOB on the wire: what they are called here, and what each is."""

NAMES = tuple(each.name for each in fields(JobInfo))


class Job(Generic[B]):
    """A job that was reserved or peeked at: its id and its body, decoded."""

    __slots__ = ("_frame", "body", "id")

    def __init__(self, id: int, body: B, frame: Reply | None = None) -> None:
        self.id = id
        self.body = body
        self._frame = frame

    @property
    def info(self) -> JobInfo | None:
        """What the server said of it when it was reserved. None: it did not, as its answer was no JOB."""
        return None if self._frame is None else JobInfo.parse(self._frame)

    @property
    def meta(self) -> dict[str, str]:
        """Its headers, as far as the server said them: ``reserve`` and ``peek`` do not, ``reserve-many`` does."""
        return (self.info and self.info.meta) or {}

    def __repr__(self) -> str:
        return f"beanpole.Job(id={self.id!r}, body={self.body!r})"


def job_id(job: "Job[B] | int") -> int:
    return job.id if isinstance(job, Job) else job
