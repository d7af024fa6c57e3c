"""The rule `breaker` against a reading of its sentence that keeps every end, and what else the model does not see."""

import random

import pytest

from beanpole.testing.world import World
from tests.seeds import seeds

SECOND_NS = 1_000_000_000


class Tube:
    """A tube `t` with a breaker, a worker `w` and somebody who holds many jobs, `h`."""

    def __init__(self, rule: str, more: str = "backoff: 0.001 max 0.001") -> None:
        self.world = World()
        self.notices: list[str] = []
        self.world.engine.notice = self.notices.append
        for name in "wh":
            self.world.connect(name)
        self.say("w", self.set_rules(f"{more}\nbreaker: {rule}\n"))
        self.say("w", "use t\r\nwatch t\r\nignore default\r\n")
        self.say("h", "watch t\r\nignore default\r\n")

    def set_rules(self, text: str) -> str:
        return f"set-rules t {len(text)}\r\n{text}\r\n"

    def say(self, name: str, sent: str) -> str:
        self.world.send(name, sent.encode())
        self.world.check()
        return self.world.output(name).decode()

    def put(self, count: int) -> None:
        self.say("w", "put 0 0 60 0\r\n\r\n" * count)

    def take(self, name: str = "w") -> int:
        """The id of the next job; 0: there is none."""
        reply = self.say(name, "reserve-with-timeout 0\r\n").split()
        return int(reply[1]) if reply[0] == "RESERVED" else 0

    def wait(self, seconds: float) -> None:
        self.world.advance(round(seconds * SECOND_NS))

    def is_closed(self) -> bool:
        return "breaker-closed: 1\n" in self.say("w", "stats-tubes after=default limit=1\r\n")

    def close(self) -> None:
        """Lets so many fail that it is closed."""
        while not self.is_closed():
            self.wait(0.01)
            self.say("w", f"release {self.take()} 0 0\r\n")
        self.wait(0.01)


