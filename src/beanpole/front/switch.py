"""Between a front and the shards of a map: what a client sends goes over the link of the shard that it is for.

Below is the link of a :class:`~beanpole.front.front.Front`, which has the clients' sockets; to it this is a server.
Above is a link for each shard, to whose server this is a front. Between them is a `Session` for each client, with a
channel to each shard that it has needed. Both sides are frames (docs/link.md), so a client that reads nothing fills its
own room and that of its channels, and holds up nobody else.

Nothing here has a socket: frames come by `take`, those to be sent stand in `out` of each end.
"""

from collections.abc import Callable, Iterator, Mapping

from beanpole.errors import UnexpectedReplyError
from beanpole.front.session import Lane, Session
from beanpole.protocol.limits import LINK_CHANNELS_MAX, LINK_DATA_BYTES_MAX, LINK_ROOM_BYTES, LINK_ROOM_BYTES_LEAST
from beanpole.protocol.link import FrameReader, frame
from beanpole.shards.map import Places, Shard

OPEN, DATA, FIN, CLOSE, ROOM, PING, DRAIN = range(1, 8)
BY_CLIENT, BY_US = b"\0", b"\1"  # who has ended a channel, in CLOSE
MORE = b"\1"  # in FIN: of a client that sends no more not all has been passed on, or nobody knows
CLOSED = b""  # CLOSE by a server says no more


