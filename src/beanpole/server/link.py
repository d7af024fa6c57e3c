"""The server's end of a link: one descriptor that carries the connections of many clients.

docs/link.md describes what goes over it. A turn reads a link once, before it serves connections, and sends once, after
it. A channel is the transport of one connection: what comes for it is lent to its decoder where it was read, and copied
only if the link is to be read again before its connection was served. What it sends is collected in the link's buffer,
in frames of up to 64 KiB; when that is full, channels wait for space, and each goes on with one frame.

When a link ends, its connections end as lost ones, in the turns that follow, as far as each has time for it. None of
them waits for a job from then on.
"""

import os
import select
import socket
from collections.abc import Callable

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.protocol.buffer import append, consume
from cython.cimports.beanpole.protocol.decoder import Mode
from cython.cimports.beanpole.protocol.link import FrameReader, Kind, add_frame, add_number
from cython.cimports.beanpole.server.connection import Connection, Transport
from cython.cimports.beanpole.server.epoll import Carrier, EpollTransport
from cython.cimports.beanpole.server.eventqueue import send_now
from cython.cimports.beanpole.server.tlsfilter import Filter
from cython.cimports.libc.errno import EAGAIN, EBADMSG, ECONNRESET, EINTR, EPIPE
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t, uint32_t
from cython.cimports.libc.stdlib import free

from beanpole.protocol import limits as protocol_limits
from beanpole.protocol.evidence import read_evidence
from beanpole.protocol.link import KINDS, link_line, read_first_line, read_map_epoch
from beanpole.server import limits
from beanpole.server.listener import peer_text
from beanpole.server.turn import nothing

INPUT_BYTE_COST_NS = cython.declare(int64_t, limits.INPUT_BYTE_COST_NS)
RECEIVE_BYTES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_PER_TURN)
RECEIVE_BYTES_FIRST = cython.declare(cython.Py_ssize_t, limits.RECEIVE_BYTES_FIRST)
COMINGS_PER_TURN = cython.declare(cython.int, limits.ACCEPTS_PER_TURN)
SERVE_COST_NS = cython.declare(int64_t, limits.SERVE_COST_NS)
SHARE_COST_NS = cython.declare(int64_t, limits.SHARE_COST_NS)
LINK_OUTPUT_BYTES = cython.declare(cython.Py_ssize_t, limits.LINK_OUTPUT_BYTES)
DATA_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_DATA_BYTES_MAX)
ROOM_BYTES = cython.declare(uint32_t, protocol_limits.LINK_ROOM_BYTES)
ROOM_BYTES_LEAST = cython.declare(uint32_t, protocol_limits.LINK_ROOM_BYTES_LEAST)
ROOM_BYTES_MAX = cython.declare(int64_t, protocol_limits.LINK_ROOM_BYTES_MAX)
CHANNELS_AHEAD = cython.declare(uint32_t, limits.LINK_CHANNELS_AHEAD)
CHANNELS_MAX = cython.declare(uint32_t, protocol_limits.LINK_CHANNELS_MAX)

FORWARD = b"beanpole-forward "
"""How a node begins that knows no links, and passes a client on: a reply would make this one the leader to it."""


