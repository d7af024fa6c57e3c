"""What the server needs of a log: a class that keeps nothing, which logs that keep something derive from.

The order of calls: the engine is made with ``records``, :meth:`Log.recover` brings the jobs back into it,
:meth:`Log.start` lets the log do what it does by itself, a turn ends with :meth:`Log.append`, and the last call is
:meth:`Log.close`. No reply leaves before ``durable_index`` has reached the records that it depends on; the log calls
back when that has moved, and when it has failed: then nothing more may be answered.

A log need not be one of files, nor the only writer: that a record is durable may be late, or never come. The log that
keeps something is :class:`beanpole.log.files.filelog.FileLog`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from beanpole.engine.engine import Engine
from beanpole.engine.state.records import Records
from beanpole.log.turnlog import TurnLog

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many parts of it are done, and how many there are."""


@dataclass(slots=True)
class Recovery:
    """What a recovery found."""

    clock_offset_ns: int = 0
    """The log's clock, which is the engine's, minus the monotonic one."""

    record_count: int = 0
    notes: list[str] = field(default_factory=list)
    """What a crash left and how it was repaired, a sentence each."""


class Log(TurnLog):
    """What a server needs of a log. This one keeps nothing; others replace all of its methods."""

    def __init__(self) -> None:
        self.records: Records = Records()
        """What the engine records its changes with; ``records.index`` is the number of the last one."""
        self.on_pause: Callable[[str, int], None] = lambda _what, _took_ns: None
        """Called with what the log did on the loop, and for how many nanoseconds, if that is long enough to be felt."""

    @property
    def durable_index(self) -> int:
        """The last record that a crash can't take back, as far as the policy promises that."""
        return self.records.index

    @property
    def read_floor(self) -> int:
        """The record on which every reply depends now; 0: none. Asked only of a log that wants reservations."""
        return 0

    def recover(self, engine: Engine, progress: Progress = lambda _what, _done, _total: None) -> Recovery:  # noqa: ARG002
        """Bring back the jobs into an empty engine, which was made with ``records``. Raise StartError if that fails."""
        return Recovery()

    def start(self, on_durable: Callable[[], None], on_failure: Callable[[OSError], None]) -> None:
        """Begin what the log does by itself. It calls back when `durable_index` has moved, and once if it fails."""

    def append(self) -> None:
        """Write the records since the last call. Raise OSError when that fails: the server must stop.

        Make room for puts that had to wait, or find that there is none.
        """

    def close(self) -> None:
        """Make everything durable, and close files and connections. Raise OSError when that fails."""

    def obstacle(self) -> str:
        """Return what keeps replies from being sent, or jobs from being taken, in words; empty: nothing."""
        return ""

    def facts(self) -> dict[str, str]:
        """Return what ``stats`` says of the log, by key."""
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


class Observer(Protocol):
    """What a log reports to an operator."""

    def log_full(self, reason: str) -> None:
        """There is no space for more jobs; this is said again and again while it is so."""

    def log_has_space(self) -> None:
        """There is space again."""
