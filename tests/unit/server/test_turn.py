"""Turns over more than one kind of transport: sockets, bytes in memory, and connections without any."""

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beanpole.engine.check import check
from beanpole.engine.commands.table import cost_ns_of
from beanpole.engine.engine import Engine
from beanpole.engine.limits import COMMAND_COST_NS, JOBS_PER_TICK, MOVES_PER_TURN
from beanpole.log.log import Log
from beanpole.protocol.commands import Verb
from beanpole.server import limits
from beanpole.server.connection import Connection
from beanpole.server.epoll import EpollTransport
from beanpole.server.observer import SlowTurn
from beanpole.server.turn import Turn
from tests.unit.server.memory_transport import MemoryTransport

COMMANDS_PER_SHARE = limits.SHARE_COST_NS // COMMAND_COST_NS
TURNS_MAX = 10_000
SECOND_NS = 1_000_000_000


class Loop:
    """What a turn needs of asyncio's loop: it remembers what is to be called, and the test calls it."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.later: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def call_later(self, _delay_s: float, callback: Callable[[Connection], None], connection: Connection) -> None:
        self.later.append(lambda: callback(connection))


class Observer:
    """Nobody."""

    def connection_opened(self, fd: int) -> None:
        """Ignore it."""

    def connection_closed(self, fd: int) -> None:
        """Ignore it."""

    def accept_paused(self, reason: str) -> None:
        """Ignore it."""

    def turn_slow(self, slow: SlowTurn) -> None:
        """Ignore it: a busy machine is slow."""


class House:
    """A server without a process: turns, sockets, and memory transports beside them."""

    def __init__(self, clock: Callable[[], int] | None = None, wall_clock: Callable[[], int] | None = None) -> None:
        self.log = Log()
        self.engine = Engine(now_ns=1, records=self.log.records)
        self.turn = Turn(self.engine, self.log)
        self.loop = Loop()
        self.sockets = EpollTransport(
            self.turn,
            self.loop,  # type: ignore[arg-type]
            Observer(),  # type: ignore[arg-type]
            clock=clock,
            wall_clock=wall_clock,
        )
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.sockets.listen(self.listener.fileno(), is_unix=False)

    def connect(self) -> socket.socket:
        """A TCP client that is accepted."""
        client = socket.create_connection(self.listener.getsockname())
        client.settimeout(10)
        self.run()
        return client

    def run(self) -> None:
        """Run turns until nothing more happens without new input."""
        for _ in range(TURNS_MAX):
            due, self.loop.due = self.loop.due, []
            for callback in due:
                callback()
            if not due:
                if not select.select([self.sockets.fileno()], [], [], 0)[0]:
                    return
                self.sockets.run()
        raise AssertionError("the turns do not end")

    def ask(self, client: socket.socket, command: bytes, reply: bytes) -> None:
        """Send a command over TCP and read exactly this reply."""
        client.sendall(command)
        got = b""
        while len(got) < len(reply):
            self.run()
            readable = select.select([self.sockets.fileno(), client.fileno()], [], [], 10)[0]
            assert readable, f"no reply to {command!r}"
            if client.fileno() in readable:
                got += client.recv(len(reply) - len(got))
        assert got == reply

    def close(self) -> None:
        """Close all."""
        self.sockets.stop_accepting()
        self.sockets.close_all()
        self.listener.close()


@pytest.fixture
def house() -> Iterator[House]:
    """A house."""
    house = House()
    yield house
    check(house.engine)
    house.close()


def test_connection_without_a_transport_waits_beside_tcp_clients(house: House) -> None:
    connection = Connection(house.engine, 1)
    connection.receive(1, b"reserve\r\n")
    with house.connect() as client:
        house.ask(client, b"put 0 0 60 2\r\nhi\r\n", b"INSERTED 1\r\n")
    assert connection.take_output() == b"RESERVED 1 2\r\nhi\r\n"


def test_timer_that_fires_between_the_look_at_the_clock_and_the_look_at_the_sockets_fires_again() -> None:
    """The turn was too early for the job, and nothing else would wake a server whose clients all wait."""
    due_ns = time.monotonic_ns() + SECOND_NS // 2  # a timer that has fired before anybody waits fires again and again
    clock_ns = [due_ns - SECOND_NS]
    house = House(clock=lambda: clock_ns[0])
    with contextlib.closing(house), house.connect() as client:
        house.ask(client, b"put 0 1 60 2\r\nhi\r\n", b"INSERTED 1\r\n")
        client.sendall(b"reserve\r\n")
        house.run()
        assert select.select([house.sockets.fileno()], [], [], 10)[0], "the timer never fired"
        clock_ns[0] = due_ns - 1
        house.sockets.run()
        clock_ns[0] = due_ns
        house.ask(client, b"", b"RESERVED 1 2\r\nhi\r\n")


def test_wall_clock_that_is_set_while_the_server_runs_is_seen_by_the_next_turn() -> None:
    clock_ns, wall_ns = [7 * SECOND_NS], [1_800_000_000 * SECOND_NS]
    house = House(clock=lambda: clock_ns[0], wall_clock=lambda: wall_ns[0])
    with contextlib.closing(house):
        house.sockets.clock_offset_ns = 2
        house.sockets.run()
        assert 7 * SECOND_NS + 2 + house.engine.wall_lead_ns == 1_800_000_000 * SECOND_NS
        clock_ns[0] += SECOND_NS
        wall_ns[0] = 0  # back to 1970
        house.sockets.run()
        assert 8 * SECOND_NS + 2 + house.engine.wall_lead_ns == 0
        wall_ns[0] = SECOND_NS
        house.sockets.send_held()  # in which commands run, too
        assert 8 * SECOND_NS + 2 + house.engine.wall_lead_ns == SECOND_NS


def number_of(client: socket.socket) -> int:
    """The descriptor of the server's end of a connection; -1: it has none."""
    for path in Path("/proc/self/fd").iterdir():
        if path.is_socket():
            with socket.socket(fileno=os.dup(int(path.name))) as end, contextlib.suppress(OSError):
                if end.getpeername() == client.getsockname():
                    return int(path.name)
    return -1


