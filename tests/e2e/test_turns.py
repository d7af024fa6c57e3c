"""One client can't delay another by more than a bounded turn; proved by the order of what happens, not by time.

Job ids are handed out in the order in which puts run, and stats-tube shows how far a kick has come: so the clients' own
replies say what ran before what. A frozen server finds everything at its next turn.
"""

from contextlib import ExitStack

import pytest

from beanpole.engine import limits
from beanpole.server import limits as server_limits
from tests.e2e.process import Process, wait_until

pytestmark = pytest.mark.long

OTHERS = 20
COMMANDS_PER_TURN = server_limits.SHARE_COST_NS // limits.COMMAND_COST_NS
PUT = b"put 0 0 60 0\r\n\r\n"


def empty(process: Process, tube: bytes) -> None:
    """Deletes every job of a tube, whatever its state but reserved."""
    with process.connect() as client:
        client.ask(b"use %b\r\n" % tube, b"USING %b\r\n" % tube)
        for state in (b"ready", b"delayed", b"buried"):
            while client.statistic(f"current-jobs-{state.decode()}", b"stats-tube %b\r\n" % tube):
                client.send(b"peek-%b\r\n" % state)
                _, job_id, size = client.line().split()
                client.take(int(size) + 2)
                client.send(b"".join(b"delete %d\r\n" % each for each in range(int(job_id), int(job_id) + 5_000)))
                assert {client.line() for _ in range(5_000)} <= {b"DELETED\r\n", b"NOT_FOUND\r\n"}


def test_flood_of_commands_lets_others_in_after_a_turn(process: Process) -> None:
    with ExitStack() as stack:
        flood = stack.enter_context(process.connect())
        others = [stack.enter_context(process.connect()) for _ in range(OTHERS)]
        flood.ask(b"use flood\r\n", b"USING flood\r\n")
        for other in others:
            other.ask(b"use other\r\n", b"USING other\r\n")
        first = process.statistic("total-jobs") + 1
        with process.frozen():
            sent = flood.send_while_possible(PUT * 100_000)
            for other in others:
                other.send(PUT)
        assert sent > 4 * COMMANDS_PER_TURN * len(PUT), "too little to fill some turns"
        flood.send((PUT * 100_000)[sent:])
        ids = [int(other.line().split()[1]) for other in others]
        assert max(ids) < first + COMMANDS_PER_TURN + OTHERS, "a put of another ran behind more than one turn"
        flood_ids = [int(flood.line().split()[1]) for _ in range(100_000)]
        assert sorted(ids + flood_ids) == list(range(first, first + 100_000 + OTHERS))
    empty(process, b"flood")
    empty(process, b"other")


def test_flood_of_commands_shares_turns_with_another_flood(process: Process) -> None:
    count = 20_000
    with process.connect() as one, process.connect() as two:
        one.ask(b"use flood\r\n", b"USING flood\r\n")
        two.ask(b"use flood\r\n", b"USING flood\r\n")
        first = process.statistic("total-jobs") + 1
        with process.frozen():
            assert one.send_while_possible(PUT * count) > 8 * COMMANDS_PER_TURN * len(PUT)
            assert two.send_while_possible(PUT * count) > 8 * COMMANDS_PER_TURN * len(PUT)
        ids = [int(one.line().split()[1]) for _ in range(8 * COMMANDS_PER_TURN)]
        last_of_two = [int(two.line().split()[1]) for _ in range(8 * COMMANDS_PER_TURN)][-1]
        assert abs(ids[-1] - last_of_two) <= COMMANDS_PER_TURN
        assert last_of_two < first + 17 * COMMANDS_PER_TURN
        for client in (one, two):
            client.half_close()
            client.rest()
    empty(process, b"flood")


