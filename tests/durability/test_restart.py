"""What survives a restart: every number of a job, the moments that were promised, and bytes of any kind."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.durability.kept import assert_kept, facts, keeping, kill, put, terminate
from tests.e2e.process import Client, Process

ENDINGS = pytest.mark.parametrize("end", [kill, terminate], ids=["kill", "sigterm"])
SEGMENT = ("-s", "65536")

VOLATILE = ("age", "time-left", "file")
"""Keys of stats-job that change by themselves."""


def stats_job(client: Client, id: int) -> dict[str, str]:
    """What must not change about a job."""
    return {key: value for key, value in facts(client, f"stats-job {id}").items() if key not in VOLATILE}


@ENDINGS
def test_every_number_survives(tmp_path: Path, end: Callable[[Process], object]) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        client.ask(b"use tube-with-a-name\r\n", b"USING tube-with-a-name\r\n")
        ids = [put(client, b"%d" % i, pri=2**32 - 1 - i, delay_s=0, ttr_s=2**32 - 1) for i in range(4)]
        empty, delayed = put(client, b""), put(client, b"later", delay_s=2**32 - 1)
        for id in ids:
            for _ in range(3):
                client.ask(b"reserve-job %d\r\n" % id, b"RESERVED %d 1\r\n%d\r\n" % (id, ids.index(id)))
                client.ask(b"bury %d 77\r\n" % id, b"BURIED\r\n")
                client.ask(b"kick-job %d\r\n" % id, b"KICKED\r\n")
            client.ask(b"reserve-job %d\r\n" % id, b"RESERVED %d 1\r\n%d\r\n" % (id, ids.index(id)))
            client.ask(b"release %d 99 0\r\n" % id, b"RELEASED\r\n")
        before = {id: stats_job(client, id) for id in (*ids, empty, delayed)}
        end(process)
    for _ in range(2):
        with keeping(tmp_path) as process, process.connect() as client:
            assert {id: stats_job(client, id) for id in before} == before
            assert before[ids[0]]["reserves"] == "4"
            assert_kept(client, {empty: b"", delayed: b"later"})
            end(process)


def test_jobs_larger_than_the_limit_of_today_survive(tmp_path: Path) -> None:
    with keeping(tmp_path, "-z", "100000") as process, process.connect() as client:
        jobs = {put(client, b"x" * 100_000): b"x" * 100_000}
    with keeping(tmp_path, "-z", "10") as process, process.connect() as client:
        assert_kept(client, jobs)


def test_bytes_of_a_body_are_its_own(tmp_path: Path) -> None:
    bodies = [bytes(range(256)), b"\r\n", b"\0" * 1000, b"BEANPOLE", b"END\r\nput 0 0 0 0\r\n"]
    with keeping(tmp_path) as process, process.connect() as client:
        jobs = {put(client, body): body for body in bodies}
        kill(process)
    with keeping(tmp_path) as process, process.connect() as client:
        assert_kept(client, jobs)


def test_stats_job_names_the_segment(tmp_path: Path) -> None:
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        first = put(client, b"x" * 1000)
        for _ in range(100):
            last = put(client, b"x" * 1000)
        current = facts(client)["binlog-current-index"]
        assert facts(client, f"stats-job {first}")["file"] == "1"
        assert facts(client, f"stats-job {last}")["file"] == current == "2"
        assert (tmp_path / f"segment.{int(current):010d}").exists()


def test_keys_of_the_log_in_stats(tmp_path: Path) -> None:
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        for _ in range(5):
            put(client, b"x")
        client.ask(b"delete 1\r\n", b"DELETED\r\n")
        found = facts(client)
        assert {key: value for key, value in found.items() if key.startswith("binlog-")} == {
            "binlog-oldest-index": "1",
            "binlog-current-index": "1",
            "binlog-records-migrated": "0",
            "binlog-records-written": "6",
            "binlog-max-size": "65536",
        }
        assert found["log-full"] == "false"


@ENDINGS
def test_attempt_counts_unless_the_server_stops_in_good_order(tmp_path: Path, end: Callable[[Process], object]) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        client.ask(b"set-rules default 20\r\nattempts: 1\ndead: d\n\r\n", b"RULES_SET\r\n")
        id = put(client, b"x")
        client.ask(b"reserve\r\n", b"RESERVED %d 1\r\nx\r\n" % id)
        end(process)
    with keeping(tmp_path) as process, process.connect() as client:
        assert stats_job(client, id)["tube"] == ("d" if end is kill else "default")
        assert stats_job(client, id)["state"] == "ready"
        before = time.time()
        client.ask(b"reserve-job %d\r\n" % id, b"RESERVED %d 1\r\nx\r\n" % id)
        client.ask(b"fail-job %d 0 dead=now\r\n\r\n" % id, b"BURIED\r\n")
        client.send(b"list-jobs d %b 9\r\n" % (b"buried" if end is kill else b"ready"))
        client.line()
        frame = dict(word.split(b"=") for word in client.line().split()[3:])
        assert frame[b"from"] == b"default"
        assert before - 1 <= float(frame[b"died"]) <= time.time() + 1
