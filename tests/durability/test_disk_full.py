"""A disk without space: puts are refused, everything else works, and puts resume by themselves.

The disk is a tmpfs of a mebibyte, so that every test fills it in earnest. A server that stops here, or that does not
start here, has taken the jobs that it holds away from everybody until an operator comes.
"""

from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from beanpole.server.observer import LOG_FULL_REPORT_NS
from tests.durability.conftest import SMALL_DISK_BYTES
from tests.durability.kept import assert_kept, facts, fill, keeping, kill, put, put_line, starting
from tests.durability.small_disk import SmallDisk
from tests.e2e.process import Client, Process, wait_until

SEGMENT = ("-s", "65536")
OUT_OF_MEMORY = b"OUT_OF_MEMORY\r\n"

BODY_BYTES = (1, 1000, 20_000)
"""Jobs of these sizes are limited by records, by bodies, and by what is left at the end of a segment."""


@pytest.fixture
def log(disk: SmallDisk) -> Path:
    return disk.path / "log"


def assert_well(process: Process) -> None:
    """Checks that a server runs and has said that the disk is full, not more often than once in a while."""
    assert process.popen.poll() is None, process.messages
    said = process.events("disk full")
    assert {line["level"] for line in said} == {"error"}
    moments = [datetime.fromisoformat(str(line["timestamp"])).timestamp() for line in said]
    assert all(after - before > 0.9 * LOG_FULL_REPORT_NS / 1e9 for before, after in pairwise(moments)), said
    assert not process.events("log failed")


def test_statistics_say_that_the_disk_is_full(log: Path) -> None:
    with keeping(log, *SEGMENT) as process, process.connect() as client:
        assert facts(client)["log-full"] == "false"

        def is_full() -> bool:
            fill(client, 1)
            return facts(client)["log-full"] == "true"

        wait_until(is_full, "a put was refused, and the disk was not asked again in between")
        assert int(facts(client)["log-free-bytes"]) < int(SEGMENT[1])
        assert_well(process)


def reserve(client: Client) -> int:
    """Reserves the next job."""
    client.send(b"reserve-with-timeout 0\r\n")
    line = client.line()
    assert line.startswith(b"RESERVED "), f"reserve was answered with {line!r}"
    client.take(int(line.split()[2]) + 2)
    return int(line.split()[1])


RESUMED = b"y" * 20_000
"""A body that needs more space than what a smaller one may have left."""


def wait_for_puts(client: Client) -> int:
    """Puts until a put is taken; returns its id."""
    ids: list[int] = []

    def taken() -> bool:
        client.send(put_line(RESUMED))
        line = client.line()
        if line != OUT_OF_MEMORY:
            ids.append(int(line.split()[1]))
        return bool(ids)

    wait_until(taken, "puts resume")
    return ids[0]


@pytest.mark.parametrize("body_bytes", BODY_BYTES)
def test_puts_are_refused_and_the_rest_works(log: Path, body_bytes: int) -> None:
    with keeping(log, *SEGMENT) as process, process.connect() as client:
        jobs = fill(client, body_bytes)
        a, b, c, d = (reserve(client) for _ in range(4))
        client.ask(b"bury %d 5\r\n" % a, b"BURIED\r\n")
        client.ask(b"release %d 7 0\r\n" % b, b"RELEASED\r\n")
        client.ask(b"release %d 7 1000\r\n" % c, b"RELEASED\r\n")
        client.ask(b"touch %d\r\n" % d, b"TOUCHED\r\n")
        client.ask(b"delete %d\r\n" % d, b"DELETED\r\n")
        client.ask(b"kick 1\r\n", b"KICKED 1\r\n")
        client.ask(b"kick-job %d\r\n" % c, b"KICKED\r\n")
        client.ask(b"pause-tube default 0\r\n", b"PAUSED\r\n")
        del jobs[d]
        assert_kept(client, jobs, gone=[d])
        assert int(facts(client)["current-jobs-ready"]) == len(jobs)
        assert_well(process)
        kill(process)
    with keeping(log, *SEGMENT) as process, process.connect() as client:
        assert_kept(client, jobs, gone=[d])


def test_puts_resume_when_the_disk_grows(disk: SmallDisk, log: Path) -> None:
    with keeping(log, *SEGMENT) as process, process.connect() as client:
        jobs = fill(client, 1000)
        disk.resize(2 * SMALL_DISK_BYTES)
        jobs[wait_for_puts(client)] = RESUMED
        more = fill(client, 1000)
        assert len(more) > len(jobs) // 2
        kill(process)
    with keeping(log, *SEGMENT) as process, process.connect() as client:
        assert_kept(client, jobs | more)


def test_disk_that_others_fill(disk: SmallDisk, log: Path) -> None:
    """Somebody else takes every byte that is left: what was reserved is ours."""
    with keeping(log, *SEGMENT) as process, process.connect() as client:
        jobs = {put(client, b"%d" % i): b"%d" % i for i in range(500)}
        for number in range(100):  # the server may just have tried to make a file larger, and given its bytes back
            disk.run(f"dd if=/dev/zero of={disk.mount_point}/other{number} bs=4096 2>&1")
            if disk.free_bytes() == 0:
                break
        else:
            raise AssertionError("the disk does not get full")
        jobs |= fill(client, 100)
        gone = sorted(jobs)[::2]
        for id in gone:
            client.ask(b"delete %d\r\n" % id, b"DELETED\r\n")
            del jobs[id]
        assert_kept(client, jobs, gone)
        assert_well(process)
        disk.run(f"rm {disk.mount_point}/other*")
        jobs[wait_for_puts(client)] = RESUMED
        kill(process)
    with keeping(log, *SEGMENT) as process, process.connect() as client:
        assert_kept(client, jobs, gone)


def test_disk_without_space_for_anything_is_refused_at_the_start(disk: SmallDisk, log: Path) -> None:
    disk.run(f"dd if=/dev/zero of={disk.mount_point}/other bs=4096 2>&1")
    with starting(log, *SEGMENT) as process:
        assert process.wait_exit() == 1
        assert "No space left on device" in process.messages
        assert "Traceback" not in process.messages
    disk.run(f"rm {disk.mount_point}/other")
    with keeping(log, *SEGMENT) as process, process.connect() as client:
        assert put(client, b"x") == 1
