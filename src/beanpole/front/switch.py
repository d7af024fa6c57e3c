"""Between a front and the shards of a map: what a client sends goes over the link of the shard that it is for.

Below is a :class:`~beanpole.front.front.Front`, which has the clients' sockets; to it this is a server. Above is a link
for each shard, to whose server this is a front. Between them is a `Session` for each client, with a channel to each
shard that it has needed. Both sides are frames (docs/link.md), so a client that reads nothing fills its own room and
that of its channels, and holds up nobody else.

A switch needs no socket: frames are given to `receive`, and those to be sent are asked for by `take_out`. In a router
they are moved by a `MapFront`: those of its own in memory, those of shards by the sockets of their links.
"""

from collections.abc import Callable, Mapping

import cython
from cython.cimports.beanpole.front.front import Front
from cython.cimports.beanpole.front.lane import Lane, taken
from cython.cimports.beanpole.front.linksocket import LinkSocket
from cython.cimports.beanpole.front.session import Session
from cython.cimports.beanpole.protocol.buffer import Buffer, consume
from cython.cimports.beanpole.protocol.link import FrameReader, Kind, add_frame, add_number
from cython.cimports.beanpole.server.tlsfilter import Filter
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy

from beanpole.errors import UnexpectedReplyError
from beanpole.front import limits
from beanpole.front.gather import Counts, Reserving
from beanpole.front.uplink import nothing
from beanpole.protocol import limits as protocol_limits
from beanpole.protocol.link import KINDS
from beanpole.shards.map import Places, Shard

DATA_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_DATA_BYTES_MAX)
ROOM_BYTES = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_ROOM_BYTES)
ROOM_BYTES_LEAST = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_ROOM_BYTES_LEAST)
ROOM_BYTES_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_ROOM_BYTES_MAX)
CHANNELS_MAX = cython.declare(cython.Py_ssize_t, protocol_limits.LINK_CHANNELS_MAX)
OUT_BYTES_KEPT = cython.declare(cython.Py_ssize_t, limits.OUT_BYTES_KEPT)
MOVES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.MOVES_PER_TURN)
BY_CLIENT = cython.declare(cython.int, 0)  # who has ended a channel, in CLOSE
BY_US = cython.declare(cython.int, 1)
MORE = cython.declare(cython.int, 1)  # in FIN: of what the client has sent not all has been passed on, or nobody knows


@cython.cclass
class Channel(Lane):
    """A client's channel to a shard. The fields stand in ``switch.pxd``."""


@cython.cclass
class Client(Session):
    """A client of the front, by its channel there; or what the router itself asks."""

    def open_lane(self, shard: Shard) -> Lane | None:
        """Begin a channel. None: there is no link, no place in it, or the map has no such shard any more."""
        found = self.switch.links.get(shard.name)
        if found is None:
            return None
        link: ShardLink = cython.cast(ShardLink, found, typecheck=True)
        is_numbered: cython.bint = bool(link.free_channels) or len(link.channels) <= CHANNELS_MAX
        return link.open_channel(self) if link.is_open and is_numbered else None


