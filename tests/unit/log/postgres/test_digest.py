"""The digest of a node's jobs: equal where a log would say the same, and different where anything differs."""

import asyncio
import functools

import pytest

from beanpole.engine.engine import Engine
from beanpole.engine.restore import Restore
from beanpole.log.accounts import Accounts
from beanpole.log.encoder import Encoder
from beanpole.log.postgres.digest import Copy, digest_of
from beanpole.log.replay import import_job
from tests.unit.log.test_groups import paused
from tests.unit.log.test_schedules import State, fired_record, replayed, schedule_record

READY, DELAYED, BURIED = 0, 2, 3
NOW_NS = 10_000_000_000
JOB = {
    "id": 1,
    "created_at_ns": 5,
    "deadline_at_ns": 0,
    "bury_order": 0,
    "pri": 7,
    "delay_s": 3,
    "ttr_s": 60,
    "reserve_count": 1,
    "timeout_count": 2,
    "release_count": 3,
    "bury_count": 4,
    "kick_count": 5,
    "state": READY,
}


def digest(*jobs: dict[str, int], tube: bytes = b"mail", body: bytes = b"hello") -> bytes:
    """The digest of an engine with some jobs."""
    records = Encoder(Accounts(1 << 30, unlimited=True))
    records.open_segment(1, 1 << 30)
    engine = Engine(1000)
    for each in jobs:
        import_job(Restore(engine), records, tube, body, each)
    return digest_of(engine, NOW_NS)


def test_the_order_of_jobs_does_not_matter() -> None:
    other = JOB | {"id": 2}
    assert digest(JOB, other) == digest(other, JOB) != digest(JOB)


@pytest.mark.parametrize("key", [key for key in JOB if key not in {"deadline_at_ns", "bury_order", "state"}])
def test_every_number_counts(key: str) -> None:
    assert digest(JOB) != digest(JOB | {key: JOB[key] + 1})


def test_tube_body_and_state_count() -> None:
    found = [digest(JOB), digest(JOB, tube=b"post"), digest(JOB, body=b"hallo"), digest(JOB | {"state": BURIED})]
    found.append(digest(JOB | {"state": BURIED, "bury_order": 9}))
    found += [digest(JOB | {"state": DELAYED, "deadline_at_ns": NOW_NS + more}) for more in (1, 2)]
    assert len(set(found)) == len(found)


def test_rules_count() -> None:
    found = []
    for text in (b"", b"t", b"t\n", b"u\n", b"t\nattempts: 1\n"):
        engine = Engine(1000)
        if text:
            Restore(engine).rules(5, text, 0)
        found.append(digest_of(engine, NOW_NS))
    assert found[0] == found[1]
    assert len(set(found)) == len(found) - 1


def test_a_schedule_counts_with_its_state_and_its_jobs() -> None:
    """However the log says that: at once, or by what it fired."""
    state = State(next_ns=9, due_ns=9)

    def found(*records: bytes) -> bytes:
        restore = replayed(*records).restore
        assert restore is not None
        return digest_of(restore.engine, NOW_NS)

    base, fired = schedule_record(b"s", state), state._replace(fires=1, job=1)
    different = [found(), found(base), found(schedule_record(b"t", state)), found(schedule_record(b"s", state, b"x"))]
    different += [found(base, fired_record(b"s", state._replace(**{name: 1}))) for name in State._fields]
    different.append(found(base, fired_record(b"s", fired, job=1)))
    assert len(set(different)) == len(different)
    assert found(schedule_record(b"s", fired)) == found(base, fired_record(b"s", fired))


def test_segments_do_not_count() -> None:
    """Those of a log that has had many are far beyond the accounts of the digest."""
    found = []
    for segment in (1, 10_000):
        records = Encoder(Accounts(1 << 30, unlimited=True))
        records.open_segment(segment, 1 << 30)
        engine = Engine(1000)
        import_job(Restore(engine), records, b"mail", b"hello", JOB)
        found.append(digest_of(engine, NOW_NS))
    assert found[0] == found[1]


def test_a_delayed_job_that_is_due_is_ready() -> None:
    assert digest(JOB | {"state": DELAYED, "deadline_at_ns": NOW_NS}) == digest(JOB)


def test_a_copy_tells_what_it_saw() -> None:
    seen = [b"before"]

    async def main() -> bytes:
        copy = Copy(lambda: seen[0].ljust(16))
        seen[0] = b"after"
        try:
            return await copy.result()
        finally:
            copy.close()

    assert asyncio.run(main()) == b"before".ljust(16)


def test_a_copy_that_ends_early_is_an_error() -> None:
    async def main() -> None:
        copy = Copy(functools.partial(bytes, 3))
        try:
            await copy.result()
        finally:
            copy.close()

    with pytest.raises(OSError, match="ended early"):
        asyncio.run(main())


def test_pauses_of_groups_count_until_they_are_over() -> None:
    found = []
    for records in ((), (paused(10, 5),), (paused(11, 5),), (paused(12, 5),)):
        restore = replayed(*records).restore
        assert restore is not None
        found.append(digest_of(restore.engine, NOW_NS))
    assert found[0] == found[1]
    assert len(set(found)) == 3
