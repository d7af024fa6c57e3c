"""Shards in memory, and clients of a router before them: bytes go in pieces, and as late as a seed says."""

import random

from beanpole.address import Address
from beanpole.engine.engine import Engine
from beanpole.engine.restore import Restore
from beanpole.front.lane import Lane
from beanpole.front.session import Session
from beanpole.limits import SHARD_ID_BITS
from beanpole.server.connection import Connection
from beanpole.shards.map import Places, Shard, ShardMap


def shard(name: str, number: int) -> Shard:
    return Shard(name, (number,), Address(name))


def made(*shards: Shard, **tubes: str) -> Places:
    """A map of shards, and of tubes whose homes are named: ``mail="ab"`` is spread."""
    by_name = {each.name: each for each in shards}
    homes = {tube.encode(): tuple(by_name[name] for name in names) for tube, names in tubes.items()}
    return Places(ShardMap("map", 1, by_name, homes, frozenset()))


class World:
    """Shards by name, each an engine, and all clients."""

    def __init__(self, places: Places, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.now_ns = 1
        self.engines: dict[str, Engine] = {}
        self.clients: list[Client] = []
        self.away: set[str] = set()
        self.use(places)

    def use(self, places: Places) -> None:
        """Go on by a map, also with clients that are there; a shard that is new begins empty."""
        self.places = places
        for each in places.map.shards.values():
            if each.name not in self.engines:
                engine = self.engines[each.name] = Engine(now_ns=1)
                Restore(engine).reach_job_id((each.numbers[0] << SHARD_ID_BITS) + 1)
        for client in self.clients:
            client.session.use_places(places)
            while client.session.move(1):
                pass

    def client(self) -> "Client":
        made = Client(self)
        self.clients.append(made)
        return made

    def tick(self, passed_ns: int) -> None:
        """Let time pass on all shards, and what that brings."""
        self.now_ns += passed_ns
        for each in self.engines.values():
            each.tick(self.now_ns)
        for client in self.clients:
            client.session.wake()
        self.settle()

    def step(self, *, late: bool = True) -> bool:
        """Move bytes of every client; some are late. Return whether there were any."""
        moved = [each.step(late=late) for each in self.clients]
        return any(moved)

    def settle(self) -> None:
        """Move bytes until there are none."""
        while self.step() or self.step(late=False):
            pass

    def pieces(self, data: bytes) -> list[bytes]:
        """Cut bytes somewhere."""
        at = self.random.randrange(1, len(data)) if len(data) > 1 and self.random.random() < 0.5 else len(data)
        return [data[:at], data[at:]] if at < len(data) else [data]


class Client:
    """A client of the router."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lanes: dict[str, Connection] = {}
        self.session = RoutedSession(self)
        self.output = b""
        self.questions = 0
        """Commands that shards were sent."""

    def send(self, data: bytes) -> None:
        """Let the router have bytes, in pieces."""
        for piece in self.world.pieces(data):
            self.session.receive(piece)

    def step(self, *, late: bool) -> bool:
        """Move bytes between the session and its shards, and to the client; return whether there were any."""
        moved = False
        for name, data in self.session.take_asked().items():
            moved = True
            self.questions += data.count(b"\r\n")
            for piece in self.world.pieces(data):
                self.lanes[name].receive(self.world.now_ns, piece)
        for name, lane in list(self.lanes.items()):
            if self.session.lane(self.world.places.map.shards[name]).ends:
                lane.half_close(self.world.now_ns)
            lane.resume(self.world.now_ns)
            if late and self.world.random.random() < 0.5:
                continue
            if data := lane.take_output():
                moved = True
                for piece in self.world.pieces(data):
                    self.session.take(self.world.places.map.shards[name], piece)
        self.output += self.session.take_out()
        return moved

    def lose(self, name: str) -> bool:
        """Lose the link to a shard; return whether the client stays."""
        self.lanes.pop(name).close(self.world.now_ns)
        return self.session.lose(self.world.places.map.shards[name])

    def ask(self, data: bytes) -> bytes:
        """Send, and return all that comes."""
        self.send(data)
        self.world.settle()
        return self.take()

    def take(self) -> bytes:
        """Return what has come."""
        found, self.output = self.output, b""
        return found


class RoutedSession(Session):
    """The session of a client, with the channels that it opens."""

    def __init__(self, client: Client) -> None:
        self.client = client
        super().__init__(client.world.places, 65535, lambda: client.world.now_ns, {})

    def open_lane(self, where: Shard) -> Lane | None:
        """Begin a channel."""
        world = self.client.world
        if where.name in world.away:
            return None
        self.client.lanes[where.name] = Connection(world.engines[where.name], world.now_ns)
        return Lane(where)
