"""Shards in memory, and a session of a router without sockets: its gathers ask real servers, one question at a time."""

from collections.abc import Callable, Mapping, Sequence

from beanpole.address import Address
from beanpole.engine.restore import Restore
from beanpole.front.gather import Ask, Gathering, Request, Reserving, Tells, Wait
from beanpole.front.routes import ROUTES, By
from beanpole.limits import SHARD_ID_BITS
from beanpole.protocol.commands import Command, Verb
from beanpole.protocol.decoder import Decoder
from beanpole.shards.map import Place, Places, Shard, ShardMap, base_of, home_of
from beanpole.testing.world import World

A = Shard("a", (0,), Address("a", 1))
B = Shard("b", (1, 7), Address("b", 1))
C = Shard("c", (3,), Address("c", 1))
FIRST_B = 1 << SHARD_ID_BITS
FIRST_C = 3 << SHARD_ID_BITS
GONE = (None, b"")

Event = Callable[[], tuple[Shard | None, bytes] | None]
"""What happens while a session waits; GONE: it waits no more; (shard, b""): that one is back."""


class Server(World):
    """A shard."""

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        Restore(self.engine).reach_job_id((shard.numbers[0] << SHARD_ID_BITS) + 1)

    def say(self, text: bytes, name: str = "own") -> bytes:
        """Return what it answers to a command."""
        if name not in self.connections:
            self.connect(name)
        self.send(name, text + b"\r\n")
        return self.output(name)


