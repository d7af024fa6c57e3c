"""The server of a node in a cluster: its clients are served here while it leads, and passed to the leader while not."""

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
from collections.abc import Callable

from beanpole.engine.engine import Engine
from beanpole.errors import BeanpoleError, ExitCode, StartError
from beanpole.log.encoder import Encoder
from beanpole.log.postgres.clock import MachineClock
from beanpole.log.postgres.leader import Leading
from beanpole.log.postgres.node import Node
from beanpole.log.postgres.pgstore import opener
from beanpole.log.postgres.replica import ChangedError
from beanpole.server import limits
from beanpole.server.app import Observer, Server
from beanpole.server.epoll import EpollTransport
from beanpole.server.eventqueue import now_ns
from beanpole.server.forward import ForwardTransport, hello
from beanpole.server.listener import split_address
from beanpole.server.logs import Logger
from beanpole.server.process import notify_systemd, remove_ready_file
from beanpole.server.settings import Settings
from beanpole.server.turn import Turn

Facts = Callable[[], dict[str, str]]


class ClusterObserver:
    """Reports to an operator what happens to a node."""

    def __init__(self, logger: Logger, on_leader: Callable[[dict[str, str], int], None]) -> None:
        self.logger = logger
        self.on_leader = on_leader
        self.quiet_until_ns = 0

    def may_repeat(self) -> bool:
        """Whether a line that is said again and again is due again."""
        if now_ns() < self.quiet_until_ns:
            return False
        self.quiet_until_ns = now_ns() + limits.CLUSTER_TELL_NS
        return True

    def leader_known(self, note: dict[str, str], epoch: int) -> None:
        """A node leads."""
        self.logger.info("leader known", leader=note.get("node"), address=note.get("address"), epoch=epoch)
        self.on_leader(note, epoch)

    def leads(self, epoch: int, jobs: int, seconds: float) -> None:
        """This node leads."""
        self.logger.info("leading", epoch=epoch, jobs=jobs, followed_seconds=round(seconds, 3))

    def name_taken(self, name: str) -> None:
        """Another process has this node's name."""
        if self.may_repeat():
            self.logger.error("another live process has this node's name", node=name, advice="give each its own --node")

    def deposed(self, reason: str) -> None:
        """This node does not lead any more."""
        self.logger.warning("deposed", reason=reason, effect="its clients are closed; it follows")

    def rewound(self, count: int) -> None:
        """Rows are gone that were not confirmed."""
        self.logger.warning(
            "log set back", rows=count, reason="PostgreSQL lost what it had not confirmed", effect="none was answered"
        )

    def unreachable(self, reason: str) -> None:
        """The server can't be reached."""
        if self.may_repeat():
            self.logger.warning("PostgreSQL is not reached", reason=reason, effect="this node can't lead")

    def starts_over(self, reason: str) -> None:
        """The node reads the log from its oldest row."""
        self.logger.warning("reading the log from its beginning", reason=reason)

    def stalled(self, reason: str, seconds: float) -> None:
        """Nothing is confirmed."""
        if self.may_repeat():
            self.logger.error(
                "nothing is confirmed",
                reason=reason,
                seconds=round(seconds, 1),
                effect="no reply leaves that depends on a record",
                advice="see that PostgreSQL has a primary and its standby",
            )

    def stall_ended(self, seconds: float) -> None:
        """Rows are confirmed again."""
        self.quiet_until_ns = 0
        self.logger.info("confirmed again", seconds=round(seconds, 3))