@pytest.mark.parametrize("seed", seeds(12, "BREAKER_SEED"))
def test_it_closes_where_the_sentence_says_so(seed: int) -> None:
    """Ends at random moments: it is closed by the first failure with which the last two half windows have too many."""
    drawn = random.Random(seed)
    percent, least, window_s = drawn.choice([1, 30, 50, 100]), drawn.randint(1, 8), drawn.choice([1, 4, 7])
    half_ns = window_s * SECOND_NS // 2
    tube = Tube(f"{percent}% of {least} in {window_s}s")
    ended: list[tuple[int, bool]] = []
    for _ in range(60):
        tube.put(1)
        tube.wait(drawn.choice([0.002, 0.1, 0.4, 1.1]))
        id, fails = tube.take(), drawn.random() < percent / 110
        tube.say("w", f"fail-job {id} 0\r\n\r\n" if fails else f"delete {id}\r\n")
        now_ns = tube.world.now_ns
        ended.append((now_ns // half_ns, fails))
        recent = [failed for half, failed in ended if half >= now_ns // half_ns - 1]
        closes = fails and len(recent) >= least and sum(recent) * 100 >= percent * len(recent)
        assert tube.is_closed() == closes, f"{sum(recent)} of {len(recent)} failed"
        if closes:
            return


@pytest.mark.parametrize(
    ("end", "is_failure", "said"),
    [
        ("release {} 0 0", True, "RELEASED"),
        ("fail-job {} 0\r\n", True, "RELEASED"),
        ("fail-job {} 0 dead=now\r\n", True, "BURIED"),
        ("bury {} 0", True, "BURIED"),
        ("snooze-job {} 9", False, "RELEASED"),
        ("touch {}", False, "TOUCHED"),
        ("cancel-job {}", False, "CANCELLED"),
        ("delete {}", False, "DELETED"),
        ("delete-many {}", False, "DELETED"),
    ],
)
def test_what_a_failure_is(end: str, *, is_failure: bool, said: str) -> None:
    tube = Tube("100% of 1 in 9s")
    tube.put(1)
    assert tube.say("w", end.format(tube.take()) + "\r\n").startswith(said)
    assert tube.is_closed() == is_failure


def test_the_end_of_the_time_to_run_is_a_failure_and_a_lost_connection_is_none() -> None:
    tube = Tube("100% of 1 in 600s")
    tube.put(2)
    tube.take("h")
    tube.world.disconnect("h")
    assert not tube.is_closed()
    tube.take()
    tube.wait(60)
    assert tube.is_closed()


@pytest.mark.parametrize(
    ("end", "then"),
    [
        ("delete {}", "open"),
        ("delete-many {}", "open"),
        ("release {} 0 0", "waits"),
        ("fail-job {} 0\r\n", "waits"),
        ("bury {} 0", "waits"),
        ("snooze-job {} 9", "free"),
        ("cancel-job {}", "free"),
        ("quit", "free"),
    ],
)
def test_what_a_probe_brings_about(end: str, then: str) -> None:
    tube = Tube("100% of 2 in 9s probe 5s")
    tube.put(5)
    tube.close()
    tube.wait(4.8)
    assert tube.take() == 0, "the time has not come"
    tube.wait(0.2)
    probe = tube.take("h")
    assert probe
    tube.wait(20)
    assert tube.take() == 0, "somebody holds the probe"
    tube.say("h", end.format(probe) + "\r\n")
    tube.world.end_leaving()
    assert tube.is_closed() == (then != "open")
    tube.wait(0.01)
    assert bool(tube.take()) == (then != "waits")
    assert bool(tube.take()) == (then == "open")
    tube.wait(4.99)
    assert bool(tube.take()) == (then != "free"), "one at a time, after so many seconds"


def test_what_was_handed_out_before_is_no_attempt() -> None:
    """A job comes back at once, may be the last attempt or not, from each of the ways to fail."""
    tube = Tube("100% of 1 in 9s", more="attempts: 1\nbackoff: 30")
    tube.put(6)
    held = [tube.take("h") for _ in range(4)]
    tube.say("h", f"change-job {held[3]} ttr=2\r\ntouch {held[3]}\r\n")
    tube.say("w", f"release {tube.take()} 0 0\r\n")
    assert tube.is_closed()
    assert "state: buried" in tube.say("w", "stats-job 5\r\n"), "the one by which it was closed was an attempt"
    tube.wait(0.001)
    tube.say("h", f"release {held[0]} 0 0\r\n")
    assert tube.say("h", f"fail-job {held[1]} 3\r\nwhy\r\n") == "RELEASED\r\n"
    tube.wait(2)
    tube.world.disconnect("h")
    tube.world.end_leaving()
    for id in held:
        assert " attempt=0 " in tube.say("w", f"list-jobs t ready 1 after={id - 1}\r\n")


def test_reserve_job_passes_and_its_job_is_no_probe() -> None:
    tube = Tube("100% of 1 in 9s probe 1s")
    tube.put(3)
    tube.close()
    assert tube.say("h", "reserve-job 3\r\n").startswith("RESERVED 3 ")
    tube.wait(1)
    assert tube.say("h", "delete 3\r\n") == "DELETED\r\n"
    assert tube.is_closed()
    assert tube.take()
    assert tube.take() == 0


def test_a_probe_is_due_beside_other_limits() -> None:
    """The time for a probe comes while the tube is paused; the probe is handed out when both are over."""
    tube = Tube("100% of 1 in 9s probe 1s")
    tube.put(2)
    tube.close()
    tube.say("w", "pause-tube t 5\r\n")
    tube.world.send("h", b"reserve\r\n")
    tube.wait(4.9)
    assert tube.world.output("h") == b""
    tube.wait(0.1)
    assert tube.world.output("h").startswith(b"RESERVED 1 ")


def test_the_same_rule_goes_on_and_another_one_begins_open() -> None:
    tube = Tube("100% of 1 in 9s")
    tube.put(1)
    tube.close()
    tube.say("w", tube.set_rules("attempts: 5\nbreaker: 100% of 1 in 9s\n"))
    assert tube.is_closed()
    tube.say("w", tube.set_rules("attempts: 5\nbreaker: 100% of 2 in 9s\n"))
    assert not tube.is_closed()
    assert tube.take() == 1
    tube.say("w", "release 1 0 0\r\nreserve-job 1\r\nrelease 1 0 0\r\n")
    assert tube.is_closed()
    tube.world.send("h", b"reserve\r\n")
    tube.say("w", "drop-rules t\r\n")
    assert tube.world.output("h").startswith(b"RESERVED 1 ")


def test_it_says_so_in_the_log_of_the_server() -> None:
    tube = Tube("60% of 3 in 10s probe 7s")
    tube.put(4)
    tube.say("w", f"delete {tube.take()}\r\n")
    tube.close()
    tube.wait(7)
    tube.say("w", f"delete {tube.take()}\r\n")
    assert tube.notices == [
        "tube t is closed by its breaker: 2 of 3 attempts failed within 10 s; one job is tried every 7 s",
        "tube t is open again after 7 s: job 2 was done",
    ]


def test_by_group_it_closes_that_group_alone() -> None:
    tube = Tube("100% of 2 in 60s probe 1s by group")
    for group, count in (("a", 4), ("b", 2)):
        tube.say("w", f"put-job 0 tube=t ttr=60 group={group}\r\n\r\n" * count)

    def is_closed(group: str) -> bool:
        return "closed: [breaker]\n" in tube.say("w", f"stats-groups t group={group}\r\n")

    assert [tube.take() for _ in range(4)] == [1, 5, 2, 6]
    tube.say("w", "release 1 0 0\r\nrelease 2 0 0\r\nrelease 5 0 0\r\n")
    assert (is_closed("a"), is_closed("b")) == (True, False)
    tube.wait(0.01)
    assert [tube.take(), tube.take()] == [5, 0]
    assert "breaker" in tube.say("w", "explain 3\r\n")
    tube.say("h", "reserve\r\n")
    tube.wait(1)
    assert tube.take() == 0, "there are two probes"
    tube.say("h", "release 1 0 0\r\nrelease 2 0 0\r\nrelease 3 0 0\r\nrelease 4 0 0\r\n")
    tube.wait(0.01)
    assert tube.take() == 0, "the probe has failed"
    tube.wait(1)
    probe = tube.take()
    tube.say("w", f"snooze-job {probe} 9\r\n")
    probe = tube.take()
    assert probe, "it has said nothing"
    tube.say("w", f"delete {probe}\r\n")
    assert tube.take()
    assert not is_closed("a")
    tube.say("w", tube.set_rules("backoff: 1\nbreaker: 100% of 2 in 60s\n"))
    assert not tube.is_closed()
