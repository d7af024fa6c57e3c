"""Headers of jobs, as a client puts and gets them."""

import pytest

from beanpole import ArgumentError, Client
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


def test_what_is_wrong_is_said_of_what_it_is_and_without_the_values() -> None:
    with FakeServer() as server, Client(server.address) as client:
        with pytest.raises(ArgumentError, match=r"1 and 2006: 'token'$"):
            client.put("x", meta={"token": "x" * 2000})
        with pytest.raises(ArgumentError, match=r"^a group has 1 to 200 bytes"):
            client.pause_group("t", "a b", 1)
