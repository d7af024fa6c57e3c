"""A worker whose provider is down, and the rule `breaker` of its tube."""

from beanpole import Client, Task, Worker
from beanpole.testing import FakeServer
from tests.e2e.process import wait_until


def test_a_breaker_bears_an_outage_for_the_worker() -> None:
    """A provider fails half of the time, then always, and then it is up again: few attempts are lost, and no job."""
    jobs, most, probe_s, down_s = 60, 10, 10, 600
    tries: list[str] = []
    provider = "half"
    worker = Worker(concurrency=4)

    @worker.handler("mails")
    def send(task: Task[str]) -> None:
        tries.append(provider)
        if provider == "down" or (provider == "half" and (task.id + task.attempt) % 2):
            raise OSError(provider)

    with FakeServer(patience=60) as server, Client(server.url, use="mails") as client, server.running(worker):
        rules = {"attempts": 8, "backoff": "20", "dead": "dead", "breaker": f"60% of {most} in 60s probe {probe_s}s"}
        client.set_rules("mails", rules)
        client.put_many(["x"] * jobs)
        server.join()
        server.advance(20)
        server.join()
        assert (server.jobs(), tries.count("half")) == ([], jobs * 3 // 2)
        server.advance(60)
        provider = "down"
        client.put_many(["x"] * jobs)
        wait_until(lambda: client.stats().current_waiting, "it is closed, and the worker waits")
        server.advance(down_s)
        assert down_s // probe_s <= tries.count("down") <= most + worker.concurrency + down_s // probe_s
        assert len(server.jobs("mails")) == jobs
        provider = "up"
        server.advance(2 * down_s)  # a job that lost one attempt more waits for longer than the provider was down
        server.join()
        assert (server.jobs(), tries.count("up")) == ([], jobs)
