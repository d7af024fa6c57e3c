"""Clients that put, reserve and finish jobs through routers, and remember what they were told."""

import asyncio
import math
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.soak.route.installation import Installation
    from tests.soak.route.programs import Program

CONNECT_S = 5.0
REPLY_S = 30.0
"""Seconds after which a reply that does not come counts as stuck: more than any router or server stands still."""

TUBES = [f"soak-{number}" for number in range(6)]
BATCH = 100
HELD_MAX = 5


@dataclass
class Account:
    """What all clients were told of all jobs."""

    put: dict[int, bytes] = field(default_factory=dict)
    """Bodies of jobs whose put was answered."""

    deleted: dict[int, float] = field(default_factory=dict)
    """When the delete of a job was answered."""

    unanswered: set[int] = field(default_factory=set)
    """Jobs whose delete was sent and not answered: they may be gone."""

    unsure: set[bytes] = field(default_factory=set)
    """Bodies whose put was not answered: they may be there."""

    served: dict[int, tuple[int, float]] = field(default_factory=dict)
    """The latest reservation of a job by which something was done, a number that rises, and when that was answered."""

    reservations: int = 0
    backlog_max: int = 1_000
    """Jobs above which nothing is put."""

    wrong: list[str] = field(default_factory=list)
    lost_connections: int = 0

    def do(self, id: int, reservation: int, what: str, sent_at: float) -> None:
        """Note that something was done by a reservation: nothing that is sent later may be done by an earlier one.

        A router that stands still may keep a reply for long. A job that has been released may be deleted by anybody.
        """
        latest, answered_at = self.served.get(id, (0, 0.0))
        if sent_at > self.deleted.get(id, math.inf):
            self.wrong.append(f"job {id} was {what} after its delete")
        if latest > reservation and sent_at > answered_at and what != "deleted":
            self.wrong.append(f"job {id} was {what} by who had lost it to somebody who has worked on it since")
        if reservation >= latest:
            self.served[id] = reservation, time.monotonic()
        if what == "deleted":
            self.deleted[id] = time.monotonic()
            self.unanswered.discard(id)

    @property
    def backlog(self) -> int:
        """How many jobs there are, about."""
        return len(self.put) - len(self.deleted) - len(self.unanswered)

    def counts(self) -> dict[str, int]:
        """Return what the clients did."""
        return {
            "puts": len(self.put),
            "reservations": self.reservations,
            "deletes": len(self.deleted),
            "connections lost": self.lost_connections,
        }


