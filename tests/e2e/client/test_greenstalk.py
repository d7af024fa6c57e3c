"""What greenstalk's users do, after the import was changed: ``import beanpole as greenstalk``.

The last test drives greenstalk itself with the same lines, so that both are known to do the same.
"""

from types import ModuleType

import greenstalk as real
import pytest

import beanpole
from tests.servers import HOST, Server


@pytest.mark.parametrize("greenstalk", [beanpole, real], ids=["beanpole", "greenstalk"])
def test_script(greenstalk: ModuleType, server: Server, tube: str) -> None:
    assert greenstalk.Address  # a type, for annotations
    address = (HOST, server.port)

    # A first job.
    client = greenstalk.Client(address)
    client.use(tube)
    client.watch(tube)
    client.ignore("default")
    id = client.put("hello")
    job = client.reserve()
    assert (job.id, job.body) == (id, "hello")
    client.delete(job)
    client.close()

    # Tubes at the start, in a with block; defaults and constants; bytes put by a client of strings.
    with greenstalk.Client(address, use=tube, watch=[tube, "another"]) as client:
        assert sorted(client.watching()) == ["another", tube]
        assert client.using() == tube
        client.put("later", greenstalk.DEFAULT_PRIORITY, greenstalk.DEFAULT_DELAY, greenstalk.DEFAULT_TTR)
        client.put(b"bytes", priority=0, ttr=5)
        assert client.reserve(timeout=0).body == "bytes"
        job = client.reserve_job(client.peek_ready().id)
        client.release(job, priority=5, delay=0)
        assert client.stats_job(job)["pri"] == 5
        assert client.stats_tube(tube)["current-jobs-ready"] == 1
        assert client.stats()["current-jobs-ready"] >= 1
        assert {key: client.stats_job(job.id)[key] for key in ("tube", "state")} == {"tube": tube, "state": "ready"}
        assert client.ignore("another") == 1

    # Errors by the reply, and by what they have in common.
    client = greenstalk.Client(address, encoding=None, watch=tube, use=tube)
    with pytest.raises(greenstalk.TimedOutError):
        for _ in range(3):
            client.delete(client.reserve(timeout=0))
    for kind in (greenstalk.NotFoundError, greenstalk.BeanstalkdError, greenstalk.Error):
        with pytest.raises(kind):
            client.bury(greenstalk.Job(id=2**60, body=b""))
    with pytest.raises(greenstalk.NotIgnoredError):
        client.ignore(tube)
    with pytest.raises(greenstalk.BadFormatError):
        client.use("not a name")
    with pytest.raises(TypeError):
        client.put("a string")
    client.put(b"\xff")
    job = client.reserve()
    assert job.body == b"\xff"
    client.bury(job)
    assert client.peek_buried().id == job.id
    client.kick_job(job)
    assert client.kick(10) == 0
    client.pause_tube(tube, 0)
    client.delete(job.id)
    client.close()
