"""The reader of beanstalkd's logs on bytes built by hand: both versions, damage in every place, any bytes at all."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.log.migration.beanstalkd_binlog import BinlogJob, BinlogReplay, is_binlog, read_directory
from tests.unit.log.beanstalkd_bytes import (
    BURIED,
    DELAYED,
    DELETED,
    NOW_NS,
    READY,
    RESERVED,
    Record,
    binlog,
    number,
    read_binlog,
)

VERSIONS = pytest.mark.parametrize("version", [5, 7])

MANY = [
    Record(
        id, tube=b"tube-%d" % (id % 3), body=random.Random(id).randbytes(id * 7 % 90), created_at_ns=NOW_NS + id * 1000
    )
    for id in range(1, 41)
]
"""Jobs of which no two are alike."""


def read(*records: Record, version: int = 7) -> dict[int, BinlogJob]:
    """The jobs of one file that is not damaged."""
    jobs, report = read_binlog("binlog.1", binlog(*records, version=version))
    assert report.problems == []
    return jobs


def of(record: Record, state: int = READY, pri: int = 1000, counts: tuple[int, ...] = (0, 0, 0, 0, 0)) -> Record:
    """A record without a body about the job of another record."""
    return replace(record, tube=b"", state=state, pri=pri, counts=counts)


def content(job: BinlogJob) -> tuple[object, ...]:
    """Everything of a job but its id and its place among the buried."""
    return job.tube, job.body, job.pri, job.ttr_s, job.created_at_ns, job.state


def content_of(record: Record) -> tuple[object, ...]:
    """What `content` should be after a put."""
    return record.tube, record.body, record.pri, record.ttr_s, record.created_at_ns, "ready"


# --- One file ---------------------------------------------------------------------------------------------------------


@VERSIONS
def test_every_field_is_read(version: int) -> None:
    record = Record(
        7,
        tube=b"a" * 200,
        body=b"\0\r\n\xff",
        state=DELAYED,
        pri=2**32 - 1,
        delay_s=2**32 - 1,
        ttr_s=2**32 - 2,
        deadline_at_ns=NOW_NS + 5_000,
        counts=(1, 2, 3, 4, 2**32 - 1),
    )
    jobs = read(record, version=version)
    assert jobs == {
        7: BinlogJob(
            id=7,
            tube=b"a" * 200,
            pri=2**32 - 1,
            delay_s=2**32 - 1,
            ttr_s=2**32 - 2,
            body=b"\0\r\n\xff",
            created_at_ns=NOW_NS,
            deadline_at_ns=NOW_NS + 5_000,
            state="delayed",
            reserve_count=1,
            timeout_count=2,
            release_count=3,
            bury_count=4,
            kick_count=2**32 - 1,
            bury_order=0,
        )
    }


@VERSIONS
@pytest.mark.parametrize(
    ("state", "name"), [(READY, "ready"), (RESERVED, "ready"), (BURIED, "buried"), (DELAYED, "delayed")]
)
def test_state_is_read(version: int, state: int, name: str) -> None:
    put = Record(1, state=state, deadline_at_ns=NOW_NS)
    changed = of(Record(2, deadline_at_ns=NOW_NS), state=state)
    jobs = read(put, Record(2), changed, version=version)
    assert [job.state for job in jobs.values()] == [name, name]
    assert [job.deadline_at_ns for job in jobs.values()] == [NOW_NS if name == "delayed" else 0] * 2


@VERSIONS
def test_last_record_wins(version: int) -> None:
    put = Record(3)
    changed = replace(of(put, state=DELAYED, pri=5), delay_s=9, deadline_at_ns=NOW_NS + 9000)
    job = read(put, changed, of(put, state=BURIED, pri=6, counts=(1, 0, 2, 1, 0)), version=version)[3]
    assert (job.state, job.pri, job.delay_s, job.deadline_at_ns, job.body) == ("buried", 6, 0, 0, b"hello")
    assert (job.reserve_count, job.release_count, job.bury_count, job.bury_order) == (1, 2, 1, 1)


@VERSIONS
def test_deleted_job_is_gone_and_its_id_is_not_given_again(version: int) -> None:
    data = binlog(Record(1), Record(9), of(Record(9), state=DELETED), version=version, unused=500)
    jobs, report = read_binlog("binlog.1", data)
    assert list(jobs) == [1]
    assert (report.next_id, report.records_read, report.jobs_alive, report.problems) == (10, 3, 1, [])
    assert (report.files_read, report.bytes_read) == (1, len(data))


def test_change_of_unknown_job_is_ignored_and_counts_for_the_next_id() -> None:
    jobs, report = read_binlog("binlog.1", binlog(of(Record(30)), of(Record(31), state=DELETED), Record(4)))
    assert list(jobs) == [4]
    assert (report.records_read, report.records_ignored, report.next_id, report.problems) == (3, 2, 32, [])


def test_jobs_come_in_the_order_they_were_put() -> None:
    assert list(read(Record(10), Record(11), Record(3), Record(4))) == [3, 4, 10, 11]


def test_large_body_is_kept() -> None:
    body = b"x" * 3_000_000
    assert read(Record(1, body=body), Record(2))[1].body == body


@pytest.mark.parametrize("data", [b"", b"\0" * 3, b"\0" * 8192, number(7, 4), binlog(unused=9), binlog(version=5)])
def test_file_without_records_is_no_problem(data: bytes) -> None:
    jobs, report = read_binlog("binlog.1", data)
    assert (jobs, report.problems, report.next_id, report.files_read) == ({}, [], 1, 1)


@pytest.mark.parametrize("data", [number(6, 4) + b"x", number(-1, 4), b"\7\0", binlog(Record(1), version=7)[1:]])
def test_unknown_version_is_a_problem(data: bytes) -> None:
    jobs, report = read_binlog("binlog.3", data)
    assert jobs == {}
    assert len(report.problems) == 1
    assert report.problems[0].startswith("binlog.3, offset 0: ")
    assert "version" in report.problems[0]


# --- Order of buries --------------------------------------------------------------------------------------------------


def buried_order(jobs: dict[int, BinlogJob]) -> list[int]:
    """The ids of the buried jobs, first buried first."""
    return sorted((id for id, job in jobs.items() if job.state == "buried"), key=lambda id: jobs[id].bury_order)


def test_bury_order_is_the_order_of_the_buries() -> None:
    puts = [Record(id) for id in range(1, 5)]
    buries = [of(Record(id), state=BURIED, counts=(1, 0, 0, 1, 0)) for id in (3, 1, 4, 2)]
    assert buried_order(read(*puts, *buries)) == [3, 1, 4, 2]


def test_bury_order_survives_compaction() -> None:
    puts = [Record(id) for id in (1, 2)]
    buries = [of(Record(id), state=BURIED, counts=(1, 0, 0, 1, 0)) for id in (2, 1)]
    moved = [Record(id, state=BURIED, counts=(1, 0, 0, 1, 0)) for id in (1, 2)]
    assert buried_order(read(*puts, *buries, *moved)) == [2, 1]
    assert buried_order(read(*buries, *moved)) == [2, 1], "also when the files with the puts are gone"
    assert buried_order(read(*moved)) == [1, 2]


def test_bury_again_goes_to_the_end() -> None:
    first, second = Record(1), Record(2)
    buries = [of(first, state=BURIED, counts=(1, 0, 0, 1, 0)), of(second, state=BURIED, counts=(1, 0, 0, 1, 0))]
    kicked = of(first, state=READY, counts=(1, 0, 0, 1, 1))
    again = of(first, state=BURIED, counts=(2, 0, 0, 2, 0))
    assert buried_order(read(first, second, *buries, again)) == [2, 1]
    assert buried_order(read(first, second, *buries, kicked, replace(again, counts=(2, 0, 0, 2, 1)))) == [2, 1]
    assert read(first, second, *buries, kicked)[1].bury_order == 0


# --- Several files ----------------------------------------------------------------------------------------------------


def test_is_binlog() -> None:
    assert all(map(is_binlog, ["binlog.1", "binlog.0", "binlog.2147483647"]))
    others = ["lock", "binlog", "binlog.", "binlog.01", "binlog.-1", "binlog.1~", "xbinlog.1", "binlog.1\n", "binlog.٣"]
    assert not any(map(is_binlog, others))


def test_directory_is_read_in_the_order_of_the_numbers(tmp_path: Path) -> None:
    put = Record(1)
    (tmp_path / "binlog.8").write_bytes(binlog(put, version=5))
    (tmp_path / "binlog.10").write_bytes(binlog(of(put, pri=10), version=7))
    (tmp_path / "binlog.9").write_bytes(binlog(of(put, pri=9), version=5))
    (tmp_path / "lock").write_bytes(b"")
    (tmp_path / "binlog.1.old").write_bytes(b"garbage")
    (tmp_path / "binlog.3").mkdir()
    jobs, report = read_directory(tmp_path)
    assert jobs[1].pri == 10
    assert (report.files_read, report.records_read, report.problems) == (3, 3, [])


def test_id_that_was_given_again_keeps_both_jobs() -> None:
    forgotten, new = Record(5, tube=b"old", body=b"first"), Record(5, created_at_ns=NOW_NS + 1_000_000, body=b"second")
    replay = BinlogReplay()
    replay.feed("binlog.1", binlog(Record(4), forgotten))
    replay.feed("binlog.2", binlog(new, of(new, pri=1), Record(6)))
    jobs, report = replay.finish()
    assert {id: job.body for id, job in jobs.items()} == {4: b"hello", 5: b"second", 6: b"hello", 7: b"first"}
    assert (jobs[5].pri, jobs[7].id, jobs[7].tube, report.next_id) == (1, 7, b"old", 8)
    assert report.problems == [
        "binlog.2, offset 4: a second job 5, of another age or size; the first was kept, as job 7 in tube old."
    ]


# --- Damage -----------------------------------------------------------------------------------------------------------


def test_damaged_record_is_skipped_and_named() -> None:
    data = bytearray(binlog(*MANY))
    at = len(binlog(*MANY[:10]))
    end = len(binlog(*MANY[:11]))
    data[end - 1] = 0  # the LF behind the body
    jobs, report = read_binlog("binlog.1", bytes(data))
    assert [id for id in range(1, 41) if id not in jobs] == [11]
    skipped = f"{end - at} bytes that are no record were skipped, up to the next one at {end}"
    assert report.problems == [f"binlog.1, offset {at}: {skipped}; lost is a record of job 11."]


@VERSIONS
def test_zeroes_in_the_middle_are_not_the_end(version: int) -> None:
    data = bytearray(binlog(*MANY, version=version, unused=3000))
    first, last = len(binlog(*MANY[:10], version=version)), len(binlog(*MANY[:20], version=version))
    data[first:last] = bytes(last - first)
    jobs, report = read_binlog("binlog.1", bytes(data))
    assert sorted(jobs) == [*range(1, 11), *range(21, 41)]
    assert len(report.problems) == 1
    assert f"offset {first}: {last - first} bytes were skipped, from zero bytes" in report.problems[0]


def test_impossible_times_keep_the_job() -> None:
    data = bytearray(binlog(Record(1), Record(2)))
    data[4 + 4 + 7 + 24 : 4 + 4 + 7 + 32] = b"\xff" * 8  # the TTR
    jobs, report = read_binlog("binlog.1", bytes(data))
    assert (jobs[1].body, jobs[1].ttr_s, jobs[2].ttr_s) == (b"hello", 1, 60)
    assert len(report.problems) == 1
    assert "offset 4: job 1 has times that" in report.problems[0]


def test_change_of_another_job_is_ignored() -> None:
    stray = of(Record(1, created_at_ns=NOW_NS + 1), state=DELETED)
    jobs, report = read_binlog("binlog.1", binlog(Record(1), stray, of(Record(1, body=b"longer"), pri=1)))
    assert jobs[1].pri == 1000
    assert [problem.split(": ")[1].split(" of job")[0] for problem in report.problems] == ["a delete", "a change"]


def test_change_torn_before_its_counters_is_no_delete() -> None:
    bury = of(Record(1), state=BURIED, counts=(2, 0, 0, 2, 0))
    torn = binlog(Record(1), replace(bury, counts=(1, 0, 0, 1, 0))) + bury.encode()[: 4 + 56] + bytes(500)
    jobs, report = read_binlog("binlog.1", torn)
    assert (jobs[1].state, jobs[1].bury_count) == ("buried", 1)
    assert len(report.problems) == 1


def test_absurd_id_behind_damage_is_not_believed() -> None:
    data = binlog(Record(1)) + b"garbage" + Record(2**40).encode() + Record(2).encode()
    jobs, report = read_binlog("binlog.1", data)
    assert (sorted(jobs), report.next_id, len(report.problems)) == ([1, 2], 3, 1)


def test_absurd_id_within_damage_is_not_named() -> None:
    """A job's numbers that lost their name and their body: its id is the next, or it is damaged too."""
    for lost, is_named in ((3, True), (4, False), (58_195_969, False)):
        torn = Record(lost).encode().replace(b"default", b"defa\0lt").replace(b"hello\r\n", b"hello\0\0")
        jobs, report = read_binlog(
            "binlog.1", binlog(Record(1), Record(2)) + torn + Record(2, tube=b"", pri=7).encode()
        )
        assert sorted(jobs) == [1, 2]
        assert jobs[2].pri == 7
        assert report.next_id == lost + 1  # it may have been one: ids never repeat
        assert (f"job {lost}" in report.problems[0]) == is_named


