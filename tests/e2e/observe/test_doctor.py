"""`doctor` on servers that are well and servers that are not."""

import asyncio
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import beanpole as library
from beanpole.observe.doctor import diagnose, visit
from beanpole.observe.findings import Finding, Severity, Visit
from tests.e2e.observe.command import as_json, beanpole, url_of
from tests.e2e.process import Client, serving
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server


def examined(url: str, *, healthy: bool, interval_s: float = 0.3) -> dict[str, dict[str, Any]]:
    """The findings by the names of their checks."""
    said = as_json("doctor", "--interval", str(interval_s), url=url, code=0 if healthy else 1)
    assert said["healthy"] is healthy, said
    return {finding["check"]: finding for finding in said["findings"]}


@contextmanager
def connected(server: Server, **options: Any) -> Iterator["library.Client[str]"]:  # noqa: ANN401 - the client's
    with library.Client((HOST, server.port), **options) as client:
        yield client


def test_fresh_server_is_healthy(server: Server) -> None:
    assert set(examined(url_of(server), healthy=True)) == {"durability"}
    text = beanpole("doctor", "--interval", "0.1", url=url_of(server))
    assert text.startswith(f"{url_of(server)}: {server.name} ")
    assert text.endswith("\n1 note.\n")


def test_log_of_beanstalkd(tmp_path: Path) -> None:
    with beanstalkd_server("-b", str(tmp_path)) as server, connected(server) as client:
        client.put("x", tube="mail")
        found = examined(url_of(server), healthy=False)
        assert "log-stopped" not in found
        assert found["durability"]["evidence"] == ["the log is at file 1"]


def test_tubes_in_trouble(server: Server) -> None:
    with connected(server, watch="mail") as client:
        client.put_many(["x"] * 5, tube="mail")
        client.bury(client.reserve(0))
        client.put("x", tube="nobody", priority=1)
        client.pause_tube("mail", 7200)
        found = examined(url_of(server), healthy=False)
        assert found["no-workers"]["tubes"] == ["nobody"]
        assert found["pauses"]["tubes"] == ["mail"]
        assert found["pauses"]["severity"] == "warning"
        assert found["buried"]["evidence"][0].startswith("mail: 1 buried, the first one put ")
        text = beanpole("doctor", "--interval", "0.1", url=url_of(server), code=1)
        assert "WARNING no-workers: jobs are ready in tubes that no connection watches\n    nobody: 1 ready" in text
        assert "\n    > Start workers" in text
        assert text.endswith("2 warnings, 2 notes.\n")


def test_dead_jobs_are_no_trouble(tmp_path: Path) -> None:
    with beanpole_server("-b", str(tmp_path)) as server, connected(server, watch="mail") as client:
        client.set_rules("ma*", {"dead": "dead-mail"})
        client.put("x", tube="mail")
        client.fail_job(client.reserve(0), dead=True)
        found = examined(url_of(server), healthy=True)
        assert found["dead-jobs"]["evidence"] == ["dead-mail: 1 dead job"]
        assert "no-workers" not in found


# --- What happens between the two looks -------------------------------------------------------------------------------


def looked_at(server: Server, meanwhile: Callable[[], object]) -> dict[str, Finding]:
    """What is found when something happens between the looks."""

    async def look() -> Visit:
        async def wait() -> None:
            meanwhile()

        async with library.AsyncClient((HOST, server.port), None) as client:
            return await visit(client, time.monotonic_ns, wait)

    return dict(diagnose(asyncio.run(look())))


def test_work_is_no_storm(server: Server) -> None:
    with connected(server) as client:

        def work() -> None:
            for _ in range(100):
                client.put("x")
                client.delete(client.reserve())

        assert set(looked_at(server, work)) == {"durability"}


def test_puts_that_are_refused(server: Server) -> None:
    with Client(server.connect()) as client:
        found = looked_at(server, lambda: client.ask(b"put 0 0 1 1\r\nxyz" * 9, b"EXPECTED_CRLF\r\n" * 9))
    assert found["refused-puts"].severity is Severity.ERROR


# --- The server as a whole --------------------------------------------------------------------------------------------


def test_connections_take_nearly_all_files() -> None:
    with serving(limits={resource.RLIMIT_NOFILE: 256}) as process, ExitStack() as clients:
        url = f"beanstalk://{HOST}:{process.port}"
        assert "connections" not in examined(url, healthy=True)
        for _ in range(210):
            clients.enter_context(process.connect())
        found = examined(url, healthy=False)
    assert found["connections"]["evidence"] == ["211 connections of 256 open files"]


def test_nobody_there(tmp_path: Path) -> None:
    assert beanpole("doctor", url=f"unix:{tmp_path}/nobody", code=4) == ""
