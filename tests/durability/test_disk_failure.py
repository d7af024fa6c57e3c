"""A disk that fails: the server stops at once with one clear line and exit code 1, and keeps what it acknowledged.

Going on would be a lie: the system may have dropped what it could not write, so a second try proves nothing.
"""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.durability.kept import assert_kept, keeping, put, put_line
from tests.durability.shim import Switches
from tests.e2e.process import Client, Process, wait_until

FAILURES = ("fail-sync", "fail-write")
POLICIES = ((), ("-f", "10"), ("-F",))


def assert_stopped(process: Process) -> None:
    """Checks how a server ended whose disk failed."""
    assert process.wait_exit() == 1, process.messages
    (line,) = process.events("log failed")
    assert line["level"] == "critical"
    assert "Input/output error" in str(line["reason"])
    assert "Traceback" not in process.messages
    assert [each["event"] for each in process.events() if each["level"] not in ("info", "warning")] == ["log failed"]


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_stops_the_server_without_a_reply(tmp_path: Path, switches: Switches, failure: str) -> None:
    with keeping(tmp_path / "log", env=switches.env) as process, process.connect() as client:
        jobs = {put(client, body): body for body in (b"one", b"two", b"three")}
        switches.set(failure)
        client.send(put_line(b"lost") + b"delete 1\r\n" + b"pause-tube default 5\r\n")
        assert client.rest() == b""
        assert_stopped(process)
    switches.clear(failure)
    with keeping(tmp_path / "log") as process, process.connect() as client:
        if failure == "fail-write":
            assert_kept(client, jobs)
        else:  # What was written and not synced may be there: the delete of job 1 was asked.
            assert_kept(client, {id: body for id, body in jobs.items() if id != 1})


@pytest.mark.parametrize("flags", [("-f", "10"), ("-f", "3600000"), ("-F",)])
def test_failed_write_is_not_answered_by_any_policy(tmp_path: Path, switches: Switches, flags: tuple[str, ...]) -> None:
    with keeping(tmp_path / "log", *flags, env=switches.env) as process, process.connect() as client:
        jobs = {put(client, b"x"): b"x"}
        switches.set("fail-write")
        client.send(put_line(b"lost"))
        assert client.rest() == b""
        assert_stopped(process)
    with keeping(tmp_path / "log") as process, process.connect() as client:
        assert_kept(client, jobs, gone=[2])


def test_failed_sync_by_time_stops_an_idle_server(tmp_path: Path, switches: Switches) -> None:
    with keeping(tmp_path / "log", "-f", "10", env=switches.env) as process, process.connect() as client:
        switches.set("fail-sync")
        client.send(put_line(b"x"))
        assert_stopped(process)


def test_failure_while_replies_are_held(tmp_path: Path, switches: Switches) -> None:
    with keeping(tmp_path / "log", env=switches.env) as process, process.connect() as reader:
        writers = [process.connect() for _ in range(30)]
        with switches.holding_syncs():
            for i, writer in enumerate(writers):
                writer.send(put_line(b"x"))
                wait_until(lambda i=i: reader.statistic("current-jobs-ready") == i + 1, "it has run")  # type: ignore[misc]
            switches.set("fail-sync")
        for writer in writers:
            assert writer.rest() == b""
            writer.socket.close()
        assert_stopped(process)


@pytest.mark.parametrize("flags", POLICIES)
@pytest.mark.parametrize("failure", FAILURES)
def test_failure_under_load(tmp_path: Path, switches: Switches, failure: str, flags: tuple[str, ...]) -> None:
    """Many rolls are under way when the disk fails; whoever waits for one of them must not wait for ever."""
    with keeping(tmp_path / "log", "-s", "65536", *flags, env=switches.env) as process:
        acknowledged = load_until_failure(process, lambda: switches.set(failure))
        assert_stopped(process)
    switches.clear(failure)
    with keeping(tmp_path / "log", "-s", "65536") as process, process.connect() as client:
        assert_kept(client, dict.fromkeys(acknowledged, b"x" * 700))
        for id in acknowledged:
            client.ask(b"delete %d\r\n" % id, b"DELETED\r\n")
    assert acknowledged, "nothing was acknowledged"


def load_until_failure(process: Process, fail: Callable[[], None]) -> list[int]:
    """Puts through many connections while the disk begins to fail; returns the ids that were acknowledged."""
    clients = [process.connect() for _ in range(12)]
    lines: dict[Client, bytes] = {}
    for client in clients:
        client.send(put_line(b"x" * 700) * 8)
    for turn in range(1000):
        for client in clients:
            if turn == 3 and client is clients[6]:
                fail()
            try:
                for _ in range(8):
                    lines[client] = lines.get(client, b"") + client.line()
                client.send(put_line(b"x" * 700) * 8)
            except OSError:
                break
        else:
            continue
        break
    for client in clients:
        lines[client] = lines.get(client, b"") + client.rest()
        client.socket.close()
    return [int(line.split()[1]) for text in lines.values() for line in text.splitlines() if line]


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_while_stopping_is_one_clear_line(tmp_path: Path, switches: Switches, failure: str) -> None:
    with keeping(tmp_path / "log", env=switches.env) as process:
        with process.connect() as client:
            jobs = {put(client, b"x"): b"x"}
        switches.set(failure)
        process.signal(signal.SIGTERM)
        assert_stopped(process)
    with keeping(tmp_path / "log") as process, process.connect() as client:
        assert_kept(client, jobs)
