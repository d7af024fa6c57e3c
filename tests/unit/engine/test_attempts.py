"""What becomes of jobs that fail, by the rules of their tubes: none is handed out once more than it may be, or lost."""

from itertools import pairwise

import pytest

from beanpole.engine import limits
from beanpole.engine.state.records import Records
from beanpole.testing.world import World

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


class Tubes(World):
    """A world with a manager, who sets rules, and workers."""

    def __init__(self, records: Records | None = None, /, **rules: str) -> None:
        super().__init__(records=records)
        self.connect("m")
        for tube, text in rules.items():
            self.set_rules(tube, text)

    def set_rules(self, pattern: str, text: str) -> None:
        lines = "".join(f"{line.strip()}\n" for line in text.split(","))
        assert self.say(f"set-rules {pattern} {len(lines)}\r\n{lines}") == "RULES_SET"

    def say(self, line: str, name: str = "m") -> str:
        """The reply to a command, without the last CR LF."""
        if name not in self.connections:
            self.connect(name)
        self.send(name, line.encode() + b"\r\n")
        self.check()
        return self.output(name).decode().removesuffix("\r\n")

    def put(self, options: str = "tube=t") -> int:
        return int(self.say(f"put-job 1 {options}\r\nx").removeprefix("INSERTED "))

    def reserve(self, id: int, name: str = "w") -> None:
        assert self.say(f"reserve-job {id}", name) == f"RESERVED {id} 1\r\nx"

    def job(self, id: int) -> dict[str, str]:
        """What stats-job says."""
        lines = self.say(f"stats-job {id}").splitlines()
        return dict(line.split(": ", 1) for line in lines if ": " in line)

    def frame(self, id: int) -> dict[str, str]:
        """The fields of a job's frame."""
        tube, state = (self.job(id)[key] for key in ("tube", "state"))
        words = self.say(f"list-jobs {tube} {state} 1 after={id - 1}").split("\r\n")[1].split()
        return dict(word.split("=", 1) for word in words[3:])

    def fail(self, id: int, how: str, name: str = "w") -> None:
        """Let an attempt that is under way fail."""
        if how == "timeout":
            self.advance(int(self.job(id)["ttr"]) * SECOND)
            self.output(name)
        elif how == "disconnect":
            self.disconnect(name)
        elif how == "quit":
            self.say("quit", name)
            self.disconnect(name)
        elif how == "fail-job":
            assert self.say(f"fail-job {id} 3\r\nwhy", name) in {"RELEASED", "BURIED"}
        else:
            assert self.say(f"release {id} 5 0", name) == "RELEASED"
        self.check()


WAYS = ("release", "fail-job", "timeout", "disconnect", "quit")


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_job_is_dead_after_its_last_attempt(how: str, attempts: int) -> None:
    world = Tubes(t=f"attempts: {attempts}")
    id = world.put()
    for attempt in range(1, attempts + 1):
        assert world.job(id)["state"] == "ready"
        world.reserve(id)
        assert (world.frame(id)["attempt"], world.frame(id)["attempts"]) == (str(attempt), str(attempts))
        world.fail(id, how)
    job = world.job(id)
    assert (job["state"], job["tube"], job["buries"]) == ("buried", "t", "1")
    assert world.frame(id)["died"] == f"{world.now_ns // SECOND}"
    assert "from" not in world.frame(id)


@pytest.mark.parametrize("how", WAYS)
def test_dead_go_to_their_tube(how: str) -> None:
    world = Tubes(t="attempts: 1, dead: t-dead")
    id = world.put("tube=t key=k pri=7")
    assert world.say("watch t-dead", "u") == "WATCHING 2"
    assert world.say("reserve", "u") == ""
    world.reserve(id)
    world.fail(id, how)
    assert world.output("u") == b"RESERVED %d 1\r\nx\r\n" % id
    job, frame = world.job(id), world.frame(id)
    assert (job["tube"], job["buries"]) == ("t-dead", "0")
    assert (frame["from"], frame["key"]) == ("t", "k")
    assert "attempt" not in frame
    assert world.say("find-job t-dead k") == "NOT_FOUND"
    assert world.put("tube=t key=k") == id + 1


