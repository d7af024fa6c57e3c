"""The roles of a node: its clients are served with its own engine while it leads, through the leader while not."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from beanpole.engine.engine import Engine
from beanpole.log.encoder import Encoder
from beanpole.log.postgres.leader import Leading
from beanpole.log.postgres.store import Settings as ClusterSettings
from beanpole.protocol.extensions import FORMAT_FIRST
from beanpole.server import limits
from beanpole.server.clusterlogs import ClusterObserver
from beanpole.server.connection import Transport
from beanpole.server.epoll import EpollTransport
from beanpole.server.eventqueue import now_ns
from beanpole.server.forward import QUESTION, ForwardTransport, hello
from beanpole.server.host import Host
from beanpole.server.listener import split_address
from beanpole.server.roles import open_clients
from beanpole.server.turn import Turn, nothing

LEADER_SILENT_NS = 5_000_000_000  # without the leader's address, after which a node says so to the others
LEADER_CONNECT_S = 2.0  # that connecting to the leader's address may take
LEADER_RETRY_S = 0.025  # until a node that could not connect to the leader's address tries again, the first time
LEADER_PROBE_S = 2.0  # between two connections to the leader's address, which only show that it can be reached

# By then what does not lead has closed a connection for the leader; what keeps it open for longer is taken for it.
LEADER_ANSWER_S = 1.0


def listens(listener: socket.socket) -> bool:
    """Whether clients can connect already: to one that systemd opened, or after :meth:`Roles.listen`."""
    return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


async def received(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> bytes:
    """Return what comes; nothing if the connection ends, in whichever way."""
    with contextlib.suppress(ConnectionError):
        return await loop.sock_recv(connection, 64)
    return b""


class InboxClient:
    """Puts the jobs of the inbox as a client of this server's own: what they promise was said when they committed."""

    def __init__(self, turn: Turn, read_clock: Callable[[], int]) -> None:
        self.turn = turn
        self.read_clock = read_clock
        self.connection = turn.open(read_clock(), Transport(), own=True)
        turn.engine.promised = self.connection.session

    def put(self, command: bytes) -> bytes:
        """Run a command, and let those be served in the next turn who wait for its job; return the reply."""
        self.connection.receive(self.read_clock(), command)
        self.turn.run_soon()
        return self.connection.take_output()