@VERSIONS
def test_every_cut_keeps_what_was_whole(version: int) -> None:
    records = [*MANY[:4], of(MANY[1], state=BURIED, counts=(1, 0, 0, 1, 0)), of(MANY[0], state=DELETED), MANY[4]]
    data = binlog(*records, version=version)
    ends = [len(binlog(*records[:count], version=version)) for count in range(len(records) + 1)]
    for cut in range(4, len(data) + 1):
        whole = sum(end <= cut for end in ends) - 1
        jobs, report = read_binlog("binlog.1", data[:cut])
        assert jobs == read(*records[:whole], version=version)
        visible = data[ends[whole] : cut].strip(b"\0")
        assert len(report.problems) == bool(visible), (cut, report.problems)
        assert report.records_read == whole


@VERSIONS
def test_put_torn_by_zeroes_keeps_what_was_whole(version: int) -> None:
    data = binlog(*MANY[:3], version=version)
    before = len(binlog(*MANY[:2], version=version))
    for cut in range(before + 1, len(data)):
        jobs, report = read_binlog("binlog.1", data[:cut] + bytes(5000))
        assert list(jobs) == [1, 2]
        assert len(report.problems) == 1
        assert f"offset {before}: the file ends in" in report.problems[0]


@VERSIONS
@pytest.mark.parametrize("kind", ["flip", "zero", "noise", "insert", "remove"])
def test_damage_costs_only_the_records_that_it_touches(version: int, kind: str) -> None:
    data = binlog(*MANY, version=version, unused=100)
    ends = [len(binlog(*MANY[:count], version=version)) for count in range(len(MANY) + 1)]
    chance = random.Random(kind + str(version))
    for _ in range(1000):
        at = chance.randrange(4, ends[-1])
        end = min(at + (1 if kind == "flip" else chance.choice([1, 4, 50, 300])), ends[-1])
        new = {
            "flip": bytes([data[at] ^ 1 << chance.randrange(8)]),
            "zero": bytes(end - at),
            "noise": chance.randbytes(end - at),
            "insert": chance.randbytes(end - at) + data[at:end],
            "remove": b"",
        }[kind]
        jobs, report = read_binlog("binlog.1", data[:at] + new + data[end:])
        found = {content(job) for job in jobs.values()}
        untouched = [record for i, record in enumerate(MANY) if ends[i + 1] <= at or ends[i] >= end]
        missing = [record.id for record in untouched if content_of(record) not in found]
        # Without checksums, a body size that grew to the end of another record can't be told from a larger body.
        swallowed = [
            id for id in missing if any(MANY[id - 1].encode(version)[:-2] in job.body for job in jobs.values())
        ]
        assert missing == swallowed, (at, end, report.problems)
        # Nor can bytes that are missing between the same places of two records, or zeroes up to the end.
        unseen = swallowed or kind == "remove" or (kind == "zero" and end == ends[-1])
        assert len(jobs) >= len(MANY) or report.problems or unseen
        assert len(report.problems) <= 4, report.problems


