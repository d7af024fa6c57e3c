"""The console of a node: what it says of a node that follows, leads, and can't prove that it leads."""

import functools
import http.client
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.conftest import Cluster
from tests.e2e.console.api import asked
from tests.e2e.console.process import TOKEN, Console, Samples, console
from tests.e2e.console.test_served import console_of
from tests.e2e.process import COMMAND, Process, environment, wait_until
from tests.servers import HOST, START_TIMEOUT_S

READY_2 = re.compile(r">Ready<.*?>2<", re.DOTALL)
HTTP = ("--http", f"{HOST}:0")


def role(found: Samples, node: str) -> str:
    """The role of a node; empty: it is not there."""
    return next(
        (
            dict(labels)["role"]
            for (name, labels), value in found.items()
            if name == "beanpole_cluster_role" and value == 1 and dict(labels)["server"] == node
        ),
        "",
    )


def scraped(process: Process) -> Samples:
    """What a node's console says; nothing while it is started again."""
    try:
        return console_of(process).scrape()
    except (OSError, http.client.HTTPException):
        return {}


def jobs_in(found: Samples) -> bool:
    return any(name == "beanpole_jobs" for name, _ in found)


@pytest.mark.long
def test_follower_says_what_it_is_and_the_next_leader_what_it_has(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a", *HTTP) as a, cluster.node("b", *HTTP) as b:
        with b.connect() as client:
            client.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
        cluster.wait_alive("a", "b")
        wait_until(lambda: role(scraped(b), "b") == "follower", "b follows")
        found = scraped(b)
        assert not jobs_in(found)
        assert found["beanpole_cluster_epoch", frozenset({("server", "b")})] == 1
        assert ("beanpole_cluster_lag_bytes", frozenset({("server", "b")})) in found
        wait_until(lambda: role(scraped(a), "a") == "leader", "a leads")
        wait_until(lambda: jobs_in(scraped(a)), "the jobs of a are shown")
        ready, leader = (console_of(b).get(path) for path in ("/ready", "/leader"))
        assert (ready.status, ready.text) == (200, f"b: follows {HOST}:{a.port}\n")
        assert leader.status == 503
        a.signal(signal.SIGTERM)
        assert a.wait_exit() == 0
        wait_until(lambda: role(scraped(b), "b") == "leader", "b leads")
        wait_until(lambda: jobs_in(scraped(b)), "its jobs are shown")
        assert console_of(b).get("/leader").status == 200
        assert not b.events("console ended")
        assert len(b.events("console started")) == 2


def asks(process: Process, path: str, method: str = "GET", body: object = None) -> Any:  # noqa: ANN401 - any JSON
    """What the API of a node's console answers; nothing while it is started again, or has no leader."""
    try:
        return asked(console_of(process), path, method=method, body=body, token=TOKEN)
    except (OSError, http.client.HTTPException, AssertionError):
        return {}


def page(process: Process, path: str) -> str:
    """A page of a node's console; nothing while it is started again."""
    try:
        return console_of(process).get(path, Authorization=f"Bearer {TOKEN}").text
    except (OSError, http.client.HTTPException):
        return ""


def has_tubes(process: Process, node: str, names: set[str]) -> bool:
    return {each["name"] for each in asks(process, f"/servers/{node}/tubes").get("items", [])} >= names


def has_job_1(process: Process, node: str) -> bool:
    """Whether a node's console lists job 1 and no other in its tube."""
    return [each["id"] for each in asks(process, f"/servers/{node}/tubes/of-b/jobs").get("items", [])] == [1]


def test_follower_s_console_asks_the_leader_for_jobs(cluster: Cluster, tmp_path: Path) -> None:
    cluster.init()
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"ann {TOKEN}\n")
    flags = (*HTTP, "--http-token-file", str(tokens))
    with cluster.node("a", *flags) as a, cluster.node("b", *flags) as b, cluster.node("c", *flags) as c:
        followers = {"b": b, "c": c}
        cluster.wait_alive("a", "b", "c")
        for node, process in followers.items():
            put = {"verb": "put", "server": node, "tube": f"of-{node}", "body": "x"}
            wait_until(lambda p=process, put=put: asks(p, "/actions", "POST", put), f"{node} puts")  # type: ignore[misc]
        with a.connect() as client:
            client.ask(b"peek 1\r\n", b"FOUND 1 1\r\nx\r\n")
        for node, process in followers.items():
            wait_until(functools.partial(has_tubes, process, node, {"of-b", "of-c"}), f"{node} lists the tubes")
            wait_until(functools.partial(has_job_1, process, node), f"{node} lists the job")
            wait_until(lambda p=process: "of-b" in page(p, "/tubes"), f"{node} shows the tubes")  # type: ignore[misc]
            wait_until(lambda p=process: READY_2.search(page(p, "/")), f"{node} shows both jobs")  # type: ignore[misc]
        every = [f"--url={node}=beanstalk://{HOST}:{each.port}" for node, each in {"a": a, **followers}.items()]
        with console(*every) as served:
            wait_until(lambda: served.get("/health").status == 200, "all nodes answer")
            wait_until(lambda: READY_2.search(served.get("/").text), "both jobs are counted once")
            assert served.get("/tubes").text.count("of-b</a>") == 1
            assert len(served.get("/tubes.jsonl").body.splitlines()) == 3
        a.signal(signal.SIGTERM)
        assert a.wait_exit() == 0
        for node, process in followers.items():
            wait_until(lambda p=process, node=node: asks(p, f"/servers/{node}/jobs/1"), f"{node} finds the next leader")  # type: ignore[misc]


@pytest.mark.long
def test_leader_that_can_not_prove_it_says_so(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a", "--cluster-wait", "1", *HTTP) as a:
        wait_until(lambda: console_of(a).get("/ready").status == 200, "it leads")
        server = cluster.database.server
        assert server is not None
        with server.frozen():
            wait_until(lambda: a.events("clients sent away"), "it sends clients away")
            wait_until(lambda: console_of(a).get("/ready").status == 503, "it is not ready")
            assert "nothing is confirmed" in console_of(a).get("/ready").text
            assert role(scraped(a), "a") == "leader"
        wait_until(lambda: console_of(a).get("/ready").status == 200, "it goes on")
        assert len(a.events("console started")) == 1


def test_node_that_finds_no_leader_has_a_console(cluster: Cluster, tmp_path: Path) -> None:
    cluster.init(600_000)
    with (tmp_path / "messages").open("wb") as output:
        popen = subprocess.Popen(
            [*COMMAND, "-l", HOST, "-p", "0", "--cluster", cluster.url, "--node", "a", *HTTP],
            stderr=output,
            env=environment(),
        )
    process = Process(popen, tmp_path)
    try:
        wait_until(lambda: process.events("console listening"), "the console serves", START_TIMEOUT_S)
        addresses = process.events("console listening")[0]["addresses"]
        assert isinstance(addresses, list)
        served = Console(popen, int(addresses[0].rpartition(":")[2]), tmp_path / "messages")
        assert served.get("/health").status == 200
        ready = served.get("/ready")
        assert (ready.status, ready.text) == (503, "a: follower: no leader is known\n")
    finally:
        process.stop()
