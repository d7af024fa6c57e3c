"""What the tools find in logs of the real server, whole and damaged in known places."""

import fcntl
import os
from pathlib import Path

import pytest

from beanpole.engine.engine import Engine
from beanpole.log.encoder import Encoder
from beanpole.log.errors import DamageError, NoLogError
from beanpole.log.files import disk
from beanpole.log.files.names import segment_name
from beanpole.log.files.recovery import recover
from beanpole.log.format import SEGMENT_HEADER, Kind, number_record, segment_header
from beanpole.log.reader import Header, describe
from beanpole.log.tools.inspect import Filter, check, lines, survey
from beanpole.log.tools.report import of_stat
from beanpole.log.tools.scan import next_record
from beanpole.log.tools.snapshot import Snapshot, lock_holder
from tests.unit.log import real_log
from tests.unit.log.real_log import ALIVE, JOB_COUNT, checked, copy, place_of, places, segment_names, start


def refusal(path: Path) -> tuple[str, int]:
    """The file and byte at which the recovery of the server refuses a log."""
    with pytest.raises(DamageError) as caught:
        recover(Snapshot(path), Engine(0, 0, dict, Encoder()), Encoder(), now_ns=0, wall_ns=0)
    return caught.value.name, caught.value.offset


# --- check ------------------------------------------------------------------------------------------------------------


def test_whole_log_has_no_findings(log: Path) -> None:
    result = checked(log)
    assert result.outcome == "starts"
    assert result.survey.findings == []
    assert result.job_count == len(ALIVE)
    assert len(result.survey.segments) == len(segment_names(log)) > 3
    assert all(each.ended for each in result.survey.segments)


def test_killed_server_leaves_no_damage(killed: Path) -> None:
    result = checked(killed)
    assert result.outcome in {"starts", "repairs"}
    assert not result.survey.damaged
    assert result.job_count == len(ALIVE)


def test_torn_tail_is_cut_and_no_damage(killed: Path, tmp_path: Path) -> None:
    path = copy(killed, tmp_path / "data")
    last = places(path)[-1]
    end = last.line.offset + last.line.size
    with last.path.open("r+b") as file:
        file.seek(end)
        file.write(b"torn")
    result = checked(path)
    (finding,) = result.survey.findings
    assert (finding.file, finding.offset, finding.lost_bytes, finding.damage) == (last.path.name, end, 4, False)
    assert "cuts" in finding.start
    assert result.outcome == "repairs"
    assert result.notes
    assert "cut at byte" in result.notes[0]
    assert start(path) == ALIVE


def test_damaged_record_is_found_at_its_place(log: Path) -> None:
    place = place_of(log, Kind.WHOLE, 100)
    place.overwrite(at=200)
    result = checked(log)
    (finding,) = result.survey.findings
    assert (finding.file, finding.offset, finding.lost_bytes) == (place.path.name, place.line.offset, place.line.size)
    assert finding.start == "refuses"
    assert result.outcome == "refuses"
    assert refusal(log) == (place.path.name, place.line.offset)


def test_every_damaged_place_is_found(log: Path) -> None:
    damaged = [place_of(log, Kind.WHOLE, id) for id in (50, 100, 250)]
    for place in damaged:
        place.overwrite(at=80)
    found = [(each.file, each.offset, each.lost_bytes) for each in checked(log).survey.findings]
    assert found == [(each.path.name, each.line.offset, each.line.size) for each in damaged]


def test_missing_segments_are_found(log: Path) -> None:
    names = segment_names(log)
    (log / names[1]).unlink()
    (log / names[2]).unlink()
    result = checked(log)
    assert [(each.file, each.what) for each in result.survey.findings] == [(names[1], f"it is missing to {names[2]}")]
    assert refusal(log) == (names[1], 0)


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (0, b"X", "it does not begin with BEANPOLE"),
        (20, b"X", "its header has a wrong checksum"),
    ],
)
def test_damaged_header_is_found(log: Path, at: int, data: bytes, what: str) -> None:
    name = segment_names(log)[1]
    with (log / name).open("r+b") as file:
        file.seek(at)
        file.write(data)
    result = checked(log)
    assert [(each.file, each.offset, each.what) for each in result.survey.findings] == [(name, 0, what)]
    assert refusal(log) == (name, 0)


