"""Sessions that are told of jobs by ``reserve-many 0``: whatever they do then, no job is left beside one that waits."""

import re
from random import Random

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection
from tests.seeds import seeds

SECOND_NS = 1_000_000_000
SESSIONS = 5
STEPS = 60
RUNS = 5  # of each seed: a test of their own for each would take longer than they do
SEEDS = seeds(20, "TOLD_SEED")
TUBES = (b"t", b"u")
LIMITS = (
    *(b"concurrency: 1", b"concurrency: 2", b"rate: 2/s burst 2", b"attempts: 9\nbreaker: 50% of 2 in 3 probe 1"),
    *(b"group-concurrency: 1", b"group-order: strict"),
)
RULES = (*LIMITS, b"expire: 1", b"dead: u\nattempts: 2")
CLOSED = {b"paused", b"rate", b"concurrency", b"breaker", b"groups"}
"""Reasons of explain-tube for which nobody is given or told of a job."""

ASKS = (b"reserve-many 0 5", b"reserve-many 0 1.5", b"reserve-many 0 0")
WAITS = (*ASKS * 2, b"reserve", b"reserve-with-timeout 2", b"reserve-many 2 2")
WHEN_TOLD = (*[b"reserve-with-timeout 0"] * 4, b"reserve-many 2 0", b"list-tube-used", b"nonsense", b"cancel-reserve")


class Place:
    """An engine, and what is known outside: who waits and watches what, and who was told when and has said nothing."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_ns = 1
        self.engine = Engine(now_ns=1, wide_watches=self.rng.choice((0, 1, 5_000)))
        self.boss = Connection(self.engine, 1)
        self.watched: dict[Connection, tuple[bytes, ...]] = {}
        self.told_ns: dict[Connection, int] = {}
        self.limited: set[bytes] = set()

    def open(self) -> None:
        connection = Connection(self.engine, self.now_ns)
        self.watched[connection] = self.rng.choice((TUBES[:1], TUBES[1:], TUBES))
        connection.receive(self.now_ns, b"".join(b"watch %b\r\n" % tube for tube in self.watched[connection]))
        connection.receive(self.now_ns, b"ignore default\r\n")
        connection.take_output()

    def close(self, connection: Connection) -> None:
        del self.watched[connection]
        self.told_ns.pop(connection, None)
        connection.close(self.now_ns)
        self.settle()

    def say(self, connection: Connection, line: bytes) -> None:
        self.told_ns.pop(connection, None)
        connection.receive(self.now_ns, line + b"\r\n")
        self.hear(connection)
        self.settle()

    def hear(self, connection: Connection) -> None:
        if connection.take_output().endswith(b"JOBS 0\r\n"):
            self.told_ns[connection] = self.now_ns

    def settle(self) -> None:
        while self.engine.next_deadline_ns == self.engine.started_at_ns:  # what the next turn does, waiting for nothing
            self.engine.tick(self.now_ns)
        for session in self.engine.take_woken():
            assert isinstance(session.owner, Connection)
            session.owner.resume(self.now_ns)
            self.hear(session.owner)
        self.told_ns = {each: at for each, at in self.told_ns.items() if self.now_ns < at + SECOND_NS}
        check(self.engine)
        for tube in TUBES:
            self.look_at(tube)

    def look_at(self, tube: bytes) -> None:
        """Nobody waits for a tube that has more jobs to give than there are sessions that were told."""
        self.boss.receive(self.now_ns, b"explain-tube %b\r\n" % tube)
        text = self.boss.take_output()
        count = {key: int(number) for key, number in re.findall(rb"^(ready|waiting): (\d+)", text, re.MULTILINE)}
        if not count or not count[b"waiting"] or CLOSED & set(re.findall(rb"^- ([a-z]+):", text, re.MULTILINE)):
            return
        told = sum(tube in self.watched[each] for each in self.told_ns)
        ready = min(count[b"ready"], 1) if tube in self.limited else count[b"ready"]
        assert ready <= told, f"{ready} jobs of {tube!r} are ready, {told} sessions were told, and others wait"

    def let_time_pass(self, duration_ns: int) -> None:
        end_ns = self.now_ns + duration_ns
        while 0 <= self.engine.next_deadline_ns <= end_ns:
            self.now_ns = max(self.now_ns, self.engine.next_deadline_ns)
            self.engine.tick(self.now_ns)
            self.settle()
        self.now_ns = end_ns

    def change(self) -> None:
        """Jobs come, or become ready in some way, or tubes are closed or opened."""
        tube, rules, id = self.rng.choice(TUBES), self.rng.choice(RULES), self.rng.randint(1, self.engine.next_job_id)
        group, delay, pause = (
            self.rng.choice((b"", b"", b" group=a")),
            self.rng.choice((0, 0, 1)),
            self.rng.choice((0, 1)),
        )
        if self.rng.random() < 0.6:
            line = b"put-job 1 tube=%b pri=%d delay=%d ttr=2%b\r\nx" % (tube, self.rng.randrange(3), delay, group)
            self.limited |= set(TUBES) if group else set()  # one that dies or is moved takes its group with it
        else:
            line = self.rng.choice(
                (
                    *(b"kick-job %d" % id, b"cancel-job %d" % id, b"pause-tube %b %d" % (tube, pause)),
                    *(b"change-job %d tube=%b" % (id, tube), b"pause-group %b a %d" % (tube, pause)),
                    *(b"set-rules %b %d\r\n%b" % (tube, len(rules), rules), b"drop-rules %b" % tube),
                )
            )
            self.limited |= {tube} if rules in LIMITS or b"pause-group" in line else set()
        self.say(self.boss, line)

    def step(self) -> None:
        """One session goes on, or goes; or jobs come; or time passes, in which those that were told are slow."""
        what, connection = self.rng.random(), self.rng.choice(list(self.watched))
        id = self.rng.randint(1, self.engine.next_job_id)
        if what < 0.35:
            self.change()
        elif what < 0.5:
            self.let_time_pass(self.rng.choice((SECOND_NS // 10, SECOND_NS // 2, SECOND_NS, 3 * SECOND_NS)))
        elif what < 0.55:
            self.close(connection)
            self.open()
        elif connection.session.waiting:
            self.say(connection, b"cancel-reserve")
        elif connection in self.told_ns and what < 0.85:
            self.say(connection, self.rng.choice(WHEN_TOLD))
        else:
            ends = (b"delete %d" % id, b"release %d 0 0" % id, b"bury %d 0" % id, b"put 0 0 2 1\r\nx")
            self.say(connection, self.rng.choice((*WAITS, *ends)))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_job_is_left_beside_a_session_that_waits(seed: int) -> None:
    for run in range(RUNS):
        place = Place(seed * RUNS + run)
        for _ in range(SESSIONS):
            place.open()
        for _ in range(STEPS):
            place.step()
