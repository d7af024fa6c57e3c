"""The roles of a node: its clients are served with its own engine while it leads, through the leader while not."""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from beanpole.access.tokens import digest_of
from beanpole.engine.engine import Engine
from beanpole.log.encoder import Encoder
from beanpole.log.postgres.leader import Leading
from beanpole.log.postgres.store import Settings as ClusterSettings
from beanpole.protocol.extensions import FORMAT_FIRST
from beanpole.protocol.limits import LINK_LINE_BYTES_MAX
from beanpole.protocol.link import leader_line, read_first_line
from beanpole.server import limits
from beanpole.server.clusterlogs import ClusterObserver
from beanpole.server.connection import Transport
from beanpole.server.epoll import EpollTransport
from beanpole.server.eventqueue import now_ns
from beanpole.server.host import Host
from beanpole.server.roles import open_clients
from beanpole.server.turn import Turn, nothing

if TYPE_CHECKING:
    from beanpole.server.eventqueue import EventQueue

LEADER_SILENT_NS = 5_000_000_000  # without the leader's address, after which a node says so to the others


def listens(listener: socket.socket) -> bool:
    """Whether clients can connect already: to one that systemd opened, or after :meth:`Roles.listen`."""
    return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


class Front(Protocol):
    """What accepts clients and passes them over a link: a :class:`beanpole.front.front.Front`."""

    on_link_asked: Callable[[int, bytes, bool, object], None] | None
    run_soon: Callable[[], object] | None

    def listen(self, fd: int, is_unix: bool) -> None:
        """Accept connections from a listening socket."""

    def stop_accepting(self) -> None:
        """Accept no more connections."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is something to do."""

    def poll(self) -> None:
        """Do what there is to do."""

    def close_clients(self) -> None:
        """Close every client, also those that wait for a link."""

    def take_waiting(self) -> Sequence[tuple[int, bool, Any, Any]]:
        """Give up the clients of which nothing was read; return their descriptors, and which are Unix sockets."""


class Uplink(Protocol):
    """What gives a front its link: a :class:`beanpole.front.uplink.Uplink`."""

    address: str
    is_there: bool  # the server asked last is there, though it takes no link for now

    def start(self) -> None:
        """Look for a server that takes the link, and again whenever it has ended."""

    def close(self) -> None:
        """End the link; those of which nothing was read wait for the next."""


