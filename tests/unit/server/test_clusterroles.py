"""Serving the clients of a node: in each of its roles, and at its end."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from beanpole.address import UNTRUSTED
from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode
from beanpole.front.front import Front
from beanpole.log.limits import CLUSTER_FORMAT
from beanpole.log.log import Log
from beanpole.protocol.extensions import FEATURE_NAMES, FORMAT_NEWEST, FORMATS
from beanpole.protocol.link import first_line
from beanpole.server import limits
from beanpole.server.clusterlogs import ClusterObserver
from beanpole.server.clusterroles import LEADER_SILENT_NS, Passing, Roles
from beanpole.server.connection import Connection
from beanpole.server.logs import Logger
from beanpole.server.loop import ServerLoop
from beanpole.server.observer import SlowTurn
from beanpole.server.process import ProcessFacts
from beanpole.server.roles import AlwaysLeads
from beanpole.server.settings import Settings
from beanpole.server.tlsfilter import Filter
from tests.servers import HOST
from tests.unit.server.tls import ends


class LeadersLog(Log):
    """A log with what a service asks of a leader's."""

    clock_offset_ns = 0
    epoch = 3
    format = CLUSTER_FORMAT
    inbox = SimpleNamespace(put=None)
    store = SimpleNamespace(settings=SimpleNamespace(cluster="c"))


class Observer:
    """Remembers the slow turns."""

    def __init__(self) -> None:
        self.slow: list[SlowTurn] = []

    def turn_slow(self, slow: SlowTurn) -> None:
        self.slow.append(slow)


class Uplink:
    """What gives a front its link, as a test says."""

    made: Sequence["Uplink"] = ()
    address = ""
    is_there = False

    def __init__(self, _front: Front, addresses: Sequence[str], cluster: str, epoch: int, **calls: Any) -> None:  # noqa: ANN401
        self.means = (addresses, cluster, epoch)
        self.on_open: Callable[[str], None] = calls["on_open"]
        self.on_failure: Callable[[str, str, bool], None] = calls["on_failure"]
        self.is_closed = False
        Uplink.made = [*Uplink.made, self]

    def start(self) -> None:
        """A test says when there is a link."""

    def close(self) -> None:
        self.is_closed = True


def host_of(observer: Observer, *listeners: socket.socket, **settings: Any) -> Any:  # noqa: ANN401 - as much of one as is asked for
    """A process without a console."""
    return SimpleNamespace(
        settings=Settings(node="me", **settings),
        listeners=listeners,
        connections_max=1,
        descriptors_free=2,
        observer=observer,
        console=None,
        fronts=None,
        door=None,
        facts=ProcessFacts(),
        exit_code=ExitCode.OK,
        ready=lambda: None,
        equip=lambda _engine: None,
    )


def roles_of(observer: Observer, *listeners: socket.socket, **settings: Any) -> Roles:  # noqa: ANN401 - as of a server
    """What serves the clients of a node."""
    host = host_of(observer, *listeners, **settings)
    return Roles(host, ClusterObserver(Logger(str)), lambda _: None, Passing(Front, Uplink))


def test_slow_turns_of_a_node_that_leads_are_reported() -> None:
    log, observer = LeadersLog(), Observer()

    async def lead() -> None:
        roles = roles_of(observer)
        roles.lead(Engine(now_ns=1, records=log.records), log)  # type: ignore[arg-type]
        log.on_pause("rolling", limits.SLOW_TURN_NS)
        assert roles.clients is not None
        roles.clients.run()
        roles.stop_leading()

    asyncio.run(lead())
    [slow] = observer.slow
    assert slow.waited_ns == {"rolling": limits.SLOW_TURN_NS}


async def alone() -> Engine:
    """Begin as a server alone does, and end again."""
    server = AlwaysLeads(host_of(Observer()))
    server.start()
    await asyncio.sleep(0)
    await server.stop()
    return server.engine


async def leading(log: LeadersLog | None = None) -> Engine:
    """Begin to lead as a node does, and end again."""
    log = log or LeadersLog()
    engine, roles = Engine(now_ns=1, records=log.records), roles_of(Observer())
    roles.lead(engine, log)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    roles.stop_leading()
    return engine


