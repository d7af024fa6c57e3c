"""What replay makes of times that a wall clock left in the log which was set while no server ran."""

import pytest

from beanpole.engine.engine import Engine
from beanpole.engine.state.job import State
from beanpole.log.encoder import Encoder
from beanpole.log.format import Kind, number_record, segment_header
from beanpole.log.replay import Replay
from tests.unit.log.test_growth import SALT, seal

NS_PER_S = 1_000_000_000

TURN_S = 1000
"""The time of the turn, and seconds from which on a deadline is counted."""


def delayed(id: int, until_s: int, delay_s: int) -> bytes:
    """A job of the tube `t` that is delayed."""
    numbers = [(id, 8), (0, 8), (until_s * NS_PER_S, 8), (0, 8), (0, 4), (delay_s, 4), (60, 4), (0, 20), (2, 1)]
    return seal(bytes([Kind.WHOLE]) + packed(*numbers) + b"\x01\x00\x00t")


def paused(until_s: int, pause_s: int) -> bytes:
    return seal(bytes([Kind.TUBE]) + packed((pause_s, 4), (until_s * NS_PER_S, 8)) + b"\x01t")


def turn(time_s: int) -> bytes:
    return seal(bytes([Kind.TURN]) + packed((time_s * NS_PER_S, 8), (0, 24), (SALT, 4)))


def packed(*numbers: tuple[int, int]) -> bytes:
    return b"".join(number.to_bytes(size, "little") for number, size in numbers)


def replayed(*records: bytes, now_s: int) -> Engine:
    """An engine that has read some records and begins to serve."""
    content = segment_header(1, 1, (0, 0), SALT, 1) + b"".join(records) + number_record(Kind.END, 9, SALT)
    encoder = Encoder()
    engine = Engine(records=encoder)
    replay = Replay(engine, encoder)
    replay.segment(content, 1)
    assert replay.ended
    replay.finish(now_s * NS_PER_S)
    return engine


@pytest.mark.parametrize(
    ("until_s", "expected_s"),
    [(TURN_S + 5, TURN_S + 5), (TURN_S + 6, TURN_S + 5), (10**9, TURN_S + 5), (TURN_S - 900, TURN_S - 900)],
)
def test_no_delay_is_longer_than_was_asked_for(until_s: int, expected_s: int) -> None:
    engine = replayed(delayed(1, until_s, 5), turn(TURN_S), now_s=TURN_S)
    (job,) = engine.jobs.jobs()
    assert job.deadline_at_ns == expected_s * NS_PER_S
    assert engine.next_deadline_ns <= expected_s * NS_PER_S


def test_delay_counts_from_the_start_where_no_turn_follows() -> None:
    engine = replayed(turn(TURN_S), delayed(1, 10**9, 5), now_s=TURN_S + 100)
    (job,) = engine.jobs.jobs()
    assert job.deadline_at_ns == (TURN_S + 105) * NS_PER_S


@pytest.mark.parametrize("last", [b"", turn(TURN_S)], ids=["no turn", "a turn"])
def test_no_pause_is_longer_than_was_asked_for(last: bytes) -> None:
    engine = replayed(delayed(1, 0, 5), paused(10**9, 5), last, now_s=TURN_S)
    tube = next(each for each in engine.tube_list if each.name == b"t")
    assert tube.paused_until_ns == (TURN_S + 5) * NS_PER_S


def test_change_moves_a_delay_too() -> None:
    """A job that was ready and was released with a delay."""
    put = delayed(1, 0, 0)
    numbers = [(1, 8), (0, 8), (10**9 * NS_PER_S, 8), (0, 8), (0, 4), (5, 4), (60, 4), (0, 20), (2, 1)]
    change = seal(bytes([Kind.CHANGED]) + packed(*numbers))
    (job,) = replayed(put, turn(1), change, turn(TURN_S), now_s=TURN_S).jobs.jobs()
    assert job.deadline_at_ns == (TURN_S + 5) * NS_PER_S


@pytest.mark.parametrize(
    ("reserves", "buries", "kicks", "expected_s"), [(0, 0, 0, 12), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0)]
)
def test_a_job_is_ready_since_its_delay_unless_something_made_it_so_later(
    reserves: int, buries: int, kicks: int, expected_s: int
) -> None:
    """0: that was at the start at the latest, and no record says when."""
    numbers = [
        (1, 8),
        (7 * NS_PER_S, 8),
        (0, 16),
        (0, 4),
        (5, 4),
        (60, 4),
        (reserves, 4),
        (0, 8),
        (buries, 4),
        (kicks, 4),
    ]
    put = seal(bytes([Kind.WHOLE]) + packed(*numbers, (State.READY, 1)) + b"\x01\x00\x00t")
    (job,) = replayed(put, turn(TURN_S), now_s=TURN_S).jobs.jobs()
    assert (job.id, job.state, job.since_ns) == (1, State.READY, expected_s * NS_PER_S)
