"""`beanpole serve --fronts N`: what clients, operators and systemd see of a server whose clients others accept."""

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.process import Process, healthy, serving, start_in_vain, wait_until
from tests.e2e.test_listen import talk
from tests.e2e.test_systemd import bound, launcher, unread_bytes
from tests.servers import HOST

FRONTS = ("--fronts", "2")


def fronts_of(process: Process) -> list[int]:
    """The processes that accept clients."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(each) for each in children if b"beanpole.front" in Path(f"/proc/{each}/cmdline").read_bytes()]


def client_count(pid: int) -> int:
    """How many clients a front has: its sockets without its link and the one that listens."""
    links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(each.startswith("socket:") for each in links) - 2


def sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("S")


def test_clients_are_shared_between_the_fronts_and_no_front_is_left_over() -> None:
    with serving(*FRONTS) as process:
        fronts = fronts_of(process)
        assert len(fronts) == 2
        with ExitStack() as stack:
            clients = [stack.enter_context(process.connect()) for _ in range(40)]
            counts = [client_count(each) for each in fronts]
            assert sum(counts) == 40
            assert max(counts) <= 24
            clients[0].send(b"list-sessions\r\n")
            assert f"127.0.0.1:{clients[1].socket.getsockname()[1]}" in clients[0].body().decode()
        process.signal(signal.SIGKILL)
        process.wait_exit()
        wait_until(lambda: not any(Path(f"/proc/{each}/fd").exists() for each in fronts), "the fronts have ended")


def test_front_that_is_killed_is_started_again_and_the_jobs_of_its_clients_are_ready() -> None:
    with healthy(*FRONTS) as process, ExitStack() as stack:
        clients = [stack.enter_context(process.connect()) for _ in range(8)]
        for number, client in enumerate(clients, 1):
            client.ask(b"put 0 0 600 1\r\nx\r\n", b"INSERTED %d\r\n" % number)
            client.ask(b"reserve\r\n", b"RESERVED %d 1\r\nx\r\n" % number)
        victim = fronts_of(process)[0]
        lost = client_count(victim)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: process.statistic("current-jobs-ready") == lost, "jobs are ready")
        wait_until(lambda: len(fronts_of(process)) == 2, "another front")
        assert victim not in fronts_of(process)
        [ended] = process.events("front 1 ended")
        assert ended["reason"] == "SIGKILL"
        with process.connect() as client:
            client.send(b"reserve-with-timeout 0\r\n")
            assert client.line().startswith(b"RESERVED ")


@pytest.mark.long
def test_front_that_hangs_loses_its_clients_and_is_started_again() -> None:
    with healthy(*FRONTS) as process, process.connect() as client:
        victim = next(each for each in fronts_of(process) if client_count(each))
        client.ask(b"put 0 0 600 1\r\nx\r\n", b"INSERTED 1\r\n")
        client.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
        os.kill(victim, signal.SIGSTOP)
        wait_until(lambda: victim not in fronts_of(process) and len(fronts_of(process)) == 2, "another front")
        assert process.statistic("current-jobs-ready") == 1


def test_kept_session_is_waited_for_when_its_front_dies() -> None:
    with healthy(*FRONTS) as process, process.connect() as client:
        token = b"a" * 32
        client.send(b"keep-session 60 %b\r\n" % token)
        assert client.line().startswith(b"KEPT ")
        client.ask(b"put 0 0 600 1\r\nx\r\n", b"INSERTED 1\r\n")
        client.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
        os.kill(next(each for each in fronts_of(process) if client_count(each)), signal.SIGKILL)
        assert client.rest() == b""
        with process.connect() as again:
            again.ask(b"keep-session 60 %b\r\n" % token, b"KEPT 1 1\r\n")
            again.ask(b"delete 1\r\n", b"DELETED\r\n")


def test_connections_max_holds_over_all_fronts() -> None:
    with serving(*FRONTS, "--connections-max", "3") as process, ExitStack() as stack:
        clients = [stack.enter_context(process.connect()) for _ in range(3)]
        waiting = stack.enter_context(process.connect(wait_accepted=False))
        waiting.send(b"list-tube-used\r\n")
        wait_until(lambda: process.events("accepting paused"), "the server says that clients wait")
        assert sum(map(client_count, fronts_of(process))) == 3
        assert process.events("accepting paused")[0]["reason"] == "--connections-max"
        clients[0].socket.close()
        assert waiting.line() == b"USING default\r\n"


def test_more_fronts_than_connections_are_not_started() -> None:
    with serving("--fronts", "8", "--connections-max", "2") as process:
        assert len(fronts_of(process)) == 2


def test_stop_signal_answers_what_was_received_by_the_fronts(tmp_path: Path) -> None:
    with serving(*FRONTS, "-b", str(tmp_path)) as process, ExitStack() as stack:
        clients = [stack.enter_context(process.connect()) for _ in range(20)]
        fronts = fronts_of(process)
        for front in fronts:
            os.kill(front, signal.SIGTERM)  # as `systemctl kill` does, which means the server
        with process.frozen():
            for client in clients:
                client.send(b"put 0 0 60 1\r\nx\r\nreserve\r\nlist-tube-used\r\n")
            wait_until(lambda: unread_bytes(process.port) == 0 and all(map(sleeps, fronts)), "the fronts have read")
            process.signal(signal.SIGTERM)
        assert process.wait_exit() == 0
        for client in clients:
            inserted, reserved, *rest = client.rest().splitlines(keepends=True)
            assert inserted.startswith(b"INSERTED ")
            assert reserved.startswith(b"RESERVED ")
            assert rest == [b"x\r\n", b"USING default\r\n"]
        assert not any(Path(f"/proc/{each}").exists() for each in fronts)
        assert not process.ready_file.exists()


def test_stop_signal_sends_more_than_a_link_takes_at_once(tmp_path: Path) -> None:
    body = b"x" * 50_000
    with serving("--fronts", "1", "-b", str(tmp_path)) as process, ExitStack() as stack:
        clients = [stack.enter_context(process.connect()) for _ in range(20)]
        for number, client in enumerate(clients, 1):
            client.ask(b"put 0 0 60 50000\r\n%b\r\n" % body, b"INSERTED %d\r\n" % number)
        with process.frozen():
            for client in clients:
                client.send(b"reserve\r\nput 0 0 60 1\r\nx\r\n")
            wait_until(
                lambda: unread_bytes(process.port) == 0 and all(map(sleeps, fronts_of(process))), "the front has read"
            )
            process.signal(signal.SIGTERM)
        assert process.wait_exit() == 0
        for client in clients:
            reserved, found, inserted = client.rest().split(b"\r\n")[:3]
            assert reserved.startswith(b"RESERVED ")
            assert found == body
            assert inserted.startswith(b"INSERTED ")


def test_drain_signal_is_the_servers() -> None:
    with healthy(*FRONTS) as process, process.connect() as client:
        for each in (process.pid, *fronts_of(process)):
            os.kill(each, signal.SIGUSR1)
        wait_until(lambda: process.events("draining"), "the server says that it drains")
        client.ask(b"put 0 0 60 1\r\nx\r\n", b"DRAINING\r\n")
        assert len(fronts_of(process)) == 2


def test_sockets_of_systemd_are_the_fronts(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with bound(path) as (tcp, unix):
        fds = (tcp.fileno(), unix.fileno())
        with serving(*FRONTS, command=launcher(tcp, unix), pass_fds=fds, listen=False) as process:
            assert process.addresses == [f"tcp:{HOST}:{tcp.getsockname()[1]}", f"unix:{path}"]
            for _ in range(4):
                talk(socket.AF_INET, tcp.getsockname())
                talk(socket.AF_UNIX, str(path))


def test_http_and_unix_sockets_beside_fronts(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    flags = ("-l", f"unix:{path}", "-l", HOST, "-p", "0", "--http", f"{HOST}:0")
    with serving(*FRONTS, *flags, listen=False) as process:
        talk(socket.AF_UNIX, str(path))
        assert len(process.addresses) == 3
        assert len(fronts_of(process)) == 2


def test_fronts_of_a_node_are_refused() -> None:
    outcome = start_in_vain(*FRONTS, "--cluster", "postgresql:///x", "--node", "a")
    assert outcome.code == 5
    assert "--fronts is for a server alone" in outcome.error