@pytest.mark.parametrize("serve", [alone, leading])
def test_what_is_due_at_a_start_does_not_wait_for_a_client(serve: Callable[[], Coroutine[Any, Any, Engine]]) -> None:
    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        assert runner.run(serve()).now_ns, "there was no turn"


BODY = b"use t"  # which would be run if it were not swallowed
LATER = {
    b"list-extensions": (4, b"OK", b"UNKNOWN_COMMAND"),
    b"put-job 5\r\n" + BODY: (4, b"INSERTED", b"UNKNOWN_COMMAND"),
    b"put-job 5 at=5\r\n" + BODY: (5, b"INSERTED", b"BAD_FORMAT"),
    b"put-job 5 key=k taken=replace delay=5 within=9\r\n" + BODY: (5, b"INSERTED", b"BAD_FORMAT"),
    b"set-schedule s 14\r\nevery: 5\n\nbody": (5, b"SCHEDULED", b"UNKNOWN_COMMAND"),
    b"get-schedule t": (5, b"NOT_FOUND", b"UNKNOWN_COMMAND"),
    b"list-schedules": (5, b"SCHEDULES", b"UNKNOWN_COMMAND"),
    b"drop-schedule t": (5, b"NOT_FOUND", b"UNKNOWN_COMMAND"),
    b"pause-schedule t on": (5, b"NOT_FOUND", b"UNKNOWN_COMMAND"),
    b"fire-schedule t": (5, b"NOT_FOUND", b"UNKNOWN_COMMAND"),
    b"put-job 5 group=g\r\n" + BODY: (6, b"INSERTED", b"BAD_FORMAT"),
    b"put-job 5 once=t\r\n" + BODY: (7, b"INSERTED", b"BAD_FORMAT"),
    b"set-rules t 11\r\ngroups:fair": (6, b"RULES_SET", b"BAD_RULES 1 there is no rule 'groups' before the upgrade"),
}
"""Commands, the format of the log from which a leader serves them, and how it answers then, and before."""


def answers(engine: Engine, command: bytes) -> bytes:
    """What a new client is answered."""
    connection = Connection(engine, 1)
    connection.receive(1, command + b"\r\n")
    return connection.take_output()


@pytest.mark.parametrize("served", [3, 4, 5, 6, 7])
def test_a_leader_serves_what_the_format_of_the_log_allows(served: int) -> None:
    log = LeadersLog()
    log.format = served
    engine = asyncio.run(leading(log))
    for command, (since, reply, refusal) in LATER.items():
        if served < 4 and b"\r\n" in command:
            continue  # what stands behind the line is taken for commands, as beanstalkd does
        found = answers(engine, command)
        assert found.startswith(reply if served >= since else refusal if served >= 4 else b"UNKNOWN_COMMAND"), command
        assert refusal != b"BAD_FORMAT" or found.count(b"\r\n") == 1, "the body is swallowed"
    listed = answers(engine, b"list-extensions").split(b"\n- ")[1:]
    of_schedules = [name for name in FEATURE_NAMES if b"schedule" in name or name in {b"put-job.at", b"put-job.within"}]
    of_groups = [name for name in FEATURE_NAMES if b"group" in name or name == b"rule.breaker"]
    of_once = [b"put-job.for", b"put-job.once"]
    later = {
        3: len(FEATURE_NAMES),
        4: len(of_schedules + of_groups + of_once),
        5: len(of_groups + of_once),
        6: len(of_once),
        7: 0,
    }
    assert len(listed) == len(FEATURE_NAMES) - later[served]


def test_the_formats_that_bring_extensions_are_formats_of_the_log() -> None:
    assert FORMAT_NEWEST <= CLUSTER_FORMAT
    verbs_and_names = {*FEATURE_NAMES, *(name.partition(b".")[0] for name in FEATURE_NAMES)}
    assert set(FORMATS) <= verbs_and_names


