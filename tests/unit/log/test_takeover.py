"""Takeover of beanstalkd's directory: every job once, whatever call of the disk is the last one before a crash."""

import errno
from pathlib import Path

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.errors import StartError
from beanpole.log.encoder import Encoder
from beanpole.log.files import disk
from beanpole.log.files.diskfile import DiskFile
from beanpole.log.files.recovery import recover
from beanpole.log.migration.takeover import COMMIT_NAME, TAKEN_OVER, take_over
from beanpole.server.connection import Connection
from tests.unit.log.beanstalkd_bytes import BURIED, DELAYED, DELETED, NOW_NS, Record, binlog

MINUTE_NS = 60_000_000_000

CHANGES = [
    Record(2, tube=b"", body=b"second", state=BURIED, pri=7, counts=(1, 0, 0, 1, 0)),
    Record(5, tube=b"", body=b"gone", state=DELETED),
]


def write_directory(path: Path, job_count: int = 40) -> None:
    """A directory as beanstalkd leaves it: two files, five kinds of jobs."""
    (path / "lock").touch()
    first = [
        Record(1, body=b"first", pri=3),
        Record(2, tube=b"mails", body=b"second"),
        Record(3, body=b"", delay_s=60, state=DELAYED, deadline_at_ns=NOW_NS + MINUTE_NS),
        Record(5, body=b"gone"),
    ]
    more = [Record(10 + i, tube=b"t%d" % (i % 3), body=b"%d" % i * 50) for i in range(job_count)]
    (path / "binlog.1").write_bytes(binlog(*first, unused=4000))
    (path / "binlog.2").write_bytes(binlog(*CHANGES, *more))


