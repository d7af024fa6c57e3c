"""Turns that took long: what is known of one, which of it was the reason, and the log line that says so.

A turn is bounded: by what its commands cost by a table, 4 ms in all, and by the jobs that become due at once. So one
that takes much longer mostly waited for something: for the disk, or for a processor.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from beanpole.server import limits
from beanpole.server.eventqueue import now_ns
from beanpole.server.logs import Logger

SLOW_TURN_REPORT_NS = 1_000_000_000
"""How long a log line about a slow turn keeps others like it away; the next one says how many were left out."""

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class SlowTurn:
    """What is known of a turn that took long."""

    took_ns: int
    """From the clock reading at its beginning to that at its end, and what the log did on the loop just before."""

    commands: dict[str, int]
    """Commands that it ran, by name."""

    cost_ns: int
    """What these cost by the table of costs: about as long as they take."""

    connection: str
    """Whose commands cost most; empty: nobody's."""

    connection_cost_ns: int
    jobs_due_count: int
    """Jobs and pauses that timers moved."""

    waited_ns: dict[str, int] = field(default_factory=dict)
    """How long the log held up the loop, by what it did: ``write``, ``sync``, ``rolling``."""

    client: str = ""
    """What the client of that connection calls itself; empty: it has not said."""

    @property
    def reason(self) -> str:
        """What took at least half of the time; ``the machine``, if nothing that the server did."""
        known = {
            **self.waited_ns,
            "commands": self.cost_ns,
            "timers": self.jobs_due_count * limits.MOVED_COST_NS,
        }
        reason, longest_ns = max(known.items(), key=lambda each: each[1])
        return reason if 2 * longest_ns >= self.took_ns else "the machine"


class SlowTurnReporter:
    """Writes a log line about slow turns, at most one a second."""

    def __init__(self, logger: Logger, clock: Callable[[], int] = now_ns) -> None:
        self.logger = logger
        self.clock = clock
        self.quiet_until_ns = 0
        self.left_out_count = 0

    def report(self, slow: SlowTurn) -> None:
        """Write a line, or count it as left out."""
        now = self.clock()
        if now < self.quiet_until_ns:
            self.left_out_count += 1
            return
        self.quiet_until_ns = now + SLOW_TURN_REPORT_NS
        self.logger.warning(
            "slow turn",
            ms=in_ms(slow.took_ns),
            reason=slow.reason,
            connection=slow.connection or "none",
            **({"client": slow.client} if slow.client else {}),
            connection_cost_ms=in_ms(slow.connection_cost_ns),
            commands=slow.commands,
            cost_ms=in_ms(slow.cost_ns),
            jobs_due=slow.jobs_due_count,
            **{f"{part}_ms": in_ms(slow.waited_ns.get(part, 0)) for part in ("write", "sync", "rolling")},
            left_out=self.left_out_count,
        )
        self.left_out_count = 0


def in_ms(ns: int) -> float:
    """Return milliseconds, to be read."""
    return round(ns / NS_PER_MS, 1)
