"""Attempts to break a promise: whole conversations in one turn, huge turns, many clients, rolls where they hurt."""

import contextlib
from pathlib import Path

from tests.durability.kept import assert_kept, facts, jobs_count, keeping, kill, put, put_line, terminate
from tests.durability.shim import Switches
from tests.e2e.process import wait_until
from tests.servers import REPLY_TIMEOUT_S

SEGMENT = ("-s", "65536")


def test_put_and_delete_in_one_turn(tmp_path: Path) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        with process.frozen():
            client.send(b"".join(put_line(b"%d" % id) + b"delete %d\r\n" % id for id in range(1, 501)))
            client.send(put_line(b"kept"))
        client.expect(b"".join(b"INSERTED %d\r\nDELETED\r\n" % id for id in range(1, 501)) + b"INSERTED 501\r\n")
        kill(process)
    with keeping(tmp_path) as process, process.connect() as client:
        assert jobs_count(client) == 1
        assert_kept(client, {501: b"kept"})
        assert put(client, b"x") > 501


def test_whole_life_in_one_turn(tmp_path: Path) -> None:
    with keeping(tmp_path) as process, process.connect() as client:
        with process.frozen():
            client.send(
                put_line(b"a")
                + b"reserve\r\nrelease 1 5 0\r\nreserve\r\nbury 1 6\r\nkick 1\r\nreserve\r\nrelease 1 7 1000\r\n"
                b"kick-job 1\r\nreserve\r\nbury 1 8\r\n"
            )
        reserved = b"RESERVED 1 1\r\na\r\n"
        client.expect(b"INSERTED 1\r\n" + reserved + b"RELEASED\r\n" + reserved + b"BURIED\r\nKICKED 1\r\n" + reserved)
        client.expect(b"RELEASED\r\nKICKED\r\n" + reserved + b"BURIED\r\n")
        before = facts(client, "stats-job 1")
        kill(process)
    with keeping(tmp_path) as process, process.connect() as client:
        after = facts(client, "stats-job 1")
        for key in ("state", "pri", "reserves", "releases", "buries", "kicks", "timeouts"):
            assert after[key] == before[key], key


def test_hundred_thousand_puts_in_flight(tmp_path: Path) -> None:
    count = 100_000
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


def test_disconnect_at_any_point(tmp_path: Path) -> None:
    conversation = put_line(b"abc") + b"reserve\r\nbury 1 0\r\nkick 1\r\nreserve\r\nrelease 1 0 0\r\n" + put_line(b"d")
    with keeping(tmp_path, *SEGMENT) as process:
        for cut in range(0, len(conversation), 3):
            client = process.connect(wait_accepted=False)
            client.send(conversation[:cut])
            if cut % 2:
                client.reset()
            else:
                client.socket.close()
        with process.connect() as client:
            wait_until(lambda: facts(client)["current-connections"] == "1", "all others are gone")
            before = facts(client)
            assert before["current-jobs-reserved"] == "0"
            kill(process)
    with keeping(tmp_path, *SEGMENT) as process, process.connect() as client:
        after = facts(client)
        for state in ("ready", "delayed", "buried"):
            assert after[f"current-jobs-{state}"] == before[f"current-jobs-{state}"]


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
