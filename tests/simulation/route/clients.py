"""Clients of routers in simulated time, and what must be true of them and of their jobs."""

import re
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from beanpole.engine.state.job import State
from beanpole.protocol.limits import LINK_DATA_BYTES_MAX, LINK_ROOM_BYTES, LINK_ROOM_BYTES_LEAST
from beanpole.protocol.replies import WORDS, Word
from beanpole.protocol.wire import Reply, ReplyReader
from beanpole.shard_ids import number_of
from tests.simulation.keeping import asked
from tests.simulation.route.world import MS, SHARDS, TUBES, Link, Router, Server, World
from tests.simulation.runner import NS_PER_S
from tests.unit.front.house import CLOSE, DATA, OPEN, ROOM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


BY_NUMBER = {each.numbers[0]: name for name, each in SHARDS.items()}
CLOSED = rb"(?m)^- (paused|rate|concurrency|breaker|groups):"  # reasons of explain-tube for which nobody gets a job
TOLD_NS = NS_PER_S  # for which a job is left to a session that is dead
WAITS = b"reserve"
ENDS = (b"delete", b"release", b"bury")
OF_JOB = (
    (b"delete ID", b"DELETED 0"),
    (b"delete ID", b"DELETED 0"),
    (b"delete-many ID", b"DELETED [01]"),
    (b"release ID 0 0", b"RELEASED 0"),
    (b"bury ID 0", b"BURIED 0"),
    (b"touch ID", b"TOUCHED 0"),
    (b"peek ID", b"FOUND ID"),
    (b"kick-job ID", b"KICKED 0"),
    (b"kick 3", b"KICKED [0-3]"),
)
"""Commands about a job, and what they are answered: a word and its number."""
SHOWS: "dict[bytes, tuple[bytes, Callable[[Client], Iterable[bytes]]]]" = {
    b"list-tube-used": (b"USING 0", lambda client: [client.used]),
    b"list-tubes-watched": (b"OK 0", lambda client: [b"- %b\n" % each for each in client.watched]),
    b"cancel-reserve": (b"(CANCELLED|NOT_WAITING) 0", lambda _: []),
    b"stats": (b"OK 0", lambda _: [b"\ncurrent-jobs-ready: "]),
}


@dataclass
class Asked:
    """A command that was sent."""

    line: bytes
    reply: bytes
    """What the reply's word and number must be, as a pattern."""
    sent_ns: int
    said: tuple[bytes, ...]
    """What must be in the reply, if it has a body."""
    body: bytes
    """The job's that is put."""
    watched: tuple[bytes, ...]

    @property
    def ends(self) -> list[int]:
        """Jobs that it has no more when this was done."""
        return [int(self.line.split()[1])] if self.line.startswith(ENDS) else []


