"""What a log keeps of schedules: over restarts, over compaction, and what it refuses."""

from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.log.accounts import Accounts
from beanpole.log.compaction import Compaction, schedules_in, write_all
from beanpole.log.encoder import Encoder
from beanpole.log.errors import OtherVersionError
from beanpole.log.files.names import segment_name
from beanpole.log.files.recovery import recover
from beanpole.log.format import FIRED_FIXED, FRAME, SCHEDULE_FIXED, SEGMENT_HEADER, STATE, Kind
from beanpole.log.reader import describe, items_in, read_header
from beanpole.log.replay import Replay
from tests.simulation.disk import SimDisk
from tests.unit.log.real_log import checked
from tests.unit.log.test_growth import SALT, Lives, log_of, seal, whole

DOCUMENT = b"every: 60\ntube: mail\n\nbody"


class State(NamedTuple):
    """A schedule's state, as two kinds of records say it."""

    next_ns: int = 0
    due_ns: int = 0
    last_ns: int = 0
    fires: int = 0
    skips: int = 0
    misses: int = 0
    job: int = 0
    paused: int = 0

    @property
    def data(self) -> bytes:
        return Struct("<3q4QB").pack(*self)


def schedule_record(name: bytes, state: State, document: bytes = DOCUMENT, set_at_ns: int = 5, level: int = 1) -> bytes:
    """A schedule; without a document it is dropped."""
    payload = bytes([Kind.SCHEDULE]) + state.data + set_at_ns.to_bytes(8, "little") + bytes([level, len(name)])
    assert len(payload) == SCHEDULE_FIXED - FRAME
    return seal(payload + name + document)


def fired_record(name: bytes, state: State, job: int = 0) -> bytes:
    """What became of a schedule, with the job that it has put."""
    payload = bytes([Kind.FIRED]) + state.data + bytes([len(name)])
    assert len(payload) == FIRED_FIXED - FRAME
    tag = state.last_ns.to_bytes(8, "little") + state.fires.to_bytes(8, "little") + name
    tags = b"\x84" + len(tag).to_bytes(2, "little") + tag
    return seal(payload + name + (whole(job, tags)[FRAME + 1 :] if job else b""))


def replayed(*records: bytes) -> Replay:
    """A replay that has read some records."""
    ((_, content),) = log_of(*records).items()
    replay = Replay(Engine(records=(encoder := Encoder())), encoder)
    replay.segment(content, 1)
    assert replay.problem is None
    return replay


def written_again(engine: Engine) -> bytes:
    """What compaction writes of a whole engine, which is no good afterwards."""
    records = Encoder(Accounts(2**30), SALT)
    records.open_segment(1, 2**30)
    pieces: list[bytes] = []
    write_all(engine, records, lambda: None)
    records.end_segment()
    records.write_to(lambda _at, data: pieces.append(bytes(data)))
    return b"".join(pieces)


def fields_in(data: bytes) -> dict[bytes | int, dict[str, Any]]:
    """What the records of a segment say of schedules, by name, and of jobs, by id."""
    header = read_header(data)
    found: dict[bytes | int, dict[str, Any]] = {}
    at = header.size
    while (record := describe(data, at, header)) is not None:
        size, kind, fields = record
        at += size
        if kind in {Kind.SCHEDULE, Kind.WHOLE}:
            document = {"document": data[at - fields.get("document_bytes", 0) : at]}
            found[fields.get("schedule") or fields["job"]] = fields | document
    return found


def held(engine: Engine) -> dict[bytes | int, Any]:
    """The state and the document of each schedule, and of each job the tube; the engine is no good afterwards."""
    return {
        key: (State(*[fields[each] for each in STATE]), fields["document"])
        if isinstance(key, bytes)
        else fields["tube"]
        for key, fields in fields_in(written_again(engine)).items()
    }


# --- replay -----------------------------------------------------------------------------------------------------------


