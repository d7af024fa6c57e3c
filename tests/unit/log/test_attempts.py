"""What replay makes of records of attempts: who had the job is gone, so the attempt has failed."""

import struct

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.state.job import JobCount, State
from beanpole.engine.state.tags import Tag
from beanpole.log.accounts import Accounts
from beanpole.log.encoder import Encoder
from beanpole.log.format import Kind, number_record, segment_header
from beanpole.log.reader import describe, read_header
from beanpole.log.replay import Replay
from tests.unit.log.test_growth import SALT, seal, whole

NONE_YET = struct.pack("<BHIB", Tag.ATTEMPTS, 5, 0, 0)


def attempt(id: int, number: int, reserve_count: int) -> bytes:
    """The record of an attempt that has begun."""
    return seal(bytes([Kind.ATTEMPT]) + struct.pack("<QII", id, number, reserve_count))


def replayed(*records: bytes) -> Engine:
    """An engine that has read a log and not looked at the clock yet."""
    encoder = Encoder(Accounts(unlimited=True))
    engine = Engine(records=encoder)
    replay = Replay(engine, encoder)
    replay.segment(segment_header(1, 1, (0, 0), SALT, 1) + b"".join(records) + number_record(Kind.END, 9, SALT), 1)
    assert replay.ended, replay.problem
    replay.finish(5)
    encoder.open_segment(2, 1 << 20)
    return engine


def seen(engine: Engine) -> dict[int, tuple[int, bytes, int]]:
    """The state, the tags and the reservations of each job."""
    check(engine)
    return {job.id: (job.state, job.tags, job.count(JobCount.RESERVES)) for job in engine.jobs.jobs()}


def test_attempt_that_was_under_way_has_failed() -> None:
    engine = replayed(whole(1, NONE_YET), whole(2, NONE_YET), attempt(1, 1, 7), attempt(1, 2, 8))
    assert 0 <= engine.next_deadline_ns <= 5
    assert seen(engine)[2] == (State.READY, NONE_YET, 0)
    engine.tick(5)
    assert seen(engine)[1] == (State.READY, struct.pack("<BHIB", Tag.ATTEMPTS, 5, 2, 0), 8)


def test_attempt_that_ended_has_not() -> None:
    ended = struct.pack("<BHIB", Tag.ATTEMPTS, 5, 1, 0)
    engine = replayed(whole(1, NONE_YET), attempt(1, 1, 1), whole(1, ended))
    assert engine.next_deadline_ns == -1
    assert seen(engine)[1] == (State.READY, ended, 0)


def test_attempt_at_a_job_that_is_gone_or_counts_none_is_passed_over() -> None:
    """Compaction may have dropped the segment that held the job; without the tag there is no place for the count."""
    engine = replayed(attempt(3, 1, 1), whole(1), attempt(1, 1, 4))
    assert engine.next_deadline_ns == -1
    assert seen(engine) == {1: (State.READY, b"", 4)}


def test_dump_shows_attempts() -> None:
    data = segment_header(1, 1, (0, 0), SALT, 1) + attempt(3, 2, 9)
    header = read_header(data)
    found = describe(data, header.size, header)
    assert found is not None
    assert found[1:] == (Kind.ATTEMPT, {"job": 3, "attempt": 2, "reserve_count": 9})
