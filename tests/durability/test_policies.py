"""When a reply leaves, and when the log is synced: what each policy promises, seen from both sides of the disk."""

import signal
import socket
from pathlib import Path

import pytest

from tests.durability.kept import facts, keeping, put, put_line, terminate
from tests.durability.shim import Switches
from tests.e2e.process import Client, serving, wait_until
from tests.servers import REPLY_TIMEOUT_S

QUIET_ROUNDS = 5


def assert_silent(client: Client) -> None:
    """Checks that nothing has arrived for a client; another client's answer came after what was asked before."""
    client.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.socket.recv(1)
    client.socket.settimeout(REPLY_TIMEOUT_S)


@pytest.mark.parametrize(
    ("flags", "policy"),
    [((), "always"), (("-f", "0"), "always"), (("-f", "40"), "every 40 ms"), (("-F",), "never")],
)
def test_policy_is_logged_and_told(tmp_path: Path, flags: tuple[str, ...], policy: str) -> None:
    with keeping(tmp_path, *flags) as process, process.connect() as client:
        (opened,) = process.events("log open")
        assert opened["durability"] == policy
        assert facts(client)["durability"] == policy


def test_policy_without_a_log_is_none() -> None:
    with serving() as process, process.connect() as client:
        assert facts(client)["durability"] == "none"


def test_no_reply_leaves_before_its_sync_and_statistics_go_on(tmp_path: Path, switches: Switches) -> None:
    with (
        keeping(tmp_path / "log", env=switches.env) as process,
        process.connect() as reader,
        process.connect() as peeker,
    ):
        writers = [process.connect() for _ in range(20)]
        with switches.holding_syncs():
            for i, writer in enumerate(writers):
                writer.send(put_line(b"%d" % i))
            wait_until(lambda: facts(reader)["current-jobs-ready"] == "20", "all puts have run")
            # A crash would take the jobs back, so nobody is told of one either.
            peeker.send(b"peek 1\r\n")
            wait_until(lambda: facts(reader)["cmd-peek"] == "1", "the peek has run")
            for waiting in [*writers, peeker]:
                assert_silent(waiting)
        assert peeker.body() in {b"%d" % i for i in range(20)}
        ids = {int(writer.line().split()[1]) for writer in writers}
        assert ids == set(range(1, 21))
        for writer in writers:
            writer.socket.close()


@pytest.mark.parametrize("flags", [("-f", "3600000"), ("-F",)])
def test_other_policies_answer_at_once(tmp_path: Path, switches: Switches, flags: tuple[str, ...]) -> None:
    with keeping(tmp_path / "log", *flags, env=switches.env) as process, process.connect() as client:
        with switches.holding_syncs():
            ids = [put(client, b"x") for _ in range(100)]
        assert ids == list(range(1, 101))


def test_idle_server_with_an_interval_syncs(tmp_path: Path, switches: Switches) -> None:
    with keeping(tmp_path / "log", "-f", "20", env=switches.env) as process, process.connect() as client:
        for _ in range(3):
            before = switches.sync_count()
            put(client, b"x")
            wait_until(lambda before=before: switches.sync_count() > before, "a sync")  # type: ignore[misc]


def syncs_during_answers(switches: Switches, client: Client) -> int:
    """How often something is synced while 200 commands that change nothing are answered."""
    before = switches.sync_count()
    for _ in range(200):
        facts(client)
    return switches.sync_count() - before


def is_quiet(switches: Switches, client: Client) -> bool:
    """Whether nothing is synced for so long that a thread which has something to sync would have begun."""
    return not any(syncs_during_answers(switches, client) for _ in range(QUIET_ROUNDS))


def test_server_without_changes_does_not_sync(tmp_path: Path, switches: Switches) -> None:
    with keeping(tmp_path / "log", "-f", "1", env=switches.env) as process, process.connect() as client:
        put(client, b"x")
        wait_until(lambda: is_quiet(switches, client), "what is begun at a start is synced")
        assert not syncs_during_answers(switches, client)


def test_never_syncs_only_to_seal_a_segment(tmp_path: Path, switches: Switches) -> None:
    with keeping(tmp_path / "log", "-s", "65536", "-F", env=switches.env) as process, process.connect() as client:
        for _ in range(20):
            put(client, b"x" * 1000)
        wait_until(lambda: any((tmp_path / "log").glob("spare.*")), "the next segment is begun")
        wait_until(lambda: is_quiet(switches, client), "it is prepared")
        before = switches.sync_count()
        for _ in range(10):
            put(client, b"x" * 1000)
        assert facts(client)["binlog-current-index"] == "1"
        assert switches.sync_count() == before
        for _ in range(60):
            put(client, b"x" * 1000)
        assert facts(client)["binlog-current-index"] == "2"
        wait_until(lambda: switches.sync_count() > before, "the seal is synced")


def test_one_sync_serves_many_clients(tmp_path: Path, switches: Switches) -> None:
    with keeping(tmp_path / "log", env=switches.env) as process, process.connect() as reader:
        writers = [process.connect() for _ in range(100)]
        wait_until(lambda: is_quiet(switches, reader), "what is begun at a start is synced")
        with switches.holding_syncs():
            writers[0].send(put_line(b"first"))
            wait_until(lambda: facts(reader)["current-jobs-ready"] == "1", "the first put has run")
            before = switches.sync_count()
            for writer in writers[1:]:
                writer.send(put_line(b"x"))
            wait_until(lambda: facts(reader)["current-jobs-ready"] == "100", "all puts have run")
        for writer in writers:
            assert writer.line().startswith(b"INSERTED ")
            writer.socket.close()
        assert switches.sync_count() - before <= 2


@pytest.mark.parametrize("half_close", [False, True])
def test_sigterm_sends_what_was_held(tmp_path: Path, switches: Switches, half_close: bool) -> None:
    with keeping(tmp_path / "log", env=switches.env) as process, process.connect() as reader:
        writers = [process.connect() for _ in range(50)]
        with switches.holding_syncs():
            for writer in writers:
                writer.send(put_line(b"x") * 10)
                if half_close:
                    writer.socket.shutdown(socket.SHUT_WR)
            wait_until(lambda: facts(reader)["current-jobs-ready"] == "500", "all puts have run")
            process.signal(signal.SIGTERM)
            wait_until(lambda: process.events("stopping"), "the signal has come")
        ids = [int(line.split()[1]) for writer in writers for line in writer.rest().splitlines()]
        assert process.wait_exit() == 0
        assert sorted(ids) == list(range(1, 501))
        for writer in writers:
            writer.socket.close()
    with keeping(tmp_path / "log") as process, process.connect() as client:
        assert facts(client)["current-jobs-ready"] == "500"


def test_clients_that_leave_while_replies_are_held_hurt_nobody(tmp_path: Path, switches: Switches) -> None:
    with keeping(tmp_path / "log", env=switches.env) as process, process.connect() as reader:
        writers = [process.connect() for _ in range(60)]
        with switches.holding_syncs():
            for writer in writers:
                writer.send(put_line(b"x") * 5)
            wait_until(lambda: facts(reader)["current-jobs-ready"] == "300", "all puts have run")
            for i, writer in enumerate(writers):
                if i % 3 == 0:
                    writer.reset()
                elif i % 3 == 1:
                    writer.half_close()
                else:
                    writer.socket.close()
            late = process.connect()
            late.send(put_line(b"late"))
        assert late.line() == b"INSERTED 301\r\n"
        late.socket.close()
        for writer in writers[1::3]:
            assert writer.rest().count(b"INSERTED ") == 5
            writer.socket.close()
        assert terminate(process) == 0
        assert not process.events("failed")
