"""The directory: who may use it, when the port opens, what SIGTERM leaves, and which damage is refused."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from beanpole.errors import ExitCode
from tests.durability.kept import assert_kept, facts, keeping, kill, put, starting, terminate
from tests.durability.shim import Switches
from tests.e2e.process import start_in_vain, wait_until
from tests.servers import HOST, STOP_TIMEOUT_S, beanstalkd_server, free_port, peer

SEGMENT = ("-s", "65536")


def one_line(error: str) -> str:
    (line,) = error.splitlines()
    return line


def test_second_server_is_refused(tmp_path: Path) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        put(client, b"x")
        outcome = start_in_vain("-b", str(tmp_path))
        assert outcome.code == ExitCode.DATA_DIR_LOCKED
        assert "in use by another server" in one_line(outcome.error)
        assert str(tmp_path) in outcome.error
        put(client, b"y")


def test_beanstalkd_and_beanpole_refuse_each_other(tmp_path: Path) -> None:
    with beanstalkd_server("-b", str(tmp_path)):
        outcome = start_in_vain("-b", str(tmp_path))
        assert outcome.code == ExitCode.DATA_DIR_LOCKED
        assert "in use by another server" in one_line(outcome.error)
    other = tmp_path / "other"
    with keeping(other):
        command = [peer("beanstalkd"), "-l", HOST, "-p", "0", "-b", str(other)]
        done = subprocess.run(command, capture_output=True, timeout=STOP_TIMEOUT_S, check=False)
        assert done.returncode == ExitCode.DATA_DIR_LOCKED


def test_statistics_say_how_large_the_log_is(tmp_path: Path) -> None:
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        for _ in range(20):
            put(client, b"x" * 10_000)

        def is_right() -> bool:
            files = [name.stat().st_size for name in tmp_path.iterdir() if not name.name.endswith(".unfinished")]
            return int(facts(client)["log-bytes"]) == sum(files)

        wait_until(is_right, "the bytes of the files are those that stats says")
        said = facts(client)
        assert 20 * 10_000 < int(said["log-live-bytes"]) < 20 * 10_500
        available = os.statvfs(tmp_path)
        assert 0 < int(said["log-free-bytes"]) <= available.f_blocks * available.f_frsize


def test_directory_is_made(tmp_path: Path) -> None:
    with keeping(tmp_path / "a" / "b") as process, process.connect() as client:
        put(client, b"x")
        assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0, "others may read the jobs"


def test_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("file", "file/below"):
        outcome = start_in_vain("-b", str(tmp_path / name))
        assert outcome.code in (ExitCode.FAILED, ExitCode.USAGE)
        assert str(tmp_path / name) in outcome.error
        assert "Traceback" not in outcome.error


def test_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    if os.geteuid() == 0:  # Root may write everywhere, so the server becomes somebody else.
        for each in (folder, *folder.parents):
            if each.stat().st_uid == 0 and each != Path("/"):
                each.chmod(each.stat().st_mode | 0o055)
        outcome = start_in_vain("-b", str(folder), "-u", "nobody")
    else:
        folder.chmod(0o500)
        outcome = start_in_vain("-b", str(folder))
    assert outcome.code == ExitCode.FAILED, outcome.error
    assert "Permission denied" in one_line(outcome.error)
    assert str(folder) in outcome.error


def test_port_opens_when_recovery_is_done(tmp_path: Path, switches: Switches) -> None:
    log = tmp_path / "log"
    with keeping(log) as process, process.connect() as client:
        jobs = {put(client, b"x"): b"x"}
        kill(process)
    port = free_port()
    with switches.holding_syncs(), starting(log, port=port, env=switches.env) as process:
        wait_until(switches.sync_count, "recovery has come to its first sync")
        assert not process.ready_file.exists()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port))
        assert start_in_vain("-b", str(log)).code == ExitCode.DATA_DIR_LOCKED
        switches.clear("hold-sync")
        process.wait_ready()
        assert process.port == port
        with process.connect() as client:
            assert_kept(client, jobs)


def test_sigterm_leaves_a_log_that_needs_no_repair(tmp_path: Path) -> None:
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        jobs = {put(client, b"%d" % i * 300): b"%d" % i * 300 for i in range(200)}
        before = facts(client)
        assert terminate(process) == 0
    names = sorted(each.name for each in tmp_path.iterdir())
    assert all(name == "lock" or name.startswith(("segment.", "spare.")) for name in names), names
    assert not any(name.endswith(".unfinished") for name in names), "a spare was left half-done"
    for _ in range(2):
        with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
            assert_kept(client, jobs)
            after = facts(client)
            assert not process.events("log repaired")
            assert after["current-jobs-ready"] == before["current-jobs-ready"] == "200"
            assert terminate(process) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_of_an_idle_server(tmp_path: Path, number: signal.Signals) -> None:
    with keeping(tmp_path) as process:
        process.signal(number)
        assert process.wait_exit() == 0
        assert [line["event"] for line in process.events()][-2:] == ["stopping", "stopped"]


def segments_of(log: Path) -> list[Path]:
    return sorted(log.glob("segment.*"))


def test_damage_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with keeping(log, *SEGMENT) as process, process.connect() as client:
        for _ in range(300):
            put(client, b"x" * 1000)
        kill(process)
    second = segments_of(log)[1]
    data = bytearray(second.read_bytes())
    data[len(data) // 2] ^= 0xFF
    second.write_bytes(data)
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    outcome = start_in_vain("-b", str(log), *SEGMENT)
    assert outcome.code == ExitCode.FAILED
    line = one_line(outcome.error)
    assert "beanpole wal check" in line
    assert second.name in line
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before, "spares count too"


def test_torn_end_is_cut_with_one_line(tmp_path: Path) -> None:
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        jobs = {put(client, b"%d" % i): b"%d" % i for i in range(50)}
        end = process.statistic("binlog-records-written")
        assert end >= 50
        kill(process)
    last = segments_of(tmp_path)[-1]
    used = len(last.read_bytes().rstrip(b"\0"))
    with last.open("r+b") as file:
        file.seek(used + 1)  # The last byte of the last record may be a zero.
        file.write(b"torn" * 10)
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        (line,) = process.events("log repaired")
        assert last.name in str(line["reason"])
        assert "byte" in str(line["reason"])
        assert_kept(client, jobs)


def test_files_shrink_while_the_server_runs(tmp_path: Path) -> None:
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        pinned = put(client, b"pinned")
        for _ in range(30):
            client.send(b"".join(b"put 0 0 9 1000\r\n" + b"x" * 1000 + b"\r\n" for _ in range(50)))
            ids = [int(client.line().split()[1]) for _ in range(50)]
            client.send(b"".join(b"delete %d\r\n" % id for id in ids))
            for _ in ids:
                client.expect(b"DELETED\r\n")
        wait_until(lambda: len(segments_of(tmp_path)) <= 3, "segments go")
        assert_kept(client, {pinned: b"pinned"})
        found = facts(client)
        assert int(found["binlog-current-index"]) > 10
        assert int(found["binlog-oldest-index"]) > 10
        assert int(found["binlog-records-migrated"]) > 0
        assert int(found["binlog-max-size"]) == 65536


def test_copy_of_a_segment_under_a_longer_name_is_not_read(tmp_path: Path) -> None:
    """Neither in place of the segment nor beside it: a number has one name."""
    with keeping(tmp_path) as process, process.connect() as client:
        jobs = {put(client, b"job"): b"job"}
        kill(process)
    (segment,) = segments_of(tmp_path)
    copy = tmp_path / "segment.00000000001"
    copy.write_bytes(segment.read_bytes()[:100])
    with keeping(tmp_path) as process, process.connect() as client:
        assert_kept(client, jobs)
        kill(process)
    assert copy.stat().st_size == 100


def test_directory_in_place_of_a_segment_is_named(tmp_path: Path) -> None:
    (tmp_path / "segment.0000000001").mkdir()
    outcome = start_in_vain("-b", str(tmp_path))
    assert outcome.code == ExitCode.FAILED
    assert "segment.0000000001: Is a directory" in one_line(outcome.error)