class Roles:
    """What serves the clients of a node, whichever role it has: a :class:`beanpole.log.postgres.node.Roles`."""

    def __init__(
        self, host: Host, observer: ClusterObserver, serve_console: Callable[[EpollTransport | None], None]
    ) -> None:
        self.host = host
        self.settings = host.settings
        self.listeners = host.listeners
        self.observer = observer
        # Called with what serves clients here, and with None when they are not served here any more.
        self.serve_console = serve_console
        self.loop = loop = asyncio.get_running_loop()
        self.refused = asyncio.Event()  # set when the leader did not take a client: it may be gone
        self.forward = ForwardTransport(
            loop,
            host.observer,
            min(host.settings.connections_max, max(1, host.descriptors_free // 2)),
            wait_ns=int(host.settings.cluster_wait_s * 1e9),
            on_refused=self.refused.set,
        )
        loop.add_reader(self.forward.fileno(), self.forward.run)
        self.clients: EpollTransport | None = None
        self.log: Leading | None = None
        self.leader = ""  # the address of the leader that is followed; empty: there is none
        # Follows the leader's address; None: this node leads, or knows no leader.
        self.reaching: asyncio.Task[None] | None = None
        self.reached_ns = 0  # when the leader's address was reached last, or when this node began to try
        self.turns_away = False
        self.is_stopping = False

    @property
    def unreached_s(self) -> float:
        return (now_ns() - self.reached_ns) / 1e9 if self.reaching is not None else 0.0

    @property
    def reaches_leader(self) -> bool:
        """Whether the leader's address can be reached, as far as this node has tried lately."""
        return self.unreached_s * 1e9 < LEADER_SILENT_NS

    def make_engine(self, records: Encoder, settings: ClusterSettings) -> Engine:
        """Return an empty engine."""
        engine = Engine(settings.body_bytes_max, 0, self.all_facts, records)
        self.host.equip(engine)
        return engine

    def all_facts(self) -> dict[str, str]:
        links = self.clients.link_facts() if self.clients is not None else {}
        return {**self.host.facts(), **(self.log.facts() | self.says_away() if self.log is not None else {}), **links}

    def says_away(self) -> dict[str, str]:
        return {"cluster-sends-away": "true" if self.turns_away else "false"}

    # --- following ----------------------------------------------------------------------------------------------------

    def follow(self, note: dict[str, str], epoch: int, cluster: str) -> None:
        """Pass clients to the node that leads, as soon as its address is reached; none any more at the end.

        They wait while that is an earlier process of this node, or an import.
        """
        if not epoch:
            return
        self.stop_following()
        if self.is_stopping or note["node"] == self.settings.node or not note["address"]:
            return
        self.leader = note["address"]
        self.reached_ns = now_ns()
        self.reaching = self.loop.create_task(self.reach(self.leader, hello(cluster, epoch)))

    def stop_following(self) -> None:
        """Close the clients that are passed to a leader; those of which nothing was read wait, and new ones."""
        self.forward.wait()
        self.leader = ""
        if self.reaching is not None:
            self.reaching.cancel()
            self.reaching = None

    def stop(self) -> None:
        """Close the clients that are not served here, and take none, whoever leads then: they would be cut."""
        self.is_stopping = True
        self.stop_following()
        self.forward.stop()

    async def reach(self, address: str, first_line: bytes) -> None:
        """Connect to the leader again and again, to know whether it can be reached; pass clients on while it can."""
        passes = False
        question = first_line + QUESTION
        pause_s = retry_s = LEADER_RETRY_S
        while True:
            try:
                async with asyncio.timeout(LEADER_CONNECT_S):
                    family, target = await self.connect(address, question)
                question = b""  # it is the leader: from here on it may close clients while nothing is confirmed
            except (OSError, ValueError) as error:
                reason = str(error) or f"no answer within {LEADER_CONNECT_S:.0f} s"
                self.observer.leader_unreachable(address, reason, self.unreached_s)
                if self.unreached_s > self.settings.cluster_wait_s and not self.turns_away:
                    passes = False
                    self.send_away()
                    self.observer.clients_sent_away("the leader is not reached", self.unreached_s)
                pause_s = min(2 * pause_s, LEADER_PROBE_S)
            else:
                self.reached_ns = now_ns()
                pause_s = LEADER_PROBE_S
                if not passes:
                    passes = True
                    self.forward.lead_to(family, target, first_line, self.listen())
                    self.host.ready()
                else:
                    self.forward.go_on()
            if await self.is_refused(pause_s):
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, LEADER_PROBE_S)
            else:
                retry_s = LEADER_RETRY_S

    async def is_refused(self, seconds: float) -> bool:
        """Wait for a while; whether the leader did not take a client, which ends the waiting."""
        self.refused.clear()
        try:
            await asyncio.wait_for(self.refused.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def connect(self, address: str, question: bytes) -> tuple[int, tuple[str, int]]:
        """Connect to the leader and close; return where it was reached. Names are resolved beside the loop.

        If there is a question, what closes without an answer is not the leader. One that is silent may have no place.
        """
        host, port = split_address(address, self.settings.port)
        found = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, target = found[0]
        with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
            await self.loop.sock_connect(probe, target)
            if question:
                await self.loop.sock_sendall(probe, question)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LEADER_ANSWER_S):
                        if not await received(self.loop, probe):
                            raise ConnectionError("what listens there closes: it does not lead this cluster")
        return family, target  # type: ignore[return-value]  # IPv6 has four parts, which connect(2) takes as well

    # --- listening ----------------------------------------------------------------------------------------------------

    def listen(self) -> list[int]:
        """Listen, and return the descriptors of the listening sockets."""
        for each in self.listeners:
            if self.turns_away:
                self.loop.remove_reader(each)
            each.listen(limits.BACKLOG)
        self.turns_away = False
        return [each.fileno() for each in self.listeners]

    @property
    def holds_clients(self) -> bool:
        """Whether clients can connect, and are not closed at once."""
        return not self.turns_away and any(map(listens, self.listeners))

    def send_away(self) -> None:
        """Close every client, and each that comes, until there is something to serve them with."""
        self.forward.stop()
        if self.clients is not None:
            self.clients.stop_accepting()
            self.clients.close_clients()
        if not self.turns_away:
            self.turns_away = True
            for each in filter(listens, self.listeners):
                self.loop.add_reader(each, self.turn_away, each)

    def turn_away(self, listener: socket.socket) -> None:
        """Close a new client: it finds a better node than this one, which it would not if it had to wait."""
        with contextlib.suppress(OSError):
            listener.accept()[0].close()

    # --- leading ------------------------------------------------------------------------------------------------------

    def lead(self, engine: Engine, log: Leading) -> None:
        """Serve clients here."""
        self.stop_following()
        self.log = log
        engine.extensions = log.format if log.format >= FORMAT_FIRST else 0
        self.clients = clients = open_clients(self.host, engine, log, log.clock_offset_ns or 0)
        cluster = log.store.settings.cluster
        clients.hello = hello(cluster, log.epoch)
        clients.link_targets = {("-", 0), (cluster, 0), (cluster, log.epoch)}
        log.start(clients.send_held, lambda _: None)
        log.inbox.put = InboxClient(clients.turn, lambda: now_ns() + clients.clock_offset_ns).put
        self.serve_console(clients)
        for fd, is_unix in self.forward.take_waiting():
            clients.take(fd, is_unix)
        self.accept()
        self.loop.add_reader(clients.fileno(), clients.run)
        clients.run_soon()  # what is due does not wait for a client
        self.host.ready()

    def accept(self) -> None:
        assert self.clients is not None
        self.clients.take_clients()
        for fd, each in zip(self.listen(), self.listeners, strict=True):
            self.clients.listen(fd, each.family == socket.AF_UNIX)

    def pause(self) -> None:
        """Run no more commands, but go on sending what becomes durable."""
        if self.clients is not None and self.log is not None:
            self.log.inbox.put = None
            self.loop.remove_reader(self.clients.fileno())
            self.clients.stop_accepting()
            # While a client never stops sending, each turn asks for the next, and there is always something to append.
            self.clients.turn.run_soon = nothing

    def stop_turns(self) -> None:
        if self.clients is not None:
            self.clients.turn.stop()

    def stop_leading(self) -> None:
        """Close every client without a further reply."""
        if self.clients is None:
            return
        self.clients.turn.stop()
        self.loop.remove_reader(self.clients.fileno())
        self.clients.stop_accepting()
        self.clients.close_all()
        self.clients = self.log = None
        self.serve_console(None)
