"""A server whose log is not one of files: replies, failures, a lost lead, and a follower that takes over."""

import errno
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection
from beanpole.server.turn import Turn
from tests.unit.log.memory_log import MemoryLog, Store
from tests.unit.server.memory_transport import MemoryTransport

if TYPE_CHECKING:
    from beanpole.log.log import Log

SECOND_NS = 1_000_000_000
TURNS_MAX = 1_000


class Node:
    """A process: it follows until it leads."""

    def __init__(self, store: Store, salt: int = 1) -> None:
        self.now_ns = SECOND_NS
        self.log = MemoryLog(store, salt, lambda: self.now_ns)
        self.engine = Engine(now_ns=self.now_ns, records=self.log.records)
        self.log.follow(self.engine)
        seam: Log = self.log
        self.turn = Turn(self.engine, seam)
        self.clients: list[MemoryTransport] = []

    def lead(self) -> None:
        """Take the lead, as a start does."""
        self.log.recover(self.engine)
        self.log.start(lambda: self.turn.send_held(self.now_ns), self.fail)

    def fail(self, _error: OSError) -> None:
        """Send nothing more, and close the clients."""
        self.turn.stop()
        for client in self.clients:
            self.turn.end(self.now_ns, client.connection)

    def connect(self) -> MemoryTransport:
        """A client."""
        self.clients.append(MemoryTransport(self.turn))
        return self.clients[-1]

    def ask(self, client: MemoryTransport, *lines: bytes) -> None:
        """Commands arrive, and turns run until they are done."""
        client.arrive(b"".join(line + b"\r\n" for line in lines))
        for _ in range(TURNS_MAX):
            self.turn.run(self.now_ns)
            if not self.turn.busy:
                return
        raise AssertionError("the turns do not end")

    def confirm_all(self) -> None:
        """Confirm what is in flight, and what comes behind it."""
        while self.log.in_flight:
            self.log.confirm()

    def state(self) -> dict[int, bytes]:
        """Every job as a client sees it, but not how often it was reserved: that is no record."""
        connection = Connection(self.engine, self.now_ns)
        found = {}
        for job in sorted(self.engine.jobs.jobs(), key=attrgetter("id")):
            id = job.id
            connection.receive(self.now_ns, b"stats-job %d\r\npeek %d\r\n" % (id, id))
            lines = connection.take_output().split(b"\n")
            found[id] = b"\n".join(line for line in lines if not line.startswith((b"reserves:", b"OK "))) + job.tags
        connection.close(self.now_ns)
        return found

    def space(self) -> tuple[int, int, int, list[int]]:
        """The accounts."""
        accounts = self.log.records.accounts
        live = [accounts.live_in(number) for number in range(1, self.log.records.segment + 1)]
        return accounts.live_bytes, accounts.live_count, accounts.first_segment, live


@pytest.fixture
def store() -> Store:
    """An empty store."""
    return Store()


@pytest.fixture
def leader(store: Store) -> Node:
    """A node that leads."""
    node = Node(store)
    node.lead()
    return node


def test_replies_leave_when_the_append_is_confirmed_and_in_order(leader: Node) -> None:
    client = leader.connect()
    leader.ask(client, b"put 1 0 9 1", b"a", b"put 1 0 9 1", b"b", b"delete 1")
    assert client.output == b""
    assert leader.log.append_count == 1
    leader.log.confirm()
    assert client.output == b"INSERTED 1\r\nINSERTED 2\r\nDELETED\r\n"


def test_one_append_is_in_flight(leader: Node, store: Store) -> None:
    clients = [leader.connect() for _ in range(4)]
    for client in clients:
        leader.ask(client, b"put 1 0 9 1", b"a")
    assert leader.log.append_count == 1
    leader.log.confirm()
    assert [client.output for client in clients] == [b"INSERTED 1\r\n", b"", b"", b""]
    assert leader.log.append_count == 2, "what came meanwhile is one append"
    leader.log.confirm()
    assert [client.output for client in clients] == [b"INSERTED %d\r\n" % id for id in range(1, 5)]
    assert len(store.rows) == 2