@dataclass
class Crowd:
    """All clients, and what they know."""

    world: World
    clients: "list[Client]" = field(default_factory=list)
    acknowledged: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """By body: the id of a job that was put, and when that was sent."""
    deleted: dict[int, int] = field(default_factory=dict)
    """Jobs of which it was answered that they were deleted, and when that was sent."""
    delete_asked: set[int] = field(default_factory=set)
    has_enough: bool = False
    """Whether more jobs are taken than put, so that some clients wait."""
    put_count: int = 0
    reply_count: int = 0
    reserve_count: int = 0

    def server_of(self, id: int) -> Server:
        return self.world.servers[BY_NUMBER[number_of(id)]]

    def look(self) -> None:
        """Let no job wait while a client waits for it."""
        now_ns = self.world.clock.now_ns
        quiet_ns = self.world.disturbed_ns + TOLD_NS
        # A job is left to a client that was told of it, which may be behind the slowest link.
        delay_ns = max([link.delay_ns for each in self.world.servers.values() for link in each.links], default=0)
        waiting = [each for each in self.clients if each.waits_since_ns is not None and quiet_ns < now_ns]
        for server in self.world.servers.values():
            life = server.life
            jobs = [each for each in life.engine.jobs.jobs() if each.state == State.READY] if waiting else []
            jobs.sort(key=lambda job: -job.since_ns)
            ready = {job.tube.name: (job.id, job.since_ns + now_ns - life.now_ns) for job in jobs}  # the oldest
            if not server.is_up or not all(each.is_sound for each in server.links):
                continue
            for client, tube in [(each, tube) for each in waiting for tube in each.asked[0].watched if tube in ready]:
                id, ready_ns = ready[tube]
                links = client.router.links
                places = client.router.places.place(tube).shards
                if server.shard not in places or server.shard.name not in links or not client.router.is_sound:
                    continue
                if len(client.asked) > 1 and client.router.used_ns > (client.waits_since_ns or 0):
                    continue  # its reserve may wait on one shard, with more behind it: it goes on by the older map
                waited_ns = now_ns - max(client.waits_since_ns or 0, ready_ns, quiet_ns)
                if waited_ns > 10 * MS + 4 * len(links) * delay_ns:
                    why = asked(life.engine, life.now_ns, b"explain-tube " + tube)
                    assert re.search(CLOSED, why), f"{id} of {tube!r} waits beside {client.name}"

    def note_held(self, client: "Client", id: int) -> None:
        """Take note that a client was given a job, which nobody else may have."""
        self.reserve_count += 1
        link = client.router.links.get(self.server_of(id).shard.name)
        if link is None or client.has_gone or any(id in each.ends for each in client.asked):
            return  # by now it may be somebody else's
        for each in self.clients:
            other = each.held.get(id)
            assert other is None or not other.is_sound, f"{each.name} and {client.name} have {id}"
        client.held[id] = link

    def check(self) -> None:
        """Check what is true when nothing is under way."""
        for client in self.clients:
            line = client.asked[0].line if client.asked else WAITS
            assert line == WAITS, f"{client.name} has no answer to {line!r}"
        for server in self.world.servers.values():
            jobs = {job.id: job for job in server.life.engine.jobs.jobs()}
            for body, (id, sent_ns) in self.acknowledged.items():
                if self.server_of(id) is server and sent_ns > server.fresh_ns and id not in self.delete_asked:
                    assert body in asked(server.life.engine, server.life.now_ns, b"peek %d" % id), (
                        f"{id}, {body!r}, is lost"
                    )
            for id, sent_ns in self.deleted.items():
                assert id not in jobs or sent_ns <= server.fresh_ns, f"{id} was deleted"
            held = {id for each in self.clients for id, link in each.held.items() if link in server.links}
            ending = {id for each in self.clients for line in each.asked for id in line.ends}
            reserved = {id for id, job in jobs.items() if job.state == State.RESERVED}
            assert held <= reserved, f"{held - reserved} are not held"
            assert reserved <= held | ending, f"{reserved - held} are held by nobody"


