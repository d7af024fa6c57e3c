"""What a log keeps of the rules of tubes: over restarts, over compaction, and what it refuses."""

from pathlib import Path

import pytest

from beanpole.engine.engine import Engine
from beanpole.log.encoder import Encoder
from beanpole.log.errors import OtherVersionError
from beanpole.log.files.names import segment_name
from beanpole.log.files.recovery import recover
from beanpole.log.format import Kind
from tests.simulation.disk import SimDisk
from tests.unit.log.real_log import checked
from tests.unit.log.test_growth import Lives, log_of, seal, tube_record, whole


def rules_record(text: bytes, set_at_ns: int = 5) -> bytes:
    return seal(bytes([Kind.RULES]) + set_at_ns.to_bytes(8, "little") + text)


def listed(lives: Lives) -> bytes:
    return lives.ask(b"list-rules").partition(b"---\n")[2].removesuffix(b"\r\n")


def test_rules_outlive_a_restart() -> None:
    lives = Lives({})
    lives.ask(b"set-rules a 0", b"", b"set-rules b* 0", b"", b"set-rules * 0", b"")
    lives.ask(b"drop-rules a", b"set-rules c 0", b"")
    for _ in range(2):
        lives.restart()
        assert listed(lives) == b'- pattern: "*"\n- pattern: "b*"\n- pattern: "c"\n'
    lives.ask(b"drop-rules *", b"drop-rules b*", b"drop-rules c")
    lives.restart()
    assert listed(lives) == b""
    assert lives.life.records.accounts.live_bytes == 0


def test_the_last_record_of_a_pattern_wins() -> None:
    lives = Lives(
        log_of(
            rules_record(b"t\nattempts: 1\n"),
            rules_record(b"t\nattempts: 2\nrate: 5/m burst 1\n"),
            rules_record(b"u\nattempts: 3\n"),
            rules_record(b"u"),
            rules_record(b"u-*\n"),
        )
    )
    for _ in range(2):
        lines = b"\n  attempts: 2\n  rate: 5/m burst 1\n"
        assert listed(lives) == b'- pattern: "t"' + lines + b'- pattern: "u-*"\n'
        lives.restart()


@pytest.mark.parametrize("before", [True, False], ids=["rules first", "job first"])
def test_tubes_have_the_rules_that_are_read(before: bool) -> None:
    records = [rules_record(b"ma*\nattempts: 7\n"), whole(1)]
    lives = Lives(log_of(*(records if before else reversed(records)), tube_record(b"\x85\x00\x00", b"maria")))
    tubes = {tube.name: tube for tube in lives.life.engine.tube_list}
    assert {name: tube.rules is None for name, tube in tubes.items()} == {
        b"default": True,
        b"mail": False,
        b"maria": False,
    }
    assert [getattr(tubes[name].rules, "attempts", 0) for name in (b"mail", b"maria")] == [7, 7]


def test_compaction_moves_rules() -> None:
    lives = Lives({}, segment_bytes=4096)
    lives.ask(b"set-rules a 0", b"", b"set-rules b 0", b"", b"drop-rules b", b"set-rules c* 0", b"")
    kept = b'- pattern: "a"\n- pattern: "c*"\n'
    for _ in range(2):
        for _ in range(20):
            lives.ask(b"put 0 0 60 2000", b"y" * 2000)
            lives.ask(b"delete %d" % (lives.life.engine.next_job_id - 1))
        assert segment_name(1) not in lives.disk.cache
        assert listed(lives) == kept
        lives.restart()
        assert listed(lives) == kept
    lives.ask(b"drop-rules a", b"drop-rules c*")
    assert lives.life.records.accounts.live_bytes == 0


@pytest.mark.parametrize("text", [b"t\nattempts: 1\nfrobs: 2\n", b"t\nattempts: many\n"], ids=["name", "value"])
def test_rules_of_a_newer_program_refuse(text: bytes, tmp_path: Path) -> None:
    disk = SimDisk()
    ((name, content),) = log_of(whole(1), rules_record(text)).items()
    disk.put_file(name, content)
    records = Encoder()
    with pytest.raises(OtherVersionError, match=r"holds rules of tubes.*Start the program that wrote it"):
        recover(disk, Engine(0, records=records), records, now_ns=0, wall_ns=0)
    (tmp_path / name).write_bytes(content)
    assert checked(tmp_path).outcome == "refuses"


def test_buckets_are_empty_after_a_start() -> None:
    lives = Lives({})
    rules = b"rate: 2/s burst 2\n"
    lives.ask(b"set-rules t* %d" % len(rules), rules, *[b"put-job 1 tube=t", b"x"] * 9, b"put-job 1 tube=t2", b"x")

    def handed_out(after_ns: int) -> list[bytes]:
        lives.clock.now_ns += after_ns
        lives.life.tick()
        lines = lives.ask(b"watch t", b"watch t2", b"reserve-many 9 0").splitlines()
        return [line.split()[3] for line in lines if line.startswith(b"JOB ")]

    assert handed_out(10_000_000_000) == [b"tube=t", b"tube=t", b"tube=t2"]
    for _ in range(2):
        lives.clock.now_ns += 10_000_000_000
        lives.restart()
        assert handed_out(0) == []
        assert handed_out(499_999_999) == []
        assert handed_out(1) == [b"tube=t", b"tube=t2"]
        assert handed_out(0) == []
