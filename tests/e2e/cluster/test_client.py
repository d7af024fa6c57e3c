"""Consumers whose leader is killed: they go on at another node, and every job is done."""

import threading
from contextlib import ExitStack

import pytest

from beanpole import Client, ConnectionLostError, NotFoundError
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.cluster.test_worker import put
from tests.e2e.process import wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S
from tests.unit.client.peer import maker

pytestmark = pytest.mark.long

JOBS = 100


def consume(kind: str, url: str, done: set[int], errors: list[BaseException]) -> None:
    """Works until every job is done; one that could not be deleted may come again."""
    try:
        with maker(kind) as make:
            client = make(url, watch="jobs")
            for job in client.reserve_iter(timeout=int(REPLY_TIMEOUT_S)):
                done.add(int(job.body))
                try:
                    client.delete(job)
                except (ConnectionLostError, NotFoundError):
                    continue
                if len(done) == 2 * JOBS:
                    return
    except BaseException as error:  # noqa: BLE001 - the test looks at it
        errors.append(error)


@pytest.mark.parametrize(("kind", "first"), [("sync", 0), ("async", 1)], ids=["at the leader", "at a follower"])
def test_a_consumer_survives_the_loss_of_the_leader(cluster: Cluster, kind: str, first: int) -> None:
    cluster.init()
    done: set[int] = set()
    errors: list[BaseException] = []
    with ExitStack() as stack:
        nodes = [stack.enter_context(cluster.node(name)) for name in "abc"]
        ports = [each.port for each in (*nodes[first:], *nodes[:first])]
        url = "beanstalk://" + ",".join(f"{HOST}:{port}" for port in ports)
        producer = stack.enter_context(Client(url, use="jobs"))
        put(producer, 0)
        consumer = threading.Thread(target=consume, args=(kind, url, done, errors), daemon=True)
        consumer.start()
        stack.callback(consumer.join, REPLY_TIMEOUT_S)
        for number in range(1, JOBS):
            put(producer, number)
        wait_until(lambda: len(done) == JOBS, "the first jobs are done")
        nodes[0].popen.kill()
        nodes[0].wait_exit()
        for number in range(JOBS, 2 * JOBS):
            put(producer, number)
        consumer.join(REPLY_TIMEOUT_S)
        assert not consumer.is_alive(), len(done)
    assert not errors
    assert done == set(range(2 * JOBS))
