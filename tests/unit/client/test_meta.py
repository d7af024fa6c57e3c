"""Headers of jobs, as a client puts and gets them."""

from beanpole import Client
from beanpole.testing import FakeServer

META = {"traceparent": "00-0af7-b7ad-01", "state": "a=1,b=2", "ü x": "50 % of: it\n", "empty": ""}


def test_headers_come_back_as_they_were_put() -> None:
    with FakeServer() as server, Client(server.address) as client:
        client.put("x", meta=META)
        client.put("y", meta={})
        assert [job.meta for job in client.reserve_many(2)] == [META, {}]
        assert [job.meta for job in client.list_jobs("default", "reserved").jobs] == [META, None]
        told = {each.word: each.text for each in client.explain(1).reasons}
        assert told["meta"] == "traceparent: 00-0af7-b7ad-01, state: a=1,b=2, ü x: 50 % of: it\n, empty: "
        client.release(1)
        assert client.reserve().meta == {}  # which says nothing of it
