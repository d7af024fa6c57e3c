"""What survives a restart: every number of a job, the moments that were promised, and ids that never repeat."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.durability.kept import assert_kept, facts, keeping, kill, put, terminate
from tests.e2e.process import Client, Process, wait_until

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


@ENDINGS
def test_reserved_jobs_become_ready(tmp_path: Path, end: Callable[[Process], object]) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        jobs = {put(client, b"%d" % i, ttr_s=1): b"%d" % i for i in range(3)}
        for id, body in jobs.items():  # by their ids: a time to run may have ended before the last of them
            client.ask(b"reserve-job %d\r\n" % id, b"RESERVED %d 1\r\n%b\r\n" % (id, body))
        end(process)
    with keeping(tmp_path) as process, process.connect() as client:
        assert facts(client)["current-jobs-ready"] == "3"
        assert facts(client)["current-jobs-reserved"] == "0"
        for id, body in jobs.items():
            client.ask(b"reserve\r\n", b"RESERVED %d 1\r\n%b\r\n" % (id, body))
            client.ask(b"delete %d\r\n" % id, b"DELETED\r\n")


def test_ttr_runs_out_and_is_counted_after_a_restart(tmp_path: Path) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        id = put(client, b"x", ttr_s=1)
        client.ask(b"reserve\r\n", b"RESERVED %d 1\r\nx\r\n" % id)
        wait_until(lambda: stats_job(client, id)["timeouts"] == "1", "the TTR runs out")
        kill(process)
    with keeping(tmp_path) as process, process.connect() as client:
        found = stats_job(client, id)
        assert (found["state"], found["timeouts"], found["reserves"]) == ("ready", "1", "1")


@ENDINGS
def test_buried_jobs_keep_their_order(tmp_path: Path, end: Callable[[Process], object]) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        ids = [put(client, b"x") for _ in range(6)]
        order = [ids[3], ids[0], ids[5], ids[1]]
        for id in order:
            client.ask(b"reserve-job %d\r\n" % id, b"RESERVED %d 1\r\nx\r\n" % id)
            client.ask(b"bury %d 0\r\n" % id, b"BURIED\r\n")
        end(process)
    for _ in range(2):
        with keeping(tmp_path) as process, process.connect() as client:
            client.ask(b"peek-buried\r\n", b"FOUND %d 1\r\nx\r\n" % order[0])
            client.ask(b"reserve-job %d\r\n" % order[0], b"RESERVED %d 1\r\nx\r\n" % order[0])
            client.ask(b"bury %d 0\r\n" % order[0], b"BURIED\r\n")
            order.append(order.pop(0))
            end(process)
    with keeping(tmp_path) as process, process.connect() as client:
        for id in order:
            client.ask(b"peek-buried\r\n", b"FOUND %d 1\r\nx\r\n" % id)
            client.ask(b"kick 1\r\n", b"KICKED 1\r\n")


@ENDINGS
def test_delay_goes_on_while_the_server_is_down(tmp_path: Path, end: Callable[[Process], object]) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        began = time.monotonic()
        short = put(client, b"short", delay_s=2)
        long = put(client, b"long", delay_s=1000)
        end(process)
    wait_until(lambda: time.monotonic() > began + 1, "a second is over")
    with keeping(tmp_path) as process, process.connect() as client:
        left = int(facts(client, f"stats-job {long}")["time-left"])
        assert 1000 - (time.monotonic() - began) - 1 <= left <= 999
        client.ask(b"reserve\r\n", b"RESERVED %d 5\r\nshort\r\n" % short)
        assert time.monotonic() >= began + 2
        end(process)
    with keeping(tmp_path) as process, process.connect() as client:
        assert stats_job(client, short)["state"] == "ready"
        assert stats_job(client, long)["state"] == "delayed"


@ENDINGS
def test_delay_that_ended_while_the_server_was_down(tmp_path: Path, end: Callable[[Process], object]) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        id = put(client, b"x", delay_s=1)
        end(process)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() > began + 1, "the delay is over")
    with keeping(tmp_path) as process, process.connect() as client:
        client.ask(b"reserve-with-timeout 0\r\n", b"RESERVED %d 1\r\nx\r\n" % id)


@ENDINGS
def test_pause_survives_and_ends(tmp_path: Path, end: Callable[[Process], object]) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        for tube, pause_s in ((b"a", 1000), (b"b", 2), (b"c", 1000)):
            client.ask(b"use %b\r\n" % tube, b"USING %b\r\n" % tube)
            put(client, tube)
            client.ask(b"pause-tube %b %d\r\n" % (tube, pause_s), b"PAUSED\r\n")
        client.ask(b"pause-tube c 0\r\n", b"PAUSED\r\n")
        end(process)
    with keeping(tmp_path) as process, process.connect() as client:
        found = facts(client, "stats-tube a")
        assert found["pause"] == "1000"
        assert 900 < int(found["pause-time-left"]) < 1000
        assert facts(client, "stats-tube c")["pause"] == "0"
        client.ask(b"watch c\r\nreserve\r\n", b"WATCHING 2\r\nRESERVED 3 1\r\nc\r\n")
        client.ask(b"watch a\r\nwatch b\r\nreserve\r\n", b"WATCHING 3\r\nWATCHING 4\r\nRESERVED 2 1\r\nb\r\n")
        client.ask(b"reserve-with-timeout 0\r\n", b"TIMED_OUT\r\n")


@ENDINGS
def test_ids_never_repeat(tmp_path: Path, end: Callable[[Process], object]) -> None:
    highest = 0
    for _ in range(3):
        with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
            end(process)
        with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
            ids = [put(client, b"x" * 500) for _ in range(250)]
            assert ids == list(range(highest + 1, highest + 251))
            highest = ids[-1]
            for id in ids:
                client.ask(b"delete %d\r\n" % id, b"DELETED\r\n")
            end(process)


@ENDINGS
@pytest.mark.parametrize("body_bytes", [65_535, 65_536, 200_000, 3_000_000])
def test_body_larger_than_a_segment(tmp_path: Path, body_bytes: int, end: Callable[[Process], object]) -> None:
    flags = (*SEGMENT, "-z", "3000000")
    jobs: dict[int, bytes] = {}
    for round_ in range(3):
        with keeping(tmp_path, *flags) as process, process.connect() as client:
            assert_kept(client, jobs)
            for i in range(2):
                small, large = b"small %d" % i, bytes([65 + round_ + i]) * body_bytes
                jobs[put(client, small)] = small
                jobs[put(client, large)] = large
            end(process)
    with keeping(tmp_path, *flags) as process, process.connect() as client:
        assert_kept(client, jobs)
        for id in jobs:
            client.ask(b"delete %d\r\n" % id, b"DELETED\r\n")
    with keeping(tmp_path) as process, process.connect() as client:
        assert facts(client)["current-jobs-ready"] == "0"


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
        assert [key for key in found if not key.startswith(("cmd-", "jobs-", "puts-"))][-1] == "log-full"


@ENDINGS
def test_moved_jobs_are_where_they_went(tmp_path: Path, end: Callable[[Process], object]) -> None:
    """To and fro, so that their records fill files that are given back; then some are cleared."""
    body = b"x" * 900
    name = b"a-tube-with-a-longer-name"
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        client.ask(b"use t\r\n", b"USING t\r\n")
        ids = [put(client, body, pri=each % 7) for each in range(90)]
        buried, delayed = put(client, b"buried"), put(client, b"later", delay_s=2**31)
        client.ask(b"reserve-job %d\r\n" % buried, b"RESERVED %d 6\r\nburied\r\n" % buried)
        client.ask(b"bury %d 3\r\n" % buried, b"BURIED\r\n")
        for _ in range(4):
            client.ask(b"move-jobs t ready 90 to=%b\r\n" % name, b"MOVED 90\r\n")
            client.ask(b"move-jobs %b ready 90 to=t\r\n" % name, b"MOVED 90\r\n")
        client.ask(b"move-jobs t ready 50 to=%b\r\n" % name, b"MOVED 50\r\n")
        client.ask(b"move-jobs t buried 9 to=%b\r\n" % name, b"MOVED 1\r\n")
        client.ask(b"move-jobs t delayed 9 to=%b\r\n" % name, b"MOVED 1\r\n")
        client.ask(b"clear-tube t\r\n", b"CLEARED 40\r\n")
        before = {id: stats_job(client, id) for id in (*ids[:50], buried, delayed)}
        assert {each["tube"] for each in before.values()} == {name.decode()}
        assert before[buried]["state"] == "ready"
        assert before[delayed]["state"] == "delayed"
        end(process)
    for _ in range(2):
        with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
            assert {id: stats_job(client, id) for id in before} == before
            assert_kept(client, dict.fromkeys(ids[:50], body) | {buried: b"buried", delayed: b"later"})
            assert facts(client)["current-jobs-ready"] == "51"
            end(process)


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