@cython.cclass
class ShardLink(LinkSocket):
    """The link to a shard, and its channels. An uplink finds the server."""

    def __init__(self, switch: "Switch", shard: Shard):
        self.switch = switch
        self.shard = shard
        self.channels = [None]
        self.free_channels = []
        self.closed_ns = switch.clock()

    @property
    def commands(self) -> int:
        """Commands that were sent to the shard."""
        return self.asked + sum(
            [cython.cast(Channel, each, typecheck=True).asked for each in self.channels if each is not None]
        )

    @property
    def missing_s(self) -> float:
        """How many seconds there was no link, all together."""
        return (self.missing_ns + (0 if self.is_open else self.switch.clock() - self.closed_ns)) / 1e9

    def attach(self, link_fd: cython.int, reader: FrameReader, asks: cython.bint, tls: Filter | None = None) -> None:
        """Carry channels over a link whose first lines are through. Raises OSError: the socket can't be watched."""
        self.open(self.switch.queue, link_fd, reader, tls)
        self.switch.sockets[link_fd] = self
        self.switch.find(self.shard)
        self.take_frames()

    def close_link(self) -> None:
        """End the link, if there is one."""
        if self.is_open:
            self.on_link_end = None
            self.close("closed")

    def close(self, reason):
        """End the link, and let go what it has carried."""
        self.switch.sockets.pop(self.fd, None)
        LinkSocket.close(self, reason)
        count = self.end()
        if self.on_link_end is not None:
            self.on_link_end(reason, count)
        return 0

    def end(self) -> int:
        """Let go what the link has carried, as it has ended; return how many channels it had."""
        channels, self.channels, self.free_channels = self.channels, [None], []
        self.is_open = False
        self.closed_ns = self.switch.clock()
        self.let_go()
        count = 0
        for each in channels:
            if each is not None:
                channel: Channel = cython.cast(Channel, each, typecheck=True)
                self.asked += channel.asked
                if channel.client is not None:
                    count += 1
                    self.switch.lose(channel)
        return count

    def open_channel(self, client):
        """Open a channel for a client."""
        channel: Channel = Channel(self.shard)
        channel.link = self
        channel.client = client
        channel.room = ROOM_BYTES
        if self.free_channels:
            channel.number = self.free_channels.pop()
            self.channels[channel.number] = channel
        else:
            channel.number = len(self.channels)
            self.channels.append(channel)
        add_frame(cython.address(self.out), channel.number, Kind.OPEN, client.description, len(client.description))
        return channel

    def take_frames(self):
        """Take the frames of the shard that have come."""
        switch: Switch = self.switch
        reader: FrameReader = self.reader
        while self.next():
            found = self.channels[reader.channel] if reader.channel < len(self.channels) else None
            if found is None:
                return self.close(f"{KINDS[reader.kind - 1][0]} of no channel")
            channel: Channel = cython.cast(Channel, found, typecheck=True)
            client: Client = channel.client
            if reader.kind == Kind.CLOSE:
                self.channels[channel.number] = None
                self.asked += channel.asked
                self.free_channels.append(channel.number)
                if client is not None:
                    add_number(cython.address(self.out), channel.number, Kind.CLOSE, BY_US)
                    if channel.asked - channel.answered > channel.hushed_count():
                        del client.lanes[self.shard.name]
                        switch.close(client, BY_US)  # asked again, it would close the next one, too
                    else:
                        switch.lose(channel)
            elif client is None:
                continue  # it is passed over: our own CLOSE is under way
            elif reader.kind == Kind.ROOM:
                channel.room += reader.value
                if channel.room > ROOM_BYTES_MAX:
                    return self.close("ROOM without end")
                switch.pump(client)
            else:
                channel.taken += reader.size
                if channel.taken > ROOM_BYTES:
                    return self.close("DATA without room")
                try:
                    client.take_replies(channel, reader.payload, reader.size)
                except UnexpectedReplyError as error:
                    switch.close(client, BY_US)
                    switch.note_mistake(self.shard, str(error))
                else:
                    switch.pump(client)
        return 0

    def receive(self, frames: bytes) -> str:
        """Take what the shard has sent; return why that has ended the link, or an empty text."""
        at: cython.Py_ssize_t
        for at in range(0, len(frames), DATA_BYTES_MAX):
            if self.is_open:
                self.reader.receive(frames[at : at + DATA_BYTES_MAX])
                self.take_frames()
        return "" if self.is_open else self.reason

    def take_out(self) -> bytes:
        """Return the frames that are to be sent to the shard, as if they had been sent."""
        return taken(cython.address(self.out))


