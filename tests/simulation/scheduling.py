"""What clients do with schedules in a simulation, and what must be true of them over all lives.

A name is set anew only while it is there: one that was dropped would begin to count its fires again.
"""

from random import Random

from tests.simulation.history import Rules, fire_of
from tests.simulation.life import Client, Life, Promises
from tests.simulation.said import schedules_of

PERIODS_S = (2, 3, 7, 20)
SCHEDULES_MAX = 4
MISSES_COUNTED = 99
"""Misses of one gap that are counted at least: further ones need not be."""


class Schedules:
    """The schedules of one seed."""

    def __init__(self, rng: Random, rules: Rules, body_bytes: int) -> None:
        self.rng = rng
        self.rules = rules
        self.body_bytes = body_bytes
        self.set_count = 0
        self.first: dict[bytes, float] = {}
        """By name: its first time, of those that were never paused."""

        self.dropped: set[bytes] = set()
        """The names that somebody asked to drop."""

        self.fire_count = 0

    def command(self, life: Life, client: Client, tubes: tuple[bytes, ...]) -> None:
        """A client asks for something about schedules."""
        rng = self.rng
        there = sorted(schedules_of(life.engine))
        what = rng.random()
        if not there or (what < 0.2 and len(there) < SCHEDULES_MAX):
            self.set_count += 1
            name = b"s%d" % self.set_count
            self.set(life, client, name, rng.choice(tubes))
            if name in (there_now := schedules_of(life.engine)):
                self.first[name] = there_now[name].number(b"next")
            return
        name = rng.choice(there)
        if what < 0.4:
            self.set(life, client, name, rng.choice(tubes))
        elif what < 0.5:
            self.dropped.add(name)
            life.send(client, b"drop-schedule", b"drop-schedule " + name)
        elif what < 0.7:
            self.first.pop(name, None)
            life.send(client, b"pause-schedule", b"pause-schedule %b %b" % (name, rng.choice((b"on", b"off", b"off"))))
        else:
            life.send(client, b"fire-schedule", b"fire-schedule " + name)

    def set(self, life: Life, client: Client, name: bytes, tube: bytes) -> None:
        """Sets a schedule, whose times are always the same by its name."""
        rng = self.rng
        until = b"" if self.rules.disk_full else b"until: reserve\n"  # a hand-out that finds no room is not recorded
        lines = b"every: %d\ntube: %b\n" % (period_of(name), tube)
        lines += rng.choice((b"", b"overlap: allow\n"))
        lines += rng.choice((b"", b"misfire: skip\n"))
        lines += rng.choice((b"", b"late: 0\n", b"late: 5\n"))
        lines += rng.choice((b"", b"spread: 2\n"))
        lines += rng.choice((b"", b"", b"key: k\n", b"key: k\n" + until))
        document = lines + b"\n" + rng.randbytes(rng.randint(0, self.body_bytes))
        life.send(client, b"set-schedule", b"set-schedule %b %d" % (name, len(document)), body=document)

    def check(self, life: Life) -> None:
        """Asserts that each time was a fire, a skip or a miss, and that each fire put a job."""
        for name, said in schedules_of(life.engine).items():
            fires, skips, misses, last, _ = said.progress
            fired = life.promises.fired.get(name, [])
            assert fires == len(fired), f"{said.text!r} has put {len(fired)} jobs"
            if last and name in self.first and not self.rules.clock_jumps:
                times = (last - self.first[name]) / period_of(name) + 1
                counted = fires + skips + misses
                assert counted == times or (counted < times and misses >= MISSES_COUNTED), (
                    f"{said.text!r}: {times} times"
                )

    def judge(self, life: Life, promises: Promises) -> None:
        """Asserts of what came back after a crash that each fire has its job, and each job its fire."""
        jobs = {job.id: fire_of(job) for job in life.engine.jobs.jobs()}
        there = schedules_of(life.engine)
        for name, fired in promises.fired.items():
            if name not in there:
                assert name in self.dropped or not any(name == each for each, _, fire in jobs.values() if fire), (
                    f"jobs of {name!r} came back without it"
                )
                continue
            fires = int(there[name].number(b"fires"))
            gone = {id for id, _ in fired[:fires]} - jobs.keys() - promises.delete_asked
            assert not gone, f"{there[name].text!r}: its jobs {gone} are gone"
            back = {id for id, _ in fired[fires:]} & {id for id, (each, _, _) in jobs.items() if each == name}
            assert not back, f"{there[name].text!r}: it lacks the fires of the jobs {back}"
            del fired[fires:]
            self.fire_count += fires
        assert all(fire <= there[name].number(b"fires") for name, _, fire in jobs.values() if name in there)


def period_of(name: bytes) -> int:
    return PERIODS_S[int(name[1:]) % len(PERIODS_S)]
