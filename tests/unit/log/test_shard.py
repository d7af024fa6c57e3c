"""What a log keeps of the numbers of a shard, and which numbers a server refuses that has a log."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode, StartError
from beanpole.log.encoder import Encoder
from beanpole.log.files import disk
from beanpole.log.files.bulk import BulkWriter
from beanpole.log.format import SHARD_RECORD, Kind
from beanpole.log.migration.takeover import take_over
from beanpole.log.reader import describe, read_header
from beanpole.log.replay import Replay
from beanpole.log.tools.report import of_stat
from beanpole.log.tools.snapshot import Snapshot
from beanpole.server.connection import Connection
from beanpole.server.directory import number
from beanpole.shard_ids import first_id
from tests.simulation.server import Server
from tests.unit.log import real_log
from tests.unit.log.beanstalkd_bytes import NOW_NS
from tests.unit.log.real_log import checked, places
from tests.unit.log.test_salvage import salvaged
from tests.unit.log.test_takeover import write_directory

PUT = b"put 0 0 60 300\r\n" + b"y" * 300


def give(server: Server, *numbers: int) -> None:
    """A server that has started gets its numbers."""
    number(server.life.engine, server.life.log, numbers, Path("DIR"))


def refused(server: Server, *numbers: int) -> str:
    with pytest.raises(StartError) as error:
        give(server, *numbers)
    assert error.value.exit_code == ExitCode.USAGE
    return str(error.value)


def fill(server: Server, count: int) -> None:
    """Put and delete jobs, so that segments go."""
    for _ in range(count):
        server.ask(PUT, b"delete %d" % server.life.engine.next_job_id)


def test_numbers_are_kept_over_a_kill_and_compaction() -> None:
    server = Server(segment_bytes=4096)
    give(server, 3)
    assert server.ask(PUT) == b"INSERTED %d\r\n" % first_id(3)
    for _ in range(2):
        last = server.life.records.segment
        while server.life.accounts.first_segment <= last:
            fill(server, 10)
        server.restart()
        check(server.life.engine)
        assert server.life.engine.shard == (3,)
        assert server.ids() == [first_id(3)]
    next_id = server.life.engine.next_job_id
    give(server, 3, 17)
    fill(server, 1)
    server.restart()
    assert server.life.engine.shard == (3, 17)
    assert server.ask(PUT) == b"INSERTED %d\r\n" % (next_id + 1), "it goes on where it was"


def test_the_numbers_stand_before_the_first_id_that_they_give() -> None:
    """So whatever a crash leaves, no id is there without its number."""
    server = Server()
    give(server, 3)
    server.ask(PUT)
    (segment,) = [name for name in server.disk.names() if name.startswith("segment")]
    found = kinds(server.disk.read(segment))
    assert found.index(Kind.SHARD) < found.index(Kind.WHOLE)


def test_a_segment_takes_as_many_bytes_of_jobs_with_a_number_as_without() -> None:
    """Else the jobs of a full segment from before would not fit into one."""
    with_none, with_two = Encoder(), Encoder()
    with_two.shard = (3, 17)
    for records in (with_none, with_two):
        records.open_segment(1, 65536)
    assert with_none.left() - with_two.left() == SHARD_RECORD
    assert with_none.left_for_jobs() == with_two.left_for_jobs()


def pieces_of(records: Encoder) -> bytearray:
    data = bytearray()
    records.write_to(lambda _at, piece: data.extend(piece))
    return data


def test_dump_shows_the_numbers() -> None:
    records = Encoder()
    records.shard = (3, 1023)
    records.open_segment(1, 65536)
    data = bytes(pieces_of(records))
    _, kind, fields = describe(data, read_header(data).size, read_header(data)) or (0, 0, {})
    assert (kind, list(fields.values())) == (Kind.SHARD, [3, 1023, 0xFFFF, 0xFFFF])


def test_a_server_without_a_number_writes_none() -> None:
    server = Server(segment_bytes=4096)
    fill(server, 50)
    segments = [server.disk.read(name) for name in server.disk.names() if name.startswith("segment")]
    assert all(Kind.SHARD not in kinds(data) for data in segments)


def kinds(data: bytes) -> list[int]:
    """The kinds of a segment's records, in order."""
    header, at, found = read_header(data), read_header(data).size, []
    while (record := describe(data, at, header)) is not None:
        found.append(record[1])
        at += record[0]
    return found


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [(4,), (17,), (3,), (3, 18), (1, 3, 17)])
def test_other_numbers_than_the_log_has_are_refused(numbers: tuple[int, ...]) -> None:
    """Another one, one removed, their order changed."""
    server = Server()
    give(server, 3, 17)
    give(server, 3, 17)
    text = refused(server, *numbers)
    assert "the log in DIR is that of shard 3,17" in text
    assert "as in 3,17,N" in text
    assert server.life.engine.shard == (3, 17)


