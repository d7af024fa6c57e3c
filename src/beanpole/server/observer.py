"""What an operator reads of a server: of its connections, of what keeps them waiting, and of a disk that is full.

A turn is bounded: by what its commands cost by a table, 4 ms in all, and by the jobs that become due at once. So one
that takes much longer mostly waited for something: for the disk, or for a processor.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from beanpole.server import limits, listener
from beanpole.server.eventqueue import now_ns
from beanpole.server.logs import Logger

# How long a log line about a slow turn keeps others like it away; the next one says how many were left out.
SLOW_TURN_REPORT_NS = 1_000_000_000
LOG_FULL_REPORT_NS = 60_000_000_000  # how long a log line about a full disk keeps others like it away
REFUSAL_REPORT_NS = 60_000_000_000  # how long a line about a client that is refused keeps others like it away
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class SlowTurn:
    """What is known of a turn that took long."""

    took_ns: int  # by the clock at its beginning and at its end, and what the log did on the loop just before
    commands: dict[str, int]  # commands that it ran, by name
    cost_ns: int  # what these cost by the table of costs: about as long as they take
    connection: str  # whose commands cost most; empty: nobody's
    connection_cost_ns: int
    jobs_due_count: int  # jobs and pauses that timers moved
    waited_ns: dict[str, int] = field(default_factory=dict)  # by the log: for its `write`, `sync`, `rolling`
    client: str = ""  # what the client of that connection calls itself; empty: it has not said

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


class Reporter:
    """Writes log lines, and says once in a while what goes on and on."""

    def __init__(self, logger: Logger, clock: Callable[[], int] = now_ns) -> None:
        self.logger = logger
        self.clock = clock
        self.quiet_until_ns: dict[str, int] = {}

    def is_due(self, what: str, pause_ns: int) -> bool:
        """Whether a line that is said again and again is due again, and not for so long after that."""
        now = self.clock()
        if now < self.quiet_until_ns.get(what, 0):
            return False
        self.quiet_until_ns[what] = now + pause_ns
        return True


class Observer(Reporter):
    """Reports on connections, turns and the disk."""

    def __init__(self, logger: Logger, *, limited: bool = False, clock: Callable[[], int] = now_ns) -> None:
        super().__init__(logger, clock)
        self.limited = limited  # whether --connections-max allows fewer connections than there are descriptors
        self.left_out_count = 0  # slow turns since the last that was reported
        self.disk_is_full = False

    def connection_opened(self, fd: int) -> None:
        self.logger.info("connection opened", fd=fd, peer=listener.peer_text(fd))

    def connection_closed(self, fd: int) -> None:
        self.logger.info("connection closed", fd=fd)

    def channel_opened(self, link: str, channel: int, peer: str) -> None:
        self.logger.info("connection opened", link=link, channel=channel, peer=peer)

    def channel_closed(self, link: str, channel: int) -> None:
        self.logger.info("connection closed", link=link, channel=channel)

    def link_opened(self, link: str) -> None:
        """A front that is not this server's own carries clients."""
        self.logger.info("link opened", link=link)

    def link_closed(self, link: str, reason: str, channels: int, error: str | None) -> None:
        """A link has ended: its clients are lost connections."""
        about = {} if error is None else {"error": error}
        self.logger.warning("link closed", link=link, reason=reason, channels=channels, **about)

    def accept_paused(self, reason: str) -> None:
        """There is no place for a new client: no descriptor, or as many connections as there may be."""
        if self.limited and reason == "EMFILE":
            self.logger.warning("accepting paused", reason="--connections-max", effect="new clients wait for a place")
            return
        self.logger.error(
            "accepting paused", reason=reason, advice="raise the limit of open files (ulimit -n, LimitNOFILE=)"
        )

    def client_refused(self, listener: str, reason: str) -> None:
        """A front can't say what a client has shown."""
        if self.is_due(f"refused {listener}", REFUSAL_REPORT_NS):
            self.logger.warning("client refused", listener=listener, reason=reason)

    def turn_slow(self, slow: SlowTurn) -> None:
        """A turn has kept every client waiting: write a line, or count it as left out."""
        if not self.is_due("slow turn", SLOW_TURN_REPORT_NS):
            self.left_out_count += 1
            return
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

    def log_full(self, reason: str) -> None:
        """There is no space for more jobs. A disk that is full again and again is reported once in a while."""
        if not self.disk_is_full and self.is_due("disk full", LOG_FULL_REPORT_NS):
            self.disk_is_full = True
            effect = "put is answered with OUT_OF_MEMORY until there is space"
            self.logger.error("disk full", reason=reason, effect=effect)

    def log_has_space(self) -> None:
        """There is space again: that is said if it was said that there is none."""
        if self.disk_is_full:
            self.disk_is_full = False
            self.logger.info("disk has space", effect="jobs are taken again")


def in_ms(ns: int) -> float:
    return round(ns / NS_PER_MS, 1)
