"""One process: an engine with a log on a simulated disk, and clients of whom one knows what they were told.

A turn is what the server's is: tick, commands, those that were woken, the log, and then the replies that the log lets
go. Between turns the log's own work is done in any order.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.state.job import Flag, State
from beanpole.log.files.filelog import FileLog
from beanpole.log.log import Policy
from beanpole.server.connection import Connection
from beanpole.server.directory import number
from tests.simulation.disk import SimDisk
from tests.simulation.history import History, Recovered, check_accounts, fire_of, see, texts_of
from tests.simulation.runner import NS_PER_S, Clock, SimRunner

if TYPE_CHECKING:
    from tests.simulation.keeping import Keeping

BODY_BYTES_MAX = 65535

OF_MANY = (b"kick", b"put-job", b"change-job", b"clear-tube", b"move-jobs")
"""Commands that can tell the log more than one thing."""

TURNS_MAX = 1000
"""Turns in which a full disk makes space, or shows that it has none."""


class Space:
    """Hears whether there is space."""

    def __init__(self) -> None:
        self.full = False
        self.full_count = 0

    def log_full(self, reason: str) -> None:
        assert reason, "the log is full for no reason"
        self.full = True
        self.full_count += 1

    def log_has_space(self) -> None:
        self.full = False


@dataclass(slots=True)
class Promises:
    """What clients were told, over all lives."""

    put: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    cancelled: set[int] = field(default_factory=set)
    delete_asked: set[int] = field(default_factory=set)
    has_rules: bool = False
    """Whether tubes may have rules: then a job that comes back may be recorded as another client gets it."""

    once_put: dict[tuple[bytes, ...], set[int]] = field(default_factory=dict)
    """By tube and token: the jobs that puts have made, as far as no crash has lost them."""

    once_told: dict[tuple[bytes, ...], int] = field(default_factory=dict)
    """By tube and token: the job that a put was answered with."""

    highest_id: int = 0
    fired: dict[bytes, list[tuple[int, int]]] = field(default_factory=dict)
    """By schedule: the jobs that its times have put, and which times those were."""


@dataclass(slots=True)
class Asked:
    """A command whose reply is not seen yet."""

    step: int
    """The step that it was, if the log was told of it; else 0."""

    verb: bytes
    id: int = 0
    look: int = 0
    """Which look at who keeps what came before it."""

    once: tuple[bytes, ...] = ()
    """Of a put that is done once: its tube and its token."""


def once_of(line: bytes) -> tuple[bytes, ...]:
    """The tube and the token of a put that is done once; empty: it is no such."""
    said = dict(word.split(b"=", 1) for word in line.split() if b"=" in word)
    return (said.get(b"tube", b""), said[b"once"]) if b"once" in said else ()


class Client:
    """A connection and what it waits for."""

    def __init__(self, engine: Engine, now_ns: int) -> None:
        self.connection = Connection(engine, now_ns)
        self.asked: deque[Asked] = deque()
        self.replies = b""
        self.held: list[int] = []
        """The jobs that it was told it has."""

        self.last_reply = b""
        """Its first word."""

        self.used = b"default"
        self.watched = {b"default"}

    @property
    def waiting(self) -> bool:
        return self.connection.session.waiting

    def take_replies(self, durable_index: int) -> list[tuple[Asked, list[bytes]]]:
        """The commands that are answered now, each with the words of its reply's first line."""
        self.replies += self.connection.take_output(durable_index)
        answered = []
        while (end := self.replies.find(b"\r\n")) >= 0:
            words = self.replies[:end].split()
            size = int(words[-1]) + 2 if words[0] in {b"RESERVED", b"FOUND", b"OK"} else 0
            assert len(self.replies) >= end + 2 + size, "half a reply was sent"
            self.replies = self.replies[end + 2 + size :]
            self.last_reply = words[0]
            answered.append((self.asked.popleft(), words))
        return answered


