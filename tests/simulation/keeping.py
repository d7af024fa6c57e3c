"""Who keeps which job in a simulation: what a crash must leave to who has a token, and what it can't.

That a job waits is recorded beside the steps, and no reply waits for it. So a job waits after a kill if it did when the
log was last given its records, and after a loss of power if something is durable that was recorded later; and no job
waits for a token that has not held it, or whose end of that was answered.
"""

from dataclasses import dataclass, field
from hashlib import blake2b

from beanpole.engine.engine import Engine
from beanpole.engine.state.job import State
from beanpole.server.connection import Connection

TOKENS = tuple(b"%032x" % number for number in (1, 2, 3))
NAMES = {blake2b(token, digest_size=16).digest(): token for token in TOKENS}
TUBES = (b"default", b"a", b"bb")

Kept = dict[int, bytes]
"""Job: the token of who holds it."""


def asked(engine: Engine, now_ns: int, line: bytes) -> bytes:
    """What a client is answered that comes for this alone."""
    connection = Connection(engine, now_ns)
    connection.receive(now_ns, line + b"\r\n")
    while connection.pending:  # it takes several turns
        connection.resume(now_ns)
    reply = connection.take_output()
    connection.close(now_ns)
    return reply


def holders(engine: Engine, now_ns: int) -> dict[int, int]:
    """Of each reserved job the number of the session that holds it."""
    found = {}
    for tube in TUBES if any(job.state == State.RESERVED for job in engine.jobs.jobs()) else ():
        reply = asked(engine, now_ns, b"list-jobs %b reserved 1000 fields=session" % tube)
        for words in (line.split() for line in reply.split(b"\r\n")[1:] if line):
            found[int(words[1])] = int(words[-1].removeprefix(b"session="))
    return found


def returned(engine: Engine, now_ns: int) -> Kept:
    """Who gets which job when all return. It is theirs then, for good."""
    kept: Kept = {}
    for token in TOKENS:
        connection = Connection(engine, now_ns)
        connection.receive(now_ns, b"keep-session 600 %b\r\n" % token)
        word, count, *ids = connection.take_output().split()
        assert (word, int(count)) == (b"KEPT", len(ids))
        assert not kept.keys() & set(map(int, ids)), "a job waits for two"
        kept |= dict.fromkeys(map(int, ids), token)
    return kept


@dataclass
class Keeping:
    """The tokens of one seed."""

    by_number: dict[int, bytes] = field(default_factory=dict)
    """The sessions of this life that have a token, or lost their connections with one."""

    count: int = 0
    """How often was looked."""

    kept: Kept = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    """Since when it has been so of a job, in looks."""

    ever: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """When a job was last seen with a token, in looks."""

    ended: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """By which look its end was answered."""

    notes: list[tuple[int, int, Kept]] = field(default_factory=list)
    """Whenever the log was given what it was told: up to which record, in which look, and who had which job then."""

    found_count: int = 0
    """Jobs that had to be kept over a crash, and were."""

    def begin(self, engine: Engine, now_ns: int, kept: Kept, *, exact: bool) -> None:
        """A life begins, and these jobs wait."""
        numbers = holders(engine, now_ns)
        same = numbers.keys() == kept.keys()
        assert same or not exact, f"jobs {sorted(numbers)} wait, but {sorted(kept)} are given to who returns"
        self.by_number = {number: kept[id] for id, number in numbers.items() if id in kept}
        self.notes.clear()
        self.look(engine, now_ns)

    def know(self, connections: list[Connection]) -> None:
        """Take note of who has which token."""
        for session in (each.session for each in connections if each.session.used is not None):
            if session.keep is None:
                self.by_number.pop(session.number, None)
            else:
                self.by_number[session.number] = NAMES[session.keep.token]

    def look(self, engine: Engine, now_ns: int) -> None:
        """Something has happened."""
        self.count += 1
        numbers = holders(engine, now_ns) if self.by_number else {}
        kept = {id: self.by_number[number] for id, number in numbers.items() if number in self.by_number}
        for id in kept.keys() | self.kept.keys():
            if kept.get(id) != self.kept.get(id):
                self.since[id] = self.count
        self.kept = kept
        self.ever |= dict.fromkeys(kept.items(), self.count)

    def note(self, index: int) -> None:
        """The log was given all that it was told, up to a record."""
        self.notes.append((index, self.count, self.kept))

    def end(self, id: int, count: int) -> None:
        """It was answered that whoever had a job in a look has it no more."""
        self.ended |= {(id, token): count for token in TOKENS}

    def least(self, index: int) -> Kept:
        """The jobs that a crash must keep that lets all be there which the log had been given up to a record."""
        notes = [each for each in self.notes if each[0] <= index]
        _, count, kept = notes[-1] if notes else (0, 0, {})
        return {id: token for id, token in kept.items() if self.since[id] <= count and self.kept.get(id) == token}

    def judge(self, found: Kept, least: Kept, *, all_told: bool) -> None:
        """Raises AssertionError unless the jobs that wait are those that must, and perhaps some that may.

        If `all_told`, what clients were answered is still so.
        """
        for id, token in least.items():
            assert found.get(id) == token, f"job {id} must wait for {token!r}, but waits for {found.get(id)!r}"
        self.found_count += len(least)
        for each in found.items():
            assert each in self.ever, f"job {each[0]} waits for {each[1]!r}, who never had it"
            is_over = all_told and self.ever[each] <= self.ended.get(each, 0)
            assert not is_over, f"job {each[0]} waits for {each[1]!r}, who was told that it has it no more"
