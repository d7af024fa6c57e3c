"""Attempts to break a promise: whole conversations in one turn, huge turns, many clients, rolls where they hurt."""

import contextlib
from pathlib import Path

from tests.durability.kept import assert_kept, facts, jobs_count, keeping, kill, put, put_line, terminate
from tests.durability.shim import Switches
from tests.e2e.process import wait_until
from tests.servers import REPLY_TIMEOUT_S

SEGMENT = ("-s", "65536")


def test_very_many_puts_in_flight(tmp_path: Path) -> None:
    count = 30_000
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        lines = b"".join(put_line(b"%d" % id) for id in range(1, count + 1))
        sent = 0
        while sent < len(lines):  # Replies are read meanwhile, or both sides would wait for each other.
            sent += client.socket.send(lines[sent : sent + 65536])
            client.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.fill()
            client.socket.settimeout(REPLY_TIMEOUT_S)
        client.expect(b"".join(b"INSERTED %d\r\n" % id for id in range(1, count + 1)))
        kill(process)
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        assert facts(client)["current-jobs-ready"] == str(count)
        assert_kept(client, {id: b"%d" % id for id in range(1, count + 1, 97)})
        assert terminate(process) == 0


def test_rolls_within_a_turn_that_wakes_waiting_clients(tmp_path: Path) -> None:
    body = b"x" * 20_000
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        waiting = [process.connect() for _ in range(40)]
        for each in waiting:
            each.send(b"reserve\r\n")
        wait_until(lambda: facts(client)["current-waiting"] == "40", "all wait")
        with process.frozen():
            for each in waiting:  # Whoever is woken goes on in the same turn.
                each.send(b"list-tube-used\r\n")
            client.send(put_line(body) * 40)
        for id in range(1, 41):
            client.expect(b"INSERTED %d\r\n" % id)
        got = set()
        for each in waiting:
            line = each.line()
            got.add(int(line.split()[1]))
            assert each.take(20_002) == body + b"\r\n"
            each.expect(b"USING default\r\n")
            each.ask(b"delete %d\r\n" % int(line.split()[1]), b"DELETED\r\n")
            each.socket.close()
        assert got == set(range(1, 41))
        put(client, b"last")
        kill(process)
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        assert jobs_count(client) == 1


def test_thousand_clients(tmp_path: Path) -> None:
    with keeping(tmp_path, *SEGMENT) as process:
        clients = [process.connect(wait_accepted=False) for _ in range(1000)]
        with process.frozen():
            for i, each in enumerate(clients):
                each.send(put_line(b"%d" % i * 50))
        jobs = {int(each.line().split()[1]): b"%d" % i * 50 for i, each in enumerate(clients)}
        assert sorted(jobs) == list(range(1, 1001))
        for each in clients:
            each.send(b"reserve\r\n")
        held = []
        for each in clients:
            line = each.line().split()
            held.append(int(line[1]))
            assert each.take(int(line[2]) + 2) == jobs[held[-1]] + b"\r\n"
        assert len(set(held)) == 1000
        gone = held[1::2]
        for each, id in zip(clients[1::2], gone, strict=True):
            each.send(b"delete %d\r\n" % id)
            del jobs[id]
        for each in clients[1::2]:
            each.expect(b"DELETED\r\n")
        kill(process)
        for each in clients:
            each.socket.close()
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        assert_kept(client, jobs, gone)
        assert jobs_count(client) == 500


def test_output_that_is_not_read_and_held_at_once(tmp_path: Path, switches: Switches) -> None:
    """A client that pipelines large reads behind a put that is not durable, and reads late, gets every byte."""
    body = b"z" * 60_000
    with (
        keeping(tmp_path / "log", env=switches.env) as process,
        process.connect() as client,
        process.connect() as other,
    ):
        assert facts(other)["current-jobs-ready"] == "0"
        put(client, body)
        with switches.holding_syncs():
            client.send(put_line(b"small") + b"peek 1\r\n" * 100)
            wait_until(lambda: facts(other)["current-jobs-ready"] == "2", "the put has run")
        client.expect(b"INSERTED 2\r\n")
        for _ in range(100):
            client.expect(b"FOUND 1 60000\r\n" + body + b"\r\n")