class Life:
    """One process, from its start on."""

    def __init__(
        self,
        disk: SimDisk,
        clock: Clock,
        policy: Policy,
        segment_bytes: int,
        promises: Promises,
        *,
        shard: tuple[int, ...] = (),
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.promises = promises
        self.space = Space()
        self.runner = SimRunner(clock, disk.ban)
        self.log = FileLog(
            disk,
            runner=self.runner,
            now_ns=lambda: clock.now_ns,
            wall_ns=clock.wall_ns,
            observer=self.space,
            policy=policy,
            segment_bytes=segment_bytes,
            salt=disk.rng.randrange(2**32),
        )
        self.records = self.log.records
        self.accounts = self.log.accounts
        self.engine = Engine(BODY_BYTES_MAX, clock.now_ns, records=self.records)
        self.recovered = self.log.recover(self.engine)
        number(self.engine, self.log, shard, Path("DIR"))
        jobs = {job.id: job for job in self.engine.jobs.jobs()}
        held = {id for id, job in jobs.items() if job.state == State.RESERVED}
        seen = {id: see(job) for id, job in jobs.items()}
        self.found = Recovered(seen, {}, self.now_ns, texts_of(self.engine), held)
        self.clients: list[Client] = []
        self.history: History | None = None
        self.keeping: Keeping | None = None
        self.refused_put_count = 0
        self.has_limits = False
        """Whether tubes may refuse what is put, and what is moved."""

        self.failed = False
        self.guard(lambda: self.log.start(self.deliver, self.note_failure))
        self.noted_index = self.appended_index = self.records.index
        self.noted_job_id = self.engine.next_job_id

    @property
    def now_ns(self) -> int:
        """What the engine's clock says, which is the log's."""
        return self.clock.now_ns + self.recovered.clock.offset_ns

    # --- what can end it ----------------------------------------------------------------------------------------------

    def note_failure(self, error: OSError) -> None:
        assert error.errno, "the log failed for no reason"
        self.failed = True

    def guard(self, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError:
            assert self.log.failure is not None, "an error of the disk went by unnoticed"

    # --- clients ------------------------------------------------------------------------------------------------------

    def connect(self) -> Client:
        client = Client(self.engine, self.now_ns)
        self.clients.append(client)
        return client

    def disconnect(self, client: Client, *, by_server: bool = False) -> None:
        """A client is gone, and reads nothing more."""
        self.clients.remove(client)
        client.connection.transport.cut = by_server
        self.in_step(lambda: client.connection.close(self.now_ns), many=True)

    def send(self, client: Client, verb: bytes, line: bytes, id: int = 0, body: bytes | None = None) -> None:
        """A client asks for something; it must not be waiting."""
        asked = Asked(0, verb, id, self.keeping.count if self.keeping else 0, once_of(line))
        client.asked.append(asked)
        if verb in {b"delete", b"cancel-job"}:
            self.promises.delete_asked.add(id)
        elif verb == b"clear-tube":
            self.promises.delete_asked.update(job.id for job in self.engine.jobs.jobs())
        elif verb == b"set-rules":
            self.promises.has_rules = True
        elif b" taken=replace" in line:  # which deletes who holds the key, when it comes back
            self.promises.delete_asked |= {job.id for job in self.engine.jobs.jobs() if job.tags}
        elif verb == b"change-job" and b" expire=" in line:
            self.promises.delete_asked.add(id)
        data = line + b"\r\n" if body is None else line + b"\r\n" + body + b"\r\n"
        id_before = self.engine.next_job_id
        try:
            self.step(lambda: self.receive(client, data))
        finally:
            if self.engine.next_job_id != id_before and self.history is not None and body is not None:
                self.history.put(id_before, self.now_ns)
                self.promises.once_put.setdefault(asked.once, set()).add(id_before)
                if b" expire=" in line:
                    self.promises.delete_asked.add(id_before)
            told = self.end_step(many=verb in OF_MANY or self.promises.has_rules)
            if told and self.history is not None:
                asked.step = self.history.step
                if verb == b"pause-tube":
                    _, tube, seconds = line.split()
                    until_ns = self.now_ns + int(seconds) * NS_PER_S
                    self.history.set_pause(tube, (int(seconds), until_ns) if int(seconds) else None)
            client.used = client.connection.session.used.name if client.connection.session.used else b""
        self.note_watched(client, verb, line)
        self.drop_pauses()

    def receive(self, client: Client, data: bytes) -> None:
        """A command runs; one that waits for space runs again in each turn, while the log makes some or finds none."""
        with self.disk.ban.while_a_command_runs():
            client.connection.receive(self.now_ns, data)
        for _ in range(TURNS_MAX):
            if not client.connection.pending:
                return
            self.log.append()
            with self.disk.ban.while_a_command_runs():
                client.connection.resume(self.now_ns)
            if client.connection.pending:
                self.runner.finish_sync()
                self.runner.run_background()
                self.runner.run_soon()
        raise AssertionError("a command waits for space that nobody makes")

    @staticmethod
    def note_watched(client: Client, verb: bytes, line: bytes) -> None:
        """Takes note of what a client watches, so far as it was not refused."""
        if verb == b"watch":
            client.watched.add(line.split()[1])
        elif verb == b"ignore" and len(client.watched) > 1:
            client.watched.discard(line.split()[1])

    def drop_pauses(self) -> None:
        """A tube that nobody uses or watches and that is empty is gone, and its pause with it."""
        if self.history is None:
            return
        for tube in self.history.paused():
            if tube == b"default" or any(tube == each.used or tube in each.watched for each in self.clients):
                continue
            if not any(job.tube.name == tube for job in self.engine.jobs.jobs()):
                self.history.set_pause(tube, None)

    # --- steps and turns ----------------------------------------------------------------------------------------------

    def step(self, action: Callable[[], object]) -> None:
        self.guard(action)

    def end_step(self, *, many: bool) -> bool:
        """Takes note of a step; True: the log was told something."""
        if self.keeping is not None:
            self.keeping.know([client.connection for client in self.clients])
            self.keeping.look(self.engine, self.now_ns)
        if self.history is not None:
            self.note_fired(self.history)
            self.history.note_attempts(self.engine)
        if self.promises.has_rules:  # of which one may let jobs expire
            self.promises.delete_asked |= {job.id for job in self.engine.jobs.jobs() if job.flags & Flag.EXPIRES}
        told = self.records.index != self.noted_index
        many = many or self.records.index > self.noted_index + 1  # reserve deletes the jobs that it finds too late
        if told or self.failed:
            self.noted_index = self.records.index
            if self.history is not None:
                index = self.records.index + self.failed
                self.history.next_step(self.engine, index, self.now_ns, many=many or self.failed)
        return told

    def note_fired(self, history: History) -> None:
        """Takes note of new jobs that schedules have put."""
        jobs = self.engine.jobs.jobs() if self.engine.next_job_id > self.noted_job_id else ()
        for job in sorted((each for each in jobs if each.id >= self.noted_job_id), key=attrgetter("id")):
            name, scheduled_ns, fire = fire_of(job)
            if name and job.id not in history.jobs:
                history.put(job.id, self.now_ns)
            if fire:
                fired = self.promises.fired.setdefault(name, [])
                assert fire == len(fired) + 1, (
                    f"schedule {name!r} fired {len(fired)} times, and its next job says {fire}"
                )
                assert history.rules.clock_jumps or not fired or scheduled_ns > fired[-1][1], f"{name!r} fires again"
                fired.append((job.id, scheduled_ns))
        self.noted_job_id = self.engine.next_job_id

    def in_step(self, action: Callable[[], object], *, many: bool) -> None:
        try:
            with self.disk.ban.while_a_command_runs():
                self.step(action)
        finally:
            self.end_step(many=many)
        self.drop_pauses()

    def tick(self) -> None:
        self.engine.wall_lead_ns = self.clock.wall_ns() - self.now_ns
        self.in_step(lambda: self.engine.tick(self.now_ns), many=True)

    def end_turn(self) -> None:
        """Lets those go on whom others have woken, then gives the log what the turn told, and clients their replies."""
        for _ in range(1000):
            woken = self.engine.take_woken()
            if not woken:
                break
            for session in woken:
                owner = session.owner
                if isinstance(owner, Connection):
                    self.in_step(lambda owner=owner: owner.resume(self.now_ns), many=True)  # type: ignore[misc]
                    self.end_finished(owner)
        if self.records.index != self.appended_index or self.records.loose:
            self.appended_index = self.records.index
            self.guard(self.log.append)
            if self.keeping is not None:
                self.keeping.note(self.records.index)
        self.deliver()

    def end_finished(self, connection: Connection) -> None:
        """Closes a connection whose client has come back by another one."""
        for client in self.clients if connection.finished else ():
            if client.connection is connection:
                self.disconnect(client)
                return

    def deliver(self) -> None:
        """Clients read what the log lets go."""
        for client in self.clients:
            for asked, words in client.take_replies(self.log.durable_index):
                self.note_reply(client, asked, words)
                self.note_once(asked, words)

    def note_once(self, asked: Asked, words: list[bytes]) -> None:
        """Takes note of what a put that is done once was answered with."""
        if asked.once and words[0] in {b"INSERTED", b"EXISTS", b"REPLACED"}:
            told = self.promises.once_told.setdefault(asked.once, int(words[1]))
            assert not self.log.policy.always or told == int(words[1]), f"{asked.once} is {words}, and was {told}"

    def note_reply(self, client: Client, asked: Asked, words: list[bytes]) -> None:
        if self.history is not None:
            self.history.seen_step = max(self.history.seen_step, asked.step)
        if words[0] == b"INSERTED":
            self.promises.put.add(int(words[1]))
            self.promises.highest_id = max(self.promises.highest_id, int(words[1]))
        elif words[0] == b"DELETED":
            self.promises.deleted.add(asked.id)
        elif words[0] == b"CANCELLED":
            self.promises.cancelled.add(asked.id)
        elif words[0] == b"RESERVED":
            client.held.append(int(words[1]))
        elif words[0] == b"KEPT":
            client.held = list(map(int, words[2:]))
        elif words[0] == b"OUT_OF_MEMORY":
            is_full = self.space.full_count or self.failed or self.has_limits
            assert is_full, "something was refused, but the disk was never full"
            if asked.verb in {b"put", b"put-job"}:
                self.refused_put_count += 1
        if asked.verb in {b"delete", b"release", b"bury", b"snooze-job", b"fail-job"}:
            self.note_end(client, asked, words[0])

    def note_end(self, client: Client, asked: Asked, word: bytes) -> None:
        """Takes note of what was answered to who wanted to be done with a job."""
        if asked.id in client.held and word != b"OUT_OF_MEMORY":
            client.held.remove(asked.id)
        if self.keeping is not None and word in {b"DELETED", b"RELEASED", b"BURIED"}:
            self.keeping.end(asked.id, asked.look)

    # --- checks -------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Asserts that what is counted equals a recount."""
        check(self.engine)
        assert self.history is not None
        check_accounts(self.engine, self.records)

    def least_step(self) -> int:
        """The step that a loss of power must not undo."""
        assert self.history is not None
        if self.log.policy.always:
            return max(self.history.seen_step, self.history.durable_step(self.log.durable_index))
        return self.history.durable_step(self.log.synced.record)

    def crash_note(self) -> None:
        """Takes note of the last moment."""
        assert self.history is not None
        self.history.next_step(self.engine, self.records.index + 1, self.now_ns, many=True)
