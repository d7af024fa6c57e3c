"""One short log, cut at every byte of its last segment, and each byte of it changed.

Recovery yields what was true after some record, and nothing that the log says was durable is missing; or it refuses.
It never yields anything else, and never fails in another way.
"""

from dataclasses import dataclass, field

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.state.job import JobCount, State
from beanpole.log.compaction import Compaction, group_pauses
from beanpole.log.encoder import Encoder
from beanpole.log.errors import DamageError
from beanpole.log.files.names import segment_name, segment_number
from beanpole.log.files.recovery import recover
from beanpole.log.format import NEXT_RECORD, SEGMENT_HEADER, Kind
from beanpole.log.log import Policy
from beanpole.log.reader import read_header
from beanpole.log.replay import Replay
from tests.seeds import fixed
from tests.simulation.disk import SimDisk
from tests.simulation.life import Client, Life, Promises
from tests.simulation.runner import NS_PER_S, Clock
from tests.simulation.said import schedules_of

Jobs = tuple[tuple[int, bytes, int, int, int, int, int, int, int, int, int, int] | bytes, ...]
"""All jobs, each as the numbers and the body that a restart brings back, all schedules, and the pauses of groups."""

SEGMENT_BYTES = 700
PATTERNS = (0x01, 0x08, 0x80, 0xFF)
"""What changes a byte: in each turn another one of these. A commit has one turn, a night all."""


def state_of(engine: Engine) -> Jobs:
    """What is there. A reservation does not survive, and an attempt that was under way ends at the first tick."""
    waiting = {
        job.id for job in engine.jobs.jobs() if job.state == State.DELAYED and job.deadline_at_ns > engine.started_at_ns
    }
    jobs = sorted(
        (
            job.id,
            job.text,
            State.BURIED if job.state == State.BURIED else State.DELAYED if job.id in waiting else State.READY,
            job.pri,
            job.delay_s,
            job.ttr_s,
            job.deadline_at_ns if job.id in waiting else 0,
            job.created_at_ns,
            job.count(JobCount.TIMEOUTS),
            job.count(JobCount.RELEASES),
            job.count(JobCount.BURIES),
            job.count(JobCount.KICKS),
        )
        for job in engine.jobs.jobs()
    )
    pauses = [b"%b %b %d" % (each.tube, each.group, each.until_ns) for each in group_pauses(engine)]
    tokens = [] if engine.once is None else sorted(b"%b %d %d" % (each[0], *each[2:]) for each in engine.once.tokens())
    return (*jobs, *tokens, *[said.text for said in schedules_of(engine).values()], *pauses)


@dataclass
class Written:
    """A log, and what was true at each of its ends."""

    files: dict[str, bytes]
    states: dict[tuple[int, int], Jobs] = field(default_factory=dict)
    """By segment and the bytes of it that were used then."""

    @property
    def last(self) -> str:
        return max(self.files)

    def state_at(self, number: int, size: int) -> Jobs:
        """What was true by the records that end before a byte of a segment."""
        return self.states[max((each for each in self.states if each <= (number, size)), default=(0, 0))]


class NoCompaction(Compaction):
    """Nothing goes."""

    def is_due(self, sealed_bytes: int, full: bool) -> bool:  # noqa: ARG002 - as the log calls it
        assert not full
        return False


