"""A schedule as text: header lines `name: value`, an empty line, and the body of its jobs, as in a mail.

This is what a client sets and gets, what a file has, and what the log keeps. :func:`parse` reads it and says which line
is wrong; :attr:`Document.text` writes it back, in one order and form, without what is so by default. What
a stranger chooses, the body, stands behind the empty line and can't become a header.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

from beanpole.errors import ScheduleError
from beanpole.protocol import limits
from beanpole.protocol.names import NAME_RULE, TUBE
from beanpole.protocol.rules import NUMBER_MAX, duration_ns, number, only, read_line, seconds
from beanpole.schedules.cron import NEVER, Cron
from beanpole.schedules.timing import DAY_S, END_NS, SECOND_NS, Every, InUtc, InZone, Once, Times, Timing, moment_ns
from beanpole.schedules.zones import NAME, NAME_CHARS_MAX, ZoneError, zone

HEADER_BYTES_MAX = 4_096
"""Bytes of its header lines; those of the one form are always fewer."""

EXCEPT_MAX = 100
"""Dates of `except:`, as many holidays as a few years have."""

SPREAD_NS_MAX = DAY_S * SECOND_NS
"""The longest `spread:`, a day."""

KEY = re.compile(rb"[^\0- \x7f]{1,%d}" % limits.KEY_BYTES_MAX)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?(?:Z|[+-]\d{2}:\d{2})?")
YEARS = range(1970, 2200)

WHY_CHARS_MAX = 160
"""Characters of what a complaint says of a line: with the rest of it, a reply has 200 bytes at most."""

KINDS = ("cron", "every", "at")
"""The lines of which there is exactly one: they say when."""

TUBE_DEFAULT = b"default"
PRI_DEFAULT = 65_536
TTR_S_DEFAULT = 60
LATE_NS_DEFAULT = 60 * SECOND_NS
"""What a job is put with, and how late it may be put, if the document doesn't say."""


