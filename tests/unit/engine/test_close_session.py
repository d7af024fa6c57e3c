"""A session that holds or watches very much ends in pieces: nothing of that is seen but when the jobs are back."""

import pytest

from beanpole.engine import limits
from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.log.accounts import Accounts
from beanpole.log.encoder import Encoder
from beanpole.server.connection import Connection
from tests.unit.engine.test_attempts import SECOND, Tubes

PIECE = limits.MOVES_PER_TURN
COUNT = 3 * PIECE + 100


def hold(world: Tubes, count: int, name: str = "w") -> None:
    """Let a worker hold jobs of the tube t, of which the later ones are more urgent."""
    first = world.engine.next_job_id
    world.say("use t")
    world.send("m", b"".join(b"put %d 0 60 1\r\nx\r\n" % (COUNT - each) for each in range(count)))
    world.output("m")
    world.say("watch t", name)
    world.send(name, b"".join(b"reserve-job %d\r\n" % id for id in range(first, first + count)))
    assert world.output(name).count(b"RESERVED") == count


def count(world: Tubes, state: str) -> int:
    """How many jobs there are in a state."""
    return int(world.say("stats").partition(f"current-jobs-{state}: ")[2].split("\n")[0])


def ticks(world: Tubes) -> int:
    """Let turns pass until nothing is due; how many those were."""
    passed = 0
    while 0 <= world.engine.next_deadline_ns <= world.now_ns:
        world.jump(0)
        world.check()
        passed += 1
    return passed


def test_jobs_come_back_in_pieces_and_nobody_has_them_before() -> None:
    world = Tubes()
    hold(world, COUNT)
    world.disconnect("w")
    world.check()
    assert (count(world, "ready"), count(world, "reserved")) == (PIECE, COUNT - PIECE)
    assert "current-connections: 1\n" in world.say("stats")
    last = COUNT  # by the end of its time to run
    for line, reply in (
        (f"delete {last}", "NOT_FOUND"),
        (f"reserve-job {last}", "NOT_FOUND"),
        (f"release {last} 0 0", "NOT_FOUND"),
        (f"peek {last}", f"FOUND {last} 1\r\nx"),
        ("delete 1", "DELETED"),
    ):
        assert world.say(line, "u") == reply
    assert world.job(last)["state"] == "reserved"
    assert '"closed": true' in world.say(f"explain {last}")
    assert ticks(world) == 3
    assert (count(world, "ready"), count(world, "reserved")) == (COUNT - 1, 0)
    world.say("watch t", "u")
    assert [world.say("reserve", "u").split()[1] for _ in range(3)] == [str(last - each) for each in range(3)]


def test_who_waits_gets_the_best_of_what_is_back() -> None:
    world = Tubes()
    hold(world, COUNT)
    for name in ("a", "b"):
        world.say("watch t", name)
        assert world.say("reserve", name) == ""
    world.disconnect("w")
    assert [world.output(name).split()[1] for name in ("a", "b")] == [b"%d" % PIECE, b"%d" % (PIECE - 1)]
    ticks(world)
    assert count(world, "reserved") == 2


def test_time_to_run_does_not_end_when_the_session_has() -> None:
    world = Tubes()
    hold(world, COUNT)
    world.disconnect("w")
    world.tick(100 * SECOND)
    assert "job-timeouts: 0\n" in world.say("stats")
    ticks(world)
    assert count(world, "ready") == COUNT
    assert world.job(COUNT)["timeouts"] == "0"
    assert f"jobs-lost: {COUNT}\n" in world.say("stats-tubes")


def test_sessions_that_end_in_one_turn_share_what_may_be_moved() -> None:
    world = Tubes()
    names = [f"w{each}" for each in range(4)]
    for name in names:
        hold(world, PIECE // 2 + 10, name)
    for name in names:
        world.disconnect(name)
    assert count(world, "ready") == PIECE - 2  # the first of them watched two tubes
    assert ticks(world) == 2
    assert count(world, "ready") == 4 * (PIECE // 2 + 10)


def test_sessions_that_end_and_jobs_that_are_due_share_a_turn() -> None:
    """All that moves without a command is bounded together, and not each for itself."""
    world = Tubes()
    hold(world, COUNT, "w")
    hold(world, COUNT, "v")
    due = limits.JOBS_PER_TICK + 10
    world.send("m", b"put 0 1 60 1\r\nx\r\n" * due)
    world.disconnect("w")
    world.jump(SECOND)
    assert (count(world, "ready"), count(world, "delayed")) == (PIECE + limits.JOBS_PER_TICK, PIECE + 10)
    world.disconnect("v")  # in the same turn
    world.check()
    assert count(world, "ready") == PIECE + limits.JOBS_PER_TICK
    ticks(world)
    assert count(world, "ready") == 2 * COUNT + due


def test_deaths_of_many_take_more_turns() -> None:
    world = Tubes(t="attempts: 1, dead: d")
    hold(world, COUNT)
    world.disconnect("w")
    assert 0 < count(world, "ready") <= PIECE // 2
    assert ticks(world) >= 2 * (COUNT // PIECE)
    assert f"current-jobs-ready: {COUNT}\n" in world.say("stats-tube d")


def test_limit_of_a_tube_opens_it_as_its_jobs_come_back() -> None:
    world = Tubes()
    hold(world, COUNT)
    world.set_rules("t", f"concurrency: {COUNT - 1}")
    world.say("watch t", "u")
    world.send("u", b"reserve\r\n")
    world.disconnect("w")
    assert world.output("u").startswith(b"RESERVED ")


def test_watched_tubes_go_in_pieces() -> None:
    world = Tubes()
    world.connect("w")
    world.send("w", b"".join(b"watch t%d\r\n" % each for each in range(COUNT)))
    world.output("w")
    world.send("w", b"reserve\r\n")
    world.disconnect("w")
    world.check()
    assert "current-waiting: 0\n" in world.say("stats")
    assert world.say("put-job 1 tube=t7\r\nx") == "INSERTED 1"
    assert world.job(1)["state"] == "ready"
    assert ticks(world) == 3
    assert "current-tubes: 2\n" in world.say("stats")


@pytest.mark.parametrize("stops", [False, True], ids=["crash", "stop"])
def test_attempt_that_is_not_back_when_the_server_ends_has_failed(stops: bool) -> None:
    """The holder was lost before; of one that is there at a stop, nothing is wrong with the attempt."""
    records = Encoder(Accounts(unlimited=True))
    records.open_segment(1, 1 << 30)
    engine = Engine(now_ns=1, records=records)
    holder, other = Connection(engine, 1), Connection(engine, 1)
    holder.receive(1, b"set-rules default 12\r\nattempts: 2\n\r\n")
    for _ in range(COUNT + 1):
        holder.receive(1, b"put 0 0 60 1\r\nx\r\n")
    for connection, jobs in ((other, 1), (holder, COUNT)):
        for _ in range(jobs):
            connection.receive(1, b"reserve\r\n")
    holder.close(1)
    check(engine)
    if stops:
        engine.give_back()
    under_way = [job.id for job in engine.jobs.jobs() if job.tags[-1]]
    assert len(under_way) >= COUNT - PIECE
    assert (1 in under_way) != stops
    assert COUNT + 1 in under_way
