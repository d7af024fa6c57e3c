"""Every call of the disk fails once: the log stops for good, and what it had promised is there after a restart."""

import errno
from random import Random

import pytest

from beanpole.errors import StartError
from beanpole.log.files.names import is_spare
from beanpole.log.log import Policy
from tests.seeds import fixed
from tests.simulation.disk import SimDisk
from tests.simulation.life import Life, Promises
from tests.simulation.runner import NS_PER_S, Clock
from tests.simulation.simulation import Simulation

SCENARIOS = fixed(12)
ACTS = 120
CALLS_MAX = 10_000


def fails(seed: int, n: int, number: int, kind: str, *, policy: Policy) -> bool:
    """One run in which the n-th call fails; whether there were so many."""
    simulation = Simulation(seed)
    simulation.policy = policy
    simulation.segment_bytes = 1024
    simulation.rules.clock_jumps = simulation.rules.disk_full = False
    disk = simulation.disk
    disk.fail_at, disk.fail_errno, disk.fail_only = n, number, kind
    simulation.crashing_starts = 0
    simulation.fail(simulation.start(), ACTS)
    disk.fail_at = 0
    disk.fail_only = ""
    simulation.live(simulation.start())
    simulation.start()
    return disk.fault_count > 0


def every_call(seed: int, number: int, kind: str = "", *, policy: Policy) -> int:
    """Lets each call fail, one after the other, in as many runs; returns how many there were."""
    for n in range(1, CALLS_MAX):
        try:
            if not fails(seed, n, number, kind, policy=policy):
                return n - 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, call {n} fails: {error}") from error
    raise AssertionError("there is no end of calls")


@pytest.mark.parametrize("seed", SCENARIOS)
def test_no_promise_is_broken_whatever_call_fails(seed: int) -> None:
    assert every_call(seed, errno.EIO, policy=Policy(0)) > 10


@pytest.mark.parametrize("policy", [Policy(20), Policy(None)], ids=str)
def test_what_is_left_is_a_prefix_whatever_call_fails(policy: Policy) -> None:
    assert every_call(1, errno.EIO, policy=policy) > 10


@pytest.mark.parametrize("seed", SCENARIOS)
def test_no_space_for_a_write_stops_the_log(seed: int) -> None:
    """The space was there: a write that finds none is as good as a broken disk."""
    assert every_call(seed, errno.ENOSPC, "write", policy=Policy(0)) > 5


# --- no space for files -----------------------------------------------------------------------------------------------

SEGMENT_BYTES = 4096

STUCK_SEED = 134
"""A history that left a log too little room to move its oldest segment, when segments could only be whole ones."""


class Full:
    """A disk that has become full."""

    def __init__(
        self, segments: int, segment_bytes: int = SEGMENT_BYTES, capacity: int = 0, first_body_bytes: int = 100
    ) -> None:
        self.disk = SimDisk(segments)
        self.disk.capacity = capacity or segments * segment_bytes
        self.segment_bytes = segment_bytes
        self.clock = Clock()
        self.promises = Promises()
        self.life = Life(self.disk, self.clock, Policy(0), self.segment_bytes, self.promises)
        self.client = self.life.connect()
        self.life.connect()
        assert self.ask(b"put", b"put 1 0 100 %d" % first_body_bytes, body=bytes(first_body_bytes)) == b"INSERTED"
        self.fill()
        assert self.life.space.full

    def ask(self, verb: bytes, line: bytes, id: int = 0, body: bytes | None = None) -> bytes:
        """A command in a turn of its own; returns the reply."""
        self.clock.now_ns += NS_PER_S // 20
        self.life.runner.run_timers()
        self.life.tick()
        self.life.guard(lambda: self.life.send(self.client, verb, line, id, body))
        size = len(self.client.asked)
        self.life.end_turn()
        self.life.runner.settle()
        assert not self.life.failed, f"{line!r}: {self.life.log.failure}"
        assert len(self.client.asked) < size, f"{line!r} is not answered"
        return self.client.last_reply

    def fill(self, body_bytes: int = 100) -> None:
        while self.ask(b"put", b"put 1 0 100 %d" % body_bytes, body=bytes(body_bytes)) == b"INSERTED":
            pass

    def puts_resume(self) -> bool:
        """Whether a job is taken in the next seconds."""
        for _ in range(20):
            if self.ask(b"put", b"put 1 0 100 1", body=b"x") == b"INSERTED":
                return True
            self.pass_time()
        return False

    def log_bytes(self) -> int:
        return sum(len(each.cache) for name, each in self.disk.cache.items() if not name.startswith("spare"))

    def kill(self) -> None:
        """The process ends, and another starts on the same disk."""
        self.disk.kill()
        self.life = Life(self.disk, self.clock, Policy(0), self.segment_bytes, self.promises)
        self.client = self.life.connect()
        self.life.connect()

    def pass_time(self) -> None:
        self.clock.now_ns += NS_PER_S
        self.life.runner.run_timers()
        self.life.runner.settle()

    def ids_after_loss_of_power(self) -> set[int]:
        self.disk.lose_power()
        self.disk.capacity = None
        life = Life(self.disk, self.clock, Policy(0), self.segment_bytes, self.promises)
        return {job.id for job in life.engine.jobs.jobs()}


