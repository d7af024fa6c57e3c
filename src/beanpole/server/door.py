"""The door of a server with users, or with TLS: who comes in, by which way, and who has to leave when files change.

Who a client is says its certificate, else the ``user=`` of the listener, else the uid at the other end of a Unix
socket, and before all of these a token in its first line. Whom none of them names is a stranger. It has one line, and
ten seconds for it; its connection runs no command, and stands in a crowd that has a part of the places alone: when
there is no room, the oldest of the source with most has to go, so that nobody keeps others out by coming again.

Files are read in a thread, for a turn must not wait for a thousand users, and their connections looked at in pieces.
Before that, the rights of whoever is in no file any more are none.
"""

import asyncio
import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from beanpole.access.access import Access, Found
from beanpole.access.watch import LOOK_S, AccessFiles, log_fault
from beanpole.engine.state.user import User
from beanpole.errors import AccessError, ExitCode, StartError
from beanpole.protocol.evidence import Evidence
from beanpole.protocol.extensions import ACCESS_FORMATS
from beanpole.protocol.rights import Grants
from beanpole.server import limits
from beanpole.server.audit import Audit
from beanpole.server.connection import Connection
from beanpole.server.entrance import Entrance
from beanpole.server.entry import Entry
from beanpole.server.epoll import EpollTransport, Socket
from beanpole.server.places import Place, parse
from beanpole.server.sources import Sources, source_of

if TYPE_CHECKING:
    from beanpole.server.logs import Logger
    from beanpole.server.settings import Settings
    from beanpole.server.tlscontext import Certificate
    from beanpole.server.tlsfilter import Filter


