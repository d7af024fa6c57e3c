"""Every command, with both clients and both servers."""

from pathlib import Path
from typing import Any

import pytest

import beanpole
from beanpole import JsonCodec
from tests.servers import HOST, Server, beanpole_server
from tests.unit.client.peer import Maker

NOBODY = 2**64 - 1
"""An id that no job has."""


def test_job_goes_through_its_life(client: Any) -> None:
    id = client.put("body", ttr=100)
    job = client.reserve()
    assert (job.id, job.body) == (id, "body")
    assert client.stats_job(job).state == "reserved"
    client.touch(job)
    client.release(job, priority=7)
    assert client.stats_job(id).pri == 7
    assert client.peek_ready().id == id
    client.bury(client.reserve(timeout=0), priority=8)
    assert client.peek_buried().body == "body"
    assert client.kick(10) == 1
    client.bury(client.reserve_job(id))
    client.kick_job(job)
    assert client.peek(id).body == "body"
    stats = client.stats_job(job)
    assert (stats.reserves, stats.releases, stats.buries, stats.kicks) == (3, 1, 2, 2)
    assert (stats["reserves"], stats["time-left"]) == (3, 0)
    client.delete(client.reserve(timeout=0))
    with pytest.raises(beanpole.NotFoundError):
        client.peek(job)


def test_delayed_jobs(client: Any) -> None:
    id = client.put("later", delay=1000)
    assert client.peek_delayed().id == id
    with pytest.raises(beanpole.TimedOutError):
        client.reserve(0)
    client.delete(id)


@pytest.mark.parametrize("body", [b"", b"\r\n", bytes(range(256)), b"x" * 65535])
def test_bodies_come_back_as_they_were(make: Maker, server: Server, tube: str, body: bytes) -> None:
    client = make((HOST, server.port), None, tube, tube)
    client.put(body)
    assert client.peek_ready().body == body
    job = client.reserve(0)
    assert job.body == body
    client.delete(job)


def test_codecs(make: Maker, server: Server, tube: str) -> None:
    client = make((HOST, server.port), use=tube, watch=tube, codec=JsonCodec())
    client.put({"to": ["ü", 1, None]})
    assert client.peek_ready().body == {"to": ["ü", 1, None]}
    client.delete(client.reserve())
    raw = make((HOST, server.port), None, tube)
    id = raw.put(b"{")
    with pytest.raises(beanpole.BodyError) as caught:
        client.reserve(0)
    assert (caught.value.id, caught.value.data) == (id, b"{")
    client.bury(caught.value.id)
    client.delete(caught.value.id)
    with pytest.raises(TypeError):
        raw.put("text")


def test_tubes(client: Any, tube: str) -> None:
    assert client.using() == tube
    assert client.watching() == [tube]
    assert client.watch("default") == 2
    assert client.ignore(tube) == 1
    with pytest.raises(beanpole.NotIgnoredError):
        client.ignore("default")
    assert {"default", tube} <= set(client.tubes())
    client.use("default")
    assert client.using() == "default"
    assert tube not in client.tubes()
    assert client.stats_tube("default").current_watching >= 1
    with pytest.raises(beanpole.NotFoundError):
        client.stats_tube(tube)


def test_another_tube_for_one_put_or_for_a_while(client: Any, tube: str) -> None:
    other = tube + "-other"
    client.watch(other)
    id = client.put("a", tube=other)
    assert client.using() == tube
    with client.using(other):
        assert client.using() == other
        assert client.peek_ready().id == id
        with client.using(tube):
            assert client.using() == tube
        assert client.using() == other
    assert client.using() == tube
    with pytest.raises(beanpole.NotFoundError):
        client.peek_ready()
    client.delete(client.reserve(0))


def test_pause(client: Any, tube: str) -> None:
    client.put("x")
    client.pause_tube(tube, 100)
    stats = client.stats_tube(tube)
    assert (stats.name, stats.pause, stats.current_jobs_ready) == (tube, 100, 1)
    assert 90 <= stats.pause_time_left <= 100
    with pytest.raises(beanpole.TimedOutError):
        client.reserve(0)
    client.pause_tube(tube, 0)
    client.delete(client.reserve(20))


def test_stats(make: Maker, server: Server) -> None:
    client = make((HOST, server.port))
    stats = client.stats()
    assert (stats.pid, stats.draining, stats.max_job_size) == (server.pid, False, 65535)
    assert float(stats.version) >= 1.12
    assert stats.os
    assert stats.id


def test_reserve_iter_ends_when_nothing_comes(client: Any) -> None:
    wanted = [client.put(str(i)) for i in range(5)]
    seen = []
    for job in client.reserve_iter(timeout=0):
        seen.append(job.id)
        client.delete(job)
    assert seen == wanted


def test_pipeline(client: Any, tube: str) -> None:
    with client.pipeline() as p:
        ids = [p.put(str(i)) for i in range(10)]
        other = p.put("x", tube=tube + "-other")
        back = p.put("y")
        used = p.tube_used()
        assert len(p) == 13
        with pytest.raises(RuntimeError):
            ids[0].result()
    assert len({id.result() for id in ids} | {other.result(), back.result()}) == 12
    assert used.result() == tube
    assert client.stats_job(other.result()).tube == tube + "-other"
    with client.pipeline(raise_errors=False) as p:
        jobs = [p.reserve(0) for _ in range(12)]
        p.flush()
        found = [job.result() for job in jobs if not job.error]
        deleted = [p.delete(job) for job in found] + [p.delete(NOBODY)]
    assert [job.body for job in found] == [*map(str, range(10)), "y"]
    assert isinstance(jobs[11].error, beanpole.TimedOutError)
    assert isinstance(deleted[-1].error, beanpole.NotFoundError)
    assert all(each.error is None for each in deleted[:-1])
    client.delete(other.result())
    with pytest.raises(beanpole.NotFoundError), client.pipeline() as p:
        p.delete(NOBODY)
        after = p.put("z")
    client.delete(after.result())
    with pytest.raises(ZeroDivisionError), client.pipeline() as p:
        p.put("never sent")
        p.put(str(1 // 0))
    with pytest.raises(beanpole.TimedOutError):
        client.reserve(0)


def test_many_at_once(client: Any, tube: str) -> None:
    ids = client.put_many((str(i) for i in range(10_000)), ttr=100)
    assert len(set(ids)) == 10_000
    assert client.put_many([]) == []
    jobs = client.reserve_many(100)
    assert [job.body for job in jobs] == [str(i) for i in range(100)]
    client.delete_many(ids)
    with pytest.raises(beanpole.TimedOutError):
        client.reserve_many(10, 0)
    with pytest.raises(beanpole.ArgumentError):
        client.reserve_many(0)
    id = client.put_many(["x"], tube=tube + "-other")[0]
    with pytest.raises(beanpole.BatchError, match="1 of 2") as caught:
        client.delete_many([NOBODY, id])
    assert [type(each) for each in caught.value.results] == [beanpole.NotFoundError, type(None)]


def test_large_replies_while_sending(client: Any) -> None:
    """More commands than the kernel takes, with replies that it does not take either: nobody waits for the other."""
    ids = client.put_many(["x" * 60_000] * 20)
    with client.pipeline() as p:
        found = [p.peek(ids[i % 20]) for i in range(4_000)]
    assert all(len(each.result().body) == 60_000 for each in found)
    client.delete_many(ids)


def test_unix_socket(make: Maker, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with beanpole_server("-l", f"unix:{path}"):
        for address in (f"unix:{path}", str(path)):
            client = make(address)
            client.delete(client.put("x"))
            client.close()