def test_socket_of_which_a_process_that_is_started_has_a_copy_is_heard_of_no_more(house: House) -> None:
    """The next client may get its number, and must not be taken for the one that hangs up."""
    first = house.connect()
    second = socket.socket()  # before the number is free
    second.settimeout(10)
    number = number_of(first)
    copy = os.dup(number)
    first.sendall(b"quit\r\n")
    house.run()
    second.connect(house.listener.getsockname())
    house.run()
    assert number_of(second) == number
    second.sendall(b"reserve\r\n")
    house.run()
    first.close()
    house.run()
    with house.connect() as third:
        house.ask(third, b"put 0 0 9 1\r\na\r\n", b"INSERTED 1\r\n")
    assert second.recv(100) == b"RESERVED 1 1\r\na\r\n"
    os.close(copy)
    second.close()


def test_session_of_a_stranger_is_an_exception(house: House) -> None:
    connection = Connection(house.engine, 1)
    connection.receive(1, b"reserve\r\n")
    connection.session.owner = "nobody"
    with house.connect() as client, pytest.raises(TypeError):
        house.ask(client, b"put 0 0 60 2\r\nhi\r\n", b"INSERTED 1\r\n")


def test_memory_transport_waits_and_is_woken(house: House) -> None:
    worker = MemoryTransport(house.turn)
    worker.arrive(b"reserve\r\nlist-tube-used\r\n", b"use a\r\n")
    house.run()
    assert worker.output == b""
    assert worker.woken_count == 1, "a connection that waits was woken"
    with house.connect() as client:
        house.ask(client, b"put 0 0 60 2\r\nhi\r\n", b"INSERTED 1\r\n")
        house.run()
        assert worker.output == b"RESERVED 1 2\r\nhi\r\nUSING default\r\nUSING a\r\n"
        worker.arrive(b"delete 1\r\n")
        house.run()
        assert worker.output.endswith(b"DELETED\r\n")


def test_memory_transport_wakes_a_tcp_client(house: House) -> None:
    producer = MemoryTransport(house.turn)
    with house.connect() as client:
        client.sendall(b"reserve\r\n")
        house.run()
        producer.arrive(b"put 0 0 60 2\r\n", b"hi\r\n")
        house.ask(client, b"", b"RESERVED 1 2\r\nhi\r\n")
    assert producer.output == b"INSERTED 1\r\n"


def test_who_holds_a_job_is_named_by_its_address(house: House) -> None:
    with house.connect() as holder, house.connect() as asking:
        house.ask(holder, b"put 0 0 60 0\r\n\r\nreserve\r\n", b"INSERTED 1\r\nRESERVED 1 0\r\n\r\n")
        asking.sendall(b"explain 1\r\n")
        house.run()
        assert b'"peer": "127.0.0.1:%d", "silent": ' % holder.getsockname()[1] in asking.recv(10_000)