def test_a_node_that_stops_follows_no_leader() -> None:
    """A client that it took for the next leader would be cut a moment later."""

    async def stop() -> None:
        roles = roles_of(Observer())
        roles.stop()
        roles.follow({"node": "b", "address": "127.0.0.1:1"}, 7, "c")
        assert roles.uplink is None
        assert not roles.leader

    asyncio.run(stop())


LEADER = {"node": "b", "address": "10.0.0.2:11300"}


def accepts(listener: socket.socket) -> bool:
    """Whether a client can connect."""
    with socket.socket() as client:
        return client.connect_ex(listener.getsockname()) == 0


def test_follower_takes_clients_when_it_has_a_link_and_sends_them_away_when_it_had_none_for_long() -> None:
    async def follow() -> None:
        with socket.socket() as listener:
            listener.bind((HOST, 0))
            listener.setblocking(False)
            roles = roles_of(Observer(), listener, cluster_wait_s=20)
            roles.follow(LEADER, 7, "c")
            uplink = Uplink.made[-1]
            assert uplink.means == ([LEADER["address"]], "c", 7)
            assert not accepts(listener)
            uplink.on_failure(LEADER["address"], UNTRUSTED, False)
            assert not roles.turns_away
            assert roles.unreached_why.endswith("name the file of its CA (--cluster-ca)")
            for _ in range(2):
                uplink.on_open(LEADER["address"])
                assert (roles.holds_clients, roles.reaches_leader) == (True, True)
                assert accepts(listener)
                roles.reached_ns -= 60_000_000_000
                uplink.on_failure(LEADER["address"], "ended", False)
                assert (roles.holds_clients, roles.reaches_leader) == (True, True), "it has just had a link"
                roles.reached_ns -= LEADER_SILENT_NS
                uplink.on_failure(LEADER["address"], "refused", False)
                assert (roles.holds_clients, roles.reaches_leader, roles.unreached_why) == (True, False, "refused")
                uplink.is_there = True
                assert roles.reaches_leader, "a leader that is full must not hand over for that"
                uplink.is_there = False
                roles.reached_ns -= 20_000_000_000
                uplink.on_failure(LEADER["address"], "refused", False)
                assert roles.turns_away
            roles.follow({"node": "d", "address": "10.0.0.4:11300"}, 8, "c")
            assert uplink.is_closed
            roles.stop()
            assert Uplink.made[-1].is_closed

    asyncio.run(follow())


@pytest.mark.parametrize(
    ("epoch", "line", "answer"),
    [
        (7, first_line(), b"LEADER 10.0.0.2:11300\r\n"),
        (7, b"auth bp_token\r\n" + first_line(), b"LEADER 10.0.0.2:11300\r\n"),
        (7, first_line("c", 7), b""),
        (7, first_line("c"), b""),
        (7, b"beanpole-forward c 7\r\n\r\n", b""),
        (0, first_line(), b""),
    ],
)
@pytest.mark.parametrize("was_read", [True, False])
def test_who_asks_a_follower_for_a_link_is_told_the_leader_or_closed(
    epoch: int, line: bytes, answer: bytes, was_read: bool
) -> None:
    async def ask() -> None:
        roles = roles_of(Observer())
        roles.follow(LEADER, epoch, "c")
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        with ours:
            if not was_read:
                ours.send(line)
            roles.answer_link(theirs.detach(), line if was_read else b"", True, None)
            assert ours.recv(100) == answer
            if answer:
                assert ours.recv(100) == b""
        roles.stop()

    asyncio.run(ask())


def test_who_asks_a_follower_by_tls_is_told_by_tls() -> None:
    async def ask() -> None:
        roles = roles_of(Observer())
        roles.follow(LEADER, 7, "c")
        (client, incoming, _), server = ends()
        ours, theirs = socket.socketpair()
        with ours:
            roles.answer_link(theirs.detach(), b"auth bp_token\r\n" + first_line(), False, Filter(*server))
            incoming.write(ours.recv(1_000))
            assert client.read(100) == b"LEADER 10.0.0.2:11300\r\n"
        roles.stop()

    asyncio.run(ask())