class Client:
    """A client of a router, which knows what it may be answered."""

    def __init__(self, crowd: Crowd, router: Router, number: int) -> None:
        self.crowd = crowd
        self.world = crowd.world
        self.router = router
        self.number = number
        self.name = f"client {number}"
        self.used: bytes = b"default"
        self.watched: dict[bytes, None] = {b"default": None}
        self.asked: deque[Asked] = deque()
        self.held: dict[int, Link] = {}
        """Its jobs, and over which links it has them."""
        self.replies = ReplyReader()
        self.taken = 0
        self.room = LINK_ROOM_BYTES
        self.waits_since_ns: int | None = None
        self.has_gone = False
        router.clients[number] = self
        crowd.clients.append(self)
        self.later(OPEN)

    # --- what it sends ------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Send some commands, or go."""
        rng = self.world.rng
        if self.has_gone:
            return
        what = rng.random()
        if what < 0.01:
            self.has_gone = True
            self.held.clear()
            self.later(CLOSE, b"\0")
        elif self.room > LINK_ROOM_BYTES // 2 and (not self.asked or (what < 0.2 and len(self.asked) < 8)):
            self.send(b"".join(self.command() for _ in range(rng.choice((1, 1, 2, 5)))))

    def send(self, data: bytes) -> None:
        self.room -= len(data)
        while data:
            at = self.world.rng.randrange(1, LINK_DATA_BYTES_MAX)
            self.later(DATA, data[:at])
            data = data[at:]

    def later(self, kind: int, payload: bytes = b"") -> None:
        """Send a frame."""
        self.world.later(0, partial(self.router.send, self.number, kind, payload))

    def ask(self, line: bytes, reply: bytes, *said: bytes, body: bytes | None = None) -> bytes:
        """Take note of a command that is to be sent; return it."""
        self.asked.append(Asked(line, reply, self.world.clock.now_ns, said, body or b"", (*self.watched,)))
        self.note_waiting()
        return line + b"\r\n" if body is None else line + b"\r\n" + body + b"\r\n"

    def command(self) -> bytes:
        """Return what it says next."""
        puts, reserves = (1, 6) if self.crowd.has_enough else (2, 2)
        acts = (*[self.put] * puts, *[self.reserve] * reserves, self.of_job, self.of_job, self.own)
        return self.world.rng.choice(acts)()

    def put(self) -> bytes:
        rng = self.world.rng
        self.crowd.put_count += 1
        body = b"%d " % self.crowd.put_count + bytes(rng.choice((0, 0, 0, 0, 20_000)))
        word = rng.choice((b"", b" group=g", b" key=%d" % self.crowd.put_count))
        named = b"put-job %d tube=%b ttr=600%b" % (len(body), rng.choice(TUBES), word)
        line = rng.choice((b"put 0 0 600 %d" % len(body), b"put 0 1 600 %d" % len(body), named))
        return self.ask(line, rb"INSERTED \d+", body=body)

    def reserve(self) -> bytes:
        line = self.world.rng.choice((WAITS, b"reserve-with-timeout 0", b"reserve-with-timeout 1", b"reserve-many 3 1"))
        return self.ask(line, rb"(RESERVED|JOBS) \d+|(TIMED_OUT|DEADLINE_SOON) 0")

    def of_job(self) -> bytes:
        """Something about jobs, mostly of its own."""
        rng = self.world.rng
        ids = list(self.held) or [id for id, _ in self.crowd.acknowledged.values()] or [1]
        id = rng.choice(ids)
        line, reply = rng.choice(OF_JOB)
        if line.startswith(ENDS):
            self.held.pop(id, None)
            self.crowd.delete_asked |= {id} if line.startswith(b"delete") else set()
        return self.ask(line.replace(b"ID", b"%d" % id), reply.replace(b"ID", b"%d" % id) + b"|NOT_FOUND 0")

    def own(self) -> bytes:
        """Something about what it uses and watches, or about all shards."""
        rng = self.world.rng
        tube = rng.choice(TUBES)
        line = rng.choice((b"use ", b"watch ", b"watch ", b"ignore ", *SHOWS))
        if line == b"use ":
            self.used = tube
        elif line == b"watch ":
            self.watched[tube] = None
        elif line == b"ignore " and [*self.watched] == [tube]:
            return self.ask(line + tube, b"NOT_IGNORED 0")
        elif line == b"ignore ":
            self.watched.pop(tube, None)
        else:
            reply, said = SHOWS[line]
            return self.ask(line, reply, *said(self))
        return self.ask(
            line + tube, *((b"USING 0", tube) if line == b"use " else (b"WATCHING %d" % len(self.watched),))
        )

    # --- what comes ---------------------------------------------------------------------------------------------------

    def take(self, kind: int, payload: bytes) -> None:
        """Take a frame of the router."""
        if kind == ROOM:
            self.room += int.from_bytes(payload, "little")
        elif kind == CLOSE:
            del self.router.clients[self.number]
            self.crowd.clients.remove(self)
            if not self.has_gone:
                self.later(CLOSE, b"\0")
        elif kind == DATA:
            self.replies.receive(payload)
            while (reply := self.replies.next_reply()) is not None:
                self.take_reply(reply)
            self.taken += len(payload)
            if self.taken >= LINK_ROOM_BYTES_LEAST:
                self.later(ROOM, self.taken.to_bytes(4, "little"))
                self.taken = 0

    def take_reply(self, reply: Reply) -> None:
        """Check that a reply is that of the next command, and take note of what it says."""
        line = b"%b %d" % (WORDS[reply.word - 1][0], reply.number)
        assert self.asked, f"{self.name}: {line!r} answers nothing"
        asked = self.asked.popleft()
        assert re.fullmatch(asked.reply, line), f"{self.name}: {line!r} does not answer {asked.line!r}"
        for each in asked.said if reply.body else ():
            assert each in reply.body, f"{self.name}: {reply.body!r} does not answer {asked.line!r}: {each!r}"
        self.crowd.reply_count += 1
        if reply.word == Word.INSERTED:
            self.crowd.acknowledged[asked.body] = reply.number, asked.sent_ns
        elif reply.word == Word.DELETED and (reply.number or not asked.line.startswith(b"delete-many")):
            self.crowd.deleted[int(asked.line.split()[1])] = asked.sent_ns
        for job in reply.frames or [reply] * (reply.word == Word.RESERVED):
            self.crowd.note_held(self, job.number)
        self.waits_since_ns = None
        self.note_waiting()

    def note_waiting(self) -> None:
        """Take note when it begins to wait for a job."""
        if self.waits_since_ns is None and self.asked and self.asked[0].line == WAITS:
            self.waits_since_ns = self.world.clock.now_ns
