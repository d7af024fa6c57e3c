"""What the server needs of a log, and the log of a server that keeps nothing.

A turn ends with :meth:`Log.append`; no reply leaves before ``durable_index`` has reached the records that it depends
on.
The log that keeps something is :class:`beanpole.log.files.filelog.FileLog`.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from beanpole.engine.records import Records


class Log(Protocol):
    """What the server needs of a log."""

    @property
    def records(self) -> Records:
        """What the engine tells its changes to; ``records.index`` is the number of the last one."""

    @property
    def durable_index(self) -> int:
        """The last record that a crash can't take back, as far as the policy promises that."""

    def append(self) -> None:
        """Write the records since the last call. Raise OSError when that fails: the server must stop."""

    def close(self) -> None:
        """Make everything durable and let go of the files."""

    def facts(self) -> dict[str, str]:
        """Return what ``stats`` tells of the log, by key."""


class NullLog:
    """A log that keeps nothing."""

    def __init__(self) -> None:
        self.records = Records()

    @property
    def durable_index(self) -> int:
        """Everything."""
        return self.records.index

    def append(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def facts(self) -> dict[str, str]:
        """Return that nothing is kept."""
        return {"durability": "none"}


@dataclass(frozen=True, slots=True)
class Policy:
    """When the log is synced."""

    interval_ms: int | None = 0
    """0: before every reply that depends on it; more: every so many milliseconds; None: never, the system does it."""

    @property
    def always(self) -> bool:
        """Whether replies wait for a sync."""
        return self.interval_ms == 0

    def __str__(self) -> str:
        if self.interval_ms is None:
            return "never"
        return f"every {self.interval_ms} ms" if self.interval_ms else "always"


@dataclass(slots=True)
class Segment:
    """A segment that is sealed."""

    number: int
    used_bytes: int


class Position(NamedTuple):
    """A place in the log."""

    record: int
    segment: int
    used_bytes: int


class Observer(Protocol):
    """Who is told what an operator wants to know."""

    def log_full(self, reason: str) -> None:
        """There is no space for more jobs; this is said again and again while it is so."""

    def log_has_space(self) -> None:
        """There is space again."""
