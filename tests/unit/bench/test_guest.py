"""A load at somebody else's server: nothing of others is touched, and nothing stays behind."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import beanpole as library
from benchmarks.bench.dial import SetupError
from benchmarks.bench.guest import LEFT_BYTES_MAX, LEFT_JOBS_MAX, commands_max, measure, new_name
from benchmarks.bench.plan import Group
from tests.e2e.process import wait_until
from tests.servers import HOST, STOP_TIMEOUT_S, Server, beanpole_server, beanstalkd_server


@pytest.fixture(params=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with beanpole_server() if request.param == "beanpole" else beanstalkd_server() as running:
        yield running


def run(server: Server, group: Group, seconds: float = 0.05) -> int:
    """The jobs of a load."""
    return measure((HOST, server.port), group, seconds).jobs


@pytest.mark.parametrize(("programme", "held"), [("p", 0), ("pd", 0), ("pr", 0), ("prd", 50)])
def test_nothing_stays_and_nothing_else_is_touched(server: Server, programme: str, held: int) -> None:
    with library.Client((HOST, server.port)) as client:
        client.put("mine")
        client.put("mine", tube="mail")
        before = {tube: client.stats_tube(tube) for tube in client.tubes()}
        assert run(server, Group(3, 5, 10, programme, tubes=2, held=held, name=new_name())) > 0
        wait_until(lambda: client.stats().current_connections == 1, "the load is gone")
        assert {tube: client.stats_tube(tube) for tube in client.tubes()} == before


def test_a_load_that_is_not_welcome_is_refused_and_leaves_nothing(server: Server) -> None:
    with library.Client((HOST, server.port)) as client:
        client.put("x", tube="mail-and-more")
        with pytest.raises(SetupError, match="mail-and-more begins with mail"):
            run(server, Group(name="mail"))
        with pytest.raises(SetupError, match="65535 at most"):
            run(server, Group(body_bytes=65_536, name=new_name()))
        server.drain()
        with pytest.raises(SetupError, match="drains"):
            run(server, Group(name=new_name()))
        wait_until(lambda: client.tubes() == ["default", "mail-and-more"], "nothing else is there")


def test_what_is_left_behind_is_bounded() -> None:
    assert commands_max(Group(programme="prd")) == 0
    assert commands_max(Group(programme="p", body_bytes=0)) <= LEFT_JOBS_MAX
    large = commands_max(Group(programme="pr", body_bytes=1 << 20))
    assert large // 2 * (1 << 20) <= LEFT_BYTES_MAX


def test_interrupted_run_is_cleaned_up(beanpole: Server, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.bench", "--url", f"beanstalk://{HOST}:{beanpole.port}"]
    said = tmp_path / "said"
    with said.open("wb") as output, library.Client((HOST, beanpole.port)) as client:
        runner = subprocess.Popen([*command, "--cycle", "put+reserve", "--seconds", "60"], stdout=output, stderr=output)
        try:
            wait_until(lambda: client.stats().total_jobs > 0, "the load runs")
            runner.terminate()
            assert runner.wait(STOP_TIMEOUT_S) == 130, said.read_text()
        finally:
            runner.kill()
            runner.wait()
        wait_until(lambda: client.tubes() == ["default"], "nothing is left")
    assert said.read_text() == ""


def test_server_that_ends_under_the_load_is_told() -> None:
    with beanstalkd_server() as server:

        def kill_when_busy() -> None:
            with library.Client((HOST, server.port)) as client:
                wait_until(lambda: client.stats().total_jobs > 0, "the load runs")
            server.signal(signal.SIGKILL)

        killer = threading.Thread(target=kill_when_busy)
        killer.start()
        with pytest.raises(SetupError, match="jobs may be left in the tubes beanpole-bench-"):
            run(server, Group(1, 1, name=new_name()), seconds=60)
        killer.join()
