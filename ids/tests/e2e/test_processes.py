"""Several processes of a service on one port: they share its numbers, and none comes twice, whichever of them ends."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from beanpole_ids.errors import ExitCode
from tests.e2e.process import Ids, running, write_rules
from tests.processes import START_TIMEOUT_S, STOP_TIMEOUT_S, environment, wait_until

TWO = "processes = 2"
SOCKETS = 64
"""Sockets of a client. The system spreads them by their ports: that a process gets none is next to impossible."""


def processes(service: Ids) -> list[int]:
    """The processes that serve, without the one that looks after them."""
    pid = service.popen.pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Whether there is a process; one that has ended and was not waited for is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def numbers(service: Ids, rule: str = "order") -> list[str]:
    """A number for each of many sockets."""
    request = json.dumps({"action": "get", "app_name": "a", "rule_name": rule}).encode()
    found = []
    for _ in range(SOCKETS):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(service.socket.getpeername())
            client.settimeout(service.socket.gettimeout())
            client.send(request)
            reply = json.loads(client.recv(4096))
            assert reply["code"] == 0, reply
            found.append(reply["data"])
    return found


def log(service: Ids) -> list[dict[str, Any]]:
    """The lines of the log, without one that is being written."""
    return [json.loads(line) for line in service.messages().splitlines(keepends=True) if line.endswith("\n")]


def logged(service: Ids, event: str) -> int:
    """How often something stands in the log."""
    return sum(line["event"] == event for line in log(service))


def test_processes_share_numbers_and_each_is_a_node(tmp_path: Path) -> None:
    config = write_rules(tmp_path, more=f"{TWO}\nstep = 2\noffset = 1\n[http]\nlisten = '127.0.0.1:0'")
    config.write_text(config.read_text() + "\n[[rule]]\nname = 'flake'\nkind = 'snowflake'\n")
    with running(tmp_path, config) as service:
        udp, *web = (tmp_path / "ready").read_text().split()
        assert udp.startswith("udp:127.0.0.1:")
        assert len(set(web)) == 2, "each has an address of its own for HTTP"
        found = numbers(service)
        assert len(set(found)) == SOCKETS
        assert {int(each[7:]) % 4 for each in found} == {2, 3}, "of step 2 and offset 1, halved between two"
        flakes = numbers(service, "flake")
        assert {int(each) >> 12 & 1023 for each in flakes} == {2, 3}
        assert service.end() == 0
        assert not any(map(is_alive, all_processes(service)))


def all_processes(service: Ids) -> list[int]:
    """All processes that have ever served."""
    return [line["pid"] for line in log(service) if line["event"] == "listening"]


def test_a_process_that_is_killed_is_started_again_and_no_number_comes_twice(tmp_path: Path) -> None:
    with running(tmp_path, write_rules(tmp_path, more=TWO)) as service:
        found = numbers(service)
        for _ in range(2):
            listening = logged(service, "listening")
            subprocess.run(["kill", "-9", str(processes(service)[0])], check=True)
            wait_until(lambda: logged(service, "listening") > listening, "it is started again", START_TIMEOUT_S)  # noqa: B023
            found += numbers(service)
        assert len(set(found)) == len(found)
        assert logged(service, "process failed") == 2
        assert service.end(signal.SIGUSR2) == 0


def test_signals_reach_all_processes(tmp_path: Path) -> None:
    config = write_rules(tmp_path, more=TWO)
    with running(tmp_path, config) as service:
        config.write_text(config.read_text().replace("O{year", "OO{year"))
        service.popen.send_signal(signal.SIGHUP)
        wait_until(lambda: logged(service, "reloaded") == 2, "both have reloaded", START_TIMEOUT_S)
        assert {each[:2] for each in numbers(service)} == {"OO"}
        config.write_text(config.read_text().replace(TWO, "processes = 3"))
        service.popen.send_signal(signal.SIGUSR1)
        wait_until(lambda: logged(service, "reload refused") == 2, "both have refused", START_TIMEOUT_S)
        assert "processes has changed; only a restart takes it over" in service.messages()


def test_without_the_one_that_looks_after_them_processes_stop(tmp_path: Path) -> None:
    with running(tmp_path, write_rules(tmp_path, more=TWO)) as service:
        pids = processes(service)
        assert len(pids) == 2
        service.popen.kill()
        service.popen.wait()
        wait_until(lambda: not any(map(is_alive, pids)), "they stop", STOP_TIMEOUT_S)
        assert logged(service, "stopped") == 2, "in good order"


def test_all_end_when_a_node_is_lost(tmp_path: Path) -> None:
    with running(tmp_path, write_rules(tmp_path, more=TWO)) as service:
        engine = sa.create_engine(f"sqlite:///{tmp_path / 'ids.db'}")
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE beanpole_ids_node SET epoch = epoch + 1 WHERE node = 1"))
        engine.dispose()
        assert service.popen.wait(STOP_TIMEOUT_S) == ExitCode.NODE_TAKEN
        assert not any(map(is_alive, all_processes(service)))


def taken_port(_folder: Path) -> contextlib.closing[socket.socket]:
    """A port that another program has bound and allows others to bind, too."""
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    other.bind(("127.0.0.1", 0))
    return contextlib.closing(other)


def taken_node(folder: Path) -> contextlib.AbstractContextManager[object]:
    """The second node, in use by another service."""
    other = folder / "other"
    other.mkdir()
    config = write_rules(other, more="step = 2\noffset = 1")
    config.write_text(config.read_text().replace("/other/ids.db", "/ids.db"))
    return running(other, config)


@pytest.mark.parametrize(("taken", "code"), [(taken_port, 111), (taken_node, 10)])
def test_a_start_fails_as_a_whole(
    tmp_path: Path, taken: Callable[[Path], contextlib.AbstractContextManager[object]], code: int
) -> None:
    with taken(tmp_path) as other:
        config = write_rules(tmp_path, more=TWO)
        if isinstance(other, socket.socket):
            config.write_text(config.read_text().replace(".1:0", f".1:{other.getsockname()[1]}"))
        ready = ["--ready-file", str(tmp_path / "never")]
        command = [sys.executable, "-m", "beanpole_ids", "serve", str(config), *ready]
        done = subprocess.run(
            command, env=environment(), capture_output=True, timeout=START_TIMEOUT_S + STOP_TIMEOUT_S, check=False
        )
        assert done.returncode == code, done.stderr
        assert not (tmp_path / "never").exists()