# --- Any bytes --------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=2000), st.sampled_from([b"", number(5, 4), number(7, 4)]))
def test_no_bytes_raise(data: bytes, version: bytes) -> None:
    check(version + data)


@given(
    st.sampled_from([5, 7]),
    st.lists(st.tuples(st.integers(4, 1500), st.binary(max_size=12), st.integers(0, 12)), max_size=5),
    st.integers(0, 1500),
)
def test_no_damage_raises(version: int, edits: list[tuple[int, bytes, int]], cut: int) -> None:
    data = binlog(*MANY[:8], *(of(record, state=DELETED) for record in MANY[:4]), version=version)
    for at, new, removed in edits:
        data = data[:at] + new + data[at + removed :]
    check(data)
    check(data[:cut])


def check(data: bytes) -> None:
    """What holds whatever the bytes are."""
    jobs, report = read_binlog("binlog.1", data)
    assert list(jobs) == sorted(jobs)
    assert report.next_id > max(jobs, default=0)
    assert report.jobs_alive == len(jobs)
    for id, job in jobs.items():
        assert (job.id, job.body) == (id, data[data.index(job.body) :][: len(job.body)])
        assert 1 <= len(job.tube) <= 200
        assert 1 <= job.ttr_s < 2**32
        assert 0 <= job.delay_s < 2**32
        assert min(job.created_at_ns, job.deadline_at_ns) >= 0
        assert (job.bury_order > 0) == (job.state == "buried")