def test_connections_that_wake_each_other_in_chains(house: House) -> None:
    """Each waits for a job of its tube and has the put for the next one's tube in its buffer already."""
    count, rounds = 300, 3
    clients = [MemoryTransport(house.turn) for _ in range(count)]
    for number, client in enumerate(clients):
        client.arrive(b"watch c%d\r\nignore default\r\nuse c%d\r\n" % (number, (number + 1) % count))
        client.arrive(b"reserve\r\nput 0 0 60 4\r\nnext\r\n" * rounds)
    house.run()
    starter = MemoryTransport(house.turn)
    starter.arrive(b"use c0\r\nput 0 0 60 5\r\nfirst\r\n")
    house.run()
    for number, client in enumerate(clients):
        heads = [line.split()[0] for line in client.output.split(b"\r\n")[3:-1]]
        first = b"first" if number == 0 else b"next"
        assert heads == [b"RESERVED", first, b"INSERTED", *[b"RESERVED", b"next", b"INSERTED"] * (rounds - 1)]


def test_job_goes_round_between_workers(house: House) -> None:
    """Fifty workers hand one job around by release; each of them reserves and releases it in one piece."""
    rounds, count = 20, 50
    workers = [MemoryTransport(house.turn) for _ in range(count)]
    for worker in workers:
        worker.arrive(b"reserve\r\nrelease 1 0 0\r\n" * rounds)
    house.run()
    starter = MemoryTransport(house.turn)
    starter.arrive(b"put 0 0 60 1\r\nx\r\n")
    house.run()
    assert all(worker.output == b"RESERVED 1 1\r\nx\r\nRELEASED\r\n" * rounds for worker in workers)


def test_memory_transport_that_does_not_read_is_choked(house: House) -> None:
    body = b"x" * 60_000
    count = 2 * limits.OUTPUT_BYTES_PAUSE // len(body)
    transport = MemoryTransport(house.turn, room=100)
    transport.arrive(b"put 0 0 60 %d\r\n%b\r\n" % (len(body), body), b"peek 1\r\n" * count + b"quit\r\n")
    house.run()
    assert len(transport.output) == 100
    assert transport.connection.choked
    with house.connect() as client:
        house.ask(client, b"list-tube-used\r\n", b"USING default\r\n")
    while not transport.closed:
        transport.take(500_000)
        house.run()
    assert transport.output == b"INSERTED 1\r\n" + (b"FOUND 1 %d\r\n%b\r\n" % (len(body), body)) * count


def test_memory_transport_that_quits_is_closed(house: House) -> None:
    transport = MemoryTransport(house.turn)
    transport.arrive(b"use a\r\nquit\r\nuse b\r\n")
    house.run()
    assert transport.output == b"USING a\r\n"
    assert transport.closed
    assert house.engine.session_count == 0


def test_client_that_is_gone_gives_its_jobs_back(house: House) -> None:
    transport = MemoryTransport(house.turn)
    transport.arrive(b"put 0 0 60 2\r\nhi\r\nreserve\r\n")
    house.run()
    with house.connect() as client:
        client.sendall(b"reserve\r\n")
        house.run()
        house.turn.end(2, transport.connection)
        house.turn.end(2, transport.connection)
        house.ask(client, b"", b"RESERVED 1 2\r\nhi\r\n")
    assert transport.closed


def test_commands_of_a_client_that_is_gone_do_not_run(house: House) -> None:
    transport = MemoryTransport(house.turn)
    transport.arrive(b"put 0 0 60 0\r\n\r\n" * 10 * COMMANDS_PER_SHARE)
    transport.gone = True
    house.run()
    assert house.engine.jobs.count <= COMMANDS_PER_SHARE
    assert transport.closed


def test_turn_is_bounded_over_all_connections(house: House) -> None:
    """However many flood, a turn runs no more than its share, and each of them gets as much."""
    flood = [MemoryTransport(house.turn) for _ in range(100)]
    for transport in flood:
        transport.arrive(b"stats-tube default\r\n" * 3_000)
    cost_ns = cost_ns_of(Verb.STATS_TUBE)
    command_count = 0
    for now_ns in range(2, 20):
        house.turn.run(now_ns)
        counts = [transport.output.count(b"OK ") for transport in flood]
        assert sum(counts) - command_count <= (limits.TURN_COST_NS + 2 * limits.SHARE_COST_NS) / cost_ns
        assert sum(counts) > command_count
        command_count = sum(counts)
    before = [transport.output.count(b"OK ") for transport in flood]
    for now_ns in range(20, 60):
        house.turn.run(now_ns)
    counts = [transport.output.count(b"OK ") - done for transport, done in zip(flood, before, strict=True)]
    assert min(counts) > 0, "a connection was starved"
    assert max(counts) - min(counts) <= limits.SHARE_COST_NS / cost_ns + 1