def test_kick_of_many_jobs_lets_others_in(process: Process) -> None:
    count = 5 * limits.KICKS_PER_TURN
    with process.connect() as client, process.connect() as other:
        client.ask(b"use kicked\r\n", b"USING kicked\r\n")
        for _ in range(50):
            client.send(b"put 0 1000 60 0\r\n\r\n" * (count // 50))
            assert all(client.line().startswith(b"INSERTED ") for _ in range(count // 50))
        with process.frozen():
            client.send(b"kick %d\r\nlist-tube-used\r\n" % (count * 2))
            other.send(b"stats-tube kicked\r\n")
        left = other.statistic("current-jobs-delayed", b"")
        assert left >= count - 2 * limits.KICKS_PER_TURN, "the kick of another held up a command for more than a turn"
        client.expect(b"KICKED %d\r\nUSING kicked\r\n" % count)
        assert other.statistic("current-jobs-ready", b"stats-tube kicked\r\n") == count
    empty(process, b"kicked")


def test_client_lost_in_the_middle_of_a_kick(process: Process) -> None:
    count = 3 * limits.KICKS_PER_TURN
    with process.connect() as client, process.connect() as other:
        client.ask(b"use kicked\r\n", b"USING kicked\r\n")
        client.send(b"put 0 1000 60 0\r\n\r\n" * count)
        assert all(client.line().startswith(b"INSERTED ") for _ in range(count))
        with process.frozen():
            client.send(b"kick %d\r\n" % count)
            client.reset()
        other.ask(b"use kicked\r\n", b"USING kicked\r\n")
        other.send(b"kick %d\r\n" % count)  # What the lost client has not kicked, and now goes on kicking or not.
        assert other.line().startswith(b"KICKED ")
        assert other.statistic("current-jobs-ready", b"stats-tube kicked\r\n") == count
    empty(process, b"kicked")


def test_connections_that_wake_each_other_in_chains(process: Process) -> None:
    """Each waits for a job of its tube and has the put for the next one's tube in its buffer already."""
    count = 300
    with ExitStack() as stack:
        clients = [stack.enter_context(process.connect()) for _ in range(count)]
        for number, client in enumerate(clients):
            client.send(b"watch c%d\r\nignore default\r\nuse c%d\r\n" % (number, (number + 1) % count))
            client.expect(b"WATCHING 2\r\nWATCHING 1\r\nUSING c%d\r\n" % ((number + 1) % count))
            client.send(b"reserve\r\nput 0 0 60 4\r\nnext\r\n" * 3)
        wait_until(lambda: process.statistic("current-waiting") == count, "all wait")
        with process.connect() as starter:
            starter.send(b"use c0\r\nput 0 0 60 5\r\nfirst\r\n")
            starter.expect(b"USING c0\r\n")
            assert starter.line().startswith(b"INSERTED ")
        for round_number in range(3):
            for number, client in enumerate(clients):
                line = client.line()
                wanted = b"first\r\n" if (round_number, number) == (0, 0) else b"next\r\n"
                assert line.startswith(b"RESERVED ")
                client.expect(wanted)
                client.send(b"delete %b\r\n" % line.split()[1])
                assert client.line().startswith(b"INSERTED ")
        assert process.statistic("current-waiting") == 0
        for client in clients:
            client.half_close()
            assert client.rest() == b"DELETED\r\n" * 3
    empty(process, b"c0")


def test_job_goes_round_between_workers(process: Process) -> None:
    """Fifty workers hand one job around by release; each of them reserves and releases it in one piece."""
    rounds, count = 20, 50
    with ExitStack() as stack:
        workers = [stack.enter_context(process.connect()) for _ in range(count)]
        first = process.statistic("total-jobs") + 1
        for worker in workers:
            worker.ask(b"watch round\r\n", b"WATCHING 2\r\n")
            worker.send(b"reserve\r\nrelease %d 0 0\r\n" % first * rounds)
        with process.connect() as starter:
            starter.send(b"use round\r\nput 0 0 60 1\r\nx\r\n")
            starter.expect(b"USING round\r\nINSERTED %d\r\n" % first)
            for worker in workers:
                worker.expect(b"RESERVED %d 1\r\nx\r\nRELEASED\r\n" % first * rounds)
            assert starter.statistic("reserves", b"stats-job %d\r\n" % first) == rounds * count
    empty(process, b"round")