class Writer:
    """Writes a log in which every kind of record stands."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.clock = Clock()
        self.life = Life(self.disk, self.clock, Policy(0), SEGMENT_BYTES, Promises(), shard=(0, 3))
        self.states: dict[tuple[int, int], Jobs] = {(0, 0): ()}
        self.client = self.life.connect()
        self.note()

    def note(self) -> None:
        records = self.life.records
        self.states[records.segment, records.used_bytes] = state_of(self.life.engine)

    def say(self, line: bytes, body: bytes | None = None) -> None:
        """A command in a turn of its own; the log's turn is noted too, for its record changes nothing."""
        client: Client = self.client
        self.life.send(client, line.split()[0], line, body=body)
        self.note()
        self.life.end_turn()
        self.note()
        self.life.runner.settle()
        self.note()

    def write(self) -> None:
        self.say(b"put 1 0 100 5", b"first")
        self.say(b"put 2 0 1 40", b"a body of many bytes" * 2)
        self.say(b"put 3 30 100 0", b"")
        self.say(b"pause-tube default 20")
        self.say(b"reserve-job 1")
        self.say(b"bury 1 7")
        self.say(b"kick-job 1")
        self.say(b"pause-tube default 0")
        self.say(b"use other")
        self.say(b"put 0 0 100 30", bytes(range(30)))
        self.say(b"reserve-job 2")
        self.say(b"release 2 9 50")
        self.say(b"delete 2")
        for _ in range(3):
            self.say(b"put 4 0 100 60", bytes(60))
        self.say(b"set-rules other 11", b"attempts: 3")
        self.say(b"put 0 0 100 1", b"x")
        self.say(b"reserve-job 8")
        self.say(b"delete 4")
        self.say(b"put-job 1 tube=groups group=g", b"x")
        self.say(b"pause-group groups g 20")
        self.say(b"pause-group groups g 0")
        self.say(b"pause-group groups g 30")
        self.say(b"keep-session 10 " + b"a" * 32)
        self.say(b"reserve-job 5")
        self.say(b"bury 5 1")
        self.say(b"set-schedule s 29", b"at: 2100-01-01T00:00:00Z\n\nxyz")
        self.say(b"fire-schedule s")
        self.say(b"pause-schedule s on")
        self.say(b"set-schedule t 26", b"at: 2100-01-01T00:00:00Z\n\n")
        self.say(b"drop-schedule t")
        self.say(b"fire-schedule s")
        self.say(b"put-job 2 once=a key=k", b"ab")
        self.say(b"put-job 1 once=b key=k", b"x")
        self.say(b"put-job 3 once=c key=k taken=replace", b"abc")


@pytest.fixture(scope="module", params=[False, True], ids=["crashed", "closed"])
def written(request: pytest.FixtureRequest) -> Written:
    writer = Writer()
    writer.life.log.compaction = NoCompaction(writer.life.engine, writer.life.records)
    writer.write()
    if request.param:
        writer.life.log.close()
        writer.note()
    files = {name: bytes(inode.cache) for name, inode in writer.disk.cache.items() if segment_number(name) is not None}
    assert len(files) >= 3
    return Written(files, writer.states)


def recovered(files: dict[str, bytes]) -> Jobs | None:
    """What recovery brings back; None: it refuses."""
    disk = SimDisk()
    for name, content in files.items():
        disk.put_file(name, content)
    clock = Clock()
    clock.now_ns += NS_PER_S
    records = Encoder()
    engine = Engine(now_ns=clock.now_ns, records=records)
    try:
        recover(disk, engine, records, now_ns=clock.now_ns, wall_ns=clock.wall_ns())
    except DamageError:
        return None
    check(engine)
    return state_of(engine)


def kinds_in(files: dict[str, bytes]) -> set[int]:
    kinds = set()
    for content in files.values():
        at = SEGMENT_HEADER
        while at + 8 < len(content) and (size := int.from_bytes(content[at : at + 4], "little")):
            kinds.add(content[at + 8])
            at += size + 8
    return kinds


def test_every_kind_of_record_stands_in_the_log(written: Written) -> None:
    only_in_a_cluster = {Kind.RESERVED}
    assert kinds_in(written.files) == {int(kind) for kind in Kind} - {Kind.FIRST} - only_in_a_cluster


def test_whole_log_brings_back_everything(written: Written) -> None:
    assert recovered(written.files) == written.states[max(written.states)]