def frames_in(reader: FrameReader, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the frames that are whole with what has come."""
    for at in range(0, len(data), LINK_DATA_BYTES_MAX):
        reader.receive(data[at : at + LINK_DATA_BYTES_MAX])
        while (each := reader.next_frame()) is not None:
            yield each


def taken(out: bytearray) -> bytes:
    """Return what is to be sent, as if it had been."""
    found = bytes(out)
    out.clear()
    return found


class Channel:
    """A client's channel to a shard."""

    __slots__ = ("client", "ends", "link", "number", "room", "taken")

    def __init__(self, link: "ShardLink", number: int, client: "Client") -> None:
        self.link = link
        self.number = number
        self.client: Client | None = client  # None: it is closed here, and the shard's CLOSE is under way
        self.room = LINK_ROOM_BYTES  # bytes that the shard takes
        self.taken = 0  # bytes that came of it for which it was not given room again
        self.ends = False  # FIN was sent


class Client:
    """A client of the front, by its channel there; or what the router itself asks."""

    __slots__ = ("about", "answer", "channels", "done", "is_closed", "number", "room", "session", "since_ns", "taken")

    def __init__(self, number: int, about: bytes, done: Callable[[bytes], object] | None = None) -> None:
        """`done` is called with all that it was answered, when it is over; None: that goes to the front."""
        self.number = number
        self.about = about  # what OPEN says of it
        self.session: Session  # set at once: it asks for lanes of this client
        self.channels: dict[str, Channel] = {}  # by the names of shards
        self.room = LINK_ROOM_BYTES
        self.taken = 0
        self.is_closed = False  # CLOSE was sent, and the front's is under way
        self.done = done
        self.answer = b""
        self.since_ns = 0  # when a command of it began to wait for a shard; 0: none does


class RoutedSession(Session):
    """The session of a client, whose lanes are channels."""

    def __init__(self, switch: "Switch", client: Client) -> None:
        super().__init__(switch.places, switch.body_bytes_max, switch.clock, switch.about)
        self.switch = switch
        self.client = client

    def open_lane(self, shard: Shard) -> Lane | None:
        return Lane(shard) if self.switch.open_lane(self.client, shard) else None


class ShardLink:
    """The link to a shard: its channels, and the frames that are to be sent."""

    def __init__(self, switch: "Switch", shard: Shard) -> None:
        self.switch = switch
        self.shard = shard
        self.reader = FrameReader(False)
        self.out = bytearray()
        self.is_open = False
        self.channels: list[Channel | None] = [None]
        self.free: list[int] = []

    def add(self, number: int, kind: int, payload: bytes) -> None:
        """Have a frame sent."""
        self.out += frame(number, kind, payload)

    def open(self, client: Client) -> Channel:
        """Open a channel for a client."""
        number = self.free.pop() if self.free else len(self.channels)
        if number == len(self.channels):
            self.channels.append(None)
        channel = self.channels[number] = Channel(self, number, client)
        self.add(number, OPEN, client.about)
        return channel

    def receive(self, frames: bytes) -> str:
        """Take what the shard has sent; return why the link has to end, or an empty text."""
        for each in frames_in(self.reader, frames):
            if why := self.take(*each):
                return why
        return self.reader.mistake or ""

    def take_out(self) -> bytes:
        """Return the frames that are to be sent to the shard, as if they had been sent."""
        return taken(self.out)

    def take(self, number: int, kind: int, payload: bytes) -> str:
        """Take a frame of the shard; return why the link has to end, or an empty text."""
        channel = self.channels[number] if number < len(self.channels) else None
        if channel is None:
            return "frame of no channel"
        client = channel.client
        if kind == CLOSE:
            self.channels[number] = None
            self.free.append(number)
            if client is not None:
                self.add(number, CLOSE, BY_US)
                self.switch.lose(client, self.shard)
        elif kind == ROOM:
            channel.room += int.from_bytes(payload, "little")
        elif client is not None:
            channel.taken += len(payload)
            if channel.taken > LINK_ROOM_BYTES:
                return "DATA without room"
            try:
                client.session.take(self.shard, payload)
            except UnexpectedReplyError as error:
                self.switch.close(client, BY_US)
                self.switch.note_mistake(self.shard, str(error))
        if client is not None:
            self.switch.touched[client] = None
        return ""

    def end(self) -> int:
        """Let go what the link has carried, as it has ended; return how many channels it had."""
        channels, self.channels, self.free = self.channels, [None], []
        self.is_open = False
        self.out.clear()
        self.reader = FrameReader(False)
        clients = [each.client for each in channels if each is not None and each.client is not None]
        for each in clients:
            self.switch.lose(each, self.shard)
        return len(clients)


class Switch:
    """Sessions, and the links to the shards of the map in use."""

    def __init__(
        self,
        places: Places,
        body_bytes_max: int,
        clock: Callable[[], int],
        about: Mapping[bytes, bytes],
        wait_ns: int = 2**62,
    ) -> None:
        """A command waits for a shard that is away for so many nanoseconds; then its client is closed.

        `clock` says nanoseconds; `about` is what `stats` says of the router itself.
        """
        self.places = places
        self.reader = FrameReader(True)
        self.body_bytes_max = body_bytes_max
        self.clock = clock
        self.about = about
        self.wait_ns = wait_ns
        self.note_mistake: Callable[[Shard, str], object] = lambda *_: None  # a client is closed: that was no reply
        self.out = bytearray()  # frames for the front
        self.clients: dict[int, Client] = {}
        self.touched: dict[Client, None] = {}
        self.waiting: dict[Client, None] = {}  # those of which a command waits for a shard
        self.draining = False
        self.links = {each.name: ShardLink(self, each) for each in places.map.shards.values()}

    # --- from the front -----------------------------------------------------------------------------------------------

    def receive(self, frames: bytes) -> None:
        """Take what the front has sent."""
        for each in frames_in(self.reader, frames):
            self.take(*each)

    def take_out(self) -> bytes:
        """Return the frames that are to be sent to the front, as if they had been sent."""
        return taken(self.out)

    def take(self, number: int, kind: int, payload: bytes) -> None:
        """Take a frame of the front."""
        if kind == OPEN:
            self.open(Client(number, payload))
            return
        if kind == DRAIN:
            self.draining = True
            self.touched |= dict.fromkeys(self.clients.values())
            return
        if kind == PING:
            return
        client = self.clients[number]
        if kind == CLOSE:
            del self.clients[number]
            if not client.is_closed:
                self.leave(client, payload)
                self.out += frame(number, CLOSE)
        elif client.is_closed:
            return
        elif kind == DATA:
            client.taken += len(payload)
            client.session.receive(payload)
        elif kind == FIN:
            client.session.end_input()
        else:
            client.room += int.from_bytes(payload, "little")
        self.touched[client] = None

    def ask(self, commands: bytes, done: Callable[[bytes], object]) -> None:
        """Ask the shards as a client would; `done` is called with the replies."""
        client = self.open(Client(-1 - len(self.clients), b"", done))
        client.session.receive(commands)
        client.session.end_input()
        self.touched[client] = None

    def open(self, client: Client) -> Client:
        """Let a client have a session."""
        self.clients[client.number] = client
        client.session = RoutedSession(self, client)
        if len(self.links) == 1:  # all of it goes there, and it counts as a connection from the beginning, as it is one
            client.session.is_there(next(iter(self.links.values())).shard)
            self.touched[client] = None
        return client

    def open_lane(self, client: Client, shard: Shard) -> bool:
        """Open a client's channel to a shard. False: there is no link, or no place in it."""
        link = self.links[shard.name]
        if not link.is_open or (not link.free and len(link.channels) > LINK_CHANNELS_MAX):
            return False
        client.channels[shard.name] = link.open(client)
        return True

    # --- what is to be sent -------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Make frames of all that sessions have to send."""
        while self.touched:
            client, _ = self.touched.popitem()
            if not client.is_closed and self.clients.get(client.number) is client:
                self.pump(client)

    def pump(self, client: Client) -> None:
        """Move what a session has to send, as far as there is room."""
        session = client.session
        while True:
            moved = self.send_up(client)
            while client.room and (data := session.take_out(min(client.room, LINK_DATA_BYTES_MAX))):
                moved = True
                if client.done is not None:
                    client.answer += data
                    continue
                client.room -= len(data)
                self.out += frame(client.number, DATA, data)
            if not moved or session.needs_input:
                break
            session.run()  # it may have stopped because so much was to be sent
        if session.out_bytes == 0 and (session.is_over or (self.draining and session.is_idle)):
            self.close(client, BY_CLIENT)
            return
        self.give_room(client)
        if session.away is None:
            client.since_ns = 0
            self.waiting.pop(client, None)
        elif client not in self.waiting:
            client.since_ns = self.clock()
            self.waiting[client] = None

    def give_room(self, client: Client) -> None:
        """Let more come of a client, and for it, in place of what has left."""
        session = client.session
        if session.out_bytes == 0:
            for channel in client.channels.values():
                free = channel.taken - session.lane(channel.link.shard).kept_bytes
                if free >= LINK_ROOM_BYTES_LEAST:
                    channel.taken -= free
                    channel.link.add(channel.number, ROOM, free.to_bytes(4, "little"))
        if client.taken >= LINK_ROOM_BYTES_LEAST and session.needs_input and client.done is None:
            self.out += frame(client.number, ROOM, client.taken.to_bytes(4, "little"))
            client.taken = 0

    def send_up(self, client: Client) -> bool:
        """Make frames of what a session has for shards; return whether there was something."""
        moved = False
        for channel in client.channels.values():
            lane = client.session.lane(channel.link.shard)
            while channel.room and (data := lane.take_out(min(channel.room, LINK_DATA_BYTES_MAX))):
                channel.room -= len(data)
                channel.link.add(channel.number, DATA, data)
                moved = True
            if lane.ends and not channel.ends and channel.room:
                channel.ends = True
                channel.link.add(channel.number, FIN, MORE)
        return moved

    # --- ends ---------------------------------------------------------------------------------------------------------

    def lose(self, client: Client, shard: Shard) -> None:
        """Go on without a channel that the shard has closed, or that was lost with its link."""
        client.channels.pop(shard.name).client = None
        if client.session.lose(shard):
            self.touched[client] = None
        else:
            self.close(client, BY_US)

    def close(self, client: Client, reason: bytes) -> None:
        """Close a client, and all its channels."""
        if not client.is_closed:
            client.is_closed = True
            self.leave(client, reason)
            if client.done is None:
                self.out += frame(client.number, CLOSE)
            else:
                del self.clients[client.number]
                client.done(client.answer)

    def leave(self, client: Client, reason: bytes) -> None:
        """Close the channels of a client."""
        for channel in client.channels.values():
            channel.client = None
            channel.link.add(channel.number, CLOSE, reason)
        client.channels.clear()
        self.waiting.pop(client, None)

    # --- shards and maps ----------------------------------------------------------------------------------------------

    def find(self, shard: Shard) -> None:
        """Let what has waited for a shard go on: there is a link to it."""
        self.links[shard.name].is_open = True
        for client in list(self.clients.values()):
            if not client.is_closed and (client.session.waits or client.session.away is not None):
                client.session.find(shard)
                self.touched[client] = None

    def look_at_clock(self) -> None:
        """Close clients that have waited long enough, and end waits whose time is over. Call it every second."""
        now_ns = self.clock()
        for client in list(self.waiting):
            if now_ns - client.since_ns >= self.wait_ns:
                self.close(client, BY_US)
        for client in list(self.clients.values()):
            if not client.is_closed and client.session.waits:
                client.session.wake()
                self.touched[client] = None

    def use(self, places: Places) -> list[ShardLink]:
        """Go on by another map; return the links of shards that it does not have, which are to be closed."""
        self.places = places
        shards = places.map.shards
        gone = [link for name, link in self.links.items() if name not in shards]
        for link in gone:
            link.is_open = False
        for each in shards.values():
            self.links.setdefault(each.name, ShardLink(self, each)).shard = each
        for client in list(self.clients.values()):
            if not client.is_closed:
                client.session.use_places(places)
                self.touched[client] = None
        for link in gone:
            link.end()
            del self.links[link.shard.name]
        return gone