@cython.cclass
class Switch:
    """Sessions, and the links to the shards of the map in use. The fields stand in ``switch.pxd``."""

    def __init__(
        self,
        places: Places,
        body_bytes_max: cython.Py_ssize_t,
        clock: Callable[[], int],
        about: Mapping[bytes, bytes],
        wait_ns: int64_t = 2**62,
    ):
        """A command waits for a shard that is away for so many nanoseconds; then its client is closed.

        `clock` says nanoseconds; `about` is what `stats` says of the router itself.
        """
        self.places = places
        self.body_bytes_max = body_bytes_max
        self.clock = clock
        self.about = about
        self.wait_ns = wait_ns
        self.note_mistake = self.note_gone = nothing
        self.reader = FrameReader(True)
        self.sockets = {}
        self.clients = {}
        self.touched = []
        self.waiting = {}
        self.counts = Counts()
        self.moving = []
        self.links = {each.name: ShardLink(self, each) for each in places.map.shards.values()}

    def __dealloc__(self):
        free(self.out.data)

    # --- from the front -----------------------------------------------------------------------------------------------

    def receive(self, frames: bytes) -> None:
        """Take what the front has sent."""
        at: cython.Py_ssize_t
        for at in range(0, len(frames), DATA_BYTES_MAX):
            self.reader.receive(frames[at : at + DATA_BYTES_MAX])
            self.take_frames()

    def take_frames(self):
        """Take the frames of the front that have come."""
        reader: FrameReader = self.reader
        while reader.next():
            if reader.kind == Kind.OPEN:
                self.open(reader.channel, reader.payload[: reader.size])
            elif reader.kind == Kind.DRAIN:
                self.draining = True
                for each in self.clients.values():
                    self.touch(cython.cast(Client, each, typecheck=True))
            elif reader.kind != Kind.PING:
                self.take_frame(cython.cast(Client, self.clients[reader.channel], typecheck=True))
        assert reader.mistake is None, reader.mistake
        return 0

    def take_frame(self, client):
        """Take a frame of a client."""
        reader: FrameReader = self.reader
        if reader.kind == Kind.CLOSE:
            del self.clients[client.number]
            if not client.is_closed:
                client.is_closed = True
                self.leave(client, reader.value)
                add_frame(cython.address(self.out), client.number, Kind.CLOSE, cython.NULL, 0)
            return 0
        if client.is_closed:
            return 0
        if reader.kind == Kind.DATA:
            client.taken += reader.size
            client.take_input(reader.payload, reader.size)
        elif reader.kind == Kind.FIN:
            client.end_input()
        else:
            client.room += reader.value
        return self.pump(client)

    def ask(self, commands: bytes, done: Callable[[bytes], object]) -> None:
        """Ask the shards as a client would; `done` is called with the replies. They hear by which map all go."""
        description = b"" if self.moving else b"map %d\n" % self.places.map.epoch
        self.own_number -= 1
        client: Client = self.open(self.own_number, description)
        client.done = done
        client.answer = bytearray()
        client.receive(commands)
        client.end_input()
        self.touch(client)

    def open(self, number, description):
        """Let a client have a session."""
        client: Client = Client(self.places, self.body_bytes_max, self.clock, self.about)
        client.switch = self
        client.number = number
        client.description = description
        client.room = ROOM_BYTES
        client.reserving = Reserving(self.counts)
        self.clients[number] = client
        if len(self.links) == 1:  # all of it goes there, and it counts as a connection from the beginning, as it is one
            for each in self.links.values():
                client.is_there(cython.cast(ShardLink, each, typecheck=True).shard)
            self.touch(client)
        return client

    def touch(self, client):
        """Let what a client has to send leave at the end of the turn."""
        if not client.touched:
            client.touched = True
            self.touched.append(client)
        return 0

    # --- what is to be sent -------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Make frames of all that sessions have to send, and let some go on by the map in use."""
        if self.moving:
            self.move()
        while self.touched:
            touched, self.touched = self.touched, []
            for each in touched:
                client: Client = cython.cast(Client, each, typecheck=True)
                client.touched = False
                if not client.is_closed:
                    self.pump(client)

    def take_out(self) -> bytes:
        """Return the frames that are to be sent to the front, as if they had been sent."""
        return taken(cython.address(self.out))

    def pump(self, client):
        """Move what a session has to send, as far as there is room, and give room for what has left."""
        while self.send_down(client) | self.send_up(client) and not client.needs_input:
            client.run()  # it may have stopped because so much was to be sent
        if client.out.size == client.out.start:
            is_over: cython.bint = client.finished and not client.turns
            if is_over or (self.draining and client.is_idle):
                return self.close(client, BY_US if client.cut else BY_CLIENT)
        if client.taken >= ROOM_BYTES_LEAST and client.needs_input and client.number >= 0:
            add_number(cython.address(self.out), client.number, Kind.ROOM, client.taken)
            client.taken = 0
        if client.away is None:
            if client.since_ns:
                client.since_ns = 0
                del self.waiting[client]
        elif client.since_ns == 0:
            client.since_ns = self.clock()
            self.waiting[client] = None
        return 0

    def send_down(self, client):
        """Make frames of what a session has for its client; return whether there was something."""
        out = cython.address(client.out)
        moved: cython.bint = False
        if client.done is not None and out.size > out.start:
            client.answer += client.take_out()
            return True
        while out.size > out.start and client.room:
            size: cython.Py_ssize_t = min(out.size - out.start, client.room, DATA_BYTES_MAX)
            add_frame(cython.address(self.out), client.number, Kind.DATA, out.data + out.start, size)
            consume(out, size, 0)
            client.room -= size
            moved = True
        return moved

    def send_up(self, client):
        """Make frames of what a session has for shards; return whether there was something.

        A shard may send more in place of what has left here.
        """
        moved: cython.bint = False
        has_left: cython.bint = client.out.size == client.out.start
        for each in client.lanes.values():
            channel: Channel = cython.cast(Channel, each, typecheck=True)
            link: ShardLink = channel.link
            while channel.out.size > channel.out.start and channel.room:
                size: cython.Py_ssize_t = min(channel.out.size - channel.out.start, channel.room, DATA_BYTES_MAX)
                add_frame(
                    cython.address(link.out), channel.number, Kind.DATA, channel.out.data + channel.out.start, size
                )
                consume(cython.address(channel.out), size, 0)
                channel.room -= size
                moved = True
            if channel.ends and not channel.fin_sent and channel.out.size == channel.out.start:
                channel.fin_sent = True
                add_number(cython.address(link.out), channel.number, Kind.FIN, MORE)
            if has_left and channel.taken >= ROOM_BYTES_LEAST:
                free_bytes: cython.Py_ssize_t = channel.taken - (channel.kept.size - channel.kept.start)
                if free_bytes >= ROOM_BYTES_LEAST:
                    channel.taken -= free_bytes
                    add_number(cython.address(link.out), channel.number, Kind.ROOM, free_bytes)
        return moved

    # --- ends ---------------------------------------------------------------------------------------------------------

    def lose(self, channel):
        """Let a client go on without a channel that the shard has closed, or that was lost with its link."""
        client: Client = channel.client
        channel.client = None
        if client.lose(channel.shard):
            return self.touch(client)
        return self.close(client, BY_US)

    def close(self, client, reason):
        """Close a client, and all its channels."""
        if client.is_closed:
            return 0
        client.is_closed = True
        self.leave(client, reason)
        if client.done is None:
            return add_frame(cython.address(self.out), client.number, Kind.CLOSE, cython.NULL, 0)
        del self.clients[client.number]
        client.done(bytes(client.answer))
        return 0

    def leave(self, client, reason):
        """Close the channels of a client."""
        for each in client.lanes.values():
            channel: Channel = cython.cast(Channel, each, typecheck=True)
            channel.client = None
            add_number(cython.address(channel.link.out), channel.number, Kind.CLOSE, reason)
        client.lanes.clear()
        self.waiting.pop(client, None)
        return 0

    # --- shards and maps ----------------------------------------------------------------------------------------------

    def find(self, shard: Shard) -> None:
        """Let what has waited for a shard go on: there is a link to it."""
        link: ShardLink = cython.cast(ShardLink, self.links[shard.name], typecheck=True)
        if not link.is_open:
            link.open(None, -1, FrameReader(False), None)
        link.missing_ns += self.clock() - link.closed_ns
        for each in list(self.clients.values()):
            client: Client = cython.cast(Client, each, typecheck=True)
            if not client.is_closed and (client.waits or client.away is not None or client.keeping is not None):
                client.find(shard)
                self.touch(client)

    def look_at_clock(self) -> None:
        """Close clients that have waited long enough, and end waits whose time is over. Call it every second."""
        now_ns: int64_t = self.clock()
        for each in list(self.waiting):
            client: Client = cython.cast(Client, each, typecheck=True)
            if now_ns - client.since_ns >= self.wait_ns:
                self.close(client, BY_US)
        for each in list(self.clients.values()):
            client = cython.cast(Client, each, typecheck=True)
            if client.is_closed:
                continue
            if client.waits:
                client.wake()
                self.touch(client)
            elif client.let_go():
                self.touch(client)

    def use(self, places: Places) -> None:
        """Go on by another map: some clients at once, others in each turn. Last, links close that it does not have."""
        self.places = places
        for each in places.map.shards.values():
            if each.name not in self.links:
                self.links[each.name] = ShardLink(self, each)
            cython.cast(ShardLink, self.links[each.name], typecheck=True).shard = each
        self.moving = list(self.clients.values())
        self.move()

    def move(self):
        """Let the next clients go on by the map in use, until so many tubes were looked up."""
        left: cython.Py_ssize_t = MOVES_PER_TURN
        while self.moving and left > 0:
            client: Client = cython.cast(Client, self.moving[-1], typecheck=True)
            if not client.is_closed:
                if client.places is not self.places:
                    client.use_places(self.places)
                left -= client.move(left)
                self.touch(client)
            if client.is_closed or not client.moving:
                self.moving.pop()
        if not self.moving:
            shards = self.places.map.shards
            for each in [each for name, each in self.links.items() if name not in shards]:
                link: ShardLink = cython.cast(ShardLink, each, typecheck=True)
                link.close_link()
                del self.links[link.shard.name]
                self.note_gone(link.shard)
        return 0


