"""``serve --http``: what the console is handed, and that its end is nobody else's business."""

import contextlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.e2e.process import Process, serving, wait_until
from tests.e2e.test_systemd import bound, launcher
from tests.servers import HOST, REPLY_TIMEOUT_S, STOP_TIMEOUT_S

USAGE = 5
FAKED = [sys.executable, "-m", "tests.e2e.console_server", "serve"]
FAKE = {"FAKE": "serve"}


def faking(*flags: str, fake: str = "serve", pass_fds: tuple[int, ...] = ()) -> AbstractContextManager[Process]:
    """A server with a fake console on a port of its own."""
    return serving(
        "--http", f"{HOST}:0", "--log-format=json", *flags, command=FAKED, env={"FAKE": fake}, pass_fds=pass_fds
    )


def http_address(process: Process) -> tuple[str, int]:
    """Where the console takes HTTP."""
    kind, host, port = process.addresses[-1].split(":")
    assert kind == "http"
    return host, int(port)


def see(process: Process) -> dict[str, object]:
    """What the console that runs says of itself."""
    while True:
        with socket.create_connection(http_address(process), REPLY_TIMEOUT_S) as connection:
            line = connection.makefile("rb").readline()
        if line:  # empty: it was killed before it answered
            found: dict[str, object] = json.loads(line)
            return found


def pid_of(process: Process) -> int:
    """The id of the console that runs."""
    pid = see(process)["pid"]
    assert isinstance(pid, int)
    return pid


def is_gone(pid: int) -> bool:
    """Whether a process has ended, if also nobody has waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def free_low_port() -> int:
    """A port that only root may bind."""
    for port in range(1023, 600, -1):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((HOST, port))
            return port
    raise AssertionError("there is none")


@pytest.mark.parametrize("library", ["starlette", "msgspec", "prometheus_client"])
def test_without_the_extra_the_command_that_installs_it_is_named_and_nothing_is_bound(library: str) -> None:
    program = (
        f"import sys; sys.modules['{library}'] = None; from beanpole.__main__ import main; code = main();"
        "from beanpole.server import early; assert not early.opened; sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "serve", "-p", "0", "--http", f"{HOST}:0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=STOP_TIMEOUT_S,
    )
    assert done.returncode == USAGE, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert f"--http needs {library}; install it with: pip install 'beanpole[console]'" in done.stderr


def test_flags_for_a_console_without_one_are_ignored_aloud() -> None:
    with serving("--http-host", "a", "--metrics-tubes", "b", "--legacy-metrics") as process:
        assert "--http-host, --metrics-tubes, --legacy-metrics without --http: ignored" in process.messages


def test_console_is_handed_its_descriptors_and_arguments_and_nothing_else(tmp_path: Path) -> None:
    left_open = os.open(tmp_path, os.O_RDONLY)
    try:
        flags = ("--http-host=a", "--http-host=b", "--metrics-tubes=jobs-*", "--legacy-metrics")
        with faking("-b", str(tmp_path), *flags, pass_fds=(left_open,)) as process:
            seen = see(process)
            assert seen["descriptors"] == list(range(8))
            assert seen["replies"] == ["USING default\r\n"] * 4
            assert seen["arguments"] == [
                *("serve", "--handed-over=3,4,5,6,7", "--name=name", "--log-format=json"),
                *("--http-host=a", "--http-host=b", "--metrics-tubes=jobs-*", "--legacy-metrics"),
            ]
            assert process.statistic("current-connections") == 1
    finally:
        os.close(left_open)


@pytest.mark.parametrize("fake", ["serve", "hang", "flood"])
def test_stop_ends_the_console(fake: str) -> None:
    with faking(fake=fake) as process:
        wait_until(lambda: process.events("console started"), "it is started")
        if fake == "hang":
            wait_until(lambda: process.statistic("current-jobs-ready"), "it runs")
        pid = process.events("console started")[0]["pid"]
        process.signal(signal.SIGTERM)
        assert process.wait_exit() == 0
        assert not Path(f"/proc/{pid}").exists()
        assert not process.events("console ended")


def test_server_that_is_killed_takes_the_console_with_it() -> None:
    with faking() as process:
        pid = pid_of(process)
        process.signal(signal.SIGKILL)
        process.wait_exit()
        wait_until(lambda: is_gone(pid), "the console ends")


def test_sockets_of_systemd_are_not_for_the_console(tmp_path: Path) -> None:
    with bound(tmp_path / "socket") as (tcp, unix):
        fds = (tcp.fileno(), unix.fileno())
        with serving(
            "--http", f"{HOST}:0", command=launcher(tcp, unix, command=FAKED), pass_fds=fds, listen=False, env=FAKE
        ) as process:
            assert len(process.addresses) == 3
            seen = see(process)
            assert seen["descriptors"] == list(range(8))
            variables = seen["variables"]
            assert isinstance(variables, list)
            assert not [each for each in variables if each.startswith(("LISTEN_", "BEANPOLE_"))]


def test_address_is_bound_before_the_server_becomes_another_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may bind a low port and become another user")
    nobody = pwd.getpwnam("nobody")
    port = free_low_port()
    with faking("--http", f"{HOST}:{port}", "-u", "nobody") as process:
        assert http_address(process) == (HOST, port)
        # Whether the user may run our Python at all is this machine's business.
        wait_until(lambda: process.events("console started") or process.events("console ended"), "it was tried")
        if process.events("console started"):
            assert Path(f"/proc/{pid_of(process)}").stat().st_uid == nobody.pw_uid
        else:
            assert "Permission denied" in str(process.events("console ended")[0]["reason"])
