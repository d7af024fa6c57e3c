"""A reserve over several shards: who is asked, who waits, and which reply counts."""

import pytest

from beanpole.front.gather import Reserving
from beanpole.front.limits import EMPTY_NS
from beanpole.shards.map import Shard
from beanpole.testing.world import NS_PER_S
from tests.unit.front.shards import FIRST_B, FIRST_C, GONE, A, B, C, Event, Session

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


def coming(session: Session, shard: Shard, *bodies: bytes) -> Event:
    """Jobs that come while a session waits."""

    def put() -> None:
        for body in bodies:
            session.put(shard, b"t", body)

    return put


def waiting_at(session: Session) -> list[str]:
    return [shard.name for shard in (A, B, C) if b"current-waiting: 1" in session.servers[shard].say(b"stats")]


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


def test_a_job_that_comes_is_taken_and_no_shard_waits_any_more(session: Session) -> None:
    def put() -> None:
        assert waiting_at(session) == ["a", "b", "c"]
        session.put(C, b"t", b"x")

    session.events = [put]
    assert session.say(b"reserve") == b"RESERVED %d 1\r\nx\r\n" % (FIRST_C + 1)
    assert waiting_at(session) == []


def test_a_job_that_is_gone_when_it_is_asked_for_lets_the_session_wait_on(session: Session) -> None:
    def put_and_take() -> None:
        session.servers[C].say(b"reserve-job %d" % session.put(C, b"t", b"x"))

    session.events = [put_and_take, put_and_take, coming(session, B, b"y")]
    assert session.say(b"reserve") == b"RESERVED %d 1\r\ny\r\n" % (FIRST_B + 1)


def test_time_is_over_once_however_often_the_session_waits(session: Session) -> None:
    def put_and_take() -> None:
        session.advance(NS_PER_S)
        session.servers[A].say(b"reserve-job %d" % session.put(A, b"t", b"x"))

    start_ns = session.now_ns
    session.events = [put_and_take, put_and_take]
    assert session.say(b"reserve-with-timeout 3") == b"TIMED_OUT\r\n"
    assert session.now_ns - start_ns == 3 * NS_PER_S
    assert waiting_at(session) == []


def test_a_deadline_counts_if_no_shard_has_a_job(session: Session) -> None:
    server = session.servers[A]
    server.say(b"use t")
    server.say(b"put 0 0 2 1\r\nx")
    session.say(AT_ONCE)
    session.events = [lambda: session.advance(NS_PER_S)]
    assert session.say(b"reserve") == b"DEADLINE_SOON\r\n"
    assert session.say(AT_ONCE) == b"DEADLINE_SOON\r\n"
    session.put(B, b"t", b"y")
    assert session.say(AT_ONCE) == b"RESERVED %d 1\r\ny\r\n" % (FIRST_B + 1)


def test_a_client_that_waits_no_more_is_told_that_its_time_is_over(session: Session) -> None:
    session.events = [lambda: GONE]
    assert session.say(b"reserve") == b"TIMED_OUT\r\n"
    assert waiting_at(session) == []


def test_a_shard_that_is_away_is_left_out_and_asked_when_it_is_back(session: Session) -> None:
    session.put(B, b"t", b"x")
    session.away = {B}

    def back() -> tuple[Shard | None, bytes]:
        assert waiting_at(session) == ["a", "c"]
        session.away = set()
        return B, b""

    session.events = [back]
    assert session.say(b"reserve") == b"RESERVED %d 1\r\nx\r\n" % (FIRST_B + 1)


def test_time_is_over_when_all_shards_are_away(session: Session) -> None:
    session.away = {A, B, C}
    assert session.say(b"reserve-with-timeout 3") == b"TIMED_OUT\r\n"


def test_reserve_many_takes_those_of_the_first_shard_that_has_any(session: Session) -> None:
    session.events = [coming(session, B, b"x", b"x", b"x")]
    assert session.say(b"reserve-many 9 5").startswith(b"JOBS 3\r\n")
    assert session.say(b"reserve-many 9 0") == b"TIMED_OUT\r\n"
    session.put(C, b"t", b"x")
    assert session.say(b"reserve-many 9 0 group=same").startswith(b"JOBS 1\r\n")


def test_a_client_can_wait_for_a_job_without_taking_it(session: Session) -> None:
    session.events = [coming(session, B, b"x")]
    assert session.say(b"reserve-many 0 5") == b"JOBS 0\r\n"
    assert b"current-jobs-ready: 1" in session.servers[B].say(b"stats")


def test_shards_are_asked_behind_the_one_that_gave_the_last_job() -> None:
    reserving = Reserving()
    assert reserving.order([A, B, C], 0) == [A, B, C]
    reserving.note(B, 0, gave=True)
    assert reserving.order([A, B, C], 0) == [C, A, B]
    assert reserving.order([A, C], 0) == [A, C]
