"""A replica: what it applies of the rows of a log, and what it gives up with a segment that nobody needs any more."""

from beanpole.engine.engine import Engine
from beanpole.log.encoder import Encoder
from beanpole.log.format import segment_header
from beanpole.log.postgres.replica import Replica
from beanpole.log.postgres.rows import RowKind, first_row, pack_note, row_behind
from beanpole.log.postgres.store import Settings
from tests.unit.log.test_growth import SALT
from tests.unit.log.test_once import held, record
from tests.unit.log.test_replay import TURN_S, turn

WRITER = b"w" * 16


def make_engine(records: Encoder, _: Settings) -> Engine:
    return Engine(records=records)


def test_tokens_that_the_leader_has_not_moved_go_with_their_segment() -> None:
    """They have ended by the clock of the leader, which a row says later, or never."""
    replica = Replica(Settings("c", 7, 2_000, 1 << 20, 1 << 16), first_row(WRITER), make_engine, 0)

    def apply(kind: RowKind, *records: bytes) -> None:
        data = b"".join(records)
        if kind != RowKind.END:
            data = pack_note({}, data)
        tip = replica.applied
        replica.apply(row_behind(tip, epoch=1, kind=kind, writer=WRITER, confirmed=tip.place, data=data))

    moved, left = record(7, TURN_S + 500, 1), record(8, TURN_S + 5, 2)
    apply(RowKind.EPOCH, segment_header(1, 1, (0, 0), SALT), turn(TURN_S), moved, left)
    apply(RowKind.END)
    apply(RowKind.HEAD, segment_header(2, 1, (0, 0), SALT, 1), moved)
    assert [token for token, *_ in held(replica.engine)] == [7, 8]
    apply(RowKind.END)
    apply(RowKind.HEAD, segment_header(3, 1, (0, 0), SALT, 2))
    assert [token for token, *_ in held(replica.engine)] == [7]
    assert replica.records.accounts.first_segment == 2
