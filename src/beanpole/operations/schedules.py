"""Schedules of a server, and when they fire: computed here, by the code that the server has. No I/O, no clock."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from beanpole.client import Schedule
from beanpole.client.explanation import moment_text
from beanpole.errors import NotFoundError
from beanpole.operations.plan import Plan, pieces, together
from beanpole.schedules.document import KINDS, Document, moment
from beanpole.schedules.timing import InZone
from beanpole.schedules.zones import ZoneError, zone

# --- What the server has ----------------------------------------------------------------------------------------------


def documents(names: Sequence[str]) -> Plan[dict[str, bytes]]:
    """Return the documents of those of some schedules that are there."""
    found = {}
    for piece in pieces(names):
        for name, result in (yield from together(piece, lambda line, name: line.schedule(name))):
            if not isinstance(result.error, NotFoundError):
                found[name] = result.result().document
    return found


def fits(name: str, pattern: str) -> bool:
    """Whether a pattern fits a name: it is the name, the beginning of it and `*`, or `*`."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def when_of(header: Mapping[str, str]) -> str:
    """Return the line of a schedule that says when, as in `cron: 30 2 * * *`; empty: it is not among these."""
    return next((f"{name}: {header[name]}" for name in KINDS if name in header), "")


def next_of(found: Schedule) -> datetime | None:
    """Return the next time of a schedule; None: there is none. That of one that is paused is as of then."""
    return found.next if found.state == "active" else None


# --- Times ------------------------------------------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def times_from(document: Document, first: datetime) -> Iterator[datetime]:
    """Return the times of a schedule from one on, without its spread. Raises ZoneError: its zone is not known here."""
    timing = document.timing()
    at_ns = (first - EPOCH) // timedelta(microseconds=1) * 1_000 - 1
    while (found := timing.after(at_ns)) is not None:
        at_ns = found
        yield time_of(at_ns)


def time_of(at_ns: int) -> datetime:
    """Return a moment as a time of UTC."""
    return EPOCH + timedelta(microseconds=at_ns // 1_000)


def local_time(text: str, zone_name: str) -> datetime:
    """Return the moment of a time of RFC 3339, which is local in a zone if it has no offset."""
    return time_of(moment(text, zone(zone_name)))


def utc(at: datetime | None) -> str | None:
    """Return a time as the protocol's documents have it."""
    return None if at is None else moment_text(at.astimezone(UTC))


def clock(at: datetime, zone_name: str, form: str = "%a %Y-%m-%d %H:%M:%S %Z") -> str:
    """Return what a clock in a zone shows at a time; empty: there is no such zone here."""
    try:
        return at.astimezone(zone(zone_name)).strftime(form)
    except ZoneError:
        return ""


def is_put_forward(at: datetime, document: Document) -> bool:
    """Whether a schedule fires at a time because the clocks go forward then, over the one that it names."""
    times = document.timing().times
    if not isinstance(times, InZone):
        return False
    seconds = (at - EPOCH) // timedelta(seconds=1)
    local = seconds + times.offset(seconds)
    return times.cron.first_from(local) != local