def test_a_log_that_has_jobs_with_other_ids_takes_no_number() -> None:
    server = Server()
    server.ask(PUT, PUT)
    assert "has jobs with ids of shard 0, as 1" in refused(server, 3)
    server.ask(b"delete 1", b"delete 2")
    give(server, 3)
    assert server.ask(PUT) == b"INSERTED %d\r\n" % first_id(3)


def test_a_server_without_a_number_is_shard_0() -> None:
    server = Server()
    server.ask(PUT)
    give(server, 0, 17)
    server.ask(PUT)
    server.restart()
    assert (server.life.engine.shard, server.ids()) == ((0, 17), [1, 2])


def test_a_log_without_room_takes_no_number() -> None:
    records = Encoder()
    records.open_segment(1, 200)  # and nothing is spare
    engine = Engine(records=records)
    with pytest.raises(StartError, match="no room to note that"):
        number(engine, SimpleNamespace(records=records), (3,), Path("DIR"))  # type: ignore[arg-type]
    assert engine.shard == ()


def test_beanstalkds_jobs_are_taken_over_by_shard_0_alone(tmp_path: Path) -> None:
    write_directory(tmp_path)
    before = real_log.contents(tmp_path)
    with pytest.raises(StartError, match="whose ids are those of shard 0"):
        take_over(disk.DiskDirectory(tmp_path), 65536, NOW_NS, (3,))
    assert real_log.contents(tmp_path) == before
    assert take_over(disk.DiskDirectory(tmp_path), 65536, NOW_NS, (0, 3)) is not None


# --- the tools --------------------------------------------------------------------------------------------------------


def test_tools_keep_the_numbers_of_a_damaged_log(tmp_path: Path) -> None:
    engine = Engine()
    engine.set_shard((3,))
    connection = Connection(engine, 1)
    for _ in range(100):
        connection.receive(1, b"put 0 0 60 1000\r\n%b\r\n" % (b"x" * 1000))
    next_id, path = engine.next_job_id, disk.DiskDirectory(tmp_path)
    BulkWriter(
        path, "segment", 1, next_job_id=next_id, shard=engine.shard, clock=(1, 0), segment_bytes=65536
    ).write_all(engine)
    found = of_stat(Snapshot(tmp_path))
    assert (found["shard"], found["next_job_id"]) == ([3], first_id(3) + 100)
    assert found["records"]["shard"] == len(found["segments"]) > 1
    next(each for each in places(tmp_path) if each.line.kind == Kind.SHARD).overwrite(at=9)
    assert salvaged(tmp_path).job_count == 100
    assert checked(tmp_path).outcome == "starts"
    assert of_stat(Snapshot(tmp_path))["shard"] == [3]
    assert of_stat(Snapshot(tmp_path))["next_job_id"] >= first_id(3) + 100


def test_an_engine_that_is_read_back_has_the_numbers_that_were_written_last() -> None:
    records = Encoder()
    records.shard = (3,)
    records.open_segment(1, 65536)
    records.set_shard((3, 17))
    engine = Engine(records=(encoder := Encoder()))
    Replay(engine, encoder).segment(bytes(pieces_of(records)), 1)
    assert (engine.shard, engine.next_job_id) == ((3, 17), first_id(3))
