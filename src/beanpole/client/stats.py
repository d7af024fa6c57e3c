"""What the commands whose answers are YAML say, as typed values.

Of ``stats``, ``stats-tube`` and ``stats-job``, a field has the name of the server's key with underscores. A key that a
server does not send leaves the field 0, empty or False; one that we do not know is no error. Both are found by the
server's own name as well, as in greenstalk: ``stats["cmd-put"]``, a number if it looks like one, else a string.
"""

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Self

from beanpole.errors import UnexpectedReplyError

Raw = dict[str, "int | str"]

TUBE_NAMES = {"name", "tube"}  # keys whose values are names of tubes: ``017`` is no number there


def lines_of(data: bytes) -> list[str]:
    """The lines of a YAML text. Raises UnexpectedReplyError for what is none."""
    head, *lines = data.decode("utf-8", "surrogateescape").split("\n")
    if head != "---":
        raise UnexpectedReplyError(f"a YAML text was expected: {data[:200]!r}")
    return [line for line in lines if line]


def parse_list(data: bytes) -> list[str]:
    """The strings of a YAML list. Raises UnexpectedReplyError for anything else."""
    lines = lines_of(data)
    if not all(line.startswith("- ") for line in lines):
        raise UnexpectedReplyError(f"a list of tubes was expected: {data[:200]!r}")
    return [unquoted(line[2:]) for line in lines]


def parse_items(data: bytes, what: str) -> list[list[str]]:
    """The lines of each dictionary of a YAML list. Raises UnexpectedReplyError for anything else."""
    items: list[list[str]] = []
    for line in lines_of(data):
        if line.startswith("- "):
            items.append([])
        elif not line.startswith("  ") or not items:
            raise UnexpectedReplyError(f"a list of {what} was expected: {data[:200]!r}")
        items[-1].append(line[2:])
    return items


def raw_of(lines: list[str]) -> Raw:
    raw: Raw = {}
    for line in lines:
        key, colon, text = line.partition(": ")
        if not colon:
            raise UnexpectedReplyError(f"statistics were expected: {line[:200]!r}")
        raw[sys.intern(key)] = int(text) if text.isdecimal() and key not in TUBE_NAMES else value_of(key, text)
    return raw


def value_of(key: str, text: str) -> "int | str":
    """What stands behind a key: a number if it looks like one."""
    if key not in TUBE_NAMES:
        with contextlib.suppress(ValueError):
            return int(text)
    return unquoted(text)


def unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] == '"' else text