@pytest.mark.parametrize("anew", ["kick 1", "kick-job 1", "move-jobs t buried 1", "move-jobs t buried 1 to=t"])
def test_what_brings_a_job_back_lets_it_begin_anew(anew: str) -> None:
    world = Tubes(t="attempts: 2")
    id = world.put()
    assert world.say("use t") == "USING t"
    for _ in range(3):
        for _ in range(2):
            world.reserve(id)
            world.fail(id, "release")
        assert world.job(id)["state"] == "buried"
        world.say(anew)
        assert world.job(id)["state"] == "ready"
        assert world.frame(id)["attempt"] == "0"


def test_another_tube_or_another_body_lets_a_job_begin_anew() -> None:
    world = Tubes(**{"t*": "attempts: 2"})
    id = world.put("tube=t key=k")
    for line in ("change-job 1 tube=tt", "change-job 1 tube=t", "put-job 1 tube=t key=k taken=replace\r\nx"):
        world.reserve(id)
        world.fail(id, "release")
        assert world.frame(id)["attempt"] == "1"
        world.say(line)
        assert world.frame(id)["attempt"] == "0"


def test_snooze_and_stop_take_the_attempt_back() -> None:
    world = Tubes(t="attempts: 1, backoff: 9")
    id = world.put()
    for _ in range(3):
        world.reserve(id)
        assert world.say(f"snooze-job {id} 0", "w") == "RELEASED"
    world.reserve(id)
    world.engine.give_back()
    assert world.frame(id)["attempt"] == "0"
    world.fail(id, "release")  # the server went on after all
    assert world.job(id)["state"] == "buried"


@pytest.mark.parametrize("how", WAYS)
def test_rule_that_came_while_a_job_was_held_counts_that_attempt(how: str) -> None:
    world = Tubes()
    id = world.put()
    world.reserve(id)
    world.set_rules("t", "attempts: 2")
    world.fail(id, how)
    assert world.frame(id)["attempt"] == "1"
    world.reserve(id)
    world.fail(id, how)
    assert world.job(id)["state"] == "buried"


def test_rule_that_went_while_a_job_was_held_lets_it_live() -> None:
    world = Tubes(t="attempts: 1")
    id = world.put()
    world.reserve(id)
    assert world.say("drop-rules t") == "DROPPED"
    world.fail(id, "release")
    assert (world.job(id)["state"], world.frame(id)["attempt"]) == ("ready", "1")


def test_who_dies_again_stays_where_the_dead_are() -> None:
    world = Tubes(t="attempts: 1, dead: d", d="attempts: 2, dead: t")
    id = world.put()
    world.reserve(id)
    world.fail(id, "release")
    for _ in range(2):
        for _ in range(2):
            assert (world.job(id)["tube"], world.job(id)["state"]) == ("d", "ready")
            world.reserve(id)
            world.fail(id, "release")
        assert (world.job(id)["tube"], world.job(id)["state"]) == ("d", "buried")
        world.say("use d")
        assert world.say("kick 1") == "KICKED 1"
    assert world.say("move-jobs d ready 9") == "MOVED 1"
    assert (world.job(id)["tube"], world.job(id)["state"]) == ("t", "ready")


@pytest.mark.parametrize("rules", ["attempts: 1, dead: t", "attempts: 1"])
def test_dead_that_have_nowhere_to_go_are_buried(rules: str) -> None:
    world = Tubes(t=rules)
    id = world.put()
    world.reserve(id)
    world.fail(id, "release")
    assert (world.job(id)["tube"], world.job(id)["state"]) == ("t", "buried")


def test_dead_move_although_there_are_too_many_tubes_and_the_server_drains() -> None:
    world = Tubes(t="attempts: 1, dead: d")
    id = world.put()
    world.reserve(id)
    world.engine.tubes_max = 1
    world.drain()
    world.fail(id, "release")
    assert world.job(id)["tube"] == "d"
    assert world.say("move-jobs d ready 9") == "MOVED 0"


