"""A log that has no room yet to count an attempt makes it wait: no attempt goes uncounted for that.

Only a job that came before its rules has nothing to count its attempts in, and needs room for that.
"""

import pytest

from beanpole.engine import limits
from beanpole.engine.state.records import Records, Room
from tests.unit.engine.test_attempts import HOUR, SECOND, Tubes

ALWAYS = 1 << 30


class Answers(Records):
    """Says WAIT when a job wants to be recorded whole again, as often as it was told to, then something else."""

    def __init__(self) -> None:
        self.left = 0
        self.then = Room.OK

    def room_for_move(self, size: int) -> Room:  # noqa: ARG002 - the engine's call
        """Answer as told."""
        self.left -= 1
        return Room.WAIT if self.left >= 0 else self.then


@pytest.fixture
def log() -> Answers:
    """Records that make attempts wait."""
    return Answers()


@pytest.fixture
def world(log: Answers) -> Tubes:
    """A job, 1, that is older than the rules of its tube, and a worker that watches it."""
    world = Tubes(log)
    world.put()
    world.say("watch t", "w")
    return world


def reserve(world: Tubes) -> str:
    """What a worker gets."""
    return world.say("watch t", "w") and world.say("reserve-with-timeout 0", "w")


@pytest.mark.parametrize("how", ["timeout", "disconnect", "quit"])
@pytest.mark.parametrize("attempts", [1, 2])
def test_attempt_that_fails_by_itself_is_counted_before_the_next(
    world: Tubes, log: Answers, how: str, attempts: int
) -> None:
    world.set_rules("t", f"attempts: {attempts}, backoff: 1 max 1")
    for attempt in range(1, attempts + 1):
        log.left = ALWAYS
        assert reserve(world).startswith("RESERVED 1 ")
        world.fail(1, how)
        for _ in range(3):
            assert world.job(1)["state"] == "delayed"
            assert reserve(world) == "TIMED_OUT"
            for line in ("reserve-job 1", "change-job 1 delay=0"):
                assert world.say(line, "w") == "NOT_FOUND"
            world.advance(limits.ROOM_RETRY_NS)
        log.left = 0
        world.advance(SECOND)
        assert world.frame(1)["attempt"] == str(attempt)
    assert world.job(1)["state"] == "buried"
    assert (world.job(1)["reserves"], "died" in world.frame(1)) == (str(attempts), True)


@pytest.mark.parametrize("how", ["release", "fail-job"])
@pytest.mark.parametrize("attempts", [1, 2])
def test_command_that_ends_an_attempt_waits_for_room(world: Tubes, log: Answers, how: str, attempts: int) -> None:
    world.set_rules("t", f"attempts: {attempts}")
    line = {"release": "release 1 7 3", "fail-job": "fail-job 1 0 delay=3\r\n"}[how]
    for attempt in range(1, attempts + 1):
        log.left = ALWAYS
        assert reserve(world).startswith("RESERVED 1 ")
        log.left = 5
        assert world.say(line, "w") == ("BURIED" if how == "fail-job" and attempt == attempts else "RELEASED")
        assert world.frame(1)["attempt"] == str(attempt)
        world.advance(3 * SECOND)
        assert world.job(1)["state"] == ("buried" if attempt == attempts else "ready")
    assert f"\ncmd-{how}: {attempts}\n" in world.say("stats")


def test_attempt_that_has_begun_is_recorded_as_soon_as_there_is_room(world: Tubes, log: Answers) -> None:
    """Before it ends: a crash during it counts."""
    world.put()
    world.set_rules("t", "attempts: 2")
    log.left = ALWAYS
    for id in (1, 2):
        assert reserve(world).startswith(f"RESERVED {id} ")
    world.advance(10 * limits.ROOM_RETRY_NS)
    assert "attempt" not in world.frame(1)
    log.left, index = 0, log.index
    world.advance(limits.ROOM_RETRY_NS)
    assert [world.frame(id)["attempt"] for id in (1, 2)] == ["1", "1"]
    assert log.index == index + 2
    world.advance(HOUR)
    assert log.index > index + 2
    assert world.frame(1)["attempt"] == "1"


@pytest.mark.parametrize("how", ["delete 1", "bury 1 0", "snooze-job 1 0"])
def test_attempt_that_ends_well_is_not_counted_later(world: Tubes, log: Answers, how: str) -> None:
    world.set_rules("t", "attempts: 1")
    log.left = ALWAYS
    assert reserve(world).startswith("RESERVED 1 ")
    world.say(how, "w")
    log.left = 0
    world.advance(10 * limits.ROOM_RETRY_NS)
    assert "died" not in (world.frame(1) if how[:6] != "delete" else ())


def test_kick_forgets_an_attempt_that_waits_to_be_counted(world: Tubes, log: Answers) -> None:
    world.set_rules("t", "attempts: 1")
    log.left = ALWAYS
    assert reserve(world).startswith("RESERVED 1 ")
    world.disconnect("w")
    assert world.say("kick-job 1") == "KICKED"
    log.left = 0
    world.advance(HOUR)
    assert world.job(1)["state"] == "ready"


@pytest.mark.parametrize("how", ["timeout", "disconnect", "release"])
def test_only_a_full_disk_leaves_an_attempt_uncounted(world: Tubes, log: Answers, how: str) -> None:
    world.set_rules("t", "attempts: 2")
    log.then = Room.FULL
    for _ in range(3):
        assert reserve(world).startswith("RESERVED 1 ")
        world.fail(1, how)
    assert world.job(1)["state"] == "ready"
    assert "attempt" not in world.frame(1)