def test_nobody_sees_what_is_not_confirmed(leader: Node) -> None:
    """What another client put may be lost, so a look at it waits too."""
    producer, reader, idle = (leader.connect() for _ in range(3))
    leader.ask(producer, b"put 1 0 9 1", b"a")
    leader.ask(reader, b"peek 1", b"list-tube-used")
    leader.ask(idle, b"list-tube-used")
    assert reader.output == b""
    assert idle.output == b"USING default\r\n"
    leader.log.confirm()
    assert reader.output == b"FOUND 1 1\r\na\r\nUSING default\r\n"


def test_reservation_is_an_append(leader: Node) -> None:
    producer, worker = leader.connect(), leader.connect()
    leader.ask(worker, b"reserve")
    leader.ask(producer, b"put 1 0 9 1", b"a")
    leader.ask(producer, b"put 1 0 9 1", b"b")
    leader.log.confirm()
    assert worker.output == b"RESERVED 1 1\r\na\r\n"
    leader.confirm_all()
    leader.ask(worker, b"reserve")
    assert worker.output.count(b"RESERVED") == 1
    assert leader.log.in_flight
    leader.log.confirm()
    assert worker.output.count(b"RESERVED") == 2


def test_append_that_fails_at_once_sends_nothing(leader: Node) -> None:
    client = leader.connect()
    leader.log.error_of_next = OSError(errno.EIO, "it is broken")
    with pytest.raises(OSError, match="it is broken"):
        leader.ask(client, b"put 1 0 9 1", b"a")
    leader.turn.stop()
    client.arrive(b"list-tube-used\r\n")
    leader.turn.run(leader.now_ns)
    leader.turn.send_held(leader.now_ns)
    assert client.output == b""


def test_append_that_fails_late_sends_nothing(leader: Node, store: Store) -> None:
    client = leader.connect()
    leader.ask(client, b"put 1 0 9 1", b"a")
    leader.log.confirm()
    leader.ask(client, b"put 1 0 9 1", b"b", b"list-tube-used")
    leader.log.fail(OSError(errno.EIO, "it is broken"))
    client.arrive(b"list-tube-used\r\n")
    leader.turn.run(leader.now_ns)
    assert client.output == b"INSERTED 1\r\n"
    assert client.closed
    assert len(store.rows) == 1


def test_leader_that_is_deposed_closes_its_clients_without_a_reply(leader: Node, store: Store) -> None:
    producer, worker = leader.connect(), leader.connect()
    leader.ask(worker, b"reserve")
    leader.ask(producer, b"put 1 0 9 1", b"a")
    leader.log.confirm()
    follower = Node(store, 2)
    leader.ask(producer, b"put 1 0 9 1", b"b")
    follower.lead()
    leader.ask(producer, b"delete 1")
    leader.log.confirm()
    assert producer.output == b"INSERTED 1\r\n"
    assert all(client.closed for client in leader.clients)
    assert sorted(follower.state()) == [1]
    client = follower.connect()
    follower.ask(client, b"put 1 0 9 1", b"c")
    follower.log.confirm()
    assert client.output == b"INSERTED 2\r\n", "an id that nobody was told is free"


