"""What salvage makes of logs of the real server that are damaged in known places, also when it is interrupted."""

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from beanpole.log.errors import SalvageError
from beanpole.log.files import disk
from beanpole.log.format import SEGMENT_HEADER, VERSION, Kind
from beanpole.log.tools import salvage
from beanpole.log.tools.report import of_stat
from beanpole.log.tools.snapshot import Snapshot
from tests.unit.log import real_log
from tests.unit.log.real_log import ALIVE, JOB_COUNT, checked, contents, copy, place_of, places, segment_names, start

Rename = Callable[[Path, Path], object]


def salvaged(path: Path, *, dry_run: bool = False, rename: Rename = Path.rename) -> salvage.Salvaged:
    """The result of salvage with segments as small as the log's."""
    directory = disk.open_directory(path, create=False)
    try:
        return salvage.salvage(directory, dry_run=dry_run, segment_bytes=real_log.SEGMENT_BYTES, rename=rename)
    finally:
        os.close(directory.fd)


def test_salvage_leaves_a_whole_log_alone(log: Path) -> None:
    before = contents(log)
    assert not salvaged(log).needed
    assert contents(log) == before


def test_salvage_of_a_lost_put_keeps_all_other_jobs(log: Path) -> None:
    place_of(log, Kind.WHOLE, 100).overwrite(at=200)
    before = contents(log)
    dry = salvaged(log, dry_run=True)
    assert contents(log) == before
    done = salvaged(log)
    assert done.needed
    assert done.job_count == dry.job_count == len(ALIVE) - 1
    assert done.lost_bytes == 1084
    assert done.lost_ids == []
    kept = contents(log / "damaged.1")
    assert kept == {name: before[name] for name in kept}
    assert sorted(kept) == [name for name in before if name.startswith("segment.")]
    assert checked(log).outcome == "starts"
    with real_log.server(log) as (_, client):
        assert real_log.ids_alive(client) == [id for id in ALIVE if id != 100]
        for id in real_log.BURIED:
            client.send(b"peek-buried\r\n")
            assert client.body().startswith(b"%d:" % id)
            client.ask(b"kick 1\r\n", b"KICKED 1\r\n")
        assert client.statistic("time-left", b"stats-job %d\r\n" % real_log.DELAYED) > 3900
        assert client.statistic("pause-time-left", b"stats-tube paused\r\n") > 3900
        client.send(b"stats-groups paused\r\n")
        assert b"  closed: [pause]\n  pause-time-left: 39" in client.body()
        assert client.statistic("releases", b"stats-job %d\r\n" % real_log.DELAYED) == 1
        client.send(b"put 0 0 1 0\r\n\r\n")
        assert int(client.line().split()[1]) > JOB_COUNT + 2


def test_salvage_names_jobs_of_which_only_changes_are_left(log: Path) -> None:
    place_of(log, Kind.WHOLE, real_log.DELAYED).overwrite(at=9)
    done = salvaged(log)
    assert done.lost_ids == [real_log.DELAYED]
    assert start(log) == [id for id in ALIVE if id != real_log.DELAYED]


def test_salvage_brings_back_what_a_lost_record_deleted(log: Path) -> None:
    place_of(log, Kind.DELETED, 7).overwrite(at=9)
    assert salvaged(log).lost_bytes == 17
    assert start(log) == sorted([*ALIVE, 7])


def test_salvage_without_a_header_and_a_segment(log: Path) -> None:
    names = segment_names(log)
    gone = [
        each.line.fields["job"] for each in places(log) if each.path.name == names[2] and each.line.kind == Kind.WHOLE
    ]
    (log / names[2]).unlink()
    (log / names[1]).write_bytes(b"\0" * SEGMENT_HEADER + (log / names[1]).read_bytes()[SEGMENT_HEADER:])
    done = salvaged(log)
    assert done.lost_bytes == SEGMENT_HEADER
    assert start(log) == [id for id in ALIVE if id not in gone]


def test_salvage_of_a_newest_segment_that_is_all_zeros(log: Path) -> None:
    """The one before names it, so its header was durable: a start refuses, and salvage must not call that harmless."""
    path = log / segment_names(log)[-1]
    gone = [each.line.fields["job"] for each in places(log) if each.path == path and each.line.kind == Kind.WHOLE]
    path.write_bytes(bytes(path.stat().st_size))
    found = checked(log)
    assert found.outcome == "refuses"
    assert found.reason == f"{path.name} at byte 0: it does not begin with BEANPOLE"
    assert salvaged(log).needed
    assert start(log) == [id for id in ALIVE if id not in gone]


@pytest.mark.parametrize("at", [20, 60, 200])
def test_damage_of_a_salvaged_log_is_no_torn_tail(log: Path, at: int) -> None:
    """Nothing was written to it since, so no segment follows, and no turn of a server says how far it was durable."""
    place_of(log, Kind.WHOLE, 100).overwrite(at=200)
    salvaged(log)
    path = log / segment_names(log)[-1]
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)
    with pytest.raises(AssertionError, match="the log is damaged"):
        start(log)


def test_salvage_twice_keeps_both_logs(log: Path) -> None:
    place_of(log, Kind.WHOLE, 100).overwrite(at=200)
    salvaged(log)
    place_of(log, Kind.WHOLE, 200).overwrite(at=200)
    done = salvaged(log)
    assert done.kept_in == log / "damaged.2"
    assert start(log) == [id for id in ALIVE if id not in {100, 200}]


class Crash(Exception):  # noqa: N818 - a loss of power is no error of the program
    """The power goes."""


def test_salvage_can_be_interrupted_anywhere(written: Path, tmp_path: Path) -> None:
    """Each rename is the last one that happens: the server refuses or has the right jobs, and salvage goes on."""
    expected = [id for id in ALIVE if id != 100]
    for last in range(100):
        path = copy(written, tmp_path / str(last))
        place_of(path, Kind.WHOLE, 100).overwrite(at=200)
        try:
            salvaged(path, rename=only(last))
        except Crash:
            assert checked(path).outcome == "refuses"
            assert salvaged(path).needed
        else:
            assert last > 2 * len(segment_names(written)) - 3
            return
        assert of_stat(Snapshot(path))["jobs"] == len(expected)
        if last % 5 == 0:
            assert start(path) == expected
    pytest.fail("salvage never ends")


def only(count: int) -> Rename:
    """`Path.rename` for so many calls; then the power goes."""
    left = iter(range(count))

    def rename(old: Path, new: Path) -> None:
        if next(left, None) is None:
            raise Crash
        old.rename(new)

    return rename


def test_salvage_on_a_full_disk_changes_nothing(log: Path) -> None:
    place_of(log, Kind.WHOLE, 100).overwrite(at=200)
    before = contents(log)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (real_log.SEGMENT_BYTES // 2, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            salvaged(log)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(log) == before


def test_newer_version_is_left_alone(log: Path) -> None:
    path = log / segment_names(log)[0]
    data = bytearray(path.read_bytes())
    data[8] = VERSION + 1
    path.write_bytes(data)
    data[68:72] = checksum_of(bytes(data[:68]))
    path.write_bytes(data)
    with pytest.raises(SalvageError, match=f"version {VERSION + 1}"):
        salvaged(log)
    assert not (log / "damaged.1").exists()


def checksum_of(data: bytes) -> bytes:
    """The CRC-32C of some bytes, bit by bit, as bytes of a file."""
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return (remainder ^ 0xFFFFFFFF).to_bytes(4, "little")