def test_the_last_record_of_a_schedule_wins() -> None:
    replay = replayed(
        schedule_record(b"a", State(100, 107, 0, 0, 0, 0, 0, 0)),
        schedule_record(b"b", State(200, 200, 0, 0, 0, 0, 0, 1)),
        schedule_record(b"c", State(300, 300)),
        fired_record(b"a", after := State(160, 167, 100, 1, 2, 3, 9, 0), job=9),
        schedule_record(b"b", State(200, 200, 0, 0, 0, 0, 0, 1), b"other"),
        fired_record(b"b", resumed := State(260, 260, 0, 0, 0, 0, 0, 0)),
        fired_record(b"c", State(0, 0, 300, 1, 0, 0, 10, 0), job=10),
        schedule_record(b"c", State(), b""),
        schedule_record(b"none", State(), b""),
    )
    assert replay.lost_schedules == set()
    table = replay.restore.engine.schedules
    assert table is not None
    assert (table.names, table.paused_count) == ([b"a", b"b"], 0)
    assert held(replay.restore.engine) == {b"a": (after, DOCUMENT), b"b": (resumed, b"other"), 9: b"mail", 10: b"mail"}


def test_what_is_written_again_is_read_as_it_was() -> None:
    state = State(2**62, 2**62 + 1, -1, 2**63, 2**64 - 1, 5, 2**63 + 1, 1)
    name, document = b"n" * 200, bytes(range(256)) * 64
    data = written_again(replayed(schedule_record(name, state, document, set_at_ns=77)).restore.engine)
    fields = fields_in(data)[name]
    assert [fields[each] for each in STATE] == list(state)
    assert (fields["set_at_ns"], fields["level"], fields["document"]) == (77, 1, document)
    assert describe(data, SEGMENT_HEADER, read_header(data))[0] == SCHEDULE_FIXED + 200 + len(document)  # type: ignore[index]


def test_job_of_a_schedule_that_is_not_known_is_put() -> None:
    """The record with its document went with an older segment: a later one has it, or drops it."""
    fired = fired_record(b"a", State(160, 160, 100, 1, 0, 0, 9), job=9)
    replay = replayed(fired)
    assert replay.lost_schedules == {b"a"}
    assert held(replay.restore.engine) == {9: b"mail"}
    for document in (b"", DOCUMENT):
        assert replayed(fired, schedule_record(b"a", State(), document)).lost_schedules == set()


def test_schedules_are_looked_at_at_the_first_tick() -> None:
    """Whenever they are due: what lies ahead may be computed otherwise now."""
    for records, deadline in (((), -1), ((schedule_record(b"a", State(10**18, 10**18)),), 70)):
        replay = replayed(*records)
        assert replay.restore.engine.next_deadline_ns == -1
        assert replay.finish(70) == 70
        assert replay.restore.engine.next_deadline_ns == deadline
    replay = replayed(schedule_record(b"a", State(5, 5)), schedule_record(b"a", State(), b""))
    replay.finish(70)
    assert replay.restore.engine.next_deadline_ns == -1


def test_job_is_booked_as_a_whole_one_and_a_document_as_rules_are() -> None:
    replay = Replay(Engine(records=(encoder := Encoder())), encoder)
    document = schedule_record(b"a", State(5, 5))
    for number, records in ((1, [document]), (2, [fired_record(b"a", State(65, 65, 5, 1, 0, 0, 9), job=9)])):
        replay.segment(log_of(*records)[segment_name(1)], number)
    accounts = encoder.accounts
    job = len(whole(9, b"\x84\x11\x00" + bytes(17)))
    assert [accounts.live_in(number) for number in (1, 2)] == [len(document), job]
    assert (accounts.live_bytes, accounts.live_count) == (len(document) + job, 1)
    replay.segment(log_of(schedule_record(b"a", State(), b"longer than it was" * 9))[segment_name(1)], 3)
    assert [accounts.live_in(number) for number in (1, 2)] == [0, job]
    replay.segment(
        log_of(schedule_record(b"a", State(), b""), seal(b"\3" + (9).to_bytes(8, "little")))[segment_name(1)], 4
    )
    assert (accounts.live_bytes, accounts.live_count) == (0, 0)


# --- compaction -------------------------------------------------------------------------------------------------------