@dataclass(frozen=True)
class _Stats(Mapping[str, "int | str"]):
    """Typed fields, and the raw values by the server's keys."""

    raw: Raw = field(repr=False)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError for what is no dictionary."""
        return cls._of(raw_of(lines_of(data)))

    @classmethod
    def _of(cls, raw: Raw) -> Self:
        given: dict[str, Any] = {}
        for name, key, kind in typed_keys(cls):
            value = raw.get(key)
            if value is not None:
                given[name] = value if type(value) is kind else _typed(value, kind, key)
        return cls(raw=raw, **given)

    @classmethod
    def parse_many(cls, data: bytes) -> list[Self]:
        """Reads a list of them. Raises UnexpectedReplyError for what is none."""
        return [cls._of(raw_of(lines)) for lines in parse_items(data, "statistics")]

    def __getitem__(self, key: str) -> "int | str":
        return self.raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)


@cache
def typed_keys(cls: type[_Stats]) -> list[tuple[str, str, object]]:
    return [(each.name, each.name.replace("_", "-"), each.type) for each in fields(cls) if each.name != "raw"]


def _typed(value: "int | str", kind: object, key: str) -> object:
    try:
        if kind is bool:
            return value == "true"
        return kind(value) if kind in {int, float, str} else value
    except ValueError:
        raise UnexpectedReplyError(f"{key} is {value!r}") from None


@dataclass(frozen=True)
class StatsJob(_Stats):
    """What ``stats-job`` says of a job. Times are in seconds."""

    id: int = 0
    tube: str = ""
    state: str = ""
    pri: int = 0
    age: int = 0
    delay: int = 0
    ttr: int = 0
    time_left: int = 0
    file: int = 0
    reserves: int = 0
    timeouts: int = 0
    releases: int = 0
    buries: int = 0
    kicks: int = 0


@dataclass(frozen=True)
class StatsTube(_Stats):
    """What ``stats-tube`` says of a tube, and behind that what ``stats-tubes`` adds. Times are in seconds."""

    name: str = ""
    current_jobs_urgent: int = 0
    current_jobs_ready: int = 0
    current_jobs_reserved: int = 0
    current_jobs_delayed: int = 0
    current_jobs_buried: int = 0
    total_jobs: int = 0
    current_using: int = 0
    current_watching: int = 0
    current_waiting: int = 0
    cmd_delete: int = 0
    cmd_pause_tube: int = 0
    pause: int = 0
    pause_time_left: int = 0
    jobs_expired: int = 0
    jobs_dead: int = 0
    jobs_moved_in: int = 0
    jobs_moved_out: int = 0
    jobs_cleared: int = 0
    jobs_cancelled: int = 0
    jobs_replaced: int = 0
    puts_merged: int = 0
    puts_refused: int = 0
    jobs_reserved: int = 0
    jobs_released: int = 0
    jobs_buried: int = 0
    jobs_kicked: int = 0
    jobs_timed_out: int = 0
    jobs_lost: int = 0
    oldest_ready: int = 0


@dataclass(frozen=True)
class Stats(_Stats):
    """What ``stats`` says of a server. Times are in seconds, sizes in bytes."""

    current_jobs_urgent: int = 0
    current_jobs_ready: int = 0
    current_jobs_reserved: int = 0
    current_jobs_delayed: int = 0
    current_jobs_buried: int = 0
    cmd_put: int = 0
    cmd_peek: int = 0
    cmd_peek_ready: int = 0
    cmd_peek_delayed: int = 0
    cmd_peek_buried: int = 0
    cmd_reserve: int = 0
    cmd_reserve_with_timeout: int = 0
    cmd_delete: int = 0
    cmd_release: int = 0
    cmd_use: int = 0
    cmd_watch: int = 0
    cmd_ignore: int = 0
    cmd_bury: int = 0
    cmd_kick: int = 0
    cmd_touch: int = 0
    cmd_stats: int = 0
    cmd_stats_job: int = 0
    cmd_stats_tube: int = 0
    cmd_list_tubes: int = 0
    cmd_list_tube_used: int = 0
    cmd_list_tubes_watched: int = 0
    cmd_pause_tube: int = 0
    job_timeouts: int = 0
    total_jobs: int = 0
    max_job_size: int = 0
    current_tubes: int = 0
    current_connections: int = 0
    current_producers: int = 0
    current_workers: int = 0
    current_waiting: int = 0
    total_connections: int = 0
    pid: int = 0
    version: str = ""
    rusage_utime: float = 0.0
    rusage_stime: float = 0.0
    uptime: int = 0
    binlog_oldest_index: int = 0
    binlog_current_index: int = 0
    binlog_records_migrated: int = 0
    binlog_records_written: int = 0
    binlog_max_size: int = 0
    draining: bool = False
    id: str = ""
    hostname: str = ""
    os: str = ""
    platform: str = ""
    schedules: int = 0
    schedules_paused: int = 0
    schedules_due: int = 0
    schedule_fires: int = 0
    schedule_skips: int = 0
    schedule_misses: int = 0
    clock_sets: int = 0


# --- Histograms -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many of some numbers lie between the bounds of their unit."""

    count: int
    sum: int
    counts: tuple[int, ...]
    """Up to the first bound; beyond that one and up to the second; and so on. The last: beyond all bounds."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a line. Raises UnexpectedReplyError for what is no histogram."""
        try:
            count, total, *counts = map(int, text.split(" "))
        except ValueError:
            raise UnexpectedReplyError(f"a histogram was expected: {text[:200]!r}") from None
        return cls(count, total, tuple(counts))


