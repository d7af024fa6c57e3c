"""Starting: flags, environment, the TOML file, which of them wins, and one clear line for what proves wrong."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import Outcome, serving, start_in_vain, wait_until
from tests.servers import HOST, free_port

UNKNOWN_USER, CANNOT_LISTEN = 33, 111


def is_one_clear_line(outcome: Outcome, *words: str) -> bool:
    """Whether standard error is one line that names the program and holds all `words`."""
    line = outcome.error
    return line.count("\n") == 1 and line.startswith("beanpole") and all(word in line for word in words)


def config_file(folder: Path, text: str) -> str:
    path = folder / "server.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    return str(path)


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["-l", "unix:missing/socket"], CANNOT_LISTEN, ["unix:missing/socket", "No such file"]),
        (["-l", "unix:" + "x" * 200], CANNOT_LISTEN, ["too long"]),
        (["-u", "nobody-of-that-name"], UNKNOWN_USER, ["nobody-of-that-name"]),
    ],
    ids=["unix", "long", "user"],
)
def test_mistake_is_one_clear_line(flags: list[str], code: int, words: list[str]) -> None:
    outcome = start_in_vain(*flags)
    assert is_one_clear_line(outcome, *words), outcome
    assert (outcome.code, outcome.output) == (code, "")


def test_ready_file_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    outcome = start_in_vain("--ready-file", str(tmp_path / "missing" / "ready"))
    assert outcome.code not in (0, 111)
    assert "Traceback" not in outcome.error
    assert is_one_clear_line(outcome, "missing/ready", "No such file"), outcome


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_flag_of_beanstalkd(flag: str) -> None:
    outcome = start_in_vain(flag, listen=False)
    assert (outcome.code, outcome.error) == (0, "")
    for short in "bcfFlnpsuvVz":
        assert f" -{short}" in outcome.output


def body_bytes_max(*flags: str, env: dict[str, str] | None = None) -> int:
    """The body limit of a server that is started so."""
    with serving(*flags, env=env) as process:
        return process.statistic("max-job-size")


@pytest.mark.start
def test_flags_win_over_environment_over_file_over_default(tmp_path: Path) -> None:
    flag = ("-z", "3")
    file = ("--config", config_file(tmp_path, "body-bytes-max = 1\n"))
    env = {"BEANPOLE_BODY_BYTES_MAX": "2B"}
    assert body_bytes_max() == 65535
    assert body_bytes_max(*file) == 1
    assert body_bytes_max(*file, env=env) == 2
    assert body_bytes_max(*file, *flag, env=env) == 3
    assert body_bytes_max(*flag, *file) == 3
    assert body_bytes_max(env={"BEANPOLE_CONFIG": file[1]}) == 1


def test_file_sets_everything(tmp_path: Path) -> None:
    socket_path = tmp_path / "socket"
    text = f"""
        listen = ["{HOST}:0", "unix:{socket_path}"]
        body-bytes-max = "1KiB"
        verbose = 1
        one-reply-per-send = true
        log-format = "json"
        """
    with serving("--config", config_file(tmp_path, text), listen=False) as process:
        assert process.addresses[1:] == [f"unix:{socket_path}"]
        assert process.statistic("max-job-size") == 1024
        assert process.events("connection opened")


def test_environment_sets_addresses() -> None:
    env = {"BEANPOLE_LISTEN": f"{HOST}:0 [::1]:0", "BEANPOLE_VERBOSE": "1"}
    with serving(listen=False, env=env) as process, process.connect():
        assert [address.rpartition(":")[0] for address in process.addresses] == [f"tcp:{HOST}", "tcp:[::1]"]
        assert process.events("connection opened")


@pytest.mark.parametrize("flag", ["-c", "-n"])
def test_flags_of_old_scripts_warn_and_do_nothing(flag: str) -> None:
    with serving(flag) as process:
        warnings = [line for line in process.messages.splitlines() if "ignored" in line]
        assert len(warnings) == 1
        assert flag in warnings[0]


@pytest.mark.parametrize("size", ["1073741825", "99999999999", "-1"])
def test_body_limit_is_capped_with_a_warning(size: str) -> None:
    with serving("-z", size) as process:
        assert process.statistic("max-job-size") == 1 << 30
        assert len([line for line in process.messages.splitlines() if "capped at 1073741824" in line]) == 1


def test_body_limit_of_the_ceiling_needs_no_warning() -> None:
    with serving("-z", str(1 << 30)) as process:
        assert process.statistic("max-job-size") == 1 << 30
        assert "capped" not in process.messages


@pytest.mark.start
def test_too_few_open_files_are_one_clear_line() -> None:
    outcome = start_in_vain(limits={resource.RLIMIT_NOFILE: 20})
    assert outcome.code == 1
    assert is_one_clear_line(outcome, "20 open files", "ulimit -n"), outcome


def test_file_of_the_log_that_is_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "segment.0000000001").mkdir()
    outcome = start_in_vain("-b", str(tmp_path))
    assert outcome.code == 1
    assert "segment.0000000001: Is a directory" in outcome.error


def test_client_connects_before_the_server_is_ready() -> None:
    """Without a directory the port is open before most of the server is imported."""
    port = free_port()
    code = (
        f"import sys, beanpole.server.early as early; early.listen(early.read(['-l', '{HOST}', '-p', '{port}']), {{}});"
    )
    code += f"import socket; socket.create_connection(('{HOST}', {port})).close();"
    code += "sys.exit(any(name in sys.modules for name in ('asyncio', 'click', 'typing', 'uvloop')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.start
def test_nothing_is_imported_that_the_first_answer_does_not_need() -> None:
    """A start is imports: without click, and what reads other forms of options, it takes four fifths of the time."""
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from beanpole.__main__ import main; main()"
    )
    command = [sys.executable, "-c", code, "serve", "-l", HOST, "-p", "0", "-V"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "listening" in process.stderr.readline()
        process.terminate()
        modules = process.communicate()[0].split()
    others = ("beanpole.cli", "beanpole.client", "beanpole.console", "click", "fractions", "pathlib", "structlog")
    assert [each for each in modules if each.startswith((*others, "beanpole.server.link"))] == []
    assert "beanpole.engine.engine" in modules


def test_limits_of_tubes_and_connections() -> None:
    with serving("--tubes-max", "2", "--connections-max", "2") as process, process.connect() as client:
        client.ask(b"use a\r\nuse a\r\nwatch a\r\n", b"USING a\r\nUSING a\r\nWATCHING 2\r\n")
        with process.connect() as crowded:
            crowded.ask(b"use b\r\nlist-tube-used\r\n", b"OUT_OF_MEMORY\r\n")
        client.ask(b"list-tube-used\r\nignore a\r\nuse default\r\n", b"USING a\r\nWATCHING 1\r\nUSING default\r\n")
        client.ask(b"use b\r\n", b"USING b\r\n")
        with process.connect(wait_accepted=False) as second, process.connect(wait_accepted=False) as third:
            second.ask(b"list-tube-used\r\n", b"USING default\r\n")
            third.send(b"list-tube-used\r\n")
            wait_until(lambda: process.events("accepting paused"), "accepting pauses")
            client.ask(b"quit\r\n", b"")
            third.expect(b"USING default\r\n")