@pytest.mark.parametrize("command", [b"stats\r\n", b"list-tubes\r\n", b"kick 1000\r\n", b"put 0 0 60 0\r\n\r\n"])
def test_quiet_client_waits_for_one_turn(house: House, command: bytes) -> None:
    """What a quiet client asks is answered in the next turn, before those that have used up their share."""
    flood = [MemoryTransport(house.turn) for _ in range(100)]
    quiet = MemoryTransport(house.turn)
    for transport in flood:
        transport.arrive(command * 20_000)
    for now_ns in range(2, 60):
        house.turn.run(now_ns)
    for now_ns in range(60, 70):
        quiet.arrive(b"list-tube-used\r\n")
        house.turn.run(now_ns)
        assert quiet.output == b"USING default\r\n"
        quiet.output = b""


def test_quiet_clients_have_half_of_a_turn_beside_what_is_due(house: House) -> None:
    """What becomes due takes its time from those that flood."""
    flood = [MemoryTransport(house.turn) for _ in range(100)]
    quiet = [MemoryTransport(house.turn) for _ in range(60)]
    flood[0].arrive(b"put 0 1 60 0\r\n\r\n" * 3 * JOBS_PER_TICK)
    while house.turn.busy:
        house.turn.run(2)
    for transport in flood:
        transport.arrive(b"list-tube-used\r\n" * 30_000)
    for _ in range(60):
        house.turn.run(2)
    for transport in quiet:
        transport.arrive(b"stats\r\n")
    house.turn.run(2 + SECOND_NS)
    assert all(b"current-jobs-delayed: %d\n" % (2 * JOBS_PER_TICK) in transport.output for transport in quiet)