@dataclass(frozen=True, slots=True)
class Histograms:
    """A page of ``stats-histograms``. Times are in microseconds."""

    bounds: dict[str, tuple[int, ...]]
    """By unit: ``job`` for the times of jobs and of reserves, ``turn`` for turns and syncs, ``commands``."""

    server: dict[str, Histogram]
    """By name: ``job-ready``, ``job-held``, ``job-late``, ``schedule-late``, ``reserve-wait``, ``turn``,
    ``turn-commands``, ``sync``."""

    tubes: dict[str, dict[str, Histogram]]
    """The times of jobs of each tube of the page, in the order of their names, where anything was counted."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError for what is something else."""
        head, *lines = lines_of(data) or [""]
        bounds: dict[str, tuple[int, ...]] = {}
        try:
            bounds = {unit: tuple(map(int, each)) for unit, each in json.loads(head.removeprefix("bounds: ")).items()}
        except (ValueError, TypeError, AttributeError):
            raise UnexpectedReplyError(f"bounds of histograms were expected: {head[:200]!r}") from None
        server: dict[str, Histogram] = {}
        tubes: dict[str, dict[str, Histogram]] = {}
        part = server
        for line in lines:
            if line.startswith("- name: "):
                part = tubes[unquoted(line[8:])] = {}
            elif not line.startswith("tubes:"):
                name, _, text = line.lstrip().partition(": ")
                part[name] = Histogram.parse(text)
        return cls(bounds, server, tubes)


# --- Sessions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A connection to the server. Durations are in seconds."""

    number: int
    name: str
    """What it has called itself; empty: nothing."""
    peer: str
    """The address of the client; ``console`` for the server's own; empty: unknown."""
    since: float
    """For how long it has been connected."""
    last_command: str
    """Its last command; empty: there was none. A wrong one is ``bad-format`` or ``unknown-command``, for example."""
    last_command_age: float
    used: str
    watched: list[str]
    """The first of the tubes that it watches."""
    watched_count: int
    waiting: float | None
    """For how long it has waited for a job; None: it does not."""
    jobs_held: int
    oldest_held: float | None
    """For how long it has held the job that it has held longest; None: it holds none."""
    lost: float | None = None
    """For how long it has had no connection; None: it has one. Until it returns its jobs wait for it."""
    until: float | None = None
    """For how long it may still return."""
    waits_for: str = ""
    """What it waits for; empty: a job, or nothing. ``notice``: to be told of a job, which it does not take by that."""
    told: str = ""
    """The tube that it was told of, a job of which is left to it for a second at most; empty: none."""
    user: str = ""
    """Whose it is; empty: the server has no users."""
    via: str = ""
    """The link over which it has come; empty: none."""

    @classmethod
    def parse_many(cls, data: bytes) -> list[Self]:
        """Reads a list of them. Raises UnexpectedReplyError for what is none; unknown keys are left out."""
        items = parse_items(data, "sessions")
        try:
            return [cls._of(dict(line.split(": ", 1) for line in lines)) for lines in items]
        except (KeyError, ValueError) as error:
            raise UnexpectedReplyError(f"a list of sessions was expected: {error!r} in {data[:200]!r}") from error

    @classmethod
    def _of(cls, item: dict[str, str]) -> Self:
        command = item["last-command"]
        return cls(
            number=int(item["number"]),
            name=str(json.loads(item["name"])),
            peer=str(json.loads(item["peer"])),
            since=float(item["since"]),
            last_command="" if command == "none" else command,
            last_command_age=float(item["last-command-age"]),
            used=item["used"],
            watched=re.findall(r"[^\[\], ]+", item["watched"]),
            watched_count=int(item["watched-count"]),
            waiting=float(item["waiting"]) if "waiting" in item else None,
            jobs_held=int(item["jobs-held"]),
            oldest_held=float(item["oldest-held"]) if "oldest-held" in item else None,
            lost=float(item["lost"]) if "lost" in item else None,
            until=float(item["until"]) if "until" in item else None,
            waits_for=item.get("waits-for", ""),
            told=item.get("told", ""),
            user=item.get("user", ""),
            via=str(json.loads(item.get("via", '""'))),
        )


