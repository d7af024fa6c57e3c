"""A power cut between the two records of one command: a put that is handed out at once, which frees the job's key."""

from dataclasses import replace

import pytest

from beanpole.engine.check import check
from beanpole.engine.state.tags import KeyBit
from beanpole.log.log import Policy
from tests.simulation.disk import SimDisk
from tests.simulation.history import History, Recovered, Rules, Seen
from tests.simulation.life import Life, Promises
from tests.simulation.runner import NS_PER_S, Clock
from tests.simulation.server import Server

SEEDS = range(60)
"""A disk may keep some of what was not synced: several are tried."""


def life_on(disk: SimDisk, clock: Clock) -> Life:
    """A process whose history is noted."""
    life = Life(disk, clock, Policy(0), 4096, Promises())
    life.history = History(Rules())
    life.history.begin(None, life.found, life.engine)
    return life


def put_to_a_waiting_client(life: Life) -> History:
    """A client waits; another puts a job whose key is free when it is handed out."""
    worker, producer = life.connect(), life.connect()
    life.runner.settle()
    life.send(worker, b"reserve", b"reserve")
    life.send(producer, b"put-job", b"put-job 1 tube=default key=k until=reserve", body=b"x")
    life.end_turn()
    assert life.history is not None
    return life.history


def has_key(seen: Seen) -> bool:
    return not seen.texts[2][3] & KeyBit.FREED


def test_who_is_told_of_a_job_changes_nothing_of_it() -> None:
    """Each job that is handed out in this tube is recorded, takes the only token, and closes the tube."""
    server = Server()
    rules = b"attempts: 2\nrate: 1/s burst 1\nconcurrency: 1"
    server.ask(b"set-rules default %d" % len(rules), rules, b"put-job 1 key=k until=reserve", b"x")
    server.clock.now_ns += NS_PER_S
    server.life.tick()
    index = server.life.records.index
    assert server.ask(b"reserve-many 0 0", b"reserve-many 0 9") == b"JOBS 0\r\nJOBS 0\r\n"
    assert server.life.records.index == index
    assert server.ask(b"reserve-with-timeout 0") == b"RESERVED 1 1\r\nx\r\n"
    assert server.life.records.index > index


@pytest.mark.parametrize("kills", [False, True])
def test_hand_out_may_be_lost_without_its_put(*, kills: bool) -> None:
    """What comes back is nothing, or the job with its key, or without it; and each of them is found by some seed."""
    met = set()
    for seed in SEEDS:
        disk, clock = SimDisk(seed), Clock()
        life = life_on(disk, clock)
        history = put_to_a_waiting_client(life)
        if kills:
            disk.kill()
        else:
            disk.lose_power()
        after = Life(disk, clock, Policy(0), 4096, Promises())
        check(after.engine)
        history.judge(after.found, life.least_step())
        met.add(has_key(after.found.jobs[1]) if after.found.jobs else None)
    assert met == ({False} if kills else {None, True, False})


def test_hand_out_that_is_durable_is_not_lost() -> None:
    life = life_on(SimDisk(), Clock())
    history = put_to_a_waiting_client(life)
    life.runner.settle()
    life.deliver()
    job = history.jobs[1].versions[-1][1]
    assert job is not None
    assert not has_key(job)
    history.judge(Recovered({1: job}, {}, life.now_ns, {}), life.least_step())
    tube, body, tags = job.texts
    keyed = replace(job, texts=(tube, body, tags[:3] + bytes([tags[3] & ~KeyBit.FREED]) + tags[4:]))
    with pytest.raises(AssertionError, match="job 1 is"):
        history.judge(Recovered({1: keyed}, {}, life.now_ns, {}), life.least_step())


def test_job_that_lost_its_key_is_gone_after_a_restart() -> None:
    """Whoever held it can't bring it back; until the first turn it only waits to be deleted."""
    server = Server()
    server.ask(b"put-job 1 key=k", b"a", b"put-job 1", b"b", b"reserve", b"bury 1 0", b"kick-job 1", b"reserve")
    server.ask(b"put-job 1 key=k taken=replace", b"c", client=1)
    server.restart()
    life = server.life
    check(life.engine)
    assert 0 <= life.engine.next_deadline_ns <= life.now_ns
    life.tick()
    assert server.ask(b"peek 1", b"find-job default k", b"peek-ready") == (
        b"NOT_FOUND\r\nFOUND 3 1\r\nc\r\nFOUND 2 1\r\nb\r\n"
    )
    server.restart()
    assert server.life.engine.next_deadline_ns < 0, "it was deleted once and for all"


def test_key_that_a_hand_out_freed_stays_free() -> None:
    server = Server()
    server.ask(b"put-job 1 key=k until=reserve", b"a", b"reserve", b"put-job 1 key=k", b"b")
    server.restart()
    check(server.life.engine)
    assert server.ask(b"find-job default k", b"reserve", b"release 1 0 0", b"put-job 1 key=k", b"c") == (
        b"FOUND 2 1\r\nb\r\nRESERVED 1 1\r\na\r\nRELEASED\r\nEXISTS 2\r\n"
    )