def test_renamed_segment_is_found(log: Path) -> None:
    names = segment_names(log)
    (log / names[0]).rename(log / "x")
    (log / names[1]).rename(log / names[0])
    (log / "x").rename(log / names[1])
    assert [(each.file, each.offset) for each in checked(log).survey.findings] == [(names[0], 16), (names[1], 16)]


def test_cut_segment_is_found(log: Path) -> None:
    name = segment_names(log)[1]
    end = next(each for each in places(log) if each.path.name == name and each.line.kind == Kind.END)
    os.truncate(log / name, end.line.offset)
    result = checked(log)
    assert [(each.file, each.offset, each.lost_bytes) for each in result.survey.findings] == [
        (name, end.line.offset, 0)
    ]
    assert result.outcome == "refuses"


@pytest.mark.parametrize("count", [1, 2])
def test_missing_oldest_segments_are_found(log: Path, count: int) -> None:
    names = segment_names(log)
    for name in names[:count]:
        (log / name).unlink()
    result = checked(log)
    assert refusal(log) == (names[0], 0)
    assert [(each.file, each.start) for each in result.survey.findings] == [(names[0], "refuses")]
    assert result.outcome == "refuses"


def test_missing_newest_segment_is_found(log: Path) -> None:
    name = segment_names(log)[-1]
    (log / name).unlink()
    result = checked(log)
    assert refusal(log) == (name, 0)
    assert [(each.file, each.what, each.start) for each in result.survey.findings] == [
        (name, "it is missing", "refuses")
    ]
    assert result.reason == f"{name} at byte 0: it is missing"


@pytest.mark.parametrize("at", [0, 1, 2, 45])
def test_newest_segment_that_was_cut_is_found(log: Path, at: int) -> None:
    """At a turn, where nothing is torn, and within one."""
    last = [each for each in places(log) if each.path.name == segment_names(log)[-1] and each.line.kind == Kind.TURN][
        -2
    ]
    end = last.line.offset + last.line.size - at
    os.truncate(last.path, end)
    result = checked(log)
    assert (result.survey.findings[0].file, result.survey.findings[0].offset) == (last.path.name, end)
    assert result.outcome == "refuses"
    assert result.survey.damaged
    assert refusal(log) == (last.path.name, end)


def test_job_that_no_record_holds_whole_is_found(log: Path, tmp_path: Path) -> None:
    """A log that knows nothing of older segments, and begins with the change of a job."""
    change = place_of(log, Kind.CHANGED, 25)
    offset, size, header = change.line.offset, change.line.size, change.line.segment.header
    record = change.path.read_bytes()[offset : offset + size]
    path = tmp_path / "alone"
    path.mkdir()
    begin = segment_header(1, 50, (header.log_ns, header.lead_ns), header.salt)
    (path / segment_name(1)).write_bytes(begin + record + number_record(Kind.END, 50, header.salt))
    result = checked(path)
    what = "job 25 is changed, but no record holds it whole or deletes it"
    assert [(each.what, each.start) for each in result.survey.findings] == [(what, "starts without the job")]
    assert result.survey.damaged
    assert result.job_count == 0


def test_directory_without_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoLogError):
        survey(Snapshot(tmp_path))


# --- while a server runs ----------------------------------------------------------------------------------------------