@dataclass(frozen=True, slots=True)
class Document:
    """A schedule as it was set. Times are strings in their one form, durations nanoseconds; "", 0, None: not said."""

    cron: str = ""
    every_ns: int = 0
    at: str = ""
    zone: str = "UTC"
    weeks: int = 1
    excepted: tuple[date, ...] = ()
    start: str = ""
    end: str = ""
    spread_ns: int = 0
    overlap: bool = False
    """Whether a job may be put while the last one is there."""
    late_ns: int = LATE_NS_DEFAULT
    catch_up: bool = True
    """Whether one of the times that were missed is made up for: `misfire: once`."""
    tube: bytes = TUBE_DEFAULT
    pri: int = PRI_DEFAULT
    delay_ns: int = 0
    ttr_s: int = TTR_S_DEFAULT
    expire_ns: int = 0
    key: bytes = b""
    until_reserve: bool = False
    body: bytes = b""
    places: Mapping[str, int] = field(default_factory=dict, compare=False)
    """In which line of the text each name stood."""

    @property
    def times(self) -> tuple[object, ...]:
        """What decides when it fires. While this stays the same, its next time does too."""
        return self.cron, self.every_ns, self.at, self.zone, self.weeks, self.excepted, self.start, self.end

    @property
    def header(self) -> bytes:
        """The header lines, each with its LF."""
        found = [(name, row.write(self)) for name, row in LINES.items()]
        return b"".join([b"%b: %b\n" % (name.encode(), value) for name, value in found if value])

    @property
    def text(self) -> bytes:
        """The document in its one form."""
        return self.header + b"\n" + self.body

    def timing(self) -> Timing:
        """Return its times.

        Raises:
            ZoneError: this machine has no data of its zone.
        """
        where: tzinfo = UTC if self.zone == "UTC" else zone(self.zone)
        start_ns = moment(self.start, where) if self.start else 0
        end_ns = moment(self.end, where) if self.end else END_NS
        return Timing(self.moments(where, start_ns), start_ns, end_ns)

    def moments(self, where: tzinfo, start_ns: int) -> Times:
        """Return its times as if it had neither start nor end."""
        if self.every_ns:
            return Every(self.every_ns, start_ns)
        if self.at:
            return Once(moment(self.at, where))
        cron = expression(self.cron)
        if self.weeks > 1 or self.excepted:
            first_day = datetime.fromtimestamp(start_ns // SECOND_NS, where).toordinal() - EPOCH_ORDINAL
            excepted = frozenset(day.toordinal() - EPOCH_ORDINAL for day in self.excepted)
            cron = expression(self.cron, self.weeks, first_day, excepted)
        return InUtc(cron) if where is UTC else InZone(cron, where)


EPOCH_ORDINAL = date(1970, 1, 1).toordinal()

expression = lru_cache(maxsize=1_024)(Cron)
"""Cron expressions, kept while they are in use: many schedules have the same few."""


def parse(text: bytes) -> Document:
    """Read a document. Whether it is too long, its zone is there and it ever fires is for :func:`check` to say.

    Raises:
        ScheduleError: a line is wrong; it says which, and why.
    """
    values: dict[str, Any] = {}
    at: dict[str, int] = {}  # in which line each name stands
    rest = text
    count = 0
    while rest:
        line_bytes, _, rest = rest.partition(b"\n")
        line = line_bytes.removesuffix(b"\r")
        if not line:
            break
        count += 1
        if len(text) - len(rest) > HEADER_BYTES_MAX:
            raise ScheduleError(count, f"the lines before the empty one have {HEADER_BYTES_MAX} bytes at most")
        try:
            name, found = read_line(line, LINES, at, "line", "; behind an empty line stands the body")
        except ValueError as wrong:
            raise ScheduleError(count, str(wrong)[:WHY_CHARS_MAX]) from None
        at[name] = count
        values |= found
    fit_together(values, at)
    return Document(**values, body=rest, places=at)


def fit_together(values: dict[str, Any], at: dict[str, int]) -> None:
    """Complain of lines that contradict each other, or that lack another."""
    kinds = [name for name in KINDS if name in at]
    if not kinds:
        raise ScheduleError(0, "one of cron, every and at is wanted")
    if len(kinds) > 1:
        raise ScheduleError(at[kinds[1]], f"{kinds[0]} and {kinds[1]} contradict each other")
    for name, needs in (("weeks", "cron"), ("weeks", "start"), ("except", "cron"), ("until", "key")):
        if name in at and needs not in at:
            raise ScheduleError(at[name], f"{name} goes only with {needs}")
    for name in ("start", "end", "spread"):
        if name in at and "at" in at:
            raise ScheduleError(at[name], f"{name} says nothing of a single time")
    if "zone" in at and not any(is_local(values.get(name, "")) for name in ("cron", "at", "start", "end")):
        raise ScheduleError(at["zone"], "no line has a local time for which a zone counts")


def header_of(text: bytes) -> dict[str, str]:
    """Return the lines of a document in its one form by their names, also those that this program doesn't know."""
    lines = text.partition(b"\n\n")[0].decode(errors="backslashreplace").split("\n")
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}


def measure(document: Document) -> None:
    """Complain of a document whose one form is too long: that is what is sent and kept.

    Raises:
        ScheduleError: it is.
    """
    if len(document.text) > limits.DOCUMENT_BYTES_MAX:
        raise ScheduleError(0, f"a schedule has {limits.DOCUMENT_BYTES_MAX} bytes at most")


def check(document: Document) -> None:
    """Complain of what only its one form, this machine's zones, or a search can tell.

    Raises:
        ScheduleError: it is too long, its zone is not there, it ends before it starts, or it never fires.
    """
    measure(document)
    try:
        timing = document.timing()
    except ZoneError as wrong:
        raise ScheduleError(document.places.get("zone", 0), f"zone: {wrong}") from None
    if timing.end_ns < timing.start_ns:
        raise ScheduleError(document.places.get("end", 0), "end is before start")
    if document.cron and expression(document.cron).first_from(SEARCHED_FROM_S) == NEVER:
        raise ScheduleError(document.places.get("cron", 0), "cron: there is no such day in 50 years")
    if timing.after(timing.start_ns - 1) is None:
        raise ScheduleError(0, "it never fires")


