"""One job, of Beanpole and of beanstalkd."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from beanpole.client import Client
from beanpole.client.errors import NotFoundError
from beanpole.console.reading import job
from tests.e2e.console.looking import look
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


@pytest.fixture(params=[beanpole_server, beanstalkd_server], ids=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server without jobs."""
    start: Callable[[], AbstractContextManager[Server]] = request.param
    with start() as running:
        yield running


def test_job_is_seen_in_each_state(server: Server) -> None:
    with Client(f"{HOST}:{server.port}", None) as client:
        client.watch("mail")
        reserved = client.reserve_job(client.put(b"r" * 1_000, tube="mail")).id
        buried = client.reserve_job(client.put(b"b" * 1_000, tube="mail")).id
        client.bury(buried, 7)
        delayed = client.put(b"d" * 1_000, 8, 3_600, tube="mail")
        ready = client.put(b"a" * 1_000, tube="mail")
        for id, state in ((reserved, "reserved"), (buried, "buried"), (delayed, "delayed"), (ready, "ready")):
            seen = look(server, lambda asked, id=id: job.seen(asked, id, 10))  # type: ignore[misc]
            assert (seen.info.id, seen.info.tube, seen.info.state, seen.stats.state) == (id, "mail", state, state)
            assert (len(seen.info.body), seen.info.size) == (10, 1_000)
            assert (seen.explanation is not None) == (server.name == "beanpole")
            assert look(server, lambda asked, id=id: job.one(asked, id)).body == b""  # type: ignore[misc]
            assert len(look(server, lambda asked, id=id: job.whole_body(asked, id))) == 1_000  # type: ignore[misc]
            hidden = look(server, lambda asked, id=id: job.seen(asked, id, 10), hide_bodies=True)  # type: ignore[misc]
            assert hidden.info.body == b""
            with pytest.raises(NotFoundError):
                look(server, lambda asked, id=id: job.whole_body(asked, id), hide_bodies=True)  # type: ignore[misc]


def test_job_that_is_not_there_is_not_found(server: Server) -> None:
    for ask in (job.seen, job.one, job.whole_body):
        with pytest.raises(NotFoundError):
            look(server, lambda asked, ask=ask: ask(asked, 99))  # type: ignore[misc]