def work(node: Node, rng: Random, turns: int) -> None:
    """Let clients do what can be recorded; in the end they are gone."""
    clients = [node.connect() for _ in range(3)]
    for _ in range(turns):
        node.now_ns += rng.randint(0, SECOND_NS)
        id = rng.randint(1, node.engine.next_job_id)
        size = rng.choice((1, 100, 1000, 6000))
        lines: tuple[tuple[bytes, ...], ...] = (
            (b"use t%d" % (id % 3), b"put 1 %d 9 %d" % (rng.choice((0, 0, 5)), size), bytes(size)),
            (
                b"reserve-job %d" % id,
                rng.choice((b"bury %d 3", b"release %d 2 0", b"release %d 2 4", b"touch %d")) % id,
            ),
            (b"reserve-job %d" % id, b"snooze-job %d %d" % (id, rng.choice((0, 4)))),
            (b"reserve-job %d" % id, b"fail-job %d %d" % (id, size // 9), bytes(size // 9)),
            (b"reserve-job %d" % id, b"fail-job %d 3 dead=now" % id, b"why"),
            (b"put-job %d tube=t%d delay=0.5" % (size, id % 3), bytes(size)),
            (b"put-job %d tube=t%d key=%d" % (size, id % 3, size), bytes(size)),
            (b"put-job 1 tube=t%d key=%d taken=replace" % (id % 3, size), b"x"),
            (
                b"put-job 2 tube=t%d key=6000 until=reserve" % (id % 3),
                b"xx",
                b"watch t%d" % (id % 3),
                b"reserve-with-timeout 0",
            ),
            (b"change-job %d tube=t%d pri=%d" % (id, rng.randrange(3), rng.randrange(3)),),
            (b"reserve-job %d" % id, b"change-job %d ttr=20" % id),
            (b"change-body %d %d" % (id, size), bytes(size)),
            (b"delete %d" % id,),
            (b"kick 2",),
            (b"pause-tube t1 %d" % rng.choice((0, 3, 1000)),),
        )
        node.ask(rng.choice(clients), *rng.choice(lines))
        if rng.random() < 0.5 and node.log.in_flight:
            node.log.confirm()
    for client in clients:
        node.turn.end(node.now_ns, client.connection)
    node.turn.run(node.now_ns)
    node.confirm_all()


@pytest.mark.parametrize("seed", range(10))
def test_follower_leads_with_what_it_has_applied(store: Store, leader: Node, seed: int) -> None:
    """It reads rows as they come; to lead it has nothing left to do that grows with the jobs."""
    rng = Random(seed)
    follower = Node(store, 2)
    for _ in range(10):
        work(leader, rng, 30)
        follower.now_ns = leader.now_ns
        follower.log.read_rows()
        assert follower.engine.next_job_id == leader.engine.next_job_id
    assert leader.log.records.segment > 3
    check(follower.engine)
    restore = follower.log.replay.restore
    assert restore is not None
    assert restore.unconfirmed == [], "delays are left to be looked at, although the log has mentioned a later moment"
    read = follower.log.read_count
    follower.lead()
    assert follower.log.read_count == read
    check(follower.engine)
    for node in (leader, follower):
        node.engine.tick(node.now_ns)
    assert follower.state() == leader.state()
    assert follower.space() == leader.space()
    work(follower, rng, 100)
    cold = Node(store, 3)
    cold.now_ns = follower.now_ns
    cold.lead()
    for node in (cold, follower):
        node.engine.tick(node.now_ns)
    assert cold.state() == follower.state()
    assert cold.space() == follower.space()


def test_job_that_lost_its_key_is_gone_after_a_restart(leader: Node, store: Store) -> None:
    """Whoever held it can't bring it back; until the first turn it only waits to be deleted."""
    worker, other = leader.connect(), leader.connect()
    leader.ask(worker, b"put-job 1 key=k", b"a", b"put-job 1", b"b", b"reserve", b"bury 1 0", b"kick-job 1", b"reserve")
    leader.ask(other, b"put-job 1 key=k taken=replace", b"c")
    leader.confirm_all()
    follower = Node(store, 2)
    follower.now_ns = leader.now_ns
    follower.lead()
    check(follower.engine)
    assert 0 <= follower.engine.next_deadline_ns <= follower.now_ns
    client = follower.connect()
    follower.ask(client, b"peek 1", b"find-job default k", b"peek-ready")
    follower.confirm_all()
    assert client.output == b"NOT_FOUND\r\nFOUND 3 1\r\nc\r\nFOUND 2 1\r\nb\r\n"
    cold = Node(store, 3)
    cold.now_ns = leader.now_ns
    cold.lead()
    assert cold.engine.next_deadline_ns < 0, "it was deleted once and for all"
    assert cold.state() == follower.state()


def test_key_that_a_hand_out_freed_stays_free(leader: Node, store: Store) -> None:
    client = leader.connect()
    leader.ask(client, b"put-job 1 key=k until=reserve", b"a", b"reserve", b"put-job 1 key=k", b"b")
    leader.confirm_all()
    follower = Node(store, 2)
    follower.lead()
    check(follower.engine)
    client = follower.connect()
    follower.ask(client, b"find-job default k", b"reserve", b"release 1 0 0", b"put-job 1 key=k", b"c")
    follower.confirm_all()
    assert client.output == b"FOUND 2 1\r\nb\r\nRESERVED 1 1\r\na\r\nRELEASED\r\nEXISTS 2\r\n"
