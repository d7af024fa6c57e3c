"""The reader of beanstalkd's logs on directories that the real beanstalkd wrote, compared with what it says itself."""

import random
import time
from pathlib import Path

import pytest

from beanpole.log.migration.beanstalkd_binlog import read_directory
from tests.unit.log.beanstalkd_client import Client, compare_with_beanstalkd, killed_beanstalkd

TUBES = ("default", "a", "t" * 200, "mail.out/1;x+y$(_)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_every_kind_of_change(folder: Path) -> None:
    with killed_beanstalkd(folder, 10_000_000) as server, Client(server) as client:
        bodies = [b"", b"\r\n", bytes(300), b"\xff\0end\r\n", b"x" * 65533]
        plain = [client.put(tube, body, pri=pri) for pri, tube in enumerate(TUBES) for body in bodies]
        delayed = client.put("a", b"later", delay_s=1000, ttr_s=7)
        kicked_early = client.put("a", b"soon", delay_s=2000, ttr_s=2**32 - 1)
        due = client.put("a", b"due", delay_s=1, ttr_s=0)
        held, freed, released, deleted = plain[:4]
        for id in (held, freed, released, deleted, *plain[10:14]):
            assert client.do(f"reserve-job {id}") == "RESERVED"
        assert client.do(f"release {freed} 77 0") == "RELEASED"  # not logged: keeps its old priority
        assert client.do(f"release {released} 78 500") == "RELEASED"
        assert client.do(f"delete {deleted}") == "DELETED"
        buried = [plain[i] for i in (12, 10, 13, 11)]
        for id in buried:
            assert client.do(f"bury {id} {id}") == "BURIED"
        assert client.do(f"kick-job {kicked_early}") == "KICKED"
        assert client.do(f"kick-job {plain[13]}") == "KICKED"
        assert client.do(f"delete {plain[4]}") == "DELETED"
        time.sleep(1.2)
    jobs, report = read_directory(folder)
    assert report.problems == []
    assert sorted(jobs) == sorted({*plain, delayed, kicked_early, due} - {deleted, plain[4]})
    assert report.next_id == due + 1
    assert [jobs[id].state for id in (held, freed, released, delayed, due)] == ["ready"] * 2 + ["delayed"] * 3
    assert (jobs[released].release_count, jobs[released].delay_s, jobs[freed].pri) == (1, 500, 0)
    assert (jobs[buried[0]].bury_count, jobs[plain[13]].kick_count, jobs[plain[13]].bury_order) == (1, 1, 0)
    still = [plain[i] for i in (12, 10, 11)]
    assert sorted(still, key=lambda id: jobs[id].bury_order) == still
    compare_with_beanstalkd(folder, jobs, report.next_id)


def change_at_random(client: Client, chance: random.Random, ids: list[int]) -> None:
    """One random command; every answer is fine, as beanstalkd is asked for the outcome later."""
    id = chance.choice(ids) if ids else 0
    what = chance.randrange(9)
    if what < 4 or not ids:
        body = chance.randbytes(chance.choice([0, 10, 100, 1000]))
        delay_s = chance.choice([0, 0, 5000])
        ids.append(client.put(chance.choice(TUBES), body, pri=chance.randrange(5), delay_s=delay_s, ttr_s=100))
    elif what == 4:
        client.do(f"delete {id}")
    elif what == 5:
        client.do(f"kick-job {id}")
    elif client.do(f"reserve-job {id}") == "RESERVED":
        after = [f"bury {id} 9", f"release {id} 8 0", f"release {id} 7 6000", f"delete {id}", "stats"]
        client.do(chance.choice(after))


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_over_many_files_and_restarts(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    ids: list[int] = []
    for _ in range(3):
        with killed_beanstalkd(folder, 20_000) as server, Client(server) as client:
            for _ in range(500):
                change_at_random(client, chance, ids)
        jobs, report = read_directory(folder)
        assert report.problems == []
        assert report.files_read > 1
        compare_with_beanstalkd(folder, jobs, report.next_id)


def test_compacted_log(folder: Path) -> None:
    with killed_beanstalkd(folder, 20_000) as server, Client(server) as client:
        kept = {client.put("kept", b"%d" % i, delay_s=9000): b"%d" % i for i in range(100)}
        for _ in range(1500):
            last = client.put("gone", b"y" * 200)
            assert client.do(f"delete {last}") == "DELETED"
        stats = client.stats()
    assert int(stats["binlog-records-migrated"]) > 0
    assert int(stats["binlog-oldest-index"]) > 1
    jobs, report = read_directory(folder)
    assert report.problems == []
    assert {id: job.body for id, job in jobs.items()} == kept
    assert report.next_id == last + 1, "also ids of deleted jobs are not given again"
    compare_with_beanstalkd(folder, jobs, report.next_id)