@cython.cclass
class Channel(Transport):
    """The way to one client behind a link. The fields stand in ``link.pxd``."""

    def __dealloc__(self):
        free(self.kept.data)

    def wake(self, now_ns, connection):
        """Lend the decoder what came, and run it; what came first goes first."""
        is_kept: cython.bint = self.kept.size > 0
        data: cython.p_const_char = self.kept.data + self.kept.start if is_kept else self.lent
        there: cython.Py_ssize_t = self.kept.size - self.kept.start if is_kept else self.lent_bytes
        size: cython.Py_ssize_t = min(there, RECEIVE_BYTES_FIRST if connection.light else RECEIVE_BYTES_PER_TURN)
        if size == 0:
            self.readable = False
            return connection.stop_input(now_ns) if self.input_ends and not connection.input_ended else 0
        connection.decoder.borrow(data, size)
        if self.fresh:
            self.meet(connection)
        connection.share_ns -= size * INPUT_BYTE_COST_NS
        connection.run(now_ns)
        if is_kept:
            consume(cython.address(self.kept), size, 0)
        else:
            self.lent += size
            self.lent_bytes -= size
        self.readable = size < there or self.input_ends
        self.taken_bytes += size
        if self.taken_bytes >= ROOM_BYTES_LEAST and not self.input_ends and self.link.fd >= 0:
            add_number(cython.address(self.link.out), self.number, Kind.ROOM, self.taken_bytes)
            self.allowed_bytes += self.taken_bytes
            self.taken_bytes = 0
            self.link.carry()
        return 0

    def send(self, data, size):
        """Put one frame of it into the link's output, if there is space; else wait for that."""
        link = self.link
        if link.fd < 0:
            return -1
        if link.out.size - link.out.start >= LINK_OUTPUT_BYTES:
            return self.wait_in(link.refused)
        sent: cython.Py_ssize_t = min(size, cython.cast(cython.Py_ssize_t, self.room_bytes), DATA_BYTES_MAX)
        if sent == 0:
            return 0
        add_frame(cython.address(link.out), self.number, Kind.DATA, data, sent)
        self.room_bytes -= sent
        link.carry()
        if sent < size:
            return sent if self.room_bytes == 0 else sent + self.wait_in(link.served)
        if link.draining:
            connection: Connection = cython.cast(Connection, link.channels[self.number], typecheck=True)
            buffer = cython.address(connection.session.out.buffer)
            connection.finished |= buffer.size - buffer.start == sent and self.is_idle(connection)
        return sent

    def wait_in(self, line):
        """Let the connection go on when the link has sent something."""
        self.waits = True
        line.append(self.link.channels[self.number])
        return self.link.carry()

    def is_idle(self, connection):
        """Whether the session holds no job, waits for nothing, and has no input that has not run."""
        session = connection.session
        decoder = connection.decoder
        return (
            session.reserved.count == 0
            and not session.waiting
            and session.work is None
            and decoder.at == decoder.end
            and decoder.mode == Mode.LINE
            and self.kept.size == 0
            and self.lent_bytes == 0
        )

    def peer(self) -> str:
        """Return the address of the client."""
        return read_evidence(self.about).peer or self.link.name

    def via(self) -> str:
        """Return the link's name."""
        return self.link.name

    def linger(self, connection):
        """Close the connection a moment later."""
        self.link.epoll.loop.call_later(limits.LINGER_S, self.link.epoll.release, connection)
        return True

    def close(self):
        """Tell the front that the session has ended."""
        link = self.link
        if self.entry is not None:
            self.entry.closed()
            self.entry = None
        if self.closed_here or link.fd < 0:
            return 0
        self.closed_here = True
        add_frame(cython.address(link.out), self.number, Kind.CLOSE, b"", 0)
        link.carry()
        link.epoll.resume_accepting()
        if link.epoll.observe_connections:
            link.epoll.observer.channel_closed(link.name, self.number)
        return link.forget(self) if self.closed_there else 0