@dataclass(frozen=True)
class Passing:
    """How a node passes on its clients: the classes of what does."""

    front: Callable[..., Front]
    uplink: Callable[..., Uplink]
    login: Callable[[str], object] = lambda _key: None  # what a node with this key shows to another; empty: it has none
    enter: Callable[..., object] = nothing  # lets a client into a front that has come in by an entrance


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
        self,
        host: Host,
        observer: ClusterObserver,
        serve_console: Callable[[EpollTransport | None], None],
        passing: Passing,
    ) -> None:
        self.host = host
        self.settings = host.settings
        self.listeners = host.listeners
        self.observer = observer
        # Called with what serves clients here, and with None when they are not served here any more.
        self.serve_console = serve_console
        self.loop = loop = asyncio.get_running_loop()
        self.front = front = passing.front(
            host.observer,
            min(host.settings.connections_max, host.descriptors_free),
            wait_ns=int(host.settings.cluster_wait_s * 1e9),
        )
        front.on_link_asked = self.answer_link
        front.run_soon = lambda: loop.call_soon(front.poll)
        loop.add_reader(front.fileno(), front.poll)
        self.make_uplink = passing.uplink
        self.login = passing.login
        self.enter_front = functools.partial(passing.enter, front)
        self.clients: EpollTransport | None = None
        self.log: Leading | None = None
        self.leader = ""  # the address of the leader that is followed; empty: there is none
        self.uplink: Uplink | None = None  # to the leader; None: this node leads, or knows no leader
        self.has_link = False
        self.unreached_why = ""  # why the last try to reach the leader failed, or its link ended
        self.reached_ns = 0  # when the link to the leader was lost, or this node began to look for it
        self.turns_away = False
        self.is_stopping = False
        self.door = host.door
        self.key = ""  # by which nodes with users know each other
        if self.door is not None:
            host.facts.parts.append(self.door.facts)
            self.door.watch(host.logger, loop)

    @property
    def unreached_s(self) -> float:
        return (now_ns() - self.reached_ns) / 1e9 if self.uplink is not None and not self.has_link else 0.0

    @property
    def reaches_leader(self) -> bool:
        """Whether the leader can be reached, as far as this node has tried lately."""
        is_there = self.uplink is not None and self.uplink.is_there
        return is_there or self.unreached_s * 1e9 < LEADER_SILENT_NS

    def make_engine(self, records: Encoder, settings: ClusterSettings) -> Engine:
        """Return an empty engine."""
        self.key = settings.key if self.door is not None and self.door.files is not None else ""
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
        self.uplink = self.make_uplink(
            self.front,
            [self.leader],
            cluster,
            epoch,
            login=self.login(self.key),
            on_open=self.leader_reached,
            on_failure=self.leader_not_reached,
        )
        self.uplink.start()

    def stop_following(self) -> None:
        """Close the clients that are passed to a leader; those of which nothing was read wait, and new ones."""
        self.stop_accepting(self.front)
        self.leader = ""
        self.has_link = False
        if self.uplink is not None:
            self.uplink.close()
            self.uplink = None

    def stop(self) -> None:
        """Close the clients that are not served here, and take none, whoever leads then: they would be cut."""
        self.is_stopping = True
        self.stop_following()
        self.front.close_clients()

    def leader_reached(self, _address: str) -> None:
        """Take clients: there is a link for them."""
        self.has_link = True
        self.stop_accepting(self.front)
        fds = self.listen()
        if self.door is not None:
            self.door.entrance.open(cast("EventQueue", self.front), self.listeners, self.loop, self.enter_front)
        else:
            for fd, each in zip(fds, self.listeners, strict=True):
                self.front.listen(fd, each.family == socket.AF_UNIX)
        self.host.ready()

    def leader_not_reached(self, address: str, reason: str, _is_refusal: bool) -> None:
        """Say why there is no link; send clients away when there has been none for long."""
        if self.has_link:
            self.has_link = False
            self.reached_ns = now_ns()
        self.unreached_why = reason.replace("--ca, BEANPOLE_CA", "--cluster-ca")  # the option of a node for this
        self.observer.leader_unreachable(address, self.unreached_why, self.unreached_s)
        if self.unreached_s > self.settings.cluster_wait_s and not self.turns_away:
            self.send_away()
            self.observer.clients_sent_away("the leader is not reached", self.unreached_s)

    def answer_link(self, fd: int, came: bytes, _is_unix: bool, tls: Any) -> None:  # noqa: ANN401 - a Filter, or None
        """Say who leads to a front that asks for a link to any server; close a node that takes this one for the leader.

        Two nodes that take each other for the leader must not go on for ever. A token in front is passed over.
        """
        with socket.socket(fileno=fd) as asking, contextlib.suppress(OSError):
            lines = (came or asking.recv(LINK_LINE_BYTES_MAX)).splitlines(keepends=True)
            said = read_first_line(b"".join(lines[-1:]))
            if said is not None and said[:2] == ("-", 0) and self.leader:
                answer = leader_line(self.leader)
                asking.send(tls.sealed(answer) if tls is not None else answer)

    # --- listening ----------------------------------------------------------------------------------------------------

    def listen(self) -> list[int]:
        """Listen, and return the descriptors of the listening sockets."""
        for each in self.listeners:
            if self.turns_away:
                self.loop.remove_reader(each)
            each.listen(limits.BACKLOG)
        self.turns_away = False
        return [each.fileno() for each in self.listeners]

    def stop_accepting(self, clients: Any) -> None:  # noqa: ANN401 - a front, or what serves clients here
        """Accept no more clients, and end the handshakes of those that have come."""
        clients.stop_accepting()
        if self.door is not None:
            self.door.entrance.close()

    @property
    def holds_clients(self) -> bool:
        """Whether clients can connect, and are not closed at once."""
        return not self.turns_away and any(map(listens, self.listeners))

    def send_away(self) -> None:
        """Close every client, and each that comes, until there is something to serve them with."""
        self.stop_accepting(self.front)
        self.front.close_clients()
        if self.clients is not None:
            self.stop_accepting(self.clients)
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
        clients.link_targets = {("-", 0), (cluster, 0), (cluster, log.epoch)}
        log.start(clients.send_held, lambda _: None)
        log.inbox.put = InboxClient(clients.turn, lambda: now_ns() + clients.clock_offset_ns).put
        self.serve_console(clients)
        self.accept()
        self.take_waiting(clients)
        self.loop.add_reader(clients.fileno(), clients.run)
        clients.run_soon()  # what is due does not wait for a client
        self.host.ready()

    def take_waiting(self, clients: EpollTransport) -> None:
        """Serve those here that have waited for a link to a leader."""
        for fd, is_unix, tls, origin in self.front.take_waiting():
            if self.door is None or origin is None:
                clients.take(fd, is_unix)
            else:
                place, certificate = origin
                self.door.enter(fd, place, tls, certificate)

    def accept(self) -> None:
        assert self.clients is not None
        self.clients.take_clients()
        if self.door is not None:
            self.listen()
            self.door.node_digest = digest_of(self.key.encode()) or b""
            self.door.open(self.clients, self.listeners, self.host.logger, self.loop)
            return
        for fd, each in zip(self.listen(), self.listeners, strict=True):
            self.clients.listen(fd, each.family == socket.AF_UNIX)

    def pause(self) -> None:
        """Run no more commands, but go on sending what becomes durable."""
        if self.clients is not None and self.log is not None:
            self.log.inbox.put = None
            self.loop.remove_reader(self.clients.fileno())
            self.stop_accepting(self.clients)
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
        self.stop_accepting(self.clients)
        if self.door is not None:
            self.door.leave()
        self.clients.close_all()
        self.clients = self.log = None
        self.serve_console(None)