class Connection:
    """One connection to a router. A reply that can't come is an OSError, one that takes too long a TimeoutError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, program: "Program") -> "Connection":
        """Connect to a router. Raises OSError."""
        async with asyncio.timeout(CONNECT_S):
            return cls(*await asyncio.open_connection(program.host, program.port))

    def send(self, command: bytes) -> None:
        """Send a command."""
        self.writer.write(command)

    async def reply(self) -> tuple[list[bytes], bytes]:
        """Return the words of a reply, and its body."""
        async with asyncio.timeout(REPLY_S):
            line = await self.reader.readline()
            if not line.endswith(b"\r\n"):
                raise ConnectionResetError
            words = line.split()
            body = b""
            if words[0] in {b"RESERVED", b"FOUND", b"OK"}:
                body = (await self.reader.readexactly(int(words[-1]) + 2))[:-2]
            return words, body

    async def ask(self, command: bytes) -> tuple[list[bytes], bytes]:
        """Send a command and return its reply."""
        self.send(command)
        return await self.reply()

    def close(self) -> None:
        """End the connection."""
        self.writer.transport.abort()


class Client:
    """One client: it works until it is told to stop, on one router after the other."""

    def __init__(self, installation: "Installation", seed: str) -> None:
        self.installation = installation
        self.router = installation.routers[0]
        """The one that it is connected to."""

        self.account = installation.account
        self.rng = random.Random(seed)
        self.name = seed.encode()
        self.count = 0
        self.held: dict[int, tuple[int, float]] = {}
        """The jobs that it holds, by which reservation, and when that was asked for."""

        self.is_stopping = False

    async def run(self) -> None:
        """Work until stopped."""
        while not self.is_stopping:
            self.held = {}
            try:
                self.router = self.rng.choice(self.installation.routers)
                connection = await Connection.open(self.router)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.05)
                continue
            try:
                await self.work(connection)
            except TimeoutError:
                self.account.wrong.append(f"{self.name!r} waited {REPLY_S:.0f} s for a reply")
            except (OSError, asyncio.IncompleteReadError):
                self.account.lost_connections += 1
            finally:
                connection.close()

    async def work(self, connection: Connection) -> None:
        """Send commands until this connection has had enough."""
        for name in self.rng.sample(TUBES, self.rng.randint(1, 3)):
            await connection.ask(b"watch %b\r\n" % name.encode())
        while not self.is_stopping and self.rng.random() > 0.005:
            pick = self.rng.random()
            if pick < 0.35:
                if self.account.backlog < self.account.backlog_max:
                    await self.put(connection)
            elif pick < 0.7 and len(self.held) < HELD_MAX:
                await self.reserve(connection)
            elif self.held:
                await self.finish(connection, self.rng.choice(list(self.held)))
            if pick > 0.8:
                await asyncio.sleep(self.rng.random() * 0.1)

    async def put(self, connection: Connection) -> None:
        """Put a few jobs at once."""
        await connection.ask(b"use %b\r\n" % self.rng.choice(TUBES).encode())
        bodies = []
        for _ in range(self.rng.choice((1, 1, 1, 5))):
            self.count += 1
            bodies.append(b"%b-%d" % (self.name, self.count))
        self.account.unsure.update(bodies)
        connection.send(b"".join(b"put 1 0 600 %d\r\n%b\r\n" % (len(each), each) for each in bodies))
        for body in bodies:
            words, _ = await connection.reply()
            if words[0] != b"INSERTED":
                self.account.wrong.append(f"a put was answered {words}")
                continue
            id = int(words[1])
            if id in self.account.put:
                self.account.wrong.append(f"job {id} was given twice")
            self.account.put[id] = body
            self.account.unsure.discard(body)

    async def reserve(self, connection: Connection) -> None:
        """Take a job, if there is one in time."""
        asked_at = time.monotonic()
        words, body = await connection.ask(b"reserve-with-timeout %d\r\n" % self.rng.choice((0, 0, 1, 2, 5)))
        if words[0] != b"RESERVED":
            if words[0] not in {b"TIMED_OUT", b"DEADLINE_SOON"}:
                self.account.wrong.append(f"a reserve was answered {words}")
            return
        id = int(words[1])
        self.account.reservations += 1
        self.held[id] = self.account.reservations, asked_at
        known = self.account.put.get(id)
        if known is not None and known != body:
            self.account.wrong.append(f"job {id} is {body!r}, and was put as {known!r}")
        elif known is None and body not in self.account.unsure:
            self.account.wrong.append(f"job {id}, {body!r}, was put by nobody")

    async def finish(self, connection: Connection, id: int) -> None:
        """Do something to a job that this client holds."""
        pick = self.rng.random()
        if pick < 0.2:
            await self.done(connection, b"touch %d\r\n" % id, b"TOUCHED", id)
            return
        if pick < 0.3:
            await self.done(connection, b"release %d 1 0\r\n" % id, b"RELEASED", id)
            return
        self.account.unanswered.add(id)
        await self.done(connection, b"delete %d\r\n" % id, b"DELETED", id)
        self.account.unanswered.discard(id)

    async def done(self, connection: Connection, command: bytes, word: bytes, id: int) -> None:
        """Send a command about a job that this client holds, and note whether it was done."""
        reservation, asked_at = self.held[id]
        sent_at = time.monotonic()
        words, _ = await connection.ask(command)
        if words[0] == word:
            self.account.do(id, reservation, word.decode().lower(), sent_at)
            if word == b"TOUCHED":
                return
        elif words[0] != b"NOT_FOUND":
            self.account.wrong.append(f"{command!r} was answered {words}")
        elif not self.installation.has_cause(self.router, id, asked_at):
            self.account.wrong.append(f"job {id} was taken without cause from who held it")
        del self.held[id]


async def empty(router: "Program", account: Account, seconds: float) -> None:
    """Take and delete all that is left, when nothing fails any more, and compare it with what clients were told.

    Raises TimeoutError: that takes too long.
    """
    left: dict[int, bytes] = {}
    async with asyncio.timeout(seconds):
        connection = await Connection.open(router)
        for name in TUBES:
            await connection.ask(b"watch %b\r\n" % name.encode())
        idle_since = time.monotonic()
        while time.monotonic() < idle_since + 3.0:
            connection.send(b"reserve-with-timeout 0\r\n" * BATCH)
            replies = [await connection.reply() for _ in range(BATCH)]
            found = {int(words[1]): body for words, body in replies if words[0] == b"RESERVED"}
            connection.send(b"".join(b"delete %d\r\n" % id for id in found))
            for id in found:
                words, _ = await connection.reply()
                if words != [b"DELETED"]:
                    account.wrong.append(f"the last delete of job {id} was answered {words}")
            if found:
                left |= found
                idle_since = time.monotonic()
            else:
                await asyncio.sleep(0.1)
        gone = account.put.keys() - account.deleted.keys() - account.unanswered - left.keys()
        stuck = {id for id in gone if (await connection.ask(b"peek %d\r\n" % id))[0] != [b"NOT_FOUND"]}
        connection.close()
    account.wrong.extend(differences(account, left, gone, stuck))


def differences(account: Account, left: dict[int, bytes], gone: set[int], stuck: set[int]) -> Iterable[str]:
    """Yield what is there and should not be, and what is not and should."""
    for id, body in left.items():
        if id in account.deleted:
            yield f"job {id} is there, and its delete was answered"
        elif id in account.put and account.put[id] != body:
            yield f"job {id} is {body!r}, and was put as {account.put[id]!r}"
    for id in gone:
        what = "stuck: it is there, and nobody is given it" if id in stuck else "lost"
        yield f"job {id}, {account.put[id]!r}, was acknowledged and is {what}"
