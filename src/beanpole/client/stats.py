"""What ``stats``, ``stats-tube``, ``stats-job`` and the lists say, as typed values.

A field has the name of the server's key with underscores. A key that a server does not send leaves the field 0, empty
or False; one that we do not know is no error. Both are found by the server's own name as well, as in greenstalk:
``stats["cmd-put"]``, a number if it looks like one, else a string.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Self

from beanpole.errors import UnexpectedReplyError

Raw = dict[str, "int | str"]

TUBE_NAMES = {"name", "tube"}
"""Keys whose values are names of tubes: ``017`` is no number there."""


def parse_list(data: bytes) -> list[str]:
    """The strings of a YAML list. Raises UnexpectedReplyError for anything else."""
    lines = lines_of(data)
    if not all(line.startswith("- ") for line in lines):
        raise UnexpectedReplyError(f"a list of tubes was expected: {data[:200]!r}")
    return [unquoted(line[2:]) for line in lines]


def parse_raw(data: bytes) -> Raw:
    """The keys and values of a YAML dictionary. Raises UnexpectedReplyError for anything else."""
    return raw_of(lines_of(data))


def raw_of(lines: list[str]) -> Raw:
    """The same of its lines."""
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


def lines_of(data: bytes) -> list[str]:
    """The lines of a YAML text. Raises UnexpectedReplyError for what is none."""
    head, *lines = data.decode("utf-8", "surrogateescape").split("\n")
    if head != "---":
        raise UnexpectedReplyError(f"a YAML text was expected: {data[:200]!r}")
    return [line for line in lines if line]


def unquoted(text: str) -> str:
    """A value without its quotes."""
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] == '"' else text


@dataclass(frozen=True)
class _Stats(Mapping[str, "int | str"]):
    """Typed fields, and the raw values by the server's keys."""

    raw: Raw = field(repr=False)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError for what is no dictionary."""
        return cls._of(parse_raw(data))

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
        texts: list[list[str]] = []
        for line in lines_of(data):
            if line.startswith("- "):
                texts.append([])
            elif not line.startswith("  ") or not texts:
                raise UnexpectedReplyError(f"a list of statistics was expected: {data[:200]!r}")
            texts[-1].append(line[2:])
        return [cls._of(raw_of(text)) for text in texts]

    def __getitem__(self, key: str) -> "int | str":
        return self.raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)


@cache
def typed_keys(cls: type[_Stats]) -> list[tuple[str, str, object]]:
    """The typed fields of a class: the name, the server's key, the type."""
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
