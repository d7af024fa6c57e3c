"""What systemd does with a server: it hands over sockets (sd_listen_fds(3)) and waits for READY=1 (sd_notify(3))."""

import os
import pwd
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import beanpole
from tests.e2e.process import COMMAND, Client, serving, wait_until
from tests.e2e.test_listen import talk
from tests.servers import HOST, REPLY_TIMEOUT_S

LAUNCHER = """
import os, sys
count = int(sys.argv[1])
given, command = [int(each) for each in sys.argv[2:2 + count]], sys.argv[2 + count:]
for number, descriptor in enumerate(given):
    os.dup2(descriptor, 100 + number)
for number in range(count):
    os.dup2(100 + number, 3 + number, inheritable=True)
os.environ["LISTEN_FDS"] = os.environ.get("SAID_FDS", str(count))
os.environ["LISTEN_PID"] = str(os.getpid() + int(os.environ.get("OTHER_PID", "0")))
os.execv(command[0], command)
"""
"""Does what systemd does: the sockets are descriptors 3, 4, ..., and the variables name the process."""


def launcher(*sockets: socket.socket, command: list[str] = COMMAND) -> list[str]:
    """The command that starts a server with these sockets."""
    return [sys.executable, "-c", LAUNCHER, str(len(sockets)), *(str(each.fileno()) for each in sockets), *command]


def unread_bytes(port: int) -> int:
    """What has come to the connections of a port and was not read (proc(5), /proc/net/tcp)."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(each[4].partition(":")[2], 16) for each in lines if each[1].endswith(f":{port:04X}"))


@contextmanager
def bound(path: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP and a Unix socket that listen already."""
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server((HOST, 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(path))
        unix.listen()
        yield tcp, unix


def test_sockets_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with bound(path) as (tcp, unix):
        fds = (tcp.fileno(), unix.fileno())
        with serving(command=launcher(tcp, unix), pass_fds=fds, listen=False) as process:
            port = tcp.getsockname()[1]
            assert process.addresses == [f"tcp:{HOST}:{port}", f"unix:{path}"]
            talk(socket.AF_INET, (HOST, port))
            talk(socket.AF_UNIX, str(path))


def test_a_restart_refuses_no_connection_and_the_client_goes_on_as_its_guide_says(tmp_path: Path) -> None:
    """`reserve` waits for the next server, as a client does that connects in between; an unanswered `put` raises."""
    with bound(tmp_path / "socket") as (tcp, _), ExitStack() as stack:
        fds, address = (tcp.fileno(),), tcp.getsockname()
        log = ("-b", str(tmp_path / "log"))
        first = stack.enter_context(serving(*log, command=launcher(tcp), pass_fds=fds, listen=False))
        consumer, producer = (stack.enter_context(beanpole.Client(address, watch="a", use="a")) for _ in range(2))
        threads = stack.enter_context(ThreadPoolExecutor(2))
        reserved = threads.submit(consumer.reserve)
        wait_until(lambda: producer.stats().current_waiting == 1, "the consumer waits")
        first.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
        put = threads.submit(producer.put, "lost")
        wait_until(lambda: unread_bytes(address[1]), "the put has come to the server's socket")
        first.signal(signal.SIGKILL)
        with pytest.raises(beanpole.ConnectionLostError) as caught:
            put.result(REPLY_TIMEOUT_S)
        assert caught.value.outcome_unknown
        early = stack.enter_context(socket.create_connection(address))
        early.settimeout(REPLY_TIMEOUT_S)
        early.sendall(b"use a\r\n")
        first.wait_exit()
        with serving(*log, command=launcher(tcp), pass_fds=fds, listen=False):
            Client(early).ask(b"put 0 0 60 4\r\nnext\r\n", b"USING a\r\nINSERTED 1\r\n")
            assert reserved.result(REPLY_TIMEOUT_S).body == "next"


def test_listen_is_ignored_with_a_warning(tmp_path: Path) -> None:
    with (
        bound(tmp_path / "socket") as (tcp, _),
        serving(command=launcher(tcp), pass_fds=(tcp.fileno(),)) as process,
    ):
        assert process.port == tcp.getsockname()[1]
        (line,) = process.events("listen ignored")
        assert line["level"] == "warning"


def test_sockets_for_another_process_are_left_alone(tmp_path: Path) -> None:
    with bound(tmp_path / "socket") as (tcp, _):
        env = {"OTHER_PID": "1"}
        with serving(command=launcher(tcp), pass_fds=(tcp.fileno(),), env=env) as process:
            assert process.port != tcp.getsockname()[1]


@pytest.mark.parametrize("said", ["2", "many", "-1"])
def test_wrong_number_of_sockets_is_one_clear_line(tmp_path: Path, said: str) -> None:
    with (
        bound(tmp_path / "socket") as (tcp, _),
        pytest.raises(AssertionError, match="the server ended") as caught,
        serving(command=launcher(tcp), pass_fds=(tcp.fileno(),), env={"SAID_FDS": said}, listen=False),
    ):
        pass
    _, _, messages = str(caught.value).partition(":\n")
    assert "Traceback" not in messages, messages
    assert len([line for line in messages.splitlines() if line.startswith("beanpole")]) == 1


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(tmp_path: Path, abstract: bool) -> None:
    path = tmp_path / "notify"
    name = f"@beanpole-{os.getpid()}" if abstract else str(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.settimeout(REPLY_TIMEOUT_S)
        notified.bind("\0" + name[1:] if abstract else name)
        with serving(env={"NOTIFY_SOCKET": name}) as process:
            assert notified.recv(100) == b"READY=1"
            talk(socket.AF_INET, (HOST, process.port))
            process.signal(signal.SIGTERM)
            assert notified.recv(100) == b"STOPPING=1"
            assert process.wait_exit() == 0


def test_server_becomes_the_user() -> None:
    if os.geteuid() != 0:
        with pytest.raises(AssertionError, match="cannot become user root"), serving("-u", "root"):
            pass
        return
    nobody = pwd.getpwnam("nobody")
    with serving("-u", "nobody") as process:
        assert Path(f"/proc/{process.pid}").stat().st_uid == nobody.pw_uid
        assert not process.ready_file.stat().st_mode & stat.S_IWOTH
        groups = Path(f"/proc/{process.pid}/status").read_text().split("Groups:")[1].splitlines()[0].split()
        assert "0" not in groups
        talk(socket.AF_INET, (HOST, process.port))