SEARCHED_FROM_S = 946_684_800
"""Where the search for any day of an expression begins: 2000-01-01, in local seconds."""


# --- Times ------------------------------------------------------------------------------------------------------------


def is_local(text: str) -> bool:
    """Whether what stands in a line is read in a zone: a cron expression, or a time without offset."""
    return bool(text) and not re.search(r"T.*(?:Z|[+-]\d{2}:\d{2})$", text)


def moment(text: str, where: tzinfo) -> int:
    """Return the moment that a time is; local times are of a zone."""
    read = datetime.fromisoformat(text)
    if read.tzinfo is None:
        return moment_ns(read, where)
    return moment_ns(read.astimezone(UTC).replace(tzinfo=None), UTC)


def read_time(words: list[bytes]) -> str:
    """Read a time of RFC 3339, whose offset may be left out. Return its one form."""
    text = only(words).decode("ascii", "replace").upper()
    if not TIME.fullmatch(text):
        raise ValueError("a time as 2026-03-29T02:30:00, or with Z or +02:00 behind it, is wanted")
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"there is no time {text}") from None
    if read.year not in YEARS:
        raise ValueError(f"a time is from {YEARS.start} to {YEARS.stop - 1}")
    written = read.replace(tzinfo=None).isoformat(timespec="milliseconds").removesuffix(".000")
    return written + ("" if read.tzinfo is None else "Z" if not read.utcoffset() else text[-6:])


def read_dates(words: list[bytes]) -> dict[str, Any]:
    """Read the dates of `except`."""
    found = set()
    for word in words:
        text = word.decode("ascii", "replace")
        try:
            found.add(date.fromisoformat(text if DATE.fullmatch(text) else ""))
        except ValueError:
            raise ValueError(f"dates as 2026-12-25 are wanted, not {text[:40]!a}") from None
    if len(found) > EXCEPT_MAX:
        raise ValueError(f"there are {EXCEPT_MAX} dates at most")
    return {"excepted": tuple(sorted(found))}


# --- The lines --------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What there is to know of a header line."""

    read: Callable[[list[bytes]], dict[str, Any]]
    """Reads the words behind the colon."""

    write: Callable[[Document], bytes]
    """Writes them; nothing if the document says what is so by default."""

    form: str
    """What stands behind the colon, as people read it."""

    effect: str
    """What it does, in a few words."""


def line(field: str, read: Callable[[list[bytes]], Any], write: Callable[[Any], bytes], form: str, effect: str) -> Row:
    """Return the row of a line that fills one field."""
    default = Document.__dataclass_fields__[field].default

    def written(document: Document) -> bytes:
        value = getattr(document, field)
        return b"" if value == default else write(value)

    return Row(lambda words: {field: read(words)}, written, form, effect)


def text_line(field: str, read: Callable[[list[bytes]], str], form: str, effect: str) -> Row:
    """Return the row of a line that is kept as text."""
    return line(field, read, str.encode, form, effect)


def duration_line(field: str, least_ns: int, most_ns: int, effect: str) -> Row:
    """Return the row of a line of seconds, which may be 0 if it is so by default."""
    may_be_0 = least_ns == Document.__dataclass_fields__[field].default

    def read(words: list[bytes]) -> int:
        found = 0 if may_be_0 and not only(words).strip(b"0") else duration_ns(only(words))
        if not least_ns <= found <= most_ns:
            raise ValueError(f"from {least_ns // SECOND_NS} to {most_ns // SECOND_NS} seconds are wanted")
        return found

    return line(field, read, seconds, "S", effect)