def test_log_in_use_can_be_read(tmp_path: Path) -> None:
    with real_log.server(tmp_path / "data") as (process, client):
        real_log.fill(client)
        snapshot = Snapshot(tmp_path / "data")
        assert snapshot.holder == process.pid
        for id in ALIVE:
            client.ask(b"delete %d\r\n" % id, b"DELETED\r\n")
        for _ in range(100):
            client.ask(b"put 0 0 60 1000\r\n" + b"x" * 1000 + b"\r\n", b"INSERTED %d\r\n" % (JOB_COUNT + 3 + _))
        result = check(snapshot)
        snapshot.close()
        assert not result.survey.findings
        assert result.outcome == "starts"
        again = Snapshot(tmp_path / "data")
        assert not check(again).survey.findings
        again.close()


def test_asking_for_the_lock_does_not_take_it(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
    (tmp_path / disk.LOCK_NAME).touch()
    assert lock_holder(tmp_path) is None
    with (tmp_path / disk.LOCK_NAME).open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- dump and stat ----------------------------------------------------------------------------------------------------


def test_lines_tell_every_byte(log: Path) -> None:
    at: dict[str, int] = {}
    for place in places(log):
        assert place.line.offset == at.get(place.path.name, SEGMENT_HEADER)
        at[place.path.name] = place.line.offset + place.line.size
    assert all(not any((log / name).read_bytes()[end:]) for name, end in at.items())
    assert list(at) == segment_names(log)


def test_lines_tell_damage_in_its_place(log: Path) -> None:
    place = place_of(log, Kind.WHOLE, 100)
    place.overwrite(at=200)
    (damage,) = [each for each in places(log) if each.line.kind is None]
    assert (damage.path, damage.line.offset, damage.line.size) == (place.path, place.line.offset, place.line.size)


def test_filter_by_job_and_tube(log: Path) -> None:
    def kinds(wanted: Filter) -> list[int | None]:
        return [each.line.kind for each in places(log) if wanted(each.line)]

    assert kinds(Filter(job=1)) == [Kind.WHOLE, Kind.DELETED]
    assert kinds(Filter(job=25)) == [Kind.WHOLE, Kind.CHANGED]
    assert kinds(Filter(tube=b"paused")) == [Kind.WHOLE, Kind.TUBE, Kind.WHOLE, Kind.GROUP, Kind.DELETED]
    assert kinds(Filter(job=1, tube=b"paused")) == []
    assert Kind.DELETED in kinds(Filter(tube=b"default"))


def test_stat_adds_up(log: Path) -> None:
    found = of_stat(Snapshot(log))
    segments = found["segments"]
    assert isinstance(segments, list)
    assert sum(each["live_jobs"] for each in segments) == found["jobs"] == len(ALIVE)
    assert sum(each["live_bytes"] for each in segments) == found["live_bytes"]
    spare_bytes = sum(path.stat().st_size for path in log.glob("spare.*"))
    assert sum(each["bytes"] for each in segments) + spare_bytes == found["bytes"]
    assert found["next_job_id"] == JOB_COUNT + 3
    records = found["records"]
    assert isinstance(records, dict)
    assert records["whole"] >= JOB_COUNT + 1
    assert records["deleted"] == len(real_log.DELETED) + 1
    assert records["tube"] >= 1
    assert records["group"] == 1
    assert records["end"] == len(segments)


def test_scan_takes_no_byte_for_a_record(log: Path) -> None:
    place = place_of(log, Kind.CHANGED, 25)
    data = bytearray(place.path.read_bytes())
    offset, size, header = place.line.offset, place.line.size, place.line.segment.header
    for i in range(offset, offset + size):
        data[i] ^= 0x10
        assert describe(bytes(data), offset, header) is None
        assert next_record(bytes(data), offset, header) == offset + size
        data[i] ^= 0x10
    assert describe(bytes(data), offset, header) is not None
    assert next_record(b"\0" * 1000, 0, Header()) == -1
    assert next_record(b"", 0, Header()) == -1


def test_lines_of_a_segment_need_no_engine(log: Path) -> None:
    snapshot = Snapshot(log)
    counted: list[int] = []
    survey(snapshot, lambda found, data: counted.append(sum(1 for _ in lines(found, data)) - sum(found.counts)))
    assert counted == [0] * len(segment_names(log))