class ClusterService:
    """What serves the clients of a node, whichever role it has."""

    def __init__(  # noqa: PLR0913, PLR0917 - everything replaceable is an argument
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        observer: Observer,
        listeners: list[socket.socket],
        connections_max: int,
        facts: Facts,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.observer = observer
        self.listeners = listeners
        self.connections_max = connections_max
        self.facts = facts
        self.forward = ForwardTransport(loop, observer, connections_max)
        loop.add_reader(self.forward.fileno(), self.forward.run)
        self.turn: Turn | None = None
        self.clients: EpollTransport | None = None
        self.log: Leading | None = None
        self.on_role: Callable[[], None] = lambda: None

    @property
    def reaches_leader(self) -> bool:
        """Whether the leader's address can be reached, as far as this node has tried lately."""
        since_ns = self.forward.failed_since_ns
        return since_ns == 0 or now_ns() - since_ns < limits.LEADER_SILENT_NS

    def make_engine(self, records: Encoder) -> Engine:
        """Return an empty engine."""
        engine = Engine(self.settings.body_bytes_max, 0, self.all_facts, records)
        engine.tubes_max = self.settings.tubes_max
        return engine

    def all_facts(self) -> dict[str, str]:
        """Return what ``stats`` says of the process and the log."""
        return {**self.facts(), **(self.log.facts() if self.log is not None else {})}

    def follow(self, address: str, cluster: str, epoch: int) -> None:
        """Pass clients to the node that leads."""
        host, port = split_address(address, self.settings.port)
        family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.forward.lead_to(family, target, hello(cluster, epoch), self.listen())
        self.on_role()

    def listen(self) -> list[int]:
        """Listen, and return the descriptors of the listening sockets."""
        for each in self.listeners:
            each.listen(limits.BACKLOG)
        return [each.fileno() for each in self.listeners]

    def send_away(self) -> None:
        """Close every client and take none, until there is something to serve them with."""
        self.forward.stop()
        if self.clients is not None:
            self.clients.stop_accepting()
            self.clients.close_all()

    def lead(self, engine: Engine, log: Leading) -> None:
        """Serve clients here."""
        self.forward.stop()
        self.log = log
        self.turn = Turn(engine, log, self.settings.one_reply_per_send)
        self.clients = clients = EpollTransport(self.turn, self.loop, self.observer, self.connections_max)
        clients.clock_offset_ns = log.clock_offset_ns or 0
        clients.observe_connections = self.settings.verbose_count > 0
        clients.hello = hello(log.store.settings.cluster, log.epoch)
        log.start(clients.send_held, lambda _: None)
        self.accept()
        self.loop.add_reader(clients.fileno(), clients.run)
        self.on_role()

    def accept(self) -> None:
        """Take clients here."""
        assert self.clients is not None
        for fd, each in zip(self.listen(), self.listeners, strict=True):
            self.clients.listen(fd, each.family == socket.AF_UNIX)

    def pause(self) -> None:
        """Run no more commands, but go on sending what becomes durable."""
        if self.clients is not None:
            self.loop.remove_reader(self.clients.fileno())
            self.clients.stop_accepting()

    def stop_leading(self) -> None:
        """Close every client without a further reply."""
        if self.turn is None or self.clients is None:
            return
        self.turn.stop()
        self.loop.remove_reader(self.clients.fileno())
        self.clients.stop_accepting()
        self.clients.close_all()
        self.turn = self.clients = self.log = None


class ClusterServer(Server):
    """The server of a node."""

    async def run(self) -> ExitCode:
        """Serve until a signal comes, or until this node may not go on; return the exit code of the process.

        Raises:
            StartError: the address that others reach this node at is not known.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self.fail)
        settings = self.settings
        assert settings.cluster is not None
        self.service = ClusterService(settings, loop, self.observer, self.listeners, self.connections_max, self.facts)
        self.service.on_role = self.note_role
        self.is_ready = False
        for each in self.listeners:
            each.setblocking(False)
        note = {"node": settings.node, "address": self.advertised(), "machine": os.uname().nodename}
        self.node = Node(
            opener(settings.cluster, settings.node),
            note=note,
            clock=MachineClock(),
            observer=ClusterObserver(self.logger, self.follow),
            service=self.service,
            make_engine=self.service.make_engine,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGUSR1, self.refuse_drain)
        running = loop.create_task(self.node.run())
        running.add_done_callback(self.node_ended)
        watching = loop.create_task(self.watch())
        await self.stopping.wait()
        notify_systemd("STOPPING=1")
        if settings.ready_file is not None:
            remove_ready_file(settings.ready_file, self.addresses)
        self.service.forward.stop()
        await self.finish(running)
        watching.cancel()
        self.logger.info("stopped", exit_code=int(self.exit_code))
        return self.exit_code

    async def finish(self, running: asyncio.Task[None]) -> None:
        """Hand over if this node leads, or at least let what it has recorded be confirmed; then stop the node."""
        leading = self.node.leading
        if leading is not None and self.exit_code == ExitCode.OK:
            if not self.node.hand_over():
                self.logger.warning("no other node is there to lead", effect="clients wait until one is started")
                self.service.pause()
                leading.hand_over("")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.STOP_S):
                    while self.node.leading is leading and not running.done():  # noqa: ASYNC110 - once, at the end
                        await asyncio.sleep(0.005)
        running.cancel()
        await asyncio.wait([running])

    def advertised(self) -> str:
        """Return the address at which clients and other nodes reach this one."""
        tcp = [each for each in self.listeners if each.family != socket.AF_UNIX]
        if self.settings.advertise:
            return self.settings.advertise
        if len(tcp) == 1:
            host, port = tcp[0].getsockname()[:2]
            if not ipaddress.ip_address(host).is_unspecified:
                return f"[{host}]:{port}" if tcp[0].family == socket.AF_INET6 else f"{host}:{port}"
        raise StartError(
            "the other nodes can't know where this one is reached: give --advertise HOST:PORT", ExitCode.USAGE
        )

    def follow(self, note: dict[str, str], epoch: int) -> None:
        """Pass clients to the node that leads, unless it is this one, under a former writer."""
        following = self.node.following
        if following is not None and following.store is not None and epoch:
            self.service.follow(note["address"], following.store.settings.cluster, epoch)

    def note_role(self) -> None:
        """Tell everybody who asked, the first time, that clients are answered."""
        if not self.is_ready:
            self.is_ready = True
            self.report_ready()

    async def watch(self) -> None:
        """Send clients away when nothing is confirmed, or no leader is reached, for too long; take them again after."""
        sent_away = False
        while True:
            await asyncio.sleep(limits.CLUSTER_WATCH_S)
            leading = self.node.leading
            waits_s = leading.unconfirmed_s() if leading is not None else self.unreached_s()
            if waits_s > self.settings.cluster_wait_s and not sent_away:
                sent_away = True
                self.logger.error(
                    "clients sent away", seconds=round(waits_s, 1), effect="none is taken until it goes on"
                )
                self.service.send_away()
            elif sent_away and waits_s < 1:
                sent_away = False
                self.logger.info("clients taken again")
                if leading is not None:
                    self.service.accept()

    def unreached_s(self) -> float:
        """Return for how many seconds the leader's address can't be reached."""
        since_ns = self.service.forward.failed_since_ns
        return (now_ns() - since_ns) / 1e9 if since_ns else 0.0

    def refuse_drain(self) -> None:
        """Refuse to drain: the next leader would take jobs all the same."""
        self.logger.warning(
            "not draining", reason="SIGUSR1", advice="`beanpole cluster step-down` lets another node lead"
        )

    def node_ended(self, task: asyncio.Task[None]) -> None:
        """Stop when the node may not go on."""
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        self.exit_code = ExitCode.LOG_CHANGED if isinstance(error, ChangedError) else ExitCode.FAILED
        self.service.send_away()
        self.stopping.set()
        advice = (
            "look at PostgreSQL; `beanpole cluster accept-loss` lets the cluster go on"
            if isinstance(error, ChangedError)
            else ""
        )
        known = isinstance(error, BeanpoleError)
        self.logger.critical("cluster failed", reason=str(error), advice=advice, exc_info=None if known else error)
