"""Schedules, as a client sees them. No I/O.

What is set is read here by the code that the server has for it, which is loaded with the first schedule. Of a zone it
sees the name alone: which zones there are, and whether a schedule ever fires, the server says.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Literal, Self, TypedDict, cast

from beanpole.client.extensions import fields_of, line, seconds, size_of, with_body
from beanpole.client.putting import Until
from beanpole.errors import ArgumentError, ScheduleError, UnexpectedReplyError
from beanpole.protocol import wire
from beanpole.protocol.wire import Reply

Duration = float | timedelta
"""Seconds, or a timedelta."""

Moment = str | datetime
"""A time with its zone, or text as ``2026-03-29T02:30:00``, which is local in the schedule's `zone`."""


FLOAT_ERROR_S = 5e-7
"""By how much a float like 0.1 + 0.2 may miss the milliseconds that are meant."""


class Nothing(bytes):
    """A body that nobody gave, and no codec encodes."""


NOTHING: Any = Nothing()


class ScheduleOptions(TypedDict, total=False):
    """The lines of a schedule, each as an option; ``except`` is `except_`. None: the line is left out.

    Exactly one of `cron`, `every` and `at` says when it fires.
    """

    cron: str | None
    every: Duration | None
    at: Moment | None
    zone: str | tzinfo | None
    weeks: int | None
    except_: str | Iterable[date | str] | None
    start: Moment | None
    end: Moment | None
    spread: Duration | None
    overlap: Literal["skip", "allow"] | None
    late: Duration | None
    misfire: Literal["once", "skip"] | None
    tube: str | None
    pri: int | None
    delay: Duration | None
    ttr: int | None
    expire: Duration | None
    key: str | None
    until: Until | None


# --- What is sent -----------------------------------------------------------------------------------------------------


def plain(value: object, _: str) -> str:
    """A value that is written as it is."""
    return str(value)


def duration(value: object, name: str) -> str:
    """Seconds. Raises ArgumentError, also for more than milliseconds: an interval would drift by what is rounded."""
    given = value.total_seconds() if isinstance(value, timedelta) else value
    text = seconds(given, name).decode()
    if abs(cast("float", given) - float(text)) > FLOAT_ERROR_S:
        raise ArgumentError(f"{name} has three decimals at most, as times are milliseconds, not {value!r}")
    return text


def moment(value: object, name: str) -> str:
    """A time, to the millisecond. Raises ArgumentError."""
    if not isinstance(value, datetime):
        return str(value)
    if value.utcoffset() is None:
        raise ArgumentError(
            f"{name} has no time zone: give it one, or write a time of the schedule's own zone as text,"
            f" {value.isoformat(timespec='seconds')!r}"
        )
    return value.isoformat(timespec="milliseconds")


def dates(value: object, _: str) -> str:
    """Some dates."""
    return " ".join(map(str, value)) if isinstance(value, Iterable) and not isinstance(value, str) else str(value)


WRITTEN: dict[str, Callable[[object, str], str]] = {
    **dict.fromkeys(("every", "spread", "late", "delay", "expire"), duration),
    **dict.fromkeys(("at", "start", "end"), moment),
    "except_": dates,
}
"""How the value of an option is written, where it is not plain."""


def document_of(options: ScheduleOptions, body: bytes) -> bytes:
    """A document. Raises ArgumentError for an option that can't be written, and TypeError for a body of no bytes."""
    size_of(body)
    lines: list[str] = []
    for name, value in options.items():
        if name not in ScheduleOptions.__annotations__:
            raise TypeError(f"a schedule has no option {name!r}")
        if value is not None:
            text = WRITTEN.get(name, plain)(value, name)
            if "\n" in text or "\r" in text:  # it would be another line
                raise ScheduleError(len(lines) + 1, f"{name.rstrip('_')}: its value stands on one line")
            lines.append(f"{name.rstrip('_')}: {text}\n")
    return "".join(lines).encode("utf-8", "surrogateescape") + b"\n" + body


def set_line(name: str, text: bytes) -> tuple[bytes, tuple[str, ...]]:
    """A set-schedule, and what the server must have listed for it. Raises ScheduleError for what no server would take.

    The document goes in its one form, without what is so by default.
    """
    from beanpole.schedules.document import measure, parse  # noqa: PLC0415 - who sets no schedules loads none of this

    document = parse(text)
    measure(document)
    data, needs = line(b"set-schedule", wire.tube_name(name), size_of(document.text))
    lines = [f"schedule.{each.partition(b':')[0].decode()}" for each in document.header.splitlines()]
    return with_body((data, (*needs, *lines)), document.text)


# --- What is answered -------------------------------------------------------------------------------------------------


def time_of(text: str | bytes) -> datetime | None:
    """The time of some Unix seconds; None: 0. Raises UnexpectedReplyError for what is none."""
    try:
        at_s = float(text)
        return datetime.fromtimestamp(at_s, UTC) if at_s else None
    except (ValueError, OverflowError, OSError):
        raise UnexpectedReplyError(f"a time was expected: {text!r}") from None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that the server has. Times are in UTC."""

    name: str
    state: str
    """``active``, ``paused``, or ``ended``: it has no time left."""
    next: datetime | None = None
    """Its next time; None: there is none. Of one that is paused it is as of then."""
    last: datetime | None = None
    """The last of its times that fired, was skipped or missed; None: none yet."""
    due: datetime | None = None
    """When the job of the next time is put: that is later by `spread`."""
    fires: int = 0
    """How many of its times became jobs."""
    skips: int = 0
    """How many were skipped, as `overlap`, `key` or the tube's rule said."""
    misses: int = 0
    """How many passed while nothing could be put."""
    size: int = 0
    """Bytes of its document."""
    job: int | None = None
    """The id of the job that was put last."""
    blocked: str | None = None
    """Why what is due is not put: ``disk``, which is full, or ``zone``, of which the server has no data."""
    document: bytes = field(default=b"", repr=False)
    """Its lines, an empty line and the body of its jobs; in a list as much of it as was asked for."""

    @classmethod
    def parse(cls, frame: Reply) -> Self:
        """Reads a SCHEDULE; fields that are not known say nothing. Raises UnexpectedReplyError for what is none."""
        given = fields_of(frame.fields)
        try:
            numbers = {each: int(given[each]) for each in ("fires", "skips", "misses", "size")}
            job = int(given["job"]) if "job" in given else None
            state, next_s, last_s = (given[each] for each in ("state", "next", "last"))
        except (KeyError, ValueError) as error:
            raise UnexpectedReplyError(f"a schedule was expected: {error!r} in {frame.fields!r}") from error
        return cls(
            name=(frame.fields or b"").partition(b" ")[0].decode("utf-8", "surrogateescape"),
            state=state,
            next=time_of(next_s),
            last=time_of(last_s),
            due=time_of(given.get("due", next_s)),
            job=job,
            blocked=given.get("blocked"),
            document=frame.body,
            **numbers,
        )


def schedules_of(reply: Reply) -> list[Schedule]:
    return [Schedule.parse(each) for each in reply.frames]