@cython.cclass
class MapFront(Front):
    """A front whose link ends in a switch of the same process, and which watches the sockets of shards for that."""

    def carry(self, switch: Switch) -> None:
        """Carry clients to the switch."""
        self.switch = switch
        switch.queue = self
        self.attach(-1, FrameReader(False), False)

    def note_other(self, fd, events):
        """Take what a shard has sent."""
        found = None if self.switch is None else self.switch.sockets.get(fd)
        if found is None:
            return self.note_own(fd)
        link: ShardLink = cython.cast(ShardLink, found, typecheck=True)
        return link.take_frames() if link.note(events) else 0

    def flush(self):
        """Pass on in memory what front and switch have for each other, and send what is for shards."""
        switch: Switch = self.switch
        if switch is None:
            return 0
        while True:
            while move(cython.address(self.link.out), switch.reader):
                switch.take_frames()
            switch.turn()
            if not move(cython.address(switch.out), self.link.reader):
                break
            self.take()
            assert self.link.is_open, self.link.reason
            self.serve_touched()
        for each in switch.links.values():
            cython.cast(ShardLink, each, typecheck=True).flush()
        return self.request() if switch.moving else 0


@cython.cfunc
@cython.exceptval(-1)
def move(out: cython.pointer(Buffer), reader: FrameReader) -> cython.Py_ssize_t:
    """Let a reader have what is to be sent, as much as there is room for; return how much that was."""
    if out.size == out.start:
        return 0
    target: cython.p_char = reader.room()
    size: cython.Py_ssize_t = min(out.size - out.start, reader.free_bytes())
    memcpy(target, out.data + out.start, size)
    reader.end += size
    consume(out, size, OUT_BYTES_KEPT)
    return size