def used_bytes(content: bytes) -> int:
    """Bytes of a segment up to its end, without a NEXT behind that."""
    replay = Replay()
    replay.segment(content, 0)
    return replay.good_bytes - (NEXT_RECORD if replay.next_segment else 0)


def without_next(files: dict[str, bytes]) -> dict[str, bytes]:
    """A log as a crash leaves it before any NEXT is on disk."""
    return {
        name: (kept := content[: used_bytes(content)]) + bytes(len(content) - len(kept))
        for name, content in files.items()
    }


def test_last_segment_cut_at_every_byte(written: Written) -> None:
    """Its header says how long the file was; one that lacks part of its header is one that a crash left."""
    last = written.last
    number = segment_number(last)
    assert number is not None
    content = written.files[last]
    files = without_next(written.files)
    for size in range(len(content.rstrip(b"\0"))):
        found = recovered({**files, last: content[:size]})
        expected = written.state_at(number, size) if size < SEGMENT_HEADER else None
        assert found == expected, f"{last}, cut at byte {size}"


def test_last_segment_that_another_names_is_missed(written: Written) -> None:
    """NEXT is written when its header is durable, so neither that nor the file can be lost in a crash."""
    last = written.last
    others = {name: content for name, content in written.files.items() if name != last}
    assert recovered(others) is None
    assert recovered(without_next(others)) is not None
    for size in range(SEGMENT_HEADER):
        assert recovered({**others, last: written.files[last][:size]}) is None, f"{last}, cut at byte {size}"


def test_next_torn_at_every_byte_is_no_damage(written: Written) -> None:
    first = min(written.files)
    content = written.files[first]
    end = used_bytes(content)
    for size in range(end, end + NEXT_RECORD):
        torn = content[:size] + bytes(len(content) - size)
        assert recovered({**written.files, first: torn}) == written.states[max(written.states)]


def test_last_segment_torn_at_every_byte(written: Written) -> None:
    """What is lost reads as zeros, as in a file whose space was prepared."""
    last = written.last
    number = segment_number(last)
    assert number is not None
    content = written.files[last]
    file_bytes = read_header(content).file_bytes
    files = without_next(written.files)
    for size in range(len(content) + 1):
        torn = content[:size] + bytes(file_bytes - size)
        expected = {written.state_at(number, size), written.state_at(number, end(content, size))}
        assert recovered({**files, last: torn}) in expected


def end(content: bytes, size: int) -> int:
    """How much of a torn file is as it was: zeros that are lost are not missed."""
    while size < len(content) and content[size] == 0:
        size += 1
    return size


def test_any_other_segment_cut_anywhere_is_refused(written: Written) -> None:
    for name in sorted(written.files)[:-1]:
        content = written.files[name]
        for size in range(used_bytes(content)):
            assert recovered({**written.files, name: content[:size]}) is None, f"{name}, cut at byte {size}"


def test_any_segment_but_the_last_missing_is_refused(written: Written) -> None:
    for name in sorted(written.files)[:-1]:
        assert recovered({each: content for each, content in written.files.items() if each != name}) is None


@pytest.mark.parametrize("turn", fixed(len(PATTERNS)))
def test_every_byte_changed(written: Written, turn: int) -> None:
    """In the last segment a prefix may come back that holds all that the log itself says was durable."""
    for name, content in written.files.items():
        number = segment_number(name)
        assert number is not None
        for at in range(used_bytes(content)):
            changed = bytearray(content)
            changed[at] ^= PATTERNS[(at + turn) % len(PATTERNS)]
            found = recovered({**written.files, name: bytes(changed)})
            if found is None:
                continue
            assert name == written.last, f"byte {at} of {name} was changed, and recovery went on"
            assert found == written.state_at(number, at), f"byte {at} of {name}: something else came back"


def test_segment_under_another_number_is_refused(written: Written) -> None:
    last = written.last
    number = segment_number(last)
    assert number is not None
    assert recovered({**written.files, segment_name(number + 1): written.files[last]}) is None