def test_dead_job_that_lost_its_key_lives_on_without_it() -> None:
    world = Tubes(t="dead: d")
    id = world.put("tube=t key=k")
    world.reserve(id)
    other = world.put("tube=t key=k taken=replace")
    assert world.say(f"fail-job {id} 0 dead=now\r\n", "w") == "BURIED"
    world.reserve(id)
    world.fail(id, "release")
    assert world.job(id)["state"] == "ready"
    assert world.say("find-job t k") == f"FOUND {other} 1\r\nx"


# --- backoff ----------------------------------------------------------------------------------------------------------


def waits(world: Tubes, id: int, count: int) -> list[int]:
    """How long a job waits after each of its next attempts, in nanoseconds."""
    found = []
    for _ in range(count):
        world.reserve(id)
        world.fail(id, "release")
        began_ns = world.now_ns
        while world.job(id)["state"] == "delayed":
            world.jump(world.engine.next_deadline_ns - world.now_ns)
        found.append(world.now_ns - began_ns)
    return found


def test_waits_grow_to_the_longest_one() -> None:
    world = Tubes(t="backoff: 0.5 factor 3 max 100")
    for id in (world.put() for _ in range(20)):
        for wait, most in zip(waits(world, id, 8), (0.5, 1.5, 4.5, 13.5, 40.5, 100, 100, 100), strict=True):
            assert 0.8 * most * SECOND <= wait <= most * SECOND


def test_waits_of_many_jobs_spread_over_a_fifth() -> None:
    world = Tubes(t="backoff: 1000 factor 1")
    found = sorted(waits(world, world.put(), 1)[0] for _ in range(200))
    assert found[0] < 820 * SECOND
    assert found[-1] > 980 * SECOND
    assert max(later - before for before, later in pairwise(found)) < 20 * SECOND


@pytest.mark.parametrize("rule", ["1 factor 1000 max 4294967", "0.001 factor 1.001", "100 max 1"])
def test_waits_are_never_longer_than_the_longest_one(rule: str) -> None:
    world = Tubes(t=f"backoff: {rule}")
    most = 4294967 if "max 4294967" in rule else 1
    assert all(0 <= wait <= most * SECOND for wait in waits(world, world.put(), 40))


def test_waits_of_one_job_differ_from_attempt_to_attempt() -> None:
    world = Tubes(t="backoff: 1000 factor 1")
    assert len(set(waits(world, world.put(), 10))) == 10


@pytest.mark.parametrize("how", ["timeout", "disconnect"])
def test_who_comes_back_by_itself_waits_too(how: str) -> None:
    world = Tubes(t="backoff: 10")
    id = world.put("tube=t ttr=1")
    world.reserve(id)
    world.fail(id, how)
    assert world.job(id)["state"] == "delayed"
    world.advance(10 * SECOND)
    assert world.job(id)["state"] == "ready"


# --- many at once -----------------------------------------------------------------------------------------------------


def test_jobs_that_fail_together_do_so_over_several_turns() -> None:
    """A connection ends that held more large jobs than a turn may record; each dies, and none is handed out before."""
    world = Tubes(t="attempts: 1, dead: d")
    size = 60_000
    count = 3 * limits.MOVES_PER_TURN * limits.FAILED_BYTES_PER_JOB // size
    for _ in range(count):
        assert world.say(f"put-job {size} tube=t\r\n" + "x" * size).startswith("INSERTED")
    world.say("watch t", "w")
    held = 0
    while held < count:
        held += world.say("reserve-many 1000 0", "w").count("JOB ")
    world.say("watch t", "u")
    assert world.say("reserve", "u") == ""
    session = world.connections["w"]
    session.close(world.now_ns)
    world.check()
    dead = int(world.say("stats-tube d").partition("current-jobs-ready: ")[2].split("\n")[0])
    assert 0 < dead < count // 2
    ticks = 0
    while 0 <= world.engine.next_deadline_ns <= world.now_ns:
        world.jump(0)
        world.check()
        ticks += 1
    assert ticks >= 2, "one tick wrote all bodies"
    assert world.output("u") == b""
    assert f"current-jobs-ready: {count}\n" in world.say("stats-tube d")