def contents(path: Path) -> tuple[bytes, int, Engine]:
    """Everything that a client can see of a directory's jobs, and the next id."""
    engine, records = Engine(), Encoder()
    recovered = recover(disk.DiskDirectory(path), engine, records, now_ns=0, wall_ns=NOW_NS + MINUTE_NS // 2)
    check(engine)
    now_ns = recovered.clock.offset_ns
    connection = Connection(engine, now_ns)
    for i in range(1, 60):
        connection.receive(now_ns, b"peek %d\r\nstats-job %d\r\n" % (i, i))
    return connection.take_output(), engine.next_job_id, engine


class CrashError(Exception):
    """The process dies here."""


class MortalDirectory(disk.DiskDirectory):
    """A directory whose n-th change is the last thing that does not happen."""

    def __init__(self, path: Path, calls_left: int) -> None:
        super().__init__(path)
        self.calls_left = calls_left

    def count(self) -> None:
        """Die if it is time."""
        self.calls_left -= 1
        if self.calls_left < 0:
            raise CrashError

    def create(self, name: str, size: int) -> DiskFile:
        self.count()
        return super().create(name, size)

    def rename(self, old: str, new: str) -> None:
        self.count()
        super().rename(old, new)

    def unlink(self, name: str) -> None:
        self.count()
        super().unlink(name)

    def sync(self) -> None:
        self.count()
        super().sync()


def test_every_job_is_taken_over(tmp_path: Path) -> None:
    write_directory(tmp_path)
    taken = take_over(disk.DiskDirectory(tmp_path), 65536, NOW_NS)
    assert taken is not None
    assert (taken.job_count, taken.report.problems) == (43, [])
    seen, next_id, engine = contents(tmp_path)
    assert next_id == 50
    assert engine.jobs.count == 43
    assert seen.startswith(b"FOUND 1 5\r\nfirst\r\n")
    assert b"FOUND 2 6\r\nsecond\r\n" in seen
    assert b"state: buried\npri: 7\n" in seen
    assert b"buries: 1\n" in seen
    assert b"state: delayed\npri: 1000\nage: 30\ndelay: 60\nttr: 60\ntime-left: 30\n" in seen
    assert b"tube: mails\n" in seen
    kept = sorted(each.name for each in tmp_path.iterdir() if each.name.startswith("binlog"))
    assert kept == ["binlog.1" + TAKEN_OVER, "binlog.2" + TAKEN_OVER]


def test_taking_over_again_does_nothing(tmp_path: Path) -> None:
    write_directory(tmp_path)
    take_over(disk.DiskDirectory(tmp_path), 65536, NOW_NS)
    before = contents(tmp_path)[:2]
    assert take_over(disk.DiskDirectory(tmp_path), 65536, NOW_NS) is None
    assert contents(tmp_path)[:2] == before


def test_crash_at_any_call_leaves_all_jobs(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    write_directory(whole, 800)
    take_over(disk.DiskDirectory(whole), 65536, NOW_NS)
    wanted = contents(whole)[:2]
    assert len(list(whole.glob("segment.*"))) > 2, "there is only one segment to be half written"
    for calls in range(1000):
        path = tmp_path / str(calls)
        path.mkdir()
        write_directory(path, 800)
        try:
            take_over(MortalDirectory(path, calls), 65536, NOW_NS)
        except CrashError:
            take_over(disk.DiskDirectory(path), 65536, NOW_NS)
            assert contents(path)[:2] == wanted, f"after a crash at call {calls}"
            assert not (path / COMMIT_NAME).exists()
        else:
            return
    pytest.fail("the takeover never ended")


def test_full_disk_leaves_beanstalkds_files(tmp_path: Path) -> None:
    write_directory(tmp_path)
    before = (tmp_path / "binlog.1").read_bytes()

    class FullDirectory(disk.DiskDirectory):
        def create(self, name: str, size: int) -> DiskFile:
            raise OSError(errno.ENOSPC, f"no space for {name} of {size} bytes")

    with pytest.raises(OSError, match="no space"):
        take_over(FullDirectory(tmp_path), 65536, NOW_NS)
    assert (tmp_path / "binlog.1").read_bytes() == before
    assert take_over(disk.DiskDirectory(tmp_path), 65536, NOW_NS) is not None


def test_two_logs_in_one_directory_are_refused(tmp_path: Path) -> None:
    write_directory(tmp_path)
    take_over(disk.DiskDirectory(tmp_path), 65536, NOW_NS)
    (tmp_path / "binlog.3").write_bytes(binlog(Record(99)))
    with pytest.raises(StartError, match=r"both a log of Beanpole .* and one of beanstalkd"):
        take_over(disk.DiskDirectory(tmp_path), 65536, NOW_NS)
    assert (tmp_path / "binlog.3").exists()


def test_damage_is_reported_and_the_rest_taken_over(tmp_path: Path) -> None:
    write_directory(tmp_path)
    data = bytearray((tmp_path / "binlog.2").read_bytes())
    data[600:640] = b"\xff" * 40
    (tmp_path / "binlog.2").write_bytes(data)
    taken = take_over(disk.DiskDirectory(tmp_path), 65536, NOW_NS)
    assert taken is not None
    assert len(taken.report.problems) == 1
    assert 38 <= taken.job_count < 43


def warnings(path: Path) -> list[str]:
    """What a takeover reports."""
    taken = take_over(disk.DiskDirectory(path), 65536, NOW_NS)
    assert taken is not None
    assert taken.job_count == 2
    return taken.report.problems


def test_missing_file_in_the_middle_is_reported(tmp_path: Path) -> None:
    """The oldest files are gone when beanstalkd no longer needs them; none behind them is."""
    (tmp_path / "binlog.3").write_bytes(binlog(Record(1)))
    (tmp_path / "binlog.6").write_bytes(binlog(Record(2)))
    (problem,) = warnings(tmp_path)
    assert problem.startswith("binlog.4, offset 0: it is missing, and so are all up to binlog.5; jobs")


def test_empty_file_in_the_middle_is_reported(tmp_path: Path) -> None:
    """Beanstalkd prepares its next file: an empty one at the end is nothing to report."""
    (tmp_path / "binlog.3").write_bytes(binlog(Record(1)))
    (tmp_path / "binlog.4").write_bytes(bytes(100))
    (tmp_path / "binlog.5").write_bytes(binlog(Record(2)))
    (tmp_path / "binlog.6").write_bytes(b"")
    (problem,) = warnings(tmp_path)
    assert problem.startswith("binlog.4, offset 0: it is empty, though binlog.5 is not")