@pytest.mark.parametrize("command", [b"stats\r\n", b"put 0 0 60 0\r\n\r\n"])
def test_quiet_client_waits_little_beside_a_burst_of_new_ones(house: House, command: bytes) -> None:
    """Clients that nobody knows yet get a small share first, so the quiet one waits for those and no more."""
    burst = [MemoryTransport(house.turn) for _ in range(500)]
    quiet = MemoryTransport(house.turn)
    for transport in burst:
        transport.arrive(command * 2_000)
    quiet.arrive(b"list-tube-used\r\n")
    turn_count = 0
    while not quiet.output:
        house.turn.run(2 + turn_count)
        turn_count += 1
    input_ns = len(command) * 2_000 * limits.INPUT_BYTE_COST_NS
    first_ns = limits.SERVE_COST_NS + limits.LIGHT_COST_NS + input_ns + cost_ns_of(Verb.STATS)
    assert turn_count <= 1 + len(burst) * first_ns / (limits.TURN_COST_NS // 2)


def test_long_reply_costs_what_each_turn_adds_to_it(house: House) -> None:
    """A list of tubes for a client that does not read is written in few turns: what is unsent is not paid for again."""
    keeper = MemoryTransport(house.turn)
    keeper.arrive(b"".join(b"watch %0200d\r\n" % each for each in range(10_000)))
    house.run()
    transport = MemoryTransport(house.turn, room=0)
    transport.arrive(b"list-tubes\r\n")
    for now_ns in range(2, 5):
        house.turn.run(now_ns)
    assert transport.connection.choked


def test_turn_sends_no_more_than_it_has_time_for(house: House) -> None:
    """Clients with a megabyte unsent that all begin to read at once are sent to one after the other."""
    keeper = MemoryTransport(house.turn)
    keeper.arrive(b"".join(b"watch %0200d\r\n" % each for each in range(6_000)))
    house.run()
    slow = [MemoryTransport(house.turn, room=0) for _ in range(30)]
    for transport in slow:
        transport.arrive(b"list-tubes\r\n")
    house.run()
    assert all(transport.connection.choked for transport in slow)
    for transport in slow:
        transport.take(1 << 30)
    sent_bytes_max = limits.TURN_COST_NS // limits.SEND_BYTE_COST_NS + 2 * limits.OUTPUT_BYTES_PAUSE
    sent_bytes = 0
    for now_ns in range(2, 40):
        house.turn.run(now_ns)
        now_sent_bytes = sum(len(transport.output) for transport in slow)
        assert now_sent_bytes - sent_bytes <= sent_bytes_max
        sent_bytes = now_sent_bytes
    assert all(transport.output.endswith(b"\r\n") for transport in slow)


@pytest.mark.parametrize("end", [b"quit\r\n", b""])
def test_who_is_served_behind_an_end_sees_it(house: House, end: bytes) -> None:
    """A connection ends and another asks, both before the same turn: the jobs of the one are ready for the other."""
    with house.connect() as worker, house.connect() as other:
        house.ask(worker, b"put 0 0 60 2\r\nhi\r\n", b"INSERTED 1\r\n")
        house.ask(worker, b"reserve\r\n", b"RESERVED 1 2\r\nhi\r\n")
        worker.sendall(end)
        worker.shutdown(socket.SHUT_WR)
        house.ask(other, b"peek-ready\r\n", b"FOUND 1 2\r\nhi\r\n")


def test_job_of_a_worker_that_is_killed_is_given_to_none_of_its_connections_that_wait(house: House) -> None:
    with house.connect() as holds, house.connect() as waits, house.connect() as other:
        house.ask(holds, b"keep-session 10 %032x\r\n" % 1, b"KEPT 0\r\n")
        house.ask(holds, b"put 0 0 60 2\r\nhi\r\nreserve\r\n", b"INSERTED 1\r\nRESERVED 1 2\r\nhi\r\n")
        house.ask(waits, b"watch default\r\nreserve\r\n", b"WATCHING 1\r\n")
        house.ask(other, b"watch default\r\nreserve\r\n", b"WATCHING 1\r\n")
        holds.close()
        house.run()
        assert not select.select([waits], [], [], 0)[0]
        waits.close()
        house.run()
        house.loop.due = house.loop.later
        house.ask(other, b"", b"RESERVED 1 2\r\nhi\r\n")


def test_connection_of_the_server_s_own_has_a_place_and_is_not_counted(house: House) -> None:
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    connection = house.sockets.adopt(ours.detach())
    client = house.connect()
    house.ask(theirs, b"list-tube-used\r\n", b"USING default\r\n")
    assert (house.engine.session_count, house.engine.total_session_count) == (1, 1)
    assert connection.transport.peer() == "console"
    house.sockets.close_clients()
    assert client.recv(1) == b""
    house.ask(theirs, b"list-tube-used\r\n", b"USING default\r\n")
    house.sockets.release(connection)
    house.sockets.release(connection)
    assert theirs.recv(1) == b""
    theirs.close()
    client.close()


def test_connection_that_can_not_be_watched_is_closed(house: House) -> None:
    with open("/dev/null") as never_ready, pytest.raises(PermissionError):  # noqa: PTH123 - any file that epoll refuses
        house.sockets.adopt(os.dup(never_ready.fileno()))


def test_server_that_stops_closes_connections_whose_jobs_are_not_back(house: House) -> None:
    client = house.connect()
    count = MOVES_PER_TURN + 100
    house.ask(client, b"put 0 0 60 1\r\nx\r\n" * count, b"".join(b"INSERTED %d\r\n" % (id + 1) for id in range(count)))
    replies = b"".join(b"RESERVED %d 1\r\nx\r\n" % (id + 1) for id in range(count))
    house.ask(client, b"reserve\r\n" * count, replies)
    client.sendall(b"quit\r\n")
    select.select([house.sockets.fileno()], [], [], 10)
    house.sockets.run()
    assert not select.select([client], [], [], 0)[0]
    house.sockets.close_all()
    assert client.recv(1) == b""
    client.close()


def test_rules_are_paid_for_by_their_size() -> None:
    """Of rules of 4 KiB a connection may set one in a turn, of short ones several."""
    log = Log()
    turn = Turn(Engine(now_ns=1, records=log.records), log)
    for size, in_a_turn in ((4096, 1), (14, 4)):
        client = MemoryTransport(turn)
        rules = b"attempts: 2\n"
        rules += b"\n" * (size - len(rules))
        client.arrive(b"".join(b"set-rules t%d %d\r\n%b\r\n" % (each, size, rules) for each in range(9)))
        turn.run(1)  # in which it is not known yet to want much
        before = client.output.count(b"RULES_SET\r\n")
        turn.run(1)
        assert client.output.count(b"RULES_SET\r\n") == before + in_a_turn
        turn.end(1, client.connection)