class Session:
    """A client of a router: every tube is on all three shards, but for those that `homes` has."""

    def __init__(self, **homes: Shard) -> None:
        self.servers = {shard: Server(shard) for shard in (A, B, C)}
        tubes = {b"*": (A, B, C), **{name.encode(): (shard,) for name, shard in homes.items()}}
        self.map = ShardMap("map", 1, {shard.name: shard for shard in (A, B, C)}, tubes, frozenset())
        self.places = Places(self.map)
        self.used = b"default"
        self.watched = [b"default"]
        self.reserving = Reserving()
        self.away: set[Shard] = set()
        self.told: dict[Shard, list[bytes]] = {}
        self.asked: list[tuple[str, bytes]] = []
        """Every question since the list was last cleared: the shard's name and the line."""
        self.events: list[Event] = []
        """What happens while the session waits, in order."""
        self.put_count = 0

    # --- Client -------------------------------------------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        return self.servers[A].now_ns

    def watched_shards(self) -> Sequence[Shard]:
        return [*dict.fromkeys([shard for tube in self.watched for shard in self.place(tube).shards])]

    def place(self, tube: bytes) -> Place:
        return self.places.place(tube)

    def home(self, tube: bytes, name: bytes) -> Shard:
        return home_of(base_of(tube) + b" " + name, self.place(tube).homes)

    def shard_of_id(self, id: int) -> Shard | None:
        return self.places.shard_of_id(id)

    def is_there(self, shard: Shard) -> bool:
        return shard not in self.away

    def facts(self) -> Mapping[bytes, bytes]:
        return {b"pid": b"17", b"map-epoch": b"1"}

    # --- The router ---------------------------------------------------------------------------------------------------

    def say(self, text: bytes) -> bytes:
        """Run one command, which is whole; return the reply."""
        decoder = Decoder()
        decoder.receive(text + b"\r\n")
        command = decoder.next_command()
        assert command is not None
        assert decoder.next_command() is None
        verb = Verb(command.verb)
        if verb == Verb.USE:
            self.used = command.tube
            return b"USING %b\r\n" % self.used
        if verb in {Verb.WATCH, Verb.IGNORE}:
            self.watched = [tube for tube in self.watched if tube != command.tube]
            self.watched += [command.tube] if verb == Verb.WATCH else []
            return b"WATCHING %d\r\n" % len(self.watched)
        request = Request(self, command, text + b"\r\n", self.shards_for(ROUTES[verb].by, command))
        row = ROUTES[verb]
        if len(request.shards) == 1 and not row.always and row.by != By.IDS:
            return self.ask(Ask(request.shards[0], request.data, Tells.USED))
        assert row.gather is not None
        return self.run(row.gather(request))

    def shards_for(self, by: By, command: Command) -> Sequence[Shard]:
        tube = command.tube if command.verb < Verb.LIST_EXTENSIONS else command.arguments.get("tube", self.used)
        assert isinstance(tube, bytes)
        if command.verb in {Verb.PUT, Verb.PUT_JOB}:
            self.put_count += 1
            what = command.arguments.get("group", command.arguments.get("key"))
            homes = self.place(tube if command.verb == Verb.PUT_JOB else self.used).homes
            return [self.home(tube, what) if isinstance(what, bytes) else homes[self.put_count % len(homes)]]
        if by == By.ID:
            id = command.arguments.get("id", command.id)
            found = self.shard_of_id(int(str(id)))
            return [A if found is None else found]
        return self.place(self.used if by == By.USED else tube).shards if by in {By.TUBE, By.USED} else [A, B, C]

    def run(self, gathering: Gathering[bytes]) -> bytes:
        """Answer the questions of a gather; return what it says in the end."""
        answer: object = None
        while True:
            try:
                step = gathering.send(answer)
            except StopIteration as end:
                return bytes(end.value)
            if isinstance(step, Wait):
                answer = self.wait(step)
            else:
                assert len({each.shard for each in step}) == len(step)
                answer = list(map(self.ask, step))

    def ask(self, question: Ask) -> bytes:
        """Return the one reply of a shard."""
        if question.shard in self.away:
            assert question.may_fail, f"{question} must wait"
            return b""
        self.send(question)
        return self.servers[question.shard].output("client")

    def send(self, question: Ask) -> None:
        """Tell a shard what it must know and does not, and ask it."""
        server = self.servers[question.shard]
        if "client" not in server.connections:
            server.connect("client")
            self.told[question.shard] = [b"default"]
        if question.tells == Tells.USED:
            server.send("client", b"use %b\r\n" % self.used)
        elif question.tells == Tells.WATCHED:
            told, self.told[question.shard] = self.told[question.shard], [*self.watched]
            server.send("client", b"".join([b"watch %b\r\n" % tube for tube in self.watched if tube not in told]))
            server.send("client", b"".join([b"ignore %b\r\n" % tube for tube in told if tube not in self.watched]))
        server.output("client")
        self.asked.append((question.shard.name, question.data.partition(b"\r\n")[0]))
        server.send("client", question.data)

    def wait(self, wait: Wait) -> tuple[Shard | None, bytes] | None:
        """Let what happens happen until a shard replies; cancel the other questions."""
        for question in wait.asks:
            self.send(question)
        answered: tuple[Shard | None, bytes] | None = None
        while answered is None:
            replies = [(question.shard, self.servers[question.shard].output("client")) for question in wait.asks]
            answered = next(((shard, reply) for shard, reply in replies if reply), None)
            if answered is None and self.events:
                answered = self.events.pop(0)()
                if answered is GONE:
                    break
            elif answered is None:
                assert wait.until_ns is not None, "nothing happens any more"
                self.advance(wait.until_ns - self.now_ns)
                answered = None if wait.asks else GONE
        for question in wait.asks:
            if answered is GONE or question.shard != answered[0]:
                self.servers[question.shard].send("client", b"cancel-reserve\r\n")
                self.servers[question.shard].output("client")
        return None if answered[0] is None else answered

    def advance(self, duration_ns: int) -> None:
        for server in self.servers.values():
            server.advance(duration_ns)

    def put(self, shard: Shard, tube: bytes, body: bytes, pri: int = 0, delay: int = 0) -> int:
        """Put a job where it may lie; return its id."""
        server = self.servers[shard]
        server.say(b"use %b" % tube)
        return int(server.say(b"put %d %d 60 %d\r\n%b" % (pri, delay, len(body), body)).split()[1])
