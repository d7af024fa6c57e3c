"""Clients' sockets on one side, a link on the other (docs/link.md); bytes are passed as they are.

A turn takes what has come over the link, one ``recv``, and passes it on, one ``send`` for each client; then it reads
once from each client that has sent something, straight into a frame, and sends all of them together. So the server, at
the other end of the link, makes two system calls for what would be two for each client.

Clients are watched as in :mod:`beanpole.server.epoll`: edge-triggered. Nothing is read from a client for which the
server has no room, nor from any while the link takes no more. What comes for a client that does not read is kept: at
most as much as the server was given room for.

A front begins without a link. Clients are accepted, and nothing of them is read until there is one: `attach` opens them
all. When a link ends, so do its clients, but for those of which nothing was read: they wait for the next.
"""

import contextlib
import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.front.linksocket import LinkSocket
from cython.cimports.beanpole.protocol.buffer import append, consume, reserve
from cython.cimports.beanpole.protocol.link import FrameReader, Kind, add_frame, add_number, put_header
from cython.cimports.beanpole.server.eventqueue import GREETING_BYTES, EventQueue, Greeter, greets, send_now
from cython.cimports.beanpole.server.tlsfilter import Filter
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.libc.errno import EAGAIN, EINTR, EMFILE
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free

from beanpole.front import limits
from beanpole.protocol import limits as protocol_limits
from beanpole.protocol.evidence import place_text
from beanpole.protocol.link import KINDS
from beanpole.server import limits as server_limits
from beanpole.server.listener import peer_text

if TYPE_CHECKING:
    from beanpole.server.observer import Observer

HEADER_BYTES = cython.declare(cython.Py_ssize_t, 8)
ASKING_BYTES = cython.declare(cython.Py_ssize_t, 128)
"""In which a token's line, of 53, and the greeting behind it find room."""

DATA_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_DATA_BYTES_MAX)
ROOM_BYTES = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_ROOM_BYTES)
ROOM_BYTES_LEAST = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_ROOM_BYTES_LEAST)
ROOM_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_ROOM_BYTES_MAX)
CHANNELS_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_CHANNELS_MAX)
ACCEPTS_PER_TURN = cython.declare(cython.int, server_limits.ACCEPTS_PER_TURN)
OUT_BYTES_PAUSE = cython.declare(cython.Py_ssize_t, limits.OUT_BYTES_PAUSE)
QUEUE_BYTES = cython.declare(cython.Py_ssize_t, limits.QUEUE_BYTES)
PIECE_BYTES_LEAST = cython.declare(cython.Py_ssize_t, limits.PIECE_BYTES_LEAST)
YIELD_NS = cython.declare(int64_t, limits.YIELD_NS)
SLOT = cython.declare(cython.int, server_limits.FRONT_SLOT)
SILENCE_NS = cython.declare(int64_t, protocol_limits.LINK_SILENCE_S * 1_000_000_000)
NEVER = cython.declare(int64_t, 2**63 - 1)
TURN_COST_NS = cython.declare(int64_t, server_limits.TURN_COST_NS)
SHARE_COST_NS = cython.declare(int64_t, server_limits.SHARE_COST_NS)
RECORD_BYTES_MAX = cython.declare(cython.Py_ssize_t, server_limits.TLS_RECORD_BYTES_MAX)
SEALED_BYTES_MORE = cython.declare(cython.Py_ssize_t, 1_024)
"""By which what makes a whole frame is longer where it is encrypted, in records of any usual size."""

CLIENT_EVENTS = cython.declare(cython.uint, posix.EPOLLIN | posix.EPOLLPRI | posix.EPOLLRDHUP | posix.EPOLLET)


@cython.cclass
class Client:
    """One client. The fields stand in ``front.pxd``."""

    def __dealloc__(self):
        free(self.unsent.data)


