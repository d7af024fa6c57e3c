"""Routers of a map, shards and the links between them, in simulated time; what happens is drawn from one seed.

A switch is the real one, and so is a shard's turn, engine and log. A link carries frames in order, each after a delay.
One that is lost swallows what is under way, and each end hears of it in its own time, so a router may have a new link
to a shard that still serves the old one.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from beanpole.front.switch import Switch
from beanpole.log.log import Policy
from beanpole.protocol.limits import LINK_DATA_BYTES_MAX, LINK_ROOM_BYTES, LINK_ROOM_BYTES_LEAST
from beanpole.protocol.link import FrameReader, frame
from beanpole.server.connection import Connection
from beanpole.server.turn import Turn
from beanpole.shards.map import Places, Shard, ShardMap
from tests.simulation.disk import SimDisk
from tests.simulation.life import Life, Promises
from tests.simulation.runner import NS_PER_S, Clock
from tests.unit.front.house import CLOSE, DATA, OPEN, ROOM
from tests.unit.front.shard_world import shard
from tests.unit.server.memory_transport import MemoryTransport

if TYPE_CHECKING:
    from tests.simulation.route.clients import Client

MS = 1_000_000
SEGMENT_BYTES = 65_536
WAIT_NS = 5 * NS_PER_S
SHARDS = {name: shard(name, number) for number, name in enumerate("abc")}
TUBES = (b"default", b"mail", b"push", b"spread")


@dataclass
class World:
    """Everything that is simulated."""

    seed: int
    rng: Random = field(init=False)
    clock: Clock = field(default_factory=Clock)
    events: list[tuple[int, int, Callable[[], object]]] = field(default_factory=list)
    event_count: int = 0
    disturbed_ns: int = 0
    """When something was last lost, found again or changed that a job may have to wait for."""

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.maps = [self.make_map(self.rng.choice(("a", "ab", "abc")))]
        self.servers = {each.name: Server(self, each) for each in SHARDS.values()}

    def make_map(self, names: str, *before: ShardMap) -> ShardMap:
        """Return a map by which each tube is on some of these shards."""
        shards = {name: SHARDS[name] for name in names}
        homes = {tube: (self.rng.choice(list(shards.values())),) for tube in TUBES} | {
            b"spread": tuple(shards.values())
        }
        return ShardMap("map", len(before) + 1, shards, homes, frozenset(), before)

    def later(self, delay_ns: int, call: Callable[[], object]) -> None:
        """Let something happen."""
        self.event_count += 1
        heapq.heappush(self.events, (self.clock.now_ns + delay_ns, self.event_count, call))

    def step(self) -> None:
        """Let the next thing happen."""
        self.clock.now_ns, _, call = heapq.heappop(self.events)
        call()

    def disturb(self) -> None:
        self.disturbed_ns = self.clock.now_ns


class Server:
    """A shard: a disk and the process on it, if it runs."""

    def __init__(self, world: World, shard: Shard) -> None:
        self.world = world
        self.shard = shard
        self.links: list[Link] = []
        self.fresh_ns = 0
        """When it last began without what it had."""
        self.start(SimDisk(world.seed))

    def start(self, disk: SimDisk) -> None:
        """Begin a process."""
        self.is_up = True
        self.disk = disk
        self.life = Life(disk, self.world.clock, Policy(0), SEGMENT_BYTES, Promises(), shard=self.shard.numbers)
        self.turn = Turn(self.life.engine, self.life.log)
        self.turn.run_soon = partial(self.world.later, 0, partial(self.run, self.turn))
        self.life.log.on_durable = lambda: self.turn.send_held(self.life.now_ns)
        self.world.disturb()

    def stop(self) -> None:
        """Kill the process; each link hears of it."""
        self.is_up = False
        self.turn.stop()
        for link in self.links:
            link.lose(True, True, self.world.rng.choice((0, MS, 100 * MS)), 0)

    def run(self, turn: Turn) -> None:
        """Run a turn, unless that process has ended; the next one is when something is due."""
        if turn is not self.turn or not self.is_up:
            return
        turn.run(self.life.now_ns)
        self.life.runner.settle()
        due_ns = self.life.engine.next_deadline_ns
        if due_ns >= 0:
            self.world.later(max(due_ns - self.life.now_ns, 0), partial(self.run, turn))


class Channel(MemoryTransport):
    """The shard's end of a client's channel."""

    def __init__(self, link: "Link", number: int) -> None:
        self.link = link
        self.number = number
        self.taken = 0
        super().__init__(link.server.turn, LINK_ROOM_BYTES)

    def wake(self, now_ns: int, connection: Connection) -> int:
        """Feed the next piece, and give room for it."""
        self.taken += len(self.pieces[0])
        super().wake(now_ns, connection)
        if self.taken >= LINK_ROOM_BYTES_LEAST:
            self.link.send(frame(self.number, ROOM, self.taken.to_bytes(4, "little")), up=False)
            self.taken = 0
        return 0

    def send_bytes(self, data: bytes) -> int:
        """Send a frame of it."""
        size = super().send_bytes(data[:LINK_DATA_BYTES_MAX])
        if size:
            self.link.send(frame(self.number, DATA, data[:size]), up=False)
        return size

    def close(self) -> int:
        """Tell the router that the session has ended."""
        self.link.send(frame(self.number, CLOSE), up=False)
        return super().close()


class Link:
    """A connection between a router and a shard."""

    def __init__(self, router: "Router", server: Server) -> None:
        self.world = router.world
        self.router = router
        self.server = server
        self.turn = server.turn
        self.reader = FrameReader(True)
        self.channels: dict[int, Channel] = {}
        self.lost = {True: False, False: False}  # by whether it is on the way up, to the shard
        self.arrives_ns = {True: 0, False: 0}  # what was sent last
        self.delay_ns = self.world.rng.choice((10_000, 200_000, 2 * MS))
        self.ended = {True: False, False: False}  # what the shard knows, and the router
        server.links.append(self)

    @property
    def is_sound(self) -> bool:
        return not (any(self.lost.values()) or any(self.ended.values()))

    def send(self, data: bytes, *, up: bool) -> None:
        """Send frames, in pieces."""
        while data and not self.ended[not up]:
            at = self.world.rng.randrange(1, LINK_DATA_BYTES_MAX)
            piece, data = data[:at], data[at:]
            self.arrives_ns[up] = max(self.arrives_ns[up], self.world.clock.now_ns + self.delay_ns)
            self.world.later(self.arrives_ns[up] - self.world.clock.now_ns, partial(self.arrive, piece, up))

    def arrive(self, data: bytes, up: bool) -> None:
        """Take what has come, unless it was lost on the way."""
        if self.lost[up] or self.ended[up]:
            return
        if not up:
            assert not self.router.switch.links[self.server.shard.name].receive(data)
            self.router.flush()
            return
        self.reader.receive(data)
        while (each := self.reader.next_frame()) is not None:
            self.take(*each)
        assert self.reader.mistake is None, self.reader.mistake

    def take(self, number: int, kind: int, payload: bytes) -> None:
        """Take a frame as the shard."""
        if kind == OPEN:
            assert number not in self.channels, "OPEN of a channel that is not free"
            self.channels[number] = Channel(self, number)
            return
        channel = self.channels[number]
        if kind == CLOSE:
            del self.channels[number]
            if not channel.closed:
                channel.cut = payload == b"\1"
                self.turn.end(self.server.life.now_ns, channel.connection)
        elif kind == ROOM:
            channel.take(channel.room + int.from_bytes(payload, "little"))
        elif kind == DATA:
            channel.arrive(payload)

    def lose(self, up: bool, down: bool, router_ns: int, shard_ns: int) -> None:
        """Lose what is under way; the ends hear of it so much later."""
        self.lost = {True: self.lost[True] or up, False: self.lost[False] or down}
        self.world.disturb()
        self.world.later(router_ns, partial(self.end, up=False))
        self.world.later(shard_ns, partial(self.end, up=True))

    def end(self, *, up: bool) -> None:
        """An end hears that the link is lost."""
        if self.ended[up]:
            return
        self.ended[up] = True
        self.world.disturb()
        if not up:
            self.router.lose(self)
            return
        self.server.links.remove(self)
        if self.turn is self.server.turn:
            for each in self.channels.values():
                each.cut = True
                self.turn.end(self.server.life.now_ns, each.connection)


class Router:
    """A router, by its switch; its front has no delay."""

    def __init__(self, world: World, newest: ShardMap) -> None:
        self.world = world
        self.places = Places(newest)
        self.switch = Switch(self.places, 65535, lambda: world.clock.now_ns, {}, WAIT_NS)
        self.links: dict[str, Link] = {}
        self.clients: dict[int, Client] = {}
        self.reader = FrameReader(False)
        self.is_up = True
        self.used_ns = world.clock.now_ns
        for name in newest.shards:
            self.connect(name)
        self.look()

    @property
    def is_sound(self) -> bool:
        return all(each.is_sound for each in self.links.values())

    def connect(self, name: str) -> None:
        """Link it with a shard, as soon as that is there."""
        if not self.is_up or name in self.links or name not in self.switch.links:
            return
        server = self.world.servers[name]
        if not server.is_up:
            self.world.later(100 * MS, partial(self.connect, name))
            return
        self.links[name] = Link(self, server)
        self.world.disturb()
        self.switch.find(server.shard)
        self.flush()

    def lose(self, link: Link) -> None:
        """Go on without a link."""
        name = link.server.shard.name
        if self.is_up and self.links.get(name) is link:
            del self.links[name]
            self.switch.links[name].end()
            self.flush()
            self.world.later(self.world.rng.choice((25, 200)) * MS, partial(self.connect, name))

    def use(self, newest: ShardMap) -> None:
        """Go on by another map."""
        self.world.disturb()
        self.used_ns = self.world.clock.now_ns
        self.places = Places(newest)
        self.switch.use(self.places)
        for name in newest.shards:
            self.connect(name)
        self.flush()

    def look(self) -> None:
        """Do what a router does every second."""
        if self.is_up:
            self.switch.look_at_clock()
            self.flush()
            self.world.later(NS_PER_S, self.look)

    def send(self, number: int, kind: int, payload: bytes = b"") -> None:
        """Give it a frame of its front."""
        if self.is_up:
            self.switch.receive(frame(number, kind, payload))
            self.flush()

    def flush(self) -> None:
        """Send what it has to send."""
        self.switch.turn()
        for name, link in self.links.items():
            if data := self.switch.links[name].take_out():
                link.send(data, up=True)
        while data := self.switch.take_out():
            for at in range(0, len(data), LINK_DATA_BYTES_MAX):
                self.reader.receive(data[at : at + LINK_DATA_BYTES_MAX])
                while (each := self.reader.next_frame()) is not None:
                    self.clients[each[0]].take(each[1], each[2])

    def die(self) -> None:
        """End at once, with all its clients."""
        self.is_up = False
        for link in self.links.values():
            link.lose(True, True, 0, self.world.rng.choice((0, MS, 100 * MS, 3 * NS_PER_S)))
        self.links = {}
        for each in list(self.clients.values()):
            each.take(CLOSE, b"")
