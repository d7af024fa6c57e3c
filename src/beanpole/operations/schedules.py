"""Schedules of a server, and when they fire: computed here, by the code that the server has. No I/O, no clock."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from beanpole.errors import NotFoundError
from beanpole.operations.plan import Plan, pieces, together
from beanpole.schedules.document import Document, moment
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


def header_of(text: bytes) -> dict[str, str]:
    """Return the lines of a document by their names, also those that only the server knows."""
    lines = text.partition(b"\n\n")[0].decode(errors="backslashreplace").split("\n")
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}


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
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00").removesuffix(".000") + "Z"


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