@cython.cclass
class Front(EventQueue):
    """Clients, and the link that carries them. The fields stand in ``front.pxd``."""

    def __init__(
        self,
        observer: "Observer",
        connections_max: cython.Py_ssize_t = 2**31,
        memory: mmap.mmap | None = None,
        number: cython.int = 0,
        front_count: cython.int = 1,
        one_reply_per_send: cython.bint = False,
        wait_ns: int64_t = 2**62,
        clock: Callable[[], int] | None = None,
    ):
        """Accept clients, from `listen` on, which wait for a link: each for so many nanoseconds, then it is closed.

        `memory` is what the fronts of a server know of each other: see :mod:`beanpole.server.fronts`. With
        `one_reply_per_send` what comes in a frame leaves alone, as far as the client takes it.
        """
        self.link = LinkSocket()
        self.observer = observer
        self.connections_max = connections_max
        self.clock = clock
        self.memory = memory or mmap.mmap(-1, mmap.PAGESIZE)
        view: cython.uchar[:] = self.memory
        self.shared = cython.cast(cython.pointer(int64_t), cython.address(view[0]))
        self.number = number
        self.front_count = front_count
        self.one_reply_per_send = one_reply_per_send
        self.wait_ns = wait_ns
        self.due_ns = NEVER
        self.shared[self.number * SLOT] = 0
        self.by_fd = []
        self.channels = [None]
        self.free_channels = []
        self.waiting = []
        self.queue = []
        self.behind = []
        self.touched = []

    # --- links --------------------------------------------------------------------------------------------------------

    def attach(self, link_fd: cython.int, reader: FrameReader, asks: cython.bint, tls: Filter | None = None) -> None:
        """Carry clients over a link whose first lines are through, from the next turn on.

        `link_fd` is a connected socket, which is closed here; what it carries is encrypted where there is `tls`.
        `reader` may have what came behind the lines. `asks`: end the link when the server is silent. Raises OSError:
        the socket can't be watched.
        """
        self.link.open(self, link_fd, reader, tls)
        self.asks = asks
        if asks:
            self.check_ns = self.now() + SILENCE_NS
            self.due_ns = min(self.due_ns, self.check_ns)
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            client: Client = cython.cast(Client, each, typecheck=True)
            if client.waits:
                self.open_channel(client)
        self.request()

    def close_link(self) -> None:
        """End the link, if there is one."""
        if self.link.is_open:
            self.link.close("closed")
            self.leave_link(self.now())
            self.request()

    def drain(self) -> None:
        """Take no more clients, and let those go that need nothing: docs/link.md, DRAIN. Again it does nothing."""
        if self.draining:
            return
        self.draining = True
        self.stop_accepting()
        self.close_waiting()
        if self.link.is_open:
            add_frame(cython.address(self.link.out), 0, Kind.DRAIN, cython.NULL, 0)
        self.request()

    def close_clients(self) -> None:
        """Close all clients."""
        for each in self.by_fd:
            if each is not None:
                self.lose(cython.cast(Client, each, typecheck=True), 1)
        self.request()

    def take_waiting(self) -> list[tuple[int, bool, Filter | None, object]]:
        """Give up the clients that wait for a link: descriptors, which are Unix sockets, and what `admit` had."""
        found = []
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            client: Client = cython.cast(Client, each, typecheck=True)
            if client.waits:
                found.append((client.fd, client.is_unix, client.tls, client.origin))
                self.forget(client)
        return found

    @property
    def waiting_count(self) -> int:
        return sum([cython.cast(Client, each, typecheck=True).waits for each in self.waiting])

    def leave_link(self, now_ns):
        """Close the clients of a link that has ended; those of which nothing was read wait for the next."""
        channels, self.channels, self.free_channels = self.channels, [None], []
        self.link.let_go()
        count = 0
        for each in channels:
            if each is not None:
                client: Client = cython.cast(Client, each, typecheck=True)
                count += 1
                client.channel = 0
                if client.fd < 0:
                    continue
                if client.fresh and not client.ended and not self.draining:
                    self.let_wait(now_ns, client)
                else:
                    self.close_client(client)
        self.arm(now_ns)
        return count

    def let_wait(self, now_ns, client):
        """Let a client wait for a link."""
        client.waits = True
        client.since_ns = now_ns
        self.waiting.append(client)
        self.due_ns = min(self.due_ns, now_ns + self.wait_ns)
        return self.enqueue(client)

    def look_at_waiting(self, client):
        """Close a client that has gone and said nothing, and hand over one that is none."""
        found: cython.char[128]
        if not client.hung_up and self.on_link_asked is None:
            return 0
        size: cython.Py_ssize_t = posix.recv(client.fd, found, ASKING_BYTES, posix.MSG_DONTWAIT | posix.MSG_PEEK)
        if size == 0 or (size < 0 and last_error != EAGAIN and last_error != EINTR):
            return self.close_client(client)
        return self.hand_over(client, b"") if size > 0 and self.is_asked(found, size) else 0

    def is_asked(self, data, size):
        """Whether what comes first is the line of a front, or of another server, alone or behind its token."""
        if self.on_link_asked is None:
            return False
        said: bytes = data[: min(size, ASKING_BYTES)]
        if said.startswith(b"auth "):
            said = said[said.find(b"\n") + 1 :]
        return len(said) >= GREETING_BYTES and greets(said, len(said))

    def hand_over(self, client, data):
        """Give up what is no client, but asks for a link."""
        fd: cython.int = client.fd
        is_unix: cython.bint = client.is_unix
        if client.channel:
            add_number(cython.address(self.link.out), client.channel, Kind.CLOSE, 1)
        self.forget(client)
        self.on_link_asked(fd, data, is_unix, client.tls)
        return 0

    def close_waiting(self):
        """Close the clients that wait for a link."""
        for fd, *_ in self.take_waiting():
            posix.close(fd)
        return 0

    # --- the clock ----------------------------------------------------------------------------------------------------

    def look_at_clock(self, now_ns):
        """Ask whether the server is there, and close clients that have waited long enough for a link."""
        self.due_ns = NEVER
        if self.asks and self.link.is_open:
            if now_ns >= self.check_ns:
                self.check_ns = now_ns + SILENCE_NS
                self.link.check_silence()
            self.due_ns = self.check_ns
        at: cython.Py_ssize_t = 0
        while at < len(self.waiting):
            client: Client = cython.cast(Client, self.waiting[at], typecheck=True)
            if client.waits:
                if client.since_ns + self.wait_ns > now_ns:
                    self.due_ns = min(self.due_ns, client.since_ns + self.wait_ns)
                    break
                self.close_client(client)
            at += 1
        del self.waiting[:at]
        return 0

    def arm(self, now_ns):
        """Let the timer fire when the clock is to be looked at, or a paused listener has something to do."""
        return self.wake_by(now_ns, self.due_ns if self.due_ns != NEVER else -1)

    # --- turns --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run turns until the link ends."""
        while self.link.is_open:
            self.run_turn(0 if self.is_busy() else -1)

    def poll(self) -> None:
        """Run a turn without waiting."""
        self.run_turn(0)
        if self.run_soon is not None and self.is_busy():
            self.run_soon()

    def is_busy(self):
        return self.requested or (len(self.queue) + len(self.behind) > 0 and not self.link.blocked)

    def request(self):
        """Let there be a turn soon."""
        self.requested = True
        if self.run_soon is not None:
            self.run_soon()
        return 0

    def run_turn(self, wait_ms):
        """Wait until something happens, at most `wait_ms` milliseconds, below 0 for ever; do what that asks for."""
        events: posix.epoll_event[512]
        i: cython.int
        fd: cython.int
        count: cython.int
        with cython.nogil:
            count = posix.epoll_wait(self.epoll_fd, events, 512, wait_ms)
        if count < 0:
            PyErr_CheckSignals()
            self.interrupted = True
            return 0
        began_ns: int64_t = self.now()
        knocking: list = []
        if self.requested:
            self.requested = False
            self.take()
        for i in range(count):
            fd = events[i].data.fd
            if 0 <= fd < len(self.by_fd) and self.by_fd[fd] is not None:
                self.note(cython.cast(Client, self.by_fd[fd], typecheck=True), events[i].events)
            elif fd == self.link.fd:
                if self.link.note(events[i].events):
                    self.take()
            elif fd in self.listeners:
                knocking.append(fd)
            else:
                self.note_other(fd, events[i].events)
        if began_ns >= self.due_ns:
            self.look_at_clock(began_ns)
        if self.touched:
            self.serve_touched()
        if self.queue or self.behind:
            self.serve_queue()
        # New clients come last: see EpollTransport.note_events. Who has sent something already is opened with that.
        for fd in knocking:
            self.accept(began_ns, fd)
        if knocking and self.queue:
            self.serve_queue()
        if self.accept_retry_ns or self.due_ns != NEVER:
            self.arm(began_ns)
        self.flush()
        self.count(began_ns)
        self.records_cost_ns = 0
        if not self.link.is_open and self.link.reader is not None:
            channels: cython.int = self.leave_link(began_ns)
            if self.on_link_end is not None:
                self.on_link_end(self.link.reason, channels)
        if self.draining and self.client_count == 0 and self.on_empty is not None:
            on_empty, self.on_empty = self.on_empty, None
            on_empty()
        return self.call_readers() if self.readable is not None else 0

    def note(self, client, events):
        """Take note of what happened to a client's socket."""
        if events & ~posix.EPOLLOUT:
            client.readable = True
        if events & posix.EPOLLPRI:
            client.thorough = True
        if events & (posix.EPOLLRDHUP | posix.EPOLLHUP | posix.EPOLLERR):
            client.hung_up = True  # what came before is read first, also before a RST
        if events & posix.EPOLLERR or (events & posix.EPOLLHUP and client.blocked):
            client.broken = True
        if events & posix.EPOLLOUT and client.blocked:
            client.blocked = False
            self.watch_fd(client.fd, CLIENT_EVENTS, posix.EPOLL_CTL_MOD)
            self.deliver(client)
        return self.enqueue(client)

    def note_other(self, fd, events):
        """Take note of what happened to a descriptor that is no client, no listener, and not the link's."""
        return self.note_own(fd)

    # --- from the server ----------------------------------------------------------------------------------------------

    def take(self):
        """Take the frames that have come."""
        client: Client
        reader: FrameReader = self.link.reader
        while self.link.next():
            self.frame_count += 1
            found = self.channels[reader.channel] if reader.channel < len(self.channels) else None
            if found is None:
                return self.link.close(f"{KINDS[reader.kind - 1][0]} of no channel")
            client = cython.cast(Client, found, typecheck=True)
            if reader.kind == Kind.CLOSE:
                self.end_channel(client)
            elif client.fd < 0:
                continue  # it is passed over: our own CLOSE is under way
            elif reader.kind == Kind.DATA:
                self.take_data(client)
            else:
                client.room += reader.value
                if client.room > ROOM_BYTES_MAX:
                    return self.link.close("ROOM without end")
                if client.readable:
                    self.enqueue(client, True)
        return 0

    def take_data(self, client):
        """Remember what came for a client; what comes twice in a turn is passed on together if it may be."""
        reader: FrameReader = self.link.reader
        size: cython.Py_ssize_t = reader.size
        if self.one_reply_per_send and client.touched:
            self.deliver(client)
            if client.fd < 0:
                return 0
        client.allowance -= size
        if client.allowance < 0:
            return self.link.close("DATA without room")
        client.fresh = False
        if client.came_bytes == 0 and client.unsent.size == client.unsent.start:
            client.came = reader.payload
            client.came_bytes = size
        else:
            append(cython.address(client.unsent), client.came, client.came_bytes)
            append(cython.address(client.unsent), reader.payload, size)
            client.came_bytes = 0
        if not client.touched:
            client.touched = True
            self.touched.append(client)
        return 0

    def end_channel(self, client):
        """The server has closed a channel: answer, unless that is its answer, and close when all is passed on."""
        channel = client.channel
        self.channels[channel] = None
        self.free_channels.append(channel)
        client.channel = 0
        if client.fd < 0:
            return 0
        add_number(cython.address(self.link.out), channel, Kind.CLOSE, 0)
        self.link.idle_bytes += HEADER_BYTES + 1  # the server does nothing with it that somebody waits for
        if not client.touched:
            client.touched = True
            self.touched.append(client)
        return 0

    def serve_touched(self):
        """Send to all clients for which something came."""
        touched, self.touched = self.touched, []
        for each in touched:
            client: Client = cython.cast(Client, each, typecheck=True)
            client.touched = False
            if client.fd >= 0:
                self.deliver(client)
        return 0

    def deliver(self, client):
        """Send a client what there is for it; close it if its channel has ended, and nothing is left."""
        size: cython.Py_ssize_t = client.came_bytes
        if size:
            client.came_bytes = 0
            self.pass_to(client, client.came, size)
        elif client.unsent.size > client.unsent.start and not client.blocked:
            size = client.unsent.size - client.unsent.start
            self.pass_to(client, client.unsent.data + client.unsent.start, size)
        if client.fd < 0:
            return 0
        if client.channel == 0:
            return self.close_client(client) if client.unsent.size == client.unsent.start else 0
        if client.taken >= ROOM_BYTES_LEAST:
            add_number(cython.address(self.link.out), client.channel, Kind.ROOM, client.taken)
            client.allowance += client.taken
            client.taken = 0
        return 0

    def pass_to(self, client, data, size):
        """Send bytes to a client, and keep what the kernel does not take."""
        unsent = cython.address(client.unsent)
        is_kept: cython.bint = unsent.size > unsent.start
        sent: cython.Py_ssize_t
        if client.tls is None:
            sent = send_now(client.fd, data, size)
        else:
            client.tls.is_last = client.channel == 0
            sent = client.tls.send(client.fd, data, size)
        if sent < 0:
            return self.lose(client, 0)
        client.taken += sent
        if is_kept:
            consume(unsent, sent, 0)
        elif sent < size:
            append(unsent, data + sent, size - sent)
        if sent < size:
            client.blocked = True
            self.watch_fd(client.fd, CLIENT_EVENTS | posix.EPOLLOUT, posix.EPOLL_CTL_MOD)
        return 0

    # --- from the clients ---------------------------------------------------------------------------------------------

    def enqueue(self, client, has_more=False):
        if not client.queued and client.fd >= 0:
            client.queued = True
            queue = self.behind if has_more else self.queue
            queue.append(client)
        return 0

    def serve_queue(self):
        """Read from those that have sent something new, and then from those that had more when they were last read.

        Every other time one of the latter comes first, as those who send little could else hold them up for ever.
        """
        if self.link.out.size - self.link.out.start >= OUT_BYTES_PAUSE:
            return 0
        queue, self.queue = self.queue, []
        behind, self.behind = self.behind, []
        left: list = []
        if behind:
            self.ahead_count = 1 - self.ahead_count
            left = self.serve_clients(behind[: self.ahead_count], DATA_BYTES_MAX)
        piece: cython.Py_ssize_t = max(PIECE_BYTES_LEAST, QUEUE_BYTES // (len(queue) + 1))
        self.queue = self.serve_clients(queue, min(piece, DATA_BYTES_MAX)) + self.queue
        if behind:
            self.behind = left + self.serve_clients(behind[self.ahead_count :], DATA_BYTES_MAX) + self.behind
        return 0

    def serve_clients(self, clients, piece_bytes):
        """Read from clients, each once, until enough is on its way to the server, or was decrypted in this turn.

        Return those that are left.
        """
        self.piece_bytes = piece_bytes
        out = cython.address(self.link.out)
        at: cython.Py_ssize_t = 0
        while at < len(clients) and out.size - out.start < OUT_BYTES_PAUSE and self.records_cost_ns < TURN_COST_NS:
            client: Client = cython.cast(Client, clients[at], typecheck=True)
            client.queued = False
            if client.fd >= 0 and client.readable:
                self.pump(client)
            at += 1
        return clients[at:]

    def pump(self, client):
        """Read once from a client, into a frame."""
        if client.waits:
            return self.look_at_waiting(client)
        if client.channel == 0:
            # Of a client that takes no more, and to which something is to be passed on yet.
            return self.close_client(client) if client.broken else 0
        if client.ended:
            return self.lose(client, 0) if client.broken else 0
        tls = client.tls
        size: cython.Py_ssize_t = min(client.room, DATA_BYTES_MAX)
        if size < (1 if tls is None else RECORD_BYTES_MAX):
            return self.lose(client, 0) if client.broken else 0
        out = cython.address(self.link.out)
        room: cython.Py_ssize_t = min(size, self.piece_bytes) if tls is None else size + SEALED_BYTES_MORE
        target: cython.p_char = reserve(out, HEADER_BYTES + room)
        found: cython.Py_ssize_t
        has_more: cython.bint
        if tls is None:
            found = posix.recv(client.fd, target + HEADER_BYTES, room, posix.MSG_DONTWAIT)
            has_more = found == room
        else:
            found = tls.receive(client.fd, target + HEADER_BYTES, room, size, SHARE_COST_NS)
            has_more = tls.has_more
            self.records_cost_ns += tls.cost_ns
        if found > 0:
            client.readable = has_more or client.hung_up or client.thorough
            return self.pass_on(client, target, found)
        if found == 0:
            client.ended = True
            return add_frame(out, client.channel, Kind.FIN, cython.NULL, 0)
        if last_error == EINTR:
            client.readable = tls is None or has_more or client.hung_up or client.thorough
            return self.enqueue(client) if client.readable else 0
        if last_error == EAGAIN:
            client.readable = False
            return 0
        return self.lose(client, 0)

    def pass_on(self, client, frame, size):
        """Pass on what was read into a frame, whose header has its place, and go on with the client if it has more."""
        if client.fresh:
            if self.is_asked(frame + HEADER_BYTES, size):
                return self.hand_over(client, frame[HEADER_BYTES : HEADER_BYTES + size])
            client.fresh = False
        self.frame_count += 1
        put_header(frame, client.channel, Kind.DATA, size)
        self.link.out.size += HEADER_BYTES + size
        client.room -= size
        return self.enqueue(client, True) if client.readable and client.room else 0

    def flush(self):
        """Send what is to be sent over the link."""
        return self.link.flush()

    def count(self, began_ns):
        """Count the frames of a turn, and how long they, and those that the link did not take, have waited."""
        now_ns: int64_t = self.now()
        slot = cython.address(self.shared[self.number * SLOT])
        slot[0] = self.client_count
        slot[1] += self.frame_count
        slot[2] += self.frame_count * (now_ns - began_ns) + self.unsent_count * (now_ns - self.turn_ended_ns)
        self.unsent_count = self.unsent_count + self.frame_count if self.link.blocked else 0
        self.frame_count = 0
        self.turn_ended_ns = now_ns
        return 0

    # --- coming and going ---------------------------------------------------------------------------------------------

    def accept(self, now_ns, listener):
        """Accept clients."""
        count: cython.int
        for count in range(ACCEPTS_PER_TURN):
            if self.has_no_place() or self.client_count + len(self.strangers) >= self.connections_max:
                if count > 0 and self.strangers:
                    return 0  # whether another waits says the next turn: nobody has to make room for none
                if not self.make_room(now_ns):
                    return self.pause_accepting(now_ns, EMFILE)
            if self.has_more_than_others():
                return self.leave_to_others()
            fd: cython.int = self.accept_from(now_ns, listener)
            if fd < 0:
                return 0
            if listener in self.greeters:
                cython.cast(Greeter, self.greeters[listener], typecheck=True).meet(now_ns, fd, listener)
                continue
            try:
                self.join(now_ns, fd, self.listeners[listener], Client())
            except OSError as error:
                return self.pause_accepting(now_ns, error.errno)
        return 0

    def has_no_place(self):
        is_numbered: cython.bint = bool(self.free_channels) or len(self.channels) <= CHANNELS_MAX
        return self.client_count >= self.connections_max or not is_numbered

    def has_more_than_others(self):
        """Whether this front has a tenth more clients than the mean of all."""
        if self.has_yielded or self.front_count < 2:
            self.has_yielded = False
            return False
        total: int64_t = self.client_count
        running: int64_t = 1
        for each in range(self.front_count):
            if each != self.number and self.shared[each * SLOT] >= 0:
                total += self.shared[each * SLOT]
                running += 1
        return 10 * (self.client_count - 1) * running > 11 * total

    def leave_to_others(self):
        """Leave new clients to the fronts that have fewer; if they take none for a while, one is accepted here."""
        for fd in self.listeners:
            self.watch_fd(fd, 0, posix.EPOLL_CTL_MOD)
        self.has_yielded = True
        self.accept_retry_ns = self.now() + YIELD_NS
        return 0

    def admit(self, fd: cython.int, is_unix: cython.bint, tls: Filter | None, about: bytes, origin: object) -> None:
        """Take a client that was met elsewhere, and of which nothing was read; it is closed if it can't be taken.

        `about` is what OPEN says of it. `tls` is what decrypts it; None: it speaks no TLS. `origin` is for
        `take_waiting`.
        """
        if self.draining:  # an OPEN would be wrong
            posix.close(fd)
            return
        client: Client = Client()
        client.tls = tls
        client.about = about
        client.origin = origin
        with contextlib.suppress(OSError):
            self.join(self.now(), fd, is_unix, client)
        self.request()

    def join(self, now_ns, fd, is_unix, client):
        """Take a client, which is closed if it can't be watched."""
        client.fd = fd
        client.is_unix = client.thorough = is_unix
        client.fresh = client.readable = True
        if fd >= len(self.by_fd):
            self.by_fd.extend([None] * (fd + 1 - len(self.by_fd)))
        self.by_fd[fd] = client
        self.client_count += 1
        self.shared[self.number * SLOT] = self.client_count
        try:
            self.watch_fd(fd, CLIENT_EVENTS, posix.EPOLL_CTL_ADD)
        except OSError:
            self.close_client(client)
            raise
        return self.open_channel(client) if self.link.is_open else self.let_wait(now_ns, client)

    def open_channel(self, client):
        """Open a channel for a client."""
        client.waits = False
        client.room = client.allowance = ROOM_BYTES
        if self.free_channels:
            client.channel = self.free_channels.pop()
            self.channels[client.channel] = client
        else:
            client.channel = len(self.channels)
            self.channels.append(client)
        about: bytes = client.about
        if about is None:
            about = place_text(peer_text(client.fd), "unix" if client.is_unix else "tcp")
        add_frame(cython.address(self.link.out), client.channel, Kind.OPEN, about, len(about))
        return self.enqueue(client)

    def lose(self, client, reason):
        """Close a client and its channel; `reason` is 0 if it has ended its connection, 1 if that was done here."""
        if client.channel:
            add_number(cython.address(self.link.out), client.channel, Kind.CLOSE, reason)
        return self.close_client(client)

    def close_client(self, client):
        """Close a client's socket."""
        fd: cython.int = client.fd
        if client.tls is not None:
            client.tls.finish(fd, not client.broken and client.unsent.size == client.unsent.start)
        self.forget(client)
        posix.close(fd)
        return self.resume_accepting()

    def forget(self, client):
        """Watch a client's socket no more, and let what is to be sent to it go."""
        # That it is watched ends first: see EventQueue.close_fd.
        posix.epoll_ctl(self.epoll_fd, posix.EPOLL_CTL_DEL, client.fd, cython.NULL)
        self.by_fd[client.fd] = None
        client.fd = -1
        client.waits = False
        client.came_bytes = 0
        consume(cython.address(client.unsent), client.unsent.size - client.unsent.start, 0)
        self.client_count -= 1
        self.shared[self.number * SLOT] = self.client_count
        return 0