class Door:
    """Who comes in. Made before anything is bound; raises StartError."""

    def __init__(self, settings: "Settings", places: Sequence[Place], wall: Callable[[], float] = time.time) -> None:
        self.wall = wall
        self.users: dict[str, User] = {}
        self.nobody = User(b"-")
        self.crowd: Sources[Entry] = Sources()
        self.ends: dict[float, dict[Entry, None]] = {}  # by when that ends by which they are somebody's
        self.node_digest = b""  # of the key by which nodes of a cluster are known; empty: there is none
        self.unreachable_count = 0  # users that nobody can be
        self.token_end_s = 0.0  # when the next token ends, or an earlier moment: nobody has looked
        self.asked = False  # the files are to be read whether they have changed or not
        self.reading: asyncio.Future[Access | AccessError] | None = None
        self.looking: list[Entry] = []  # who may have to go
        self.clients: EpollTransport | None = None  # whom it lets in; None: a node that follows, whose leader does
        self.is_watching = False
        self.counts = dict.fromkeys(("access-refused", "access-pushed-out", "access-too-slow", "access-ended"), 0)
        listeners = [each.user for each in places if each.user]
        self.entrance = Entrance(places, settings.tls_cert, settings.tls_key, has_users=bool(settings.access))
        try:
            tokens = Path(settings.tokens) if settings.tokens else None
            self.files = AccessFiles(Path(settings.access), tokens, listeners) if settings.access else None
        except AccessError as error:
            raise StartError(str(error), ExitCode.USAGE) from error
        if self.files is not None:
            self.take_users(self.files.access, None)

    @property
    def access(self) -> Access:
        """What the files say by now; there are some."""
        assert self.files is not None, "there are users"
        return self.files.access

    def served(self, secure: bool) -> int:
        """Return what a decoder serves besides what is served everywhere; `secure`: where a token may be said."""
        return sum(bit for name, bit in ACCESS_FORMATS.items() if name != b"auth" or secure)

    # --- coming in ----------------------------------------------------------------------------------------------------

    def open(
        self,
        clients: EpollTransport,
        listeners: Sequence[socket.socket] | None,
        logger: "Logger",
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Let clients in by all places, or, without sockets, over the links of fronts; the loop is running."""
        self.clients = clients
        engine = clients.turn.engine
        self.audit = Audit(logger, clients.turn.describe)
        if self.files is not None:
            engine.audit = self.audit.acted
            engine.users = self.users.values
            engine.set_spaces(limits_of(self.files.access))
        self.strangers_max = max(1, min(clients.connections_max, clients.sockets_max) // limits.STRANGERS_PART)
        clients.guard = self
        clients.turn.by_user = self.files is not None
        if listeners is not None:
            self.entrance.open(clients, listeners, loop, self.enter)
        self.watch(logger, loop)

    def leave(self) -> None:
        """Let nobody in any more, and forget those who were: they are closed, and another node leads."""
        self.entrance.close()
        self.clients = None
        self.node_digest = b""

    def watch(self, logger: "Logger", loop: asyncio.AbstractEventLoop) -> None:
        """Look at the files each second from here on."""
        self.logger = self.entrance.logger = logger
        self.loop = loop
        if not self.is_watching:
            self.is_watching = True
            loop.call_later(LOOK_S, self.look)

    def enter(self, fd: int, place: Place, tls: "Filter | None", certificate: "Certificate | None") -> None:
        """Let a client in that has connected at a place, or close it."""
        way = Socket() if tls is None else tls_socket(tls)
        assert self.clients is not None, "it lets them in by itself"
        if self.files is None:
            self.clients.take(fd, place.is_unix, way)
            return
        entry = Entry(self, place.text, source_of(fd), secure=place.secure)
        names, until = ((), None) if certificate is None else (tuple(certificate.names), float(certificate.ends_at))
        shown = Evidence(user=place.user, certificates=names, until=until)
        uid = entry.source if place.is_unix and isinstance(entry.source, int) else None
        # A session of TLS 1.2 that goes on has a certificate that was looked at when it began.
        found, entry.fault = self.access.by_evidence(shown, self.wall(), uid)
        self.settle(entry, found)
        way.entry = entry
        self.clients.take(fd, place.is_unix, way)

    def front(self, name: str) -> Entry | None:
        """Return the entry of the link of a front that this server starts; None: there are no users."""
        if self.files is None:
            return None
        entry = Entry(self, name, name, secure=True)
        entry.is_link = entry.is_trusted = True
        return entry

    def settle(self, entry: Entry, found: Found | None) -> None:
        """Let a client be somebody if that user has a place for it, else a stranger."""
        if found is not None and self.is_full(found.user):
            entry.fault = self.fullness(found.user)
            found = None
        if found is None and self.crowd.count >= self.strangers_max:
            self.push_out("strangers have no more places")
        entry.become(found)

    def fullness(self, name: str) -> str:
        """Return what a user is told that `is_full`."""
        return f"{name} has as many connections as it may"

    def is_full(self, name: str) -> bool:
        """Whether a user has as many connections as it may."""
        user = self.users[name]
        return 0 < user.connections_max <= user.connection_count

    # --- leaving ------------------------------------------------------------------------------------------------------

    def push_out(self, why: str = "there are no more places") -> None:
        """Put the oldest stranger of the source with most out; nothing where there is none."""
        entry = self.crowd.oldest_of_most()
        if entry is not None:
            self.put_out(entry, "access-pushed-out", why)

    def put_out(self, entry: Entry, what: str, why: str) -> None:
        """Close a connection; `what` is where it counts."""
        connection = entry.connection
        if connection is None or self.clients is None:
            return
        self.counts[what] += 1
        self.report("connection closed by access", entry, why)
        if isinstance(connection, Connection):
            self.clients.release(connection)
        else:
            connection.put_out()

    def end_by(self, until_s: float, entry: Entry) -> None:
        """Close a connection by then: that by which it is somebody's ends."""
        self.ends.setdefault(until_s, {})[entry] = None

    def end_no_more(self, until_s: float, entry: Entry) -> None:
        """Forget that a connection was to be closed by then."""
        mine = self.ends[until_s]
        del mine[entry]
        if not mine:
            del self.ends[until_s]

    def write_some(self, lines: Iterator[None]) -> None:
        """Write the next of some lines, one for each step, and the rest in other turns."""
        if sum(1 for _ in islice(lines, limits.LINES_PER_TURN)) == limits.LINES_PER_TURN:
            self.loop.call_soon(lambda: self.write_some(lines))

    def report(self, event: str, entry: Entry, why: str) -> None:
        """Say what has become of a client."""
        if event == "not authenticated":
            self.counts["access-refused"] += 1
        user = entry.user.name.decode()
        self.audit.note(
            user,
            (why,),
            event,
            lambda: {"listener": entry.where, "source": entry.peer or str(entry.source), "reason": why},
        )

    # --- files --------------------------------------------------------------------------------------------------------

    def reread(self) -> None:
        """Read all files at once: an operator has asked for that."""
        self.asked = True
        self.entrance.reread()
        self.look_at_files()

    def look(self) -> None:
        """Do what is due each second."""
        self.loop.call_later(LOOK_S, self.look)
        now_s = self.wall()
        if self.clients is not None:
            self.write_some(self.audit.flush())
        for until_s in [each for each in self.ends if each <= now_s]:
            self.look_again(self.ends[until_s])
        self.look_again(each for each in self.crowd if now_s - each.since_s >= limits.STRANGER_S)
        self.entrance.look(now_s)
        self.look_at_files()

    def look_at_files(self) -> None:
        """Begin to read the files if they have changed."""
        if self.files is None or self.reading is not None:
            return
        warnings = self.files.warnings(self.wall())
        self.write_some(self.logger.warning("access", about=each) for each in warnings)
        if self.files.is_due(self.wall(), at_once=self.asked):
            self.asked = False
            self.reading = self.loop.run_in_executor(None, self.files.read)
            self.reading.add_done_callback(self.take)

    def take(self, reading: "asyncio.Future[Access | AccessError]") -> None:
        """Go by what was read."""
        assert self.files is not None, "they were read"
        self.reading = None
        before = self.files.access
        access = None
        try:
            access = self.files.take(reading.result(), self.wall())
        except AccessError as error:
            log_fault(self.logger.log, "access", str(error))
        if access is None:
            return
        self.take_users(access, before)
        self.logger.info("access read", users=len(access.users), tokens=len(access.tokens))
        if self.clients is not None:
            self.clients.turn.engine.set_spaces(limits_of(access))
            self.clients.turn.engine.rights_changed()
            self.loop.call_soon(lambda: self.compare(access, before))

    def compare(self, access: Access, before: Access) -> None:
        """Look at all clients again if one may be somebody else by what was read: in a turn of its own, as it takes ms.

        What is no longer in force is freed here, too.
        """
        if not access.keeps(before):
            self.look_again(self.entries())

    def take_users(self, access: Access, before: Access | None) -> None:
        """Give the users of the files their rights; those that are in none any more have none."""
        self.token_end_s = 0.0
        known = {} if before is None else before.users
        for name, config in access.users.items():
            user = self.users.get(name)
            if user is None:
                user = self.users[name] = User(name.encode())
            if config is not known.get(name):
                user.grant(config.grants, config.admin, config.stats)
                user.connections_max = config.connections or 0
        for name in known.keys() - access.users.keys():
            self.users.pop(name).grant(Grants({}), False, False)

    def entries(self) -> list[Entry]:
        """Return the entries of all clients that are somebody's."""
        entries = [] if self.clients is None else self.clients.entries()
        return [each for each in entries if each.found is not None]

    def look_again(self, entries: Iterable[Entry]) -> None:
        """Put those out who have no time left, or are somebody else by now, or nobody: a piece of them a turn."""
        if not self.looking:
            self.loop.call_soon(self.look_at_some)
        self.looking += entries

    def look_at_some(self) -> None:
        """Look at the next piece."""
        now_s = self.wall()
        closed = at = 0
        while at < min(len(self.looking), limits.LOOKED_AT_PER_TURN) and closed < limits.CLOSED_PER_TURN:
            entry = self.looking[at]
            at += 1
            if entry.connection is not None:
                closed += self.is_put_out(entry, now_s)
        del self.looking[:at]
        if self.looking:
            self.loop.call_soon(self.look_at_some)

    def is_put_out(self, entry: Entry, now_s: float) -> bool:
        """Put a client out if it has to go."""
        access = self.access
        if entry.found is None:
            if entry.is_link or now_s - entry.since_s < limits.STRANGER_S:
                return False
            self.put_out(entry, "access-too-slow", "it has not shown who it is in time")
            return True
        found = access.again(entry.found, now_s)
        if found is None or self.users[found.user] is not entry.user:
            self.put_out(
                entry, "access-ended", access.fault_of(entry.found.evidence, now_s) or "it is another user now"
            )
        elif found.until is not None and found.until <= now_s:
            self.put_out(entry, "access-ended", "the time of what it has shown is over")
        elif entry.is_named and entry.by is not None and not entry.by.may_name(found.user):
            self.put_out(entry, "access-ended", f"its link may not speak for {found.user} any more")
        else:
            if found.until != entry.found.until:
                entry.leave()
                entry.become(found)
            return False
        return True

    def facts(self) -> Mapping[str, str]:
        """Return what ``stats`` says of who came and who did not, and for how long what they show is good."""
        now_s = self.wall()
        found: dict[str, float] = {**self.counts}
        if self.files is not None:
            found["users"] = len(self.files.access.users)
            if self.token_end_s <= now_s:
                self.token_end_s = self.files.access.next_end(now_s)
                self.unreachable_count = len(self.files.access.unreachable(now_s))
            found["users-unreachable"] = self.unreachable_count
            if self.token_end_s < math.inf:
                found["token-seconds-left"] = self.token_end_s - now_s
        found |= self.entrance.facts(now_s)
        return {key: str(int(value)) for key, value in found.items()}

    def close(self) -> None:
        """End the handshakes."""
        self.entrance.close()


def tls_socket(tls: "Filter") -> Socket:
    """Return the socket of a client that speaks TLS."""
    from beanpole.server.tls import TlsSocket  # noqa: PLC0415 - without TLS nothing of it is needed

    return TlsSocket(tls)


def limits_of(access: Access) -> dict[bytes, tuple[int, int, int]]:
    """Return how much may lie in spaces, as the engine is told: 0: no limit."""
    return {name: (each.jobs or 0, each.bytes or 0, each.tubes or 0) for name, each in access.spaces.items()}


def open_door(settings: "Settings") -> Door:
    """Return the door that the settings ask for. Raises StartError: they make no sense, or a file is wrong."""
    places = [parse(each) for each in settings.listen]
    has_more = bool(settings.access) or any(place.tls for place in places)
    if settings.cluster and has_more and not any(place.is_for_nodes for place in places):
        refuse(
            "a node of a --cluster with users or TLS needs a place at which the others reach it: -l tls:HOST, with"
            " client-cert=optional if it has a client-ca="
        )
    if settings.http and settings.access and not (settings.tokens or settings.http_token_file):
        refuse("--http with --access: users log in there by tokens, so give --tokens as well")
    if settings.access and not (settings.tokens or settings.cluster):  # whose nodes show a key
        for place in places:
            if place.tls and not (place.client_ca or place.user):
                refuse(f"{place.text}: nobody can be anybody there: give --tokens, or add client-ca=FILE or user=NAME")
    if settings.tokens and not settings.access:
        refuse("--tokens needs the file of users: give --access as well")
    if not settings.listen and settings.access:
        refuse("--access needs places to listen: give -l, as in -l tls:0.0.0.0 or -l unix:PATH")
    return Door(settings, places)


def refuse(why: str) -> NoReturn:
    raise StartError(why, ExitCode.USAGE)
