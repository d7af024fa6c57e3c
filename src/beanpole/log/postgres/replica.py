"""A replica: an engine that has applied the rows of the log up to a place, ready to lead.

A row is applied when a later one says that it is confirmed (:attr:`Row.confirmed`); until then its bytes are kept. So
what a fail-over of PostgreSQL takes back was never in the engine. Replay does the work, record by record: it keeps the
accounts of segments and arms timers as it goes, so that nothing is left at its end that grows with the jobs.
"""

from collections import deque
from collections.abc import Callable

from beanpole.engine.engine import Engine
from beanpole.log.accounts import Accounts
from beanpole.log.encoder import Encoder
from beanpole.log.postgres.checking import check_behind, check_row, read_records
from beanpole.log.postgres.rows import Place, Row, RowKind
from beanpole.log.postgres.store import Settings
from beanpole.log.replay import Replay


class Replica:
    """An engine, and how much of the log it has applied."""

    def __init__(  # noqa: PLR0913 - everything replaceable is an argument
        self,
        settings: Settings,
        first: Row,
        make_engine: Callable[[Encoder, Settings], Engine],
        now_ns: int,
        *,
        as_one_segment: bool = False,
        on_applied: Callable[["Replica"], None] = lambda _: None,
    ) -> None:
        accounts = Accounts(settings.segment_bytes, unlimited=True)
        self.records = Encoder(accounts, wants_reservations=True)
        self.engine = make_engine(self.records, settings)
        self.engine.set_shard(settings.shard)
        self.replay = Replay(self.engine, self.records)
        self.as_one_segment = as_one_segment
        """Whether nothing is booked by segment, as all jobs will be written into another log."""

        self.on_applied = on_applied
        """Called when a row was applied."""

        self.tip = first
        """The last row that was read."""

        self.applied = first
        """The last row that was applied."""

        self.unapplied: deque[tuple[Row, int, bool]] = deque()
        """Rows that are not known to be confirmed, each with when it arrived, and whether it came as it was written."""

        self.segment_bytes: dict[int, int] = {}
        """Bytes of records by segment."""

        self.epoch = first.epoch
        self.leader: dict[str, str] = {}
        """What the leader says of itself: its node, its address."""

        self.arrived_ns = now_ns
        """When the last row that was applied had arrived, on this machine's monotonic clock."""

        self.offset_ns: int | None = None
        """The log's clock minus the monotonic one, by the last row that came as it was written; None: none did."""

        self.row_count = 0
        check_row(first)
        self.apply(first)

    def take(self, row: Row, now_ns: int, *, is_live: bool = False) -> None:
        """Take the row behind the tip, and apply those that it says to be confirmed.

        `is_live`: all rows before it had been read, so that it came as it was written.

        Raises:
            UnreadableError: it is not what was written there, or does not fit behind the tip.
        """
        check_behind(self.tip, row)
        self.tip = row
        self.unapplied.append((row, now_ns, is_live))
        self.apply_to(row.confirmed)

    def apply_to(self, confirmed: Place) -> None:
        """Apply the rows up to a place, which are confirmed."""
        while self.unapplied and self.unapplied[0][0].place <= confirmed:
            row, self.arrived_ns, is_live = self.unapplied.popleft()
            self.apply(row)
            if is_live:
                self.offset_ns = self.clock_ns - self.arrived_ns

    def forget_unconfirmed(self) -> int:
        """Forget what was read and not applied, as it is gone: nobody was answered on it. Return how many rows."""
        count = len(self.unapplied)
        self.unapplied.clear()
        self.tip = self.applied
        return count

    def apply(self, row: Row) -> None:
        note, data = row.unpack()
        if note and row.kind != RowKind.HANDOVER:
            self.leader, self.epoch = note, row.epoch
        segment = row.place.segment
        used_bytes = self.segment_bytes.get(segment, 0)
        booked_as = 0 if self.as_one_segment else segment
        read_records(self.replay, row, data, booked_as)
        self.segment_bytes[segment] = used_bytes + len(data)
        self.applied = row
        self.row_count += 1
        if not self.as_one_segment and self.records.accounts.first_segment < self.replay.first_segment:
            self.replay.restore.drop_tokens(self.replay.first_segment)
        while not self.as_one_segment and self.records.accounts.first_segment < self.replay.first_segment:
            self.segment_bytes.pop(self.records.accounts.first_segment, None)
            self.records.accounts.drop_first_segment()
        self.on_applied(self)

    @property
    def clock_ns(self) -> int:
        """The last moment of the log's clock that an applied row mentions."""
        return self.replay.restore.clock_ns

    def log_ns(self, now_ns: int, wall_ns: int) -> int:
        """Return the log's clock: from the last row's time on, by the wall clock if this node saw no row come."""
        counted_ns = self.clock_ns + now_ns - self.arrived_ns
        if self.offset_ns is not None:
            return max(counted_ns, now_ns + self.offset_ns)
        if any(is_live for _, _, is_live in self.unapplied):
            return counted_ns  # too little, until that row is applied
        return max(counted_ns, wall_ns - self.replay.lead_ns)

    def lead(self, log_ns: int) -> int:
        """Let the engine begin to serve; return what the log's clock says."""
        self.records.next_job_id = self.engine.next_job_id
        return self.replay.finish(log_ns + self.replay.lead_ns)