def test_compaction_writes_the_schedules_of_a_segment_again_as_they_are_now() -> None:
    """And the jobs that fires have put; it finds both in the segment, or in a cluster by a look at all, in steps."""
    now = State(65, 65, 5, 1, 0, 0, 9)
    segments = [
        [
            schedule_record(b"a", State(5, 5)),
            schedule_record(b"dropped", State(5, 5)),
            schedule_record(b"later", State(5, 5)),
            schedule_record(b"a", State(6, 6)),
            fired_record(b"a", now, job=9),
        ],
        [schedule_record(b"dropped", State(), b""), schedule_record(b"later", State(7, 7))],
    ]
    contents = [log_of(*each)[segment_name(1)] for each in segments]
    assert items_in(contents[0]) == [b"a", b"dropped", b"later", b"a", 9]
    for by_reading in (True, False):
        replay = Replay(Engine(records=(records := Encoder(Accounts(2**20), SALT))), records)
        for i, content in enumerate(contents):
            replay.segment(content, i + 1)
        engine = replay.restore.engine
        records.open_segment(3, 2**20)
        compaction = Compaction(engine, records)
        assert compaction.begin(1)
        assert schedules_in(engine, 1, b"") == ([b"a"], b"later")
        assert schedules_in(engine, 1, b"later") == ([], b"")
        compaction.set_ids(items_in(contents[0]) if by_reading else [b"a", 9])
        assert compaction.step(at_once=True)
        assert compaction.emptied
        assert compaction.moved_count == 2
        assert records.accounts.live_in(1) == 0
        records.end_segment()
        pieces: list[bytes] = []
        records.write_to(lambda _at, data: pieces.append(bytes(data)))  # noqa: B023 - called here
        compaction.finish()
        moved = fields_in(pieces[0])
        assert set(moved) == {b"a", 9}
        assert [moved[b"a"][each] for each in STATE] == list(now)
        after = Replay(Engine(records=(encoder := Encoder())), encoder)
        for i, content in enumerate([contents[1], pieces[0]]):
            after.segment(content, i + 2)
        assert after.lost_schedules == set()
        assert held(after.restore.engine) == {b"a": (now, DOCUMENT), b"later": (State(7, 7), DOCUMENT), 9: b"mail"}


# --- over lives -------------------------------------------------------------------------------------------------------


def test_restart_brings_no_time_back_that_was_over_when_a_schedule_was_set() -> None:
    """Though its job would be due only now: that of s1 is put 0.156 s behind its time."""
    lives = Lives({})
    document = b"every: 3\nspread: 2\n\n"
    assert lives.ask(b"set-schedule s1 %d" % len(document), document) == b"SCHEDULED 1700001003\r\n"
    lives.restart()
    lives.life.tick()
    assert b" next=1700001003 last=0 " in lives.ask(b"get-schedule s1")


SECOND = 10**9
START = 1_700_001_000 * SECOND  # 2023-11-14T22:30:00Z, when the servers of a simulation start


def after_a_start(document: bytes, next_ns: int) -> Lives:
    """A server that has found a schedule in its log, with a next time, and has looked at it."""
    lives = Lives(log_of(schedule_record(b"s", State(next_ns, next_ns), document)))
    lives.life.tick()
    return lives


def test_newer_data_of_a_zone_moves_next_times_that_lie_ahead_and_no_others() -> None:
    """Whatever made the one that the log has: it is computed again, but not when it is due already."""
    document, right = b"cron: 40 22 * * *\nlate: 9999\n\n", START + 600 * SECOND
    for moved in (-300, 300):
        lives = after_a_start(document, right + moved * SECOND)
        assert b" next=1700001600 last=0 fires=0 " in lives.ask(b"get-schedule s")
    lives = after_a_start(document, START - 600 * SECOND)
    assert b" next=1700001600 last=1700000400 fires=1 " in lives.ask(b"get-schedule s")


