"""A worker whose leader is killed: every job is handled, what it held once, and the switch is reported once."""

import asyncio
import threading
from collections import Counter
from contextlib import ExitStack

import pytest
import structlog

from beanpole import Client, ConnectionLostError, Task, Worker
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.process import wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S

JOBS_BEFORE = 200
JOBS_AFTER = 200


@pytest.mark.parametrize("first", [0, 1], ids=["at the leader", "at a follower"])
def test_a_worker_loses_no_job_when_the_leader_is_killed(cluster: Cluster, first: int) -> None:
    cluster.init()
    capture = structlog.testing.LogCapture()
    handled: set[int] = set()
    begun: Counter[int] = Counter()
    killed = threading.Event()
    with ExitStack() as stack:
        nodes = [stack.enter_context(cluster.node(name)) for name in "abc"]
        ports = [each.port for each in (*nodes[first:], *nodes[:first])]
        url = "beanstalk://" + ",".join(f"{HOST}:{port}" for port in ports)
        worker = Worker(url, 4, logger=structlog.wrap_logger(None, processors=[capture]))

        @worker.handler("jobs")
        def handle(task: Task[str]) -> None:
            number = int(task.body)
            begun[number] += 1
            if number >= JOBS_BEFORE:
                killed.wait(REPLY_TIMEOUT_S)  # of four the leader dies while they are held: this worker keeps them
            handled.add(number)

        thread = threading.Thread(target=lambda: asyncio.run(worker.serve()))
        thread.start()
        stack.callback(thread.join, REPLY_TIMEOUT_S)
        stack.callback(worker.stop)
        stack.callback(killed.set)
        producer = stack.enter_context(Client(url, use="jobs"))
        for number in range(JOBS_BEFORE):
            producer.put(str(number))
        wait_until(lambda: len(handled) == JOBS_BEFORE, "the first jobs are handled")
        for number in range(JOBS_BEFORE, JOBS_BEFORE + 4):
            producer.put(str(number))
        wait_until(lambda: worker.counters.reserved >= JOBS_BEFORE + 4, "every slot has a job")
        nodes[0].popen.kill()
        nodes[0].wait_exit()
        killed.set()
        for number in range(JOBS_BEFORE + 4, JOBS_BEFORE + JOBS_AFTER):
            put(producer, number)
        wait_until(lambda: len(handled) == JOBS_BEFORE + JOBS_AFTER, "all jobs are handled")
        assert handled == set(range(JOBS_BEFORE + JOBS_AFTER))
        assert all(begun[number] == 1 for number in range(JOBS_BEFORE, JOBS_BEFORE + 4)), "what was held is done twice"
        wait_until(lambda: is_empty(producer), "no job is left")
        events = [line["event"] for line in capture.entries if "connect" in line["event"]]
        assert events == ["no connection", "connected again"], capture.entries
        again = next(line for line in capture.entries if line["event"] == "connected again")
        assert again["server"] in {f"beanstalk://{HOST}:{node.port}" for node in nodes[1:]}


def put(producer: Client[str], number: int) -> None:
    """Puts a job; again where nobody knows whether it was put, so that it is handled at least once."""
    while True:
        try:
            producer.put(str(number))
        except ConnectionLostError:
            continue
        return


def is_empty(client: Client[str]) -> bool:
    """Whether no job is left."""
    stats = client.stats()
    return not (stats.current_jobs_ready or stats.current_jobs_reserved or stats.current_jobs_delayed)
