"""Whether rows are what was written: each by itself, behind the one before, and the records in it."""

from beanpole.log import limits
from beanpole.log.format import VERSION
from beanpole.log.postgres.rows import Place, Row, RowKind
from beanpole.log.postgres.store import Answer, DamagedError, GoneError, RefusedError, Store, UnreadableError
from beanpole.log.replay import Replay


def check_row(row: Row) -> None:
    """Raise UnreadableError if a row is not what its writer wrote."""
    if not row.is_sound:
        raise UnreadableError(row.place, "is not what was written there")


def check_behind(tip: Row, row: Row) -> None:
    """Raise UnreadableError if a row does not fit behind another."""
    if row.place != tip.next_place:
        raise UnreadableError(tip.next_place, "is missing")
    check_row(row)
    if row.previous != tip.hash:
        raise UnreadableError(row.place, f"does not fit behind {tip.place}")
    if row.epoch < tip.epoch or (row.epoch > tip.epoch) != (row.kind == RowKind.EPOCH):
        raise UnreadableError(row.place, f"has epoch {row.epoch} behind {tip.epoch}")


def read_records(replay: Replay, row: Row, data: bytes, segment: int) -> None:
    """Replay the records of a row, booked in a segment.

    Raises:
        UnreadableError: there are others in it.
        RefusedError: a newer program wrote them.
    """
    if not data:
        return
    if row.has_header:
        replay.segment(data, segment)
    else:
        replay.resume(data, segment, VERSION, 0)
    if replay.unknown:
        raise RefusedError(f"{row.place} can't be read: {replay.problem}; install a newer one on this node")
    if replay.good_bytes != len(data):
        raise UnreadableError(row.place, f"can't be applied: {replay.problem}")


async def gone_from(store: Store, place: Place) -> UnreadableError | GoneError:
    """Return what it means that a segment's table is not there: it was dropped with its line, or it is missing."""
    if place.segment in await store.segments():
        return UnreadableError(place, "is missing: the table of its segment is gone")
    return GoneError(f"segment {place.segment} was dropped")


async def read_behind(store: Store, tip: Row, bytes_max: int) -> Answer:
    """Do what ``Store.read`` does; if the server can't read all of these rows, return the next one.

    Raises:
        DamagedError: it can't read the next one.
        GoneError: the tip's segment was dropped.
    """
    try:
        return await store.read(tip, bytes_max)
    except DamagedError:
        return await store.read(tip, 1)


class Checker:
    """Reads rows, from the first of a segment on, and checks each; it needs no engine."""

    def __init__(self, store: Store, segment: int) -> None:
        self.store = store
        self.at = Place(segment, 0)
        """Where the next row is looked for."""

        self.tip: Row | None = None
        self.replay = Replay()

    async def advance(self, upto: Place) -> None:
        """Check up to a place, or to the end of its segment if that is nearer.

        Raises:
            UnreadableError: a row can't be verified.
            GoneError: the segment was dropped.
        """
        try:
            while self.at <= upto:
                for row in await self.read():
                    self.check(row)
        except GoneError:
            raise await gone_from(self.store, self.at) from None
        except DamagedError as error:
            raise UnreadableError(self.at, f"can't be read: {error}") from error

    async def read(self) -> list[Row]:
        """Return the rows behind the last one that was checked."""
        if self.tip is not None:
            rows = (await read_behind(self.store, self.tip, limits.ROW_BYTES)).rows  # little, as a leader does this
        else:
            first = await self.store.first(self.at.segment)
            rows = [] if first is None else [first]
        if not rows:
            raise UnreadableError(self.at, "is missing")
        return rows

    def check(self, row: Row) -> None:
        """Check the next row."""
        if self.tip is None:
            check_row(row)
        else:
            check_behind(self.tip, row)
        read_records(self.replay, row, row.unpack()[1], row.place.segment)
        self.tip, self.at = row, row.next_place


async def check_segment(store: Store, segment: int) -> None:
    """Check all rows of a segment; errors are those of :meth:`Checker.advance`."""
    newest = await store.newest()
    await Checker(store, segment).advance(min(newest, Place(segment + 1, -1)))
