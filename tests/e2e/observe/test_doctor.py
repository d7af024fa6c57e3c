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
from tests.e2e.process import Client, serving, wait_until
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


def test_server_with_a_log_is_healthy_while_it_works(tmp_path: Path) -> None:
    with beanpole_server("-b", str(tmp_path)) as server, connected(server, watch="mail") as client:
        client.put_many(["x"] * 100, tube="mail")
        assert "-b" not in beanpole("doctor", "--interval", "0.1", url=url_of(server))


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


def test_worker_that_waits_for_a_misspelt_tube(server: Server) -> None:
    with connected(server) as client, server.connect() as worker:
        client.put("x", tube="emails")
        worker.sendall(b"watch email\r\nignore default\r\nreserve\r\n")
        wait_until(lambda: client.stats().current_waiting == 1, "the worker waits")
        found = examined(url_of(server), healthy=False)
        assert found["waiting-in-vain"]["severity"] == "warning"
        assert "emails has jobs and no workers" in found["waiting-in-vain"]["evidence"][0]


def test_job_that_times_out_again_and_again(server: Server) -> None:
    with connected(server, watch="mail") as client:
        id = client.put("x", tube="mail", ttr=1)
        for _ in range(3):
            client.reserve(5)
            wait_until(lambda: client.stats_job(id)["state"] == "ready", "its time ended")
        found = examined(url_of(server), healthy=False)
        assert found["failing-jobs"]["evidence"] == [f"mail: job {id} timed out 3 times, its ttr is 1s"]


# --- What happens between the two looks -------------------------------------------------------------------------------


def looked_at(server: Server, meanwhile: Callable[[], object]) -> dict[str, Finding]:
    """What is found when something happens between the looks."""

    async def look() -> Visit:
        async def wait() -> None:
            meanwhile()

        async with library.AsyncClient((HOST, server.port), None) as client:
            return await visit(client, time.monotonic_ns, wait)

    return dict(diagnose(asyncio.run(look())))


def test_storm_of_deadline_soon(server: Server) -> None:
    with Client(server.connect()) as worker:
        worker.ask(b"put 0 0 1000 1\r\nx\r\n", b"INSERTED 1\r\n")
        worker.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
        storm = 100

        def ask_again_and_again() -> None:
            """In one piece: the second job has a second from its reserve to its delete."""
            first, last = b"put 0 0 1 1\r\ny\r\nreserve\r\n", b"delete 2\r\n"
            worker.ask(
                first + b"reserve\r\n" * storm + last,
                b"INSERTED 2\r\nRESERVED 2 1\r\ny\r\n" + b"DEADLINE_SOON\r\n" * storm + b"DELETED\r\n",
            )

        found = looked_at(server, ask_again_and_again)
    assert found["empty-reserves"].severity is Severity.WARNING
    assert "1 job reserved" in found["empty-reserves"].evidence[1]


def test_work_is_no_storm(server: Server) -> None:
    with connected(server) as client:

        def work() -> None:
            for _ in range(100):
                client.put("x")
                client.delete(client.reserve())

        assert set(looked_at(server, work)) == {"durability"}


def test_urgent_jobs_pile_up(server: Server) -> None:
    with connected(server, use="mail") as client:
        client.put("x", priority=1)
        found = looked_at(server, lambda: client.put("x", priority=1))
    assert found["growing"].evidence == ("mail: 1 urgent jobs, 2 later",)


def test_puts_that_are_refused(server: Server) -> None:
    with Client(server.connect()) as client:
        found = looked_at(server, lambda: client.ask(b"put 0 0 1 1\r\nxyz" * 9, b"EXPECTED_CRLF\r\n" * 9))
    assert found["refused-puts"].severity is Severity.ERROR


def test_log_that_is_written_is_no_finding(tmp_path: Path) -> None:
    for number, serve in enumerate((beanpole_server, beanstalkd_server)):
        (tmp_path / str(number)).mkdir()
        with serve("-b", str(tmp_path / str(number))) as server, connected(server) as client:
            client.put("x")
            assert "log-stopped" not in looked_at(server, lambda client=client: client.put("x"))  # type: ignore[misc]


# --- The server as a whole --------------------------------------------------------------------------------------------


def test_draining_server(server: Server) -> None:
    server.drain()
    assert examined(url_of(server), healthy=False)["draining"]["severity"] == "warning"


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