@cython.cclass
class Link(Carrier):
    """The server's end of one link. The fields stand in ``link.pxd``."""

    def __init__(
        self,
        epoll: EpollTransport,
        fd: cython.int,
        name: str,
        on_open: Callable[[], None] = nothing,
        on_end: Callable[[], None] = nothing,
        output_bytes_max: cython.Py_ssize_t = limits.LINK_OUTPUT_BYTES_MAX,
        clients_max: cython.Py_ssize_t = 2**31,
        came: bytes = b"",
        said: bytes = b"",
        tls: Filter = None,
        entry: object = None,
    ):
        """Serve the clients that a front has, at the other end of a connected socket, which is closed here.

        `name` is what the log calls the link. `on_open` is called when the front is answered, `on_end` when the link
        has ended for another reason than `close`. More bytes than `output_bytes_max` that the front does not take end
        it. Of a server that has `clients_max` clients it gets no further one. `came` is what was read of one that has
        come to a listener, and is watched already, `said` what it is still to be told, `tls` its TLS. `entry` is who it
        is where there are users (:mod:`beanpole.server.door`). Raises OSError: the socket can't be watched.
        """
        self.tls = tls
        self.entry = entry
        if entry is not None:
            entry.connection = self
        append(cython.address(self.out), said, len(said))
        self.on_open = on_open
        self.on_end = on_end
        self.output_bytes_max = output_bytes_max
        self.clients_max = clients_max
        self.epoll = epoll
        self.fd = fd
        self.name = name
        self.reader = FrameReader(True)
        self.channels = [None]
        self.lenders = []
        self.refused = []
        self.served = []
        epoll.watch_fd(fd, posix.EPOLLIN, posix.EPOLL_CTL_MOD if came else posix.EPOLL_CTL_ADD)
        epoll.carriers[fd] = self
        self.timer = epoll.loop.call_later(protocol_limits.LINK_SILENCE_S, self.check_silence)
        self.was_asked = len(came) > 0
        if self.was_asked:
            epoll.turn.log.link_count += 1
            self.reader.receive(came)
            self.unread = True
            self.carry()

    def __dealloc__(self):
        free(self.out.data)

    # --- what comes ---------------------------------------------------------------------------------------------------

    def note(self, now_ns, events):
        """Read what has come, and send on what waits."""
        if events & posix.EPOLLOUT:
            self.blocked = False
            self.epoll.watch_fd(self.fd, posix.EPOLLIN, posix.EPOLL_CTL_MOD)
            self.carry()
        if not events & ~posix.EPOLLOUT or self.unread:
            return 0
        if self.tls is not None and (self.epoll.deferred or self.epoll.records_left_ns <= 0):
            return self.defer()
        return self.read(now_ns)

    def defer(self):
        """Read what is encrypted at the end of a turn, behind the links that wait for that already."""
        if not self.deferred:
            self.deferred = True
            self.epoll.deferred.append(self)
        return 0

    def read_deferred(self, now_ns):
        self.deferred = False
        return self.read(now_ns) if self.fd >= 0 and not self.unread else 0

    def read(self, now_ns):
        """Read once, and give each channel what is for it."""
        channel: Channel
        for each in self.lenders:
            channel = cython.cast(Channel, each, typecheck=True)
            if channel.lent_bytes:
                append(cython.address(channel.kept), channel.lent, channel.lent_bytes)
                channel.lent_bytes = 0
        self.lenders = []
        target: cython.p_char = self.reader.room()
        room: cython.Py_ssize_t = self.reader.free_bytes()
        size: cython.Py_ssize_t
        if self.tls is None:
            size = posix.recv(self.fd, target, room, posix.MSG_DONTWAIT)
        else:
            size = self.tls.receive(self.fd, target, room, room, SHARE_COST_NS)
        reason: cython.int = EPIPE if size == 0 else last_error
        if self.tls is not None:
            self.epoll.records_left_ns -= SERVE_COST_NS + self.tls.cost_ns
            self.epoll.turn.cost_left_ns -= SERVE_COST_NS + self.tls.cost_ns
            if self.tls.is_due():
                self.defer()
        if size < 0 and (reason == EAGAIN or reason == EINTR):
            return 0
        if size <= 0:
            return self.end_by_system(reason)
        self.heard = True
        self.reader.end += size
        self.epoll.carried_bytes_received += size
        return self.read_frames(now_ns)

    def open_link(self):
        """Answer the first line; whether frames may follow. Who means another cluster is told nothing."""
        line: bytes = self.reader.take_line()
        if line is None:
            return 0 if self.reader.mistake is None else self.end(self.reader.mistake)
        said = read_first_line(line)
        if line.startswith(FORWARD) or (said is not None and said[:2] not in self.epoll.link_targets):
            self.close()
            self.on_end()
            return 0
        self.opened = said is not None
        self.map_epoch = said[2] if self.opened else 0
        engine = self.epoll.turn.engine
        number: int = engine.shard[0] if engine.shard else 0
        answer: bytes = link_line(number, engine.body_bytes_max) if self.opened else b"UNKNOWN_COMMAND\r\n"
        append(cython.address(self.out), answer, len(answer))
        self.carry()
        if self.opened:
            self.on_open()
        else:
            self.flush()
            self.end("first line")
        return self.opened

    def read_frames(self, now_ns):
        """Give each channel what is for it. Of clients that come and go only so many are taken in a turn."""
        reader = self.reader
        # Where there are users, a channel takes ten times as long to open, and a user may have several links.
        left: cython.int = COMINGS_PER_TURN if self.entry is None else max(1, self.epoll.comings_left)
        channel: uint32_t
        self.unread = False
        if not self.opened and not self.open_link():
            return 0
        while reader.next():
            channel = reader.channel
            if channel == 0:
                if reader.kind == Kind.DRAIN:
                    if self.draining:
                        return self.end("second DRAIN")
                    self.draining = True
                    self.close_idle()
                elif reader.value == 0:
                    self.answers = True
                    self.carry()
                continue
            if reader.kind == Kind.OPEN:
                self.open_channel(now_ns)
            elif channel >= cython.cast(uint32_t, len(self.channels)) or self.channels[channel] is None:
                self.end(f"{KINDS[reader.kind - 1][0]} of no channel")
            else:
                self.take_frame(now_ns, cython.cast(Connection, self.channels[channel], typecheck=True))
            if self.fd < 0:
                return 0
            if reader.kind != Kind.DATA and reader.kind != Kind.ROOM:
                left -= 1
                self.epoll.comings_left -= 1
                if left == 0:
                    self.unread = True
                    return self.carry()
        return 0 if reader.mistake is None else self.end(reader.mistake)

    def open_channel(self, now_ns):
        """Open the connection of a client that has come."""
        number: uint32_t = self.reader.channel
        channels = self.channels
        if self.draining:
            return self.end("OPEN after DRAIN")
        last: uint32_t = CHANNELS_MAX if self.entry is None else CHANNELS_AHEAD + 2 * len(channels)
        if number > min(last, CHANNELS_MAX) or (
            number < cython.cast(uint32_t, len(channels)) and channels[number] is not None
        ):
            return self.end("OPEN of a channel that is not free")
        about: bytes = self.reader.payload[: self.reader.size]
        if not is_text(about):
            return self.end("text of OPEN")
        if about.startswith(b"map "):
            self.map_epoch = read_map_epoch(about, self.map_epoch)
        channel: Channel = Channel()
        channel.link = self
        channel.number = number
        channel.about = about
        channel.room_bytes = channel.allowed_bytes = ROOM_BYTES
        if number >= cython.cast(uint32_t, len(channels)):
            channels.extend([None] * (number + 1 - len(channels)))
        connection: Connection = self.open_connection(now_ns, channel)
        channels[number] = connection
        self.channel_count += 1
        if self.epoll.turn.engine.session_count > self.clients_max:
            if self.epoll.has_crowd():
                self.epoll.guard.push_out()
            else:
                connection.finished = True
                self.epoll.turn.add_arrived(connection)
        if self.epoll.observe_connections:
            self.epoll.observer.channel_opened(self.name, number, channel.peer())
        return 0

    def open_connection(self, now_ns, channel):
        """Open the connection of a channel, of the user whose it is."""
        if self.entry is None:
            return self.epoll.turn.open(now_ns, channel)
        entry = channel.entry = self.entry.open_channel(read_evidence(channel.about))
        channel.fresh = True
        entry.connection = self.epoll.turn.open(now_ns, channel, False, entry.user, entry.served)
        return entry.connection

    def entries(self) -> list[object]:
        """Return the entries of the link and its clients, of which some are None."""
        there = [cython.cast(Connection, each, typecheck=True).transport for each in self.channels if each is not None]
        return [self.entry, *(each.entry for each in there)]

    def take_frame(self, now_ns, connection):
        """Take a frame of a client that is there; what comes for one whose session has ended is passed over."""
        reader = self.reader
        kind: cython.int = reader.kind
        channel: Channel = cython.cast(Channel, connection.transport, typecheck=True)
        if channel.closed_there:
            return self.end(f"{KINDS[kind - 1][0]} of no channel")
        if kind == Kind.CLOSE:
            channel.closed_there = channel.gone = True
            channel.cut = reader.value
            if channel.closed_here:
                return self.forget(channel)
        elif connection.closed:
            return 0
        elif kind == Kind.DATA:
            return self.take_data(connection, channel)
        elif kind == Kind.ROOM:
            if channel.room_bytes + cython.cast(int64_t, reader.value) > ROOM_BYTES_MAX:
                return self.end("ROOM without end")
            channel.room_bytes += reader.value
            if not channel.blocked or channel.waits:
                return 0
            channel.blocked = False
            return self.epoll.turn.add_arrived(connection)
        elif channel.input_ends:
            return self.end("FIN after FIN")
        if not connection.closed:
            if reader.size == 0:
                channel.input_ends = channel.readable = True
            self.epoll.turn.engine.half_close(now_ns, connection.session)
            self.epoll.turn.add_arrived(connection)
        return 0

    def take_data(self, connection, channel):
        """Take what a client sends: lent for this turn if nothing else waits."""
        reader = self.reader
        if channel.input_ends:
            return self.end("DATA after FIN")
        if reader.size > channel.allowed_bytes:
            return self.end("DATA without room")
        channel.allowed_bytes -= reader.size
        if channel.kept.size == 0 and channel.lent_bytes == 0:
            channel.lent = reader.payload
            channel.lent_bytes = reader.size
            self.lenders.append(channel)
        else:
            if channel.lent_bytes:
                append(cython.address(channel.kept), channel.lent, channel.lent_bytes)
                channel.lent_bytes = 0
            append(cython.address(channel.kept), reader.payload, reader.size)
        channel.readable = True
        return self.epoll.turn.add_arrived(connection)

    def close_idle(self):
        """Let each client go that needs nothing; the others as soon as a reply leaves them so, or the next look."""
        for each in self.channels:
            if each is not None:
                connection: Connection = cython.cast(Connection, each, typecheck=True)
                channel: Channel = cython.cast(Channel, connection.transport, typecheck=True)
                if not connection.closed and connection.session.out.buffer.size == 0 and channel.is_idle(connection):
                    connection.finished = True
                    self.epoll.turn.ready(connection)
        return 0

    def forget(self, channel):
        """Let a channel's number be free: both ends have closed it."""
        self.channels[channel.number] = None
        self.channel_count -= 1
        return 0

    # --- what is sent -------------------------------------------------------------------------------------------------

    def carry(self):
        """Let something be done at the end of this turn, or of the next."""
        if not self.carried:
            self.carried = True
            self.epoll.carried.append(self)
        return 0

    def end_turn(self, now_ns):
        """Send what is to be sent, and take what waits for the next turn."""
        self.carried = False
        if self.fd < 0:
            return 0
        self.flush()
        if self.unread and self.fd >= 0:
            self.read_frames(now_ns)
            self.epoll.turn.request()
        return self.defer() if self.tls is not None and self.fd >= 0 and self.tls.is_due() else 0

    def flush(self):
        """Send once; then those channels go on that waited for space."""
        if self.answers:
            self.answers = False
            add_number(cython.address(self.out), 0, Kind.PING, 1)
        left: cython.Py_ssize_t = self.out.size - self.out.start
        if left and not self.blocked:
            data: cython.p_char = self.out.data + self.out.start
            sent: cython.Py_ssize_t
            sent = send_now(self.fd, data, left) if self.tls is None else self.tls.send(self.fd, data, left)
            if sent < 0:
                return self.end_by_system(last_error)
            self.epoll.carried_bytes_sent += sent
            left -= sent
            consume(cython.address(self.out), sent, 2 * LINK_OUTPUT_BYTES)
            if left:
                self.blocked = True
                self.epoll.watch_fd(self.fd, posix.EPOLLIN | posix.EPOLLOUT, posix.EPOLL_CTL_MOD)
        if left > self.output_bytes_max:
            return self.end("not read")
        if left < LINK_OUTPUT_BYTES and (self.refused or self.served):
            waiting = self.refused + self.served
            self.refused = []
            self.served = []
            for each in waiting:
                connection: Connection = cython.cast(Connection, each, typecheck=True)
                channel: Channel = cython.cast(Channel, connection.transport, typecheck=True)
                channel.waits = channel.blocked = False
                if not connection.closed:
                    self.epoll.turn.add_sending(connection)
            self.epoll.turn.request()
        return 0

    # --- its end ------------------------------------------------------------------------------------------------------

    def check_silence(self) -> None:
        """Ask for a sign of life if there was none lately; end the link if there was none for long."""
        self.silence_count = 0 if self.heard else self.silence_count + 1
        self.heard = False
        if self.silence_count >= (
            protocol_limits.LINK_SILENCES_MAX if self.opened else protocol_limits.LINK_FIRST_SILENCES_MAX
        ):
            self.end("silent")
        elif self.silence_count and self.opened:
            add_number(cython.address(self.out), 0, Kind.PING, 0)
            self.flush()
        if self.draining and self.fd >= 0:
            self.close_idle()
        if self.fd >= 0:
            self.timer = self.epoll.loop.call_later(protocol_limits.LINK_SILENCE_S, self.check_silence)

    def end_by_system(self, reason):
        """End the link as the system says why, or TLS."""
        if reason == EPIPE or reason == ECONNRESET:
            return self.end("ended")
        if reason == EBADMSG:
            return self.end("TLS")
        return self.end("system", os.strerror(reason))

    def end(self, reason, error=None):
        """End the link, and its sessions as lost connections."""
        if self.fd >= 0:
            self.epoll.observer.link_closed(self.name, reason, self.channel_count, error)
            self.close()
            self.on_end()
        return 0

    def put_out(self) -> None:
        """End the link: whose it is has to leave."""
        self.end("access")

    def close(self) -> None:
        """End the sessions as lost connections, each when a turn has time for it. Closing again does nothing."""
        turn = self.epoll.turn
        for each in self.leave():
            connection: Connection = cython.cast(Connection, each, typecheck=True)
            channel: Channel = cython.cast(Channel, connection.transport, typecheck=True)
            if connection.closed:
                continue
            if not channel.input_ends:
                channel.cut = True
            channel.gone = connection.finished = True
            if connection.session.waiting:
                turn.engine.stop_waiting(connection.session)
            turn.add_queue(connection)
        turn.request()

    def send_rest(self) -> None:
        """Send what waits for space, as far as the front takes it within a moment: no turn follows."""
        turn = self.epoll.turn
        ends_ns: int64_t = posix.monotonic_ns() + limits.LINK_STOP_NS
        taker = select.poll()
        taker.register(self.fd, select.POLLOUT)
        while self.fd >= 0 and (self.out.size > self.out.start or self.refused or self.served or turn.sending):
            if not taker.poll(max(ends_ns - posix.monotonic_ns(), 0) // 1_000_000):
                return
            self.blocked = False
            self.carry()
            self.epoll.send_held()

    def close_at_once(self) -> None:
        """Close the link, and end its sessions now: the server stops."""
        now: int64_t = self.epoll.now()
        for each in self.leave():
            connection: Connection = cython.cast(Connection, each, typecheck=True)
            connection.transport.cut = True
            self.epoll.turn.drop(now, connection)

    def leave(self) -> list[Connection]:
        """Close the descriptor; return the connections that were there."""
        if self.fd < 0:
            return []
        self.timer.cancel()
        self.epoll.turn.log.link_count -= self.was_asked
        del self.epoll.carriers[self.fd]
        if self.entry is not None:
            self.entry.closed()
        if self.tls is not None:
            self.tls.finish(self.fd, True)
        self.epoll.close_fd(self.fd)
        self.epoll.resume_accepting()
        self.fd = -1
        connections = [each for each in self.channels if each is not None]
        self.channels = [None]
        self.channel_count = 0
        self.refused = []
        self.served = []
        self.lenders = []
        return connections


def is_text(about: bytes) -> bool:
    """Whether it is lines of UTF-8, each ended by LF, without control characters."""
    try:
        text = about.decode()
    except UnicodeDecodeError:
        return False
    return not text or (text.endswith("\n") and text.replace("\n", "").isprintable())


def open_link(
    epoll: EpollTransport, fd: int, came: bytes, said: bytes = b"", tls: Filter | None = None, entry: object = None
) -> None:
    """Serve the clients of a front that has connected as a client does, and has sent the beginning of a first line.

    The last five are as those of `Link`.
    """
    connection = socket.socket(fileno=fd)
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, protocol_limits.LINK_UNSENT_MS)
    connection.detach()
    name = peer_text(fd)
    Link(
        epoll,
        fd,
        name,
        lambda: epoll.observer.link_opened(name),
        clients_max=epoll.connections_max,
        came=came,
        said=said,
        tls=tls,
        entry=entry,
    )
