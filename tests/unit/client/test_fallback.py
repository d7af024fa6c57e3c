"""What a server that has only beanstalkd's commands is asked instead of those of an extension."""

import pytest

from beanpole.testing import FakeServer
from tests.unit.client.peer import NONE, Maker, Steps, ok


def test_clear_on_an_old_server(make: Maker) -> None:
    with FakeServer(old=True) as server:
        client = make(server.address, use="t", watch="t")
        assert client.clear_tube("nowhere") == 0
        assert "nowhere" not in client.tubes()
        ids = client.put_many(list("abcdef"))
        client.put("later", delay=10)
        other = client.put("other", tube="other")
        held = client.reserve(0)
        client.reserve_job(ids[1])
        client.bury(ids[1])
        assert client.clear_tube("t", "ready", "ready") == 4
        assert [job.state for job in server.jobs("t")] == ["reserved", "buried", "delayed"]
        assert client.clear_tube("t") == 2
        assert [job.id for job in server.jobs()] == [held.id, other]
        assert client.using() == "t"


def test_move_on_an_old_server(make: Maker) -> None:
    with FakeServer(old=True) as server:
        client = make(server.address, use="t", watch="t")
        for i in range(5):
            client.put(str(i), 10 - i, ttr=7)
        client.put("later", 3, delay=10)
        buried = client.reserve(0)
        client.bury(buried, 2)
        server.advance(4)
        assert client.move_jobs("t", "ready", "u", 3) == 3
        assert client.move_jobs("t", "delayed", "u") == 1
        assert client.move_jobs("t", "buried", "u") == 1
        assert client.move_jobs("t", "buried", "u") == 0
        assert [(job.body, job.state) for job in server.jobs("t")] == [(b"0", "ready")]
        moved = [(job.body, job.state, job.pri, job.ttr, job.time_left) for job in server.jobs("u")]
        assert moved == [
            (b"3", "ready", 7, 7, 0),
            (b"2", "ready", 8, 7, 0),
            (b"1", "ready", 9, 7, 0),
            (b"later", "delayed", 3, 60, 6),
            (b"4", "ready", 2, 7, 0),
        ]
        assert client.untouched


def test_a_move_that_is_refused_gives_the_job_back(make: Maker) -> None:
    asked = b"stats-job 5\r\nreserve-job 5\r\n"
    stats = b"---\nid: 5\ntube: t\nstate: ready\npri: 3\nttr: 60\ntime-left: 0\n"
    count = b"---\nname: t\ncurrent-jobs-ready: 2\n"
    start: Steps = [
        NONE,
        (b"stats-tube t\r\n", ok(count)),
        (b"use t\r\npeek-ready\r\n", b"USING t\r\nFOUND 5 1\r\nx\r\n"),
        (asked, ok(stats) + b"RESERVED 5 1\r\nx\r\n"),
    ]
    for said, error in (
        (b"OUT_OF_MEMORY\r\n", None),
        (b"DRAINING\r\n", "DrainingError"),
        (b"BURIED 6\r\n", "BuriedError"),
    ):
        put = (b"use u\r\nput 3 0 60 1\r\nx\r\n", b"USING u\r\n" + said)
        gone = [(b"delete 6\r\n", b"DELETED\r\n")] if said.startswith(b"BURIED") else []
        with make.to_peer([*start, put, *gone, (b"release 5 3 0\r\n", b"RELEASED\r\n")]) as client:
            if error is None:
                assert client.move_jobs("t", "ready", "u") == 0
            else:
                with pytest.raises(Exception, match=said.split()[0].decode()) as caught:
                    client.move_jobs("t", "ready", "u")
                assert type(caught.value).__name__ == error
            assert client.untouched


def test_list_on_an_old_server(make: Maker) -> None:
    with FakeServer(old=True) as server:
        client = make(server.address, use="t")
        assert client.list_jobs("t", "ready").jobs == []
        ids = client.put_many((str(i) for i in range(3000)), 5)
        client.put("x", tube="other")
        client.delete_many(ids[10:2900])
        page = client.list_jobs("t", "ready", 8)
        assert [job.id for job in page.jobs] == ids[:8]
        assert page.next == ids[7]
        rest = client.list_jobs("t", "ready", after=page.next)
        assert [job.id for job in rest.jobs] == [*ids[8:10], *ids[2900:]]
        assert rest.next is None
        assert (rest.jobs[0].pri, rest.jobs[0].state, rest.jobs[0].tube, rest.jobs[0].ttr) == (5, "ready", "t", 60)
        assert client.list_jobs("t", "buried").jobs == []