def test_wrong_clock_that_was_put_right_is_told_of_once() -> None:
    wrong = State(START + 10**17 + SECOND, START + 10**17 + SECOND, START + 10**17)
    right = State(START + 60 * SECOND, START + 60 * SECOND)
    for last, count in ((wrong, 1), (right, 0)):
        lives = Lives(log_of(schedule_record(b"s", wrong, b"every: 60\n\n"), fired_record(b"s", last)))
        for _ in range(2):
            lives.life.tick()
            lives.clock.now_ns += 601 * SECOND
        assert b"\nclock-sets: %d\n" % count in lives.ask(b"stats")


def test_without_data_of_its_zone_the_next_time_fires_and_then_the_schedule_is_blocked() -> None:
    lives = after_a_start(b"cron: 40 22 * * *\nzone: Mars/Olympus\n\n", START + 5 * SECOND)
    for seconds in (5, 60, 60):
        lives.clock.now_ns += seconds * SECOND
        lives.life.tick()
        reply = lives.ask(b"get-schedule s")
        assert b" last=1700001005 fires=1 skips=0 misses=0 " in reply
        assert b" blocked=zone\r\n" in reply
        assert lives.life.engine.next_deadline_ns > lives.life.now_ns


# --- what is refused, and what is damage ------------------------------------------------------------------------------


def test_document_of_a_newer_program_refuses(tmp_path: Path) -> None:
    """Dropping it needs no level."""
    ((name, content),) = log_of(schedule_record(b"nightly", State(), DOCUMENT, level=2)).items()
    disk = SimDisk()
    disk.put_file(name, content)
    records = Encoder()
    what = r"schedule nightly needs level 2, and this program knows those up to 1; .* Start the program that wrote it"
    with pytest.raises(OtherVersionError, match=what):
        recover(disk, Engine(records=records), records, now_ns=0, wall_ns=0)
    (tmp_path / name).write_bytes(content)
    assert checked(tmp_path).outcome == "refuses"
    replayed(schedule_record(b"nightly", State(), b"", level=2))


SENSELESS = {
    "no name": bytes([Kind.FIRED]) + State().data + b"\0",
    "a long name": bytes([Kind.FIRED]) + State().data + b"\xc9" + b"n" * 201,
    "half a name": bytes([Kind.FIRED]) + State().data + b"\7nightl",
    "another flag": bytes([Kind.FIRED]) + State(paused=2).data + b"\1a",
    "half a job": bytes([Kind.FIRED]) + State().data + b"\1a" + whole(1)[FRAME + 1 :][:67],
    "a job that can't be": bytes([Kind.FIRED]) + State().data + b"\1a" + whole(0)[FRAME + 1 :],
    "a schedule without a name": bytes([Kind.SCHEDULE]) + State().data + bytes(8) + b"\1\0document",
    "half a state": bytes([Kind.SCHEDULE]) + State().data,
}


@pytest.mark.parametrize("payload", SENSELESS.values(), ids=SENSELESS)
def test_what_no_program_writes_is_damage(payload: bytes) -> None:
    ((_, content),) = log_of(schedule_record(b"a", State()), seal(payload)).items()
    replay = Replay()
    replay.segment(content, 1)
    assert replay.problem is not None
    assert "says what no program writes" in replay.problem


@given(st.sampled_from([Kind.SCHEDULE, Kind.FIRED]), st.data())
def test_no_bytes_of_a_record_make_the_reader_fail(kind: Kind, data: st.DataObject) -> None:
    """It reads nothing that is not there either: a debug build would say so."""
    good = schedule_record(b"a", State(5, 5)) if kind == Kind.SCHEDULE else fired_record(b"a", State(5, 5), job=9)
    payload = bytearray(good[FRAME:])
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(1, len(payload) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(9, len(payload)))
    ((_, content),) = log_of(seal(bytes(payload[:size]))).items()
    replay = Replay(Engine(records=(encoder := Encoder())), encoder)
    replay.segment(content, 1)
    if replay.problem is None:
        replay.finish(1)
        check(replay.restore.engine)
        written_again(replay.restore.engine)
    else:
        assert describe(content, SEGMENT_HEADER, read_header(content)) is None or replay.unknown
