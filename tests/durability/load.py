"""Clients that use a server until it dies: hermits with a tube of their own, and sellers and buyers of a shared one."""

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from tests.durability.kept import put_line
from tests.durability.ledger import BURIED, DELAYED, READY, RESERVED, Ledger, Market, Promised
from tests.e2e.process import Client

LONG_S = 100_000
"""A delay that no test sees the end of."""

JOBS_MAX = 60
"""Jobs that a hermit keeps: above, it puts no more, so that segments empty and are compacted."""

OUT_OF_MEMORY = b"OUT_OF_MEMORY\r\n"

MARKET_MAX = 300
"""Jobs in the shared tube, as far as it is known, above which sellers buy."""


class Gone(Exception):  # noqa: N818 - it is no error: the server is meant to die
    """The server is gone."""


class Worker(threading.Thread, ABC):
    """One client on a connection of its own; what went wrong in it is kept for the test."""

    def __init__(self, client: Client, seed: str) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.random = random.Random(seed)
        self.name = seed
        self.serial = 0
        self.refused_count = 0
        """What was refused because the disk is full: requests that changed nothing, and jobs that were not kicked."""

        self.acknowledged_count = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Works until the server is gone."""
        try:
            with self.client:
                self.begin()
                while True:
                    self.step()
        except (Gone, OSError):
            pass
        except BaseException as error:  # noqa: BLE001 - the test raises it again
            self.failure = error

    def begin(self) -> None:
        """Sets up the session."""

    @abstractmethod
    def step(self) -> None:
        """Does something."""

    def line(self) -> bytes:
        line = self.client.line()
        if not line.endswith(b"\r\n"):
            raise Gone
        return line

    def heard(self, reply: bytes) -> bool:
        """Reads exactly this reply, or that the disk is full; whether it was the reply."""
        line = self.line()
        if line == OUT_OF_MEMORY:
            self.refused_count += 1
            return False
        assert line == reply, f"{self.name}: wanted {reply!r}, got {line!r}"
        self.acknowledged_count += 1
        return True

    def inserted(self) -> int:
        """Reads the answer of a put; returns the id, or 0 when the disk is full."""
        line = self.line()
        if line == OUT_OF_MEMORY:
            self.refused_count += 1
            return 0
        assert line.startswith(b"INSERTED "), f"{self.name}: put was answered with {line!r}"
        self.acknowledged_count += 1
        return int(line.split()[1])

    def reserved(self) -> tuple[int, bytes] | None:
        """The id and the body of the next reply; None: there was no job."""
        line = self.line()
        if line == b"TIMED_OUT\r\n":
            return None
        assert line.startswith(b"RESERVED "), f"{self.name}: reserve was answered with {line!r}"
        _, id, size = line.split()
        body = self.client.take(int(size) + 2)
        if len(body) < int(size) + 2:
            raise Gone
        self.acknowledged_count += 1
        return int(id), body[:-2]

    def body(self) -> bytes:
        """A body that nobody has seen."""
        self.serial += 1
        size = self.random.choice((0, 10, 100, 1000, 9000, 40000))
        return f"{self.name}/{self.serial} ".encode() + self.random.randbytes(self.random.randint(0, size))


class Hermit(Worker):
    """Does everything that can be done to a job, several requests in flight, and knows exactly what must be true."""

    def __init__(self, client: Client, seed: str, tube: str, ledger: Ledger) -> None:
        super().__init__(client, seed)
        self.tube = tube.encode()
        self.ledger = ledger

    def begin(self) -> None:
        """Has no tube but its own."""
        self.client.send(b"use %b\r\nwatch %b\r\nignore default\r\n" % (self.tube, self.tube))
        self.line(), self.line(), self.line()

    def step(self) -> None:
        """Sends up to sixteen requests at once, and reads the answers."""
        if self.random.random() < 0.1:
            self.kick()
            return
        actions = (self.put, self.put, self.put, self.reserve, self.reserve, self.release, self.bury, self.kick_job)
        sent: list[bytes] = []
        answers: list[Callable[[], None]] = []
        for _ in range(self.random.randint(1, 16)):
            action = self.random.choice((*actions, self.delete, self.delete))
            if made := action():
                sent.append(made[0])
                answers.append(made[1])
        self.client.send(b"".join(sent))
        for answer in answers:
            answer()

    def pick(self, *states: str) -> Promised | None:
        """A job in one of some states."""
        jobs = self.ledger.in_state(*states)
        return self.random.choice(jobs) if jobs else None

    def answer(self, id: int, reply: bytes) -> Callable[[], None]:
        """What reads the answer of a request for a job."""

        def read() -> None:
            if self.heard(reply):
                self.ledger.acknowledge(id)
            else:
                del self.ledger.asked[id]

        return read

    def put(self) -> tuple[bytes, Callable[[], None]] | None:
        if len(self.ledger.jobs) + len(self.ledger.puts) >= JOBS_MAX:
            return None
        delay_s = self.random.choice((0, 0, LONG_S))
        job = Promised(self.body(), self.random.randint(0, 5000), DELAYED if delay_s else READY, delay_s)
        self.ledger.puts.append(job)

        def read() -> None:
            if id := self.inserted():
                self.ledger.acknowledge_put(id)
            else:
                self.ledger.puts.pop(0)

        return put_line(job.body, pri=job.pri, delay_s=delay_s), read

    def reserve(self) -> tuple[bytes, Callable[[], None]]:
        def read() -> None:
            if found := self.reserved():
                job = self.ledger.jobs[found[0]]
                assert job.body == found[1], f"job {job.id} has another body"
                job.state = RESERVED
                job.reserves += 1

        return b"reserve-with-timeout 0\r\n", read

    def release(self) -> tuple[bytes, Callable[[], None]] | None:
        if (job := self.pick(RESERVED)) is None:
            return None
        delay_s, pri = self.random.choice((0, LONG_S)), self.random.randint(0, 5000)
        state = DELAYED if delay_s else READY
        self.ledger.ask(job, state=state, delay_s=delay_s, pri=pri, releases=job.releases + 1)
        return b"release %d %d %d\r\n" % (job.id, pri, delay_s), self.answer(job.id, b"RELEASED\r\n")

    def bury(self) -> tuple[bytes, Callable[[], None]] | None:
        if (job := self.pick(RESERVED)) is None:
            return None
        pri = self.random.randint(0, 5000)
        self.ledger.ask(job, state=BURIED, pri=pri, buries=job.buries + 1)
        return b"bury %d %d\r\n" % (job.id, pri), self.answer(job.id, b"BURIED\r\n")

    def kick_job(self) -> tuple[bytes, Callable[[], None]] | None:
        if (job := self.pick(BURIED, DELAYED)) is None:
            return None
        self.ledger.ask(job, state=READY, kicks=job.kicks + 1)
        return b"kick-job %d\r\n" % job.id, self.answer(job.id, b"KICKED\r\n")

    def delete(self) -> tuple[bytes, Callable[[], None]] | None:
        """A job goes; not a ready one, which a request in flight may be about to reserve."""
        if (job := self.pick(RESERVED, BURIED, DELAYED)) is None:
            return None
        self.ledger.ask_delete(job)
        return b"delete %d\r\n" % job.id, self.answer(job.id, b"DELETED\r\n")

    def kick(self) -> None:
        """Kicks the oldest buried jobs, with nothing else in flight."""
        bound = self.random.randint(1, 5)
        if not self.ledger.buried:
            return
        ids = self.ledger.buried[:bound]
        for id in ids:
            job = self.ledger.jobs[id]
            self.ledger.ask(job, state=READY, kicks=job.kicks + 1)
        self.client.send(b"kick %d\r\n" % bound)
        kicked = int(self.line().removeprefix(b"KICKED "))
        self.refused_count += len(ids) - kicked
        for id in ids[:kicked]:
            self.ledger.acknowledge(id)
        for id in ids[kicked:]:
            del self.ledger.asked[id]


class Buyer(Worker):
    """Waits for jobs of the shared tube, and deletes most of them."""

    def __init__(self, client: Client, seed: str, market: Market) -> None:
        super().__init__(client, seed)
        self.market = market

    def step(self) -> None:
        self.client.send(b"reserve\r\n")
        found = self.reserved()
        assert found is not None, "a reserve without a timeout timed out"
        id, body = found
        assert body in self.market.offered, f"job {id} has a body that nobody sent"
        assert id not in self.market.deleted, f"job {id} was deleted and is back"
        if self.random.random() < 0.1:
            self.client.send(b"release %d 1 0\r\n" % id)
            self.heard(b"RELEASED\r\n")
            return
        self.market.delete_asked.add(id)
        self.client.send(b"delete %d\r\n" % id)
        assert self.heard(b"DELETED\r\n"), "a delete was refused"
        self.market.deleted.add(id)


class Seller(Buyer):
    """Puts into the shared tube, several jobs in flight; when nobody buys them, it buys."""

    def step(self) -> None:
        if len(self.market.put) - len(self.market.deleted) > MARKET_MAX:
            super().step()
            return
        bodies = [self.body() for _ in range(self.random.randint(1, 8))]
        self.market.offered.update(bodies)
        self.client.send(b"".join(put_line(each) for each in bodies))
        for body in bodies:
            if id := self.inserted():
                assert id not in self.market.put, f"the id {id} was given twice"
                self.market.put[id] = body
