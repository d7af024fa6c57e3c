"""Jobs that fail, over crashes at any moment: no attempt is forgotten, and each job dies once and is in one tube."""

from collections import Counter
from random import Random

import pytest

from beanpole.engine.check import check
from beanpole.engine.state.job import State
from beanpole.log.log import Policy
from tests.simulation.disk import CrashError, SimDisk
from tests.simulation.history import recount
from tests.simulation.life import Client, Life, Promises
from tests.simulation.runner import NS_PER_S, Clock

ATTEMPTS = 3
RULES = b"attempts: %d\ndead: d\nbackoff: 2\n" % ATTEMPTS
JOBS = 12
ACTS = 120
LIVES_MAX = 60
SEEDS = range(12)


class Workers:
    """Workers of one tube on one disk, over crashes; whatever they begin with fails."""

    def __init__(self, seed: int, *, power_fails: bool, segment_bytes: int) -> None:
        self.rng = Random(seed)
        self.disk = SimDisk(seed)
        self.clock = Clock()
        self.power_fails = power_fails
        self.segment_bytes = segment_bytes
        self.begun: Counter[int] = Counter()
        """Attempts at each job of which a worker was told."""

        self.failed: Counter[int] = Counter()
        """Those of which the server has said that they had failed."""

        self.life = self.start()
        client = self.life.connect()
        self.life.send(client, b"set-rules", b"set-rules t %d" % len(RULES), body=RULES)
        for number in range(JOBS):
            self.life.send(client, b"put-job", b"put-job 3 tube=t key=%d ttr=3" % number, body=b"%3d" % number)
        self.rest()

    def start(self) -> Life:
        life = Life(self.disk, self.clock, Policy(0), self.segment_bytes, Promises())
        assert life.recovered is not None
        check(life.engine)
        return life

    def rest(self) -> None:
        """Ends a turn, and lets the log come to rest."""
        self.life.end_turn()
        self.life.runner.settle()
        self.life.deliver()

    def run(self) -> None:
        for _ in range(LIVES_MAX):
            self.disk.call_count, self.disk.crash_at = 0, self.rng.randint(1, 150)
            try:
                for _ in range(ACTS):
                    self.act()
            except CrashError:
                pass
            self.crash()
            if self.where() == Counter({b"d": JOBS}):
                return
        raise AssertionError(f"after {LIVES_MAX} lives the jobs are in {self.where()}")

    def crash(self) -> None:
        if self.power_fails and self.rng.random() < 0.5:
            self.disk.lose_power()
        else:
            self.disk.kill()
        self.disk.crash_at = 0
        self.life = self.start()
        self.judge()

    def act(self) -> None:
        rng, life = self.rng, self.life
        held = {client: list(client.held) for client in life.clients}
        self.clock.now_ns += rng.choice((0, 0, NS_PER_S // 10, NS_PER_S))
        life.runner.run_timers()
        life.tick()
        while len(life.clients) < 3:
            life.send(life.connect(), b"watch", b"watch t")
        client = rng.choice(life.clients)
        what = rng.random()
        if what < 0.1:
            life.disconnect(client)
        elif client.held and what < 0.4:
            self.finish(client, rng.choice(client.held))
        elif not client.waiting:
            life.send(client, b"reserve", b"reserve-with-timeout 0")
        if rng.random() < 0.7:
            self.rest()
        else:
            life.end_turn()
        for each in life.clients:
            self.begun.update(id for id in each.held if id not in held.get(each, []))

    def finish(self, client: Client, id: int) -> None:
        """An attempt fails; the count goes by what is answered."""
        if self.rng.random() < 0.5:
            self.life.send(client, b"release", b"release %d 1 0" % id, id)
        else:
            self.life.send(client, b"fail-job", b"fail-job %d 3" % id, id, b"why")
        client.held.remove(id)
        self.rest()
        self.failed[id] += client.last_reply in {b"RELEASED", b"BURIED"}

    def where(self) -> Counter[bytes]:
        return Counter(job.tube.name for job in self.life.engine.jobs.jobs())

    def judge(self) -> None:
        there = self.where()
        assert there.total() == JOBS, f"{JOBS} jobs were put, there are {there}"
        assert set(there) <= {b"t", b"d"}
        for id, count in self.failed.items():
            assert count <= ATTEMPTS, f"job {id} has failed {count} times"
        if not self.power_fails:
            for id, count in self.begun.items():
                assert count <= ATTEMPTS, f"job {id} was handed out {count} times"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_attempt_is_forgotten_when_the_process_is_killed(seed: int) -> None:
    """With one segment: while a segment is sealed, what follows it is in memory."""
    workers = Workers(seed, power_fails=False, segment_bytes=1 << 20)
    workers.run()
    assert max(workers.begun.values()) == ATTEMPTS, "no job was handed out as often as it may be"


@pytest.mark.parametrize("seed", SEEDS)
def test_each_job_dies_once_whatever_is_lost(seed: int) -> None:
    Workers(seed, power_fails=True, segment_bytes=4096).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_that_die_on_a_full_disk_stay_in_one_tube(seed: int) -> None:
    """Some are buried where they are; none is lost, counted twice, or handed out once more than it may be."""
    workers = Workers(seed, power_fails=False, segment_bytes=4096)
    workers.disk.capacity = workers.disk.used_bytes()
    for _ in range(4):
        for _ in range(ACTS):
            workers.act()
            check(workers.life.engine)
        total, _ = recount(workers.life.engine)
        assert total == workers.life.accounts.live_bytes
        workers.crash()
    workers.disk.capacity = None
    for _ in range(10 * ACTS):
        workers.act()
    states = Counter((job.tube.name, State(job.state).name) for job in workers.life.engine.jobs.jobs())
    assert states.total() == JOBS
    assert not states[b"t", "READY"], f"{states}"


def test_stop_takes_no_attempt() -> None:
    """Servers that stop in good order again and again, while a worker has a job, use up none of its attempts."""
    workers = Workers(1, power_fails=False, segment_bytes=65536)
    for _ in range(3 * ATTEMPTS):
        client = workers.life.connect()
        workers.life.send(client, b"watch", b"watch t")
        for _ in range(JOBS):
            workers.life.send(client, b"reserve", b"reserve-with-timeout 0")
        workers.rest()
        assert len(client.held) == JOBS
        workers.life.engine.give_back()
        workers.life.log.close()
        workers.disk.kill()
        workers.life = workers.start()
        workers.life.tick()
    assert workers.where() == Counter({b"t": JOBS})


def syncs(life: Life) -> bool:
    return life.runner.under_way is not None


def test_attempts_alone_sync_nothing() -> None:
    """No reply waits for the record of an attempt, and no sync is begun for it; what comes later takes it along."""
    workers = Workers(2, power_fails=False, segment_bytes=1 << 20)
    life = workers.life
    client = life.connect()
    life.send(client, b"watch", b"watch t")
    life.end_turn()
    before = life.log.written
    life.send(client, b"reserve", b"reserve-with-timeout 0")
    life.end_turn()
    life.deliver()
    assert len(client.held) == 1
    assert life.log.written.used_bytes > before.used_bytes, "the attempt was not written with its turn"
    assert not syncs(life), "a sync was begun for an attempt"
    life.send(client, b"bury", b"bury %d 1" % client.held[0], client.held[0])
    life.end_turn()
    assert syncs(life)
    life.runner.settle()
    assert life.log.synced == life.log.written