def test_every_job_can_be_deleted_from_a_full_disk() -> None:
    """One in a turn, so that each costs the end of a turn too, in an order that keeps every segment alive for long."""
    full = Full(40)
    ids = sorted(full.promises.put, key=lambda id: (id * 7919) % 1009)
    assert len(ids) > 500
    for id in ids:
        assert full.ask(b"delete", b"delete %d" % id, id) == b"DELETED"
    assert full.ids_after_loss_of_power() == set()


def test_puts_resume_when_deletes_have_made_room() -> None:
    full = Full(40)
    for id in sorted(full.promises.put)[: len(full.promises.put) // 2]:
        assert full.ask(b"delete", b"delete %d" % id, id) == b"DELETED"
    full.pass_time()
    assert not full.life.space.full
    assert full.ask(b"put", b"put 1 0 100 1", body=b"x") == b"INSERTED"
    assert full.ids_after_loss_of_power() == full.promises.put - full.promises.deleted


def test_puts_resume_when_there_is_space_again() -> None:
    full = Full(40)
    full.pass_time()
    full.fill()
    full.disk.capacity = 50 * SEGMENT_BYTES
    full.pass_time()
    assert full.ask(b"put", b"put 1 0 100 1", body=b"x") == b"INSERTED"
    assert full.ids_after_loss_of_power() == full.promises.put


@pytest.mark.parametrize("kept", [5, 11, 33, 49])
def test_puts_resume_when_more_than_one_segment_is_missing(kept: int) -> None:
    """A start on a full disk, of which somebody has removed the spares."""
    full = Full(40)
    for id in sorted(full.promises.put)[kept:]:
        assert full.ask(b"delete", b"delete %d" % id, id) == b"DELETED"
    for name in filter(is_spare, full.disk.names()):
        full.disk.unlink(name)
    full.disk.sync()
    full.disk.capacity = full.disk.used_bytes()
    full.kill()
    assert full.life.space.full
    full.disk.capacity = 50 * SEGMENT_BYTES
    full.pass_time()
    assert full.ask(b"put", b"put 1 0 100 1", body=b"x") == b"INSERTED"


def test_jobs_change_on_a_full_disk() -> None:
    full = Full(40)
    for verb in (b"bury", b"release", b"bury"):
        assert full.ask(b"reserve", b"reserve") == b"RESERVED"
        id = full.client.held[-1]
        line = b"bury %d 1" if verb == b"bury" else b"release %d 1 0"
        assert full.ask(verb, line % id, id) in {b"BURIED", b"RELEASED"}
    assert full.ask(b"kick", b"kick 1") == b"KICKED"
    assert full.ask(b"pause-tube", b"pause-tube default 1") == b"PAUSED"
    assert full.ids_after_loss_of_power() == full.promises.put


def test_changes_without_end_never_stop_a_full_log() -> None:
    full = Full(40)
    for _ in range(300):
        full.ask(b"reserve", b"reserve")
        id = full.client.held[-1]
        assert full.ask(b"release", b"release %d 1 0" % id, id) == b"RELEASED"
    assert full.ids_after_loss_of_power() == full.promises.put


@pytest.mark.parametrize("seed", [*fixed(20), STUCK_SEED])
def test_puts_resume_after_kills_unless_live_jobs_fill_the_disk(seed: int) -> None:
    """A start takes what it finds: the segment that a kill cut short, and less free space than a whole one takes."""
    chance = Random(seed)
    segment_bytes = 4 * SEGMENT_BYTES
    full = Full(16, segment_bytes)
    full.disk.capacity = 16 * segment_bytes + chance.randrange(segment_bytes)
    for _ in range(12):
        for _ in range(chance.randrange(200)):
            live = sorted(full.promises.put - full.promises.deleted)
            if live and (chance.random() < 0.4 or full.life.accounts.live_bytes > full.disk.capacity * 70 // 100):
                id = chance.choice(live)
                assert full.ask(b"delete", b"delete %d" % id, id) == b"DELETED"
            else:
                size = chance.choice((10, 100, 1000, 4000, 10_000))
                full.ask(b"put", b"put 1 0 100 %d" % size, body=bytes(size))
        full.kill()
        assert full.puts_resume() or full.life.accounts.live_bytes > full.disk.capacity * 55 // 100


@pytest.mark.parametrize("seed", fixed(60))
def test_puts_resume_where_a_disk_takes_few_segments(seed: int) -> None:
    """What is dead may all lie in the segment in use."""
    chance = Random(seed)
    segment_bytes = 4 * SEGMENT_BYTES
    full = Full(seed, segment_bytes, 3 * segment_bytes + chance.randrange(4 * segment_bytes))
    for _ in range(30):
        live = sorted(full.promises.put - full.promises.deleted)
        chance.shuffle(live)
        for id in live[chance.randrange(4) :]:
            assert full.ask(b"delete", b"delete %d" % id, id) == b"DELETED"
        if chance.random() < 0.2:
            full.kill()
        assert full.puts_resume()
        full.fill()


def test_segments_in_which_nothing_lives_go_from_the_fullest_disk() -> None:
    """To remove them takes no room, and afterwards there is some."""
    full = Full(20)
    full.kill()
    full.disk.capacity = full.disk.used_bytes()
    for id in sorted(full.promises.put):
        assert full.ask(b"delete", b"delete %d" % id, id) == b"DELETED"
    for _ in range(40):
        full.pass_time()
    assert full.ask(b"put", b"put 1 0 100 1", body=b"x") == b"INSERTED"


@pytest.mark.parametrize("segments", [24, 40, 60])
def test_puts_resume_behind_a_job_that_is_larger_than_a_segment(segments: int) -> None:
    """It lies in the oldest segment, and must move before anything else can go."""
    full = Full(segments, first_body_bytes=8 * SEGMENT_BYTES)
    for id in sorted(full.promises.put)[1:]:
        assert full.ask(b"delete", b"delete %d" % id, id) == b"DELETED"
    assert full.puts_resume()
    assert full.ids_after_loss_of_power() == full.promises.put - full.promises.deleted


@pytest.mark.parametrize("left_bytes", range(0, 8 * SEGMENT_BYTES, SEGMENT_BYTES // 4))
def test_start_that_is_not_refused_can_delete_every_job(left_bytes: int) -> None:
    """Others took the disk while nobody ran, and the deletes of all jobs take more than a segment."""
    full = Full(40)
    full.disk.kill()
    full.disk.capacity = full.log_bytes() + left_bytes
    try:
        full.life = Life(full.disk, full.clock, Policy(0), SEGMENT_BYTES, full.promises)
    except StartError:
        assert left_bytes < 4 * SEGMENT_BYTES
        return
    full.client = full.life.connect()
    for id in sorted(full.promises.put, key=lambda id: (id * 7919) % 1009):
        assert full.ask(b"delete", b"delete %d" % id, id) == b"DELETED"


def test_start_without_space_says_so() -> None:
    disk = SimDisk()
    disk.capacity = SEGMENT_BYTES - 1
    with pytest.raises(StartError, match="No space left on device"):
        Life(disk, Clock(), Policy(0), SEGMENT_BYTES, Promises())


@pytest.mark.parametrize("segments", [40, 200])
def test_full_disk_does_not_turn_over_for_ever(segments: int) -> None:
    """Compaction gains what there is to gain, clients fill it up, and in the end nothing moves without a client."""
    full = Full(segments)
    for _ in range(segments):
        full.pass_time()
        if full.life.space.full:
            break
        full.fill()
    full.pass_time()
    before = full.life.log.compaction.moved_count
    for _ in range(10):
        full.pass_time()
    assert full.life.log.compaction.moved_count == before


@pytest.mark.parametrize("body_bytes", [3000, SEGMENT_BYTES, 5 * SEGMENT_BYTES])
def test_large_jobs_are_refused_before_they_do_harm(body_bytes: int) -> None:
    full = Full(20)
    assert full.ask(b"put", b"put 1 0 100 %d" % body_bytes, body=bytes(body_bytes)) == b"OUT_OF_MEMORY"
    full.disk.capacity = 100 * SEGMENT_BYTES
    full.pass_time()
    assert full.ask(b"put", b"put 1 0 100 %d" % body_bytes, body=bytes(body_bytes)) == b"INSERTED"
    assert full.ids_after_loss_of_power() == full.promises.put