@dataclass(frozen=True, slots=True)
class GroupStats:
    """What a group of a tube has."""

    group: str
    """Its name; empty: of the jobs without one."""
    weight: int
    ready: int
    reserved: int
    delayed: int
    buried: int
    next: int | None
    """The ready job that it hands out first; None: none is ready."""
    next_age: float | None
    """For how many seconds that has been there."""
    closed: list[str]
    """What holds it back now: rules, or ``pause``."""
    pause_time_left: float
    """For how many seconds it is still paused; 0: it is not."""

    @classmethod
    def parse_many(cls, data: bytes) -> list[Self]:
        """Reads a list of them. Raises UnexpectedReplyError for what is none; unknown keys are left out."""
        try:
            return [cls._of(dict(line.split(": ", 1) for line in lines)) for lines in parse_items(data, "groups")]
        except (KeyError, ValueError) as error:
            raise UnexpectedReplyError(f"a list of groups was expected: {error!r} in {data[:200]!r}") from error

    @classmethod
    def _of(cls, item: dict[str, str]) -> Self:
        counts = {name: int(item[name]) for name in ("weight", "ready", "reserved", "delayed", "buried")}
        return cls(
            group=str(json.loads(item["group"])),
            **counts,
            next=int(item["next"]) if "next" in item else None,
            next_age=float(item["next-age"]) if "next-age" in item else None,
            closed=re.findall(r"[^\[\], ]+", item["closed"]),
            pause_time_left=float(item.get("pause-time-left", 0)),
        )


# --- Failures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Jobs that failed in one tube for one reason. Moments are in Unix seconds."""

    tube: str | None
    """In which tube they failed; None: in several, of which there are too many."""
    error: str | None
    """The first line of what their workers said, with ``…`` for what differs from job to job; empty: no worker said
    anything; None: these are the tube's jobs of further errors, of which there are too many."""
    line: str
    """The first line of what one of them says."""
    count: int
    buried: int
    """How many of them are no dead jobs, but were buried by their workers."""
    attempts: int
    """How many died as their last attempt failed."""
    expired: int
    given_up: int
    last: int
    """The id of the one that failed last."""
    first_died: float | None
    """When the first of them died since the group is there; None: none did."""
    last_died: float | None


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """How many jobs have failed, and why."""

    total: int
    groups: list[FailureGroup]
    """The largest first."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError; unknown keys are left out."""
        total = 0
        items: list[dict[str, str]] = []
        for line in lines_of(data):
            key, _, value = line.removeprefix("- ").strip().partition(": ")
            if line.startswith("- "):
                items.append({})
            if line.startswith(("- ", "  ")) and items:
                items[-1][key] = value
            elif key == "total" and value.isdecimal():
                total = int(value)
            elif line not in {"groups:", "groups: []"}:
                raise UnexpectedReplyError(f"groups of failures were expected: {data[:200]!r}")
        try:
            return cls(total, [group_of(each) for each in items])
        except (KeyError, ValueError) as error:
            raise UnexpectedReplyError(f"groups of failures were expected: {error!r} in {data[:200]!r}") from error


def group_of(item: dict[str, str]) -> FailureGroup:
    return FailureGroup(
        tube=item.get("tube"),
        error=json.loads(item["error"]) if "error" in item else None,
        line=json.loads(item["line"]) if "line" in item else "",
        count=int(item["count"]),
        buried=int(item["buried"]),
        attempts=int(item["attempts"]),
        expired=int(item["expired"]),
        given_up=int(item["given-up"]),
        last=int(item["last"]),
        first_died=float(item["first-died"]) if "first-died" in item else None,
        last_died=float(item["last-died"]) if "last-died" in item else None,
    )
