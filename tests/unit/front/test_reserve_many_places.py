"""A reserve over several shards: who is asked, who waits, and which reply counts."""

import pytest

from beanpole.front.gather import Reserving
from beanpole.front.limits import EMPTY_NS
from tests.unit.front.shards import A, B, C, Session

AT_ONCE = b"reserve-with-timeout 0"


@pytest.fixture
def session() -> Session:
    found = Session()
    found.say(b"watch t")
    found.say(b"ignore default")
    return found


def asked(session: Session) -> list[str]:
    """Whom the session has asked for a job since the last call."""
    names = [name for name, line in session.asked if not line.startswith(b"reserve-many 0")]
    session.asked.clear()
    return names


def test_each_shard_has_its_turn_and_a_job_costs_one_question(session: Session) -> None:
    for shard in (A, B, C, A, B, C):
        session.put(shard, b"t", b"x")
    assert [session.say(AT_ONCE).split()[0] for _ in range(6)] == [b"RESERVED"] * 6
    assert asked(session) == ["a", "b", "c", "a", "b", "c"]


def test_a_shard_that_had_no_job_is_asked_last_for_a_while(session: Session) -> None:
    for _ in range(4):
        session.put(B, b"t", b"x")
    session.say(AT_ONCE)
    assert asked(session) == ["a", "b"]
    session.say(AT_ONCE)
    assert asked(session) == ["c", "b"]
    session.say(AT_ONCE)
    assert asked(session) == ["b"]
    session.advance(EMPTY_NS)
    session.say(AT_ONCE)
    assert asked(session) == ["c", "a", "b"]


def test_who_is_asked_last_is_asked_before_there_is_no_job(session: Session) -> None:
    session.put(B, b"t", b"x")
    session.say(AT_ONCE)
    session.put(A, b"t", b"x")
    assert session.say(AT_ONCE) == b"RESERVED 1 1\r\nx\r\n"
    assert session.say(AT_ONCE) == b"TIMED_OUT\r\n"


def test_time_is_over_when_all_shards_are_away(session: Session) -> None:
    session.away = {A, B, C}
    assert session.say(b"reserve-with-timeout 3") == b"TIMED_OUT\r\n"


def test_shards_are_asked_behind_the_one_that_gave_the_last_job() -> None:
    reserving = Reserving()
    assert reserving.order([A, B, C], 0) == [A, B, C]
    reserving.note(B, 0, gave=True)
    assert reserving.order([A, B, C], 0) == [C, A, B]
    assert reserving.order([A, C], 0) == [A, C]