def choice_line(field: str, words: dict[bytes, bool], effect: str) -> Row:
    """Return the row of a line that says one of two words."""

    def read(given: list[bytes]) -> bool:
        word = only(given)
        if word not in words:
            raise ValueError(f"{' or '.join(sorted(each.decode() for each in words))} is wanted")
        return words[word]

    names = {value: word for word, value in words.items()}
    return line(field, read, lambda value: names[value], "|".join(sorted(each.decode() for each in words)), effect)


def read_cron(words: list[bytes]) -> str:
    """Read a cron expression."""
    return expression(b" ".join(words).decode("ascii", "backslashreplace")).text


def read_zone(words: list[bytes]) -> str:
    """Read the name of a zone."""
    name = only(words).decode("ascii", "replace")
    if len(name) > NAME_CHARS_MAX or not NAME.fullmatch(name):
        raise ValueError("the name of a time zone as Europe/Berlin is wanted")
    return name


def read_tube(words: list[bytes]) -> bytes:
    """Read the name of a tube."""
    if not TUBE.fullmatch(only(words)):
        raise ValueError(NAME_RULE)
    return words[0]


def read_key(words: list[bytes]) -> bytes:
    """Read a job's key."""
    if not KEY.fullmatch(only(words)):
        raise ValueError(f"a key has 1 to {limits.KEY_BYTES_MAX} bytes, and no space")
    return words[0]


def read_pri(words: list[bytes]) -> int:
    """Read a priority."""
    return 0 if not only(words).strip(b"0") else number(words[0])


def decimal(value: int) -> bytes:
    """Write a whole number."""
    return b"%d" % value


LINES = {
    "cron": text_line("cron", read_cron, "MINUTE HOUR DAY MONTH WEEKDAY", "as in a crontab: 30 2 * * *, or @daily"),
    "every": duration_line("every_ns", SECOND_NS, NUMBER_MAX * SECOND_NS, "at this interval, from start or 1970 on"),
    "at": text_line("at", read_time, "TIME", "once, at this time"),
    "zone": text_line("zone", read_zone, "NAME", "the time zone whose local time counts, as Europe/Berlin; UTC"),
    "weeks": line("weeks", lambda words: number(only(words), 520), decimal, "N", "only each N-th week from start's on"),
    "except": line(
        "excepted",
        lambda words: read_dates(words)["excepted"],
        lambda days: " ".join(map(str, days)).encode(),
        "DATE ...",
        "not on these local dates",
    ),
    "start": text_line("start", read_time, "TIME", "not before this time"),
    "end": text_line("end", read_time, "TIME", "not after this time"),
    "spread": duration_line("spread_ns", 0, SPREAD_NS_MAX, "later by up to so long, always as much for the same name"),
    "overlap": choice_line(
        "overlap", {b"skip": False, b"allow": True}, "skip a time, or allow it, while the last job is still there; skip"
    ),
    "late": duration_line("late_ns", SECOND_NS, NUMBER_MAX * SECOND_NS, "a time is missed when so long has passed; 60"),
    "misfire": choice_line(
        "catch_up", {b"once": True, b"skip": False}, "make up once for times that were missed, or skip them; once"
    ),
    "tube": line("tube", read_tube, bytes, "TUBE", "where jobs are put; default"),
    "pri": line("pri", read_pri, decimal, "N", "the priority of jobs, the smallest comes first; 65536"),
    "delay": duration_line("delay_ns", 0, NUMBER_MAX * SECOND_NS, "how long jobs are delayed"),
    "ttr": line("ttr_s", lambda words: number(only(words)), decimal, "S", "how long a worker has for a job; 60"),
    "expire": duration_line("expire_ns", 0, NUMBER_MAX * SECOND_NS, "a job that has waited so long is deleted"),
    "key": line("key", read_key, bytes, "KEY", "put nothing while a job of the tube has this key"),
    "until": choice_line(
        "until_reserve",
        {b"delete": False, b"reserve": True},
        "when the key is free again, when the job is deleted or first reserved; delete",
    ),
}
"""Every line, in the order in which they are written."""
