"""What is kept of a server's past, by a clock that a test sets."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from beanpole.client import Histogram, Histograms, StatsTube
from beanpole.console.history import KEYS, History, whole
from beanpole.observe.growth import Change
from beanpole.observe.sampling import HELD, READY
from tests.unit.console.made import sample, tube
from tests.unit.observe.test_growth import counted


class World:
    """A clock, and a history that is given samples."""

    def __init__(self, tubes_max: int = 1_000) -> None:
        self.now_s = 1_000_000.0
        self.history = History(lambda: self.now_s, lambda name: name.startswith("mail"), tubes_max)
        self.change = Change()

    def add(
        self,
        *tubes: StatsTube,
        after_s: float = 10,
        histograms: Histograms | None = None,
        **more: "int | str",
    ) -> None:
        """Lets time pass, and takes a sample."""
        self.now_s += after_s
        taken = sample(*tubes, at_s=self.now_s, histograms=histograms, **more)
        self.change = Change(self.change, taken)
        self.change.add(tubes)
        self.history.add(taken, self.change)


def ready(count: int) -> StatsTube:
    return tube("a", current_jobs_ready=count, oldest_ready=count * 2)


def test_a_point_is_kept_each_ten_seconds_however_often_there_are_samples() -> None:
    world = World()
    for number in range(41):
        world.add(ready(number), after_s=1, current_jobs_ready=number)
    points = world.history.series("ready", "a").points
    assert [value for _, value in points] == [0, 10, 20, 30, 40]
    assert [at_s - points[0][0] for at_s, _ in points] == [0, 10, 20, 30, 40]
    assert world.history.series("ready").values == [0, 10, 20, 30, 40]
    assert world.history.series("oldest_ready").values == [0, 20, 40, 60, 80]
    assert world.history.series("ready", "a", "6h").values == [0]


def test_samples_that_come_a_little_early_make_points_too() -> None:
    world = World()
    for number in range(10):
        world.add(ready(number), after_s=9.9)
    assert world.history.series("ready", "a").values == list(range(10))


def test_only_fifteen_minutes_and_six_hours_are_kept() -> None:
    world = World()
    for number in range(3_000):
        world.add(ready(number))
    short, long = world.history.series("ready", "a"), world.history.series("ready", "a", "6h")
    assert short.values == list(range(2_910, 3_000))
    assert long.values == list(range(840, 3_000, 6))
    assert short.points[-1][0] == world.now_s
    assert [later[0] - earlier[0] for earlier, later in zip(long.points, long.points[1:], strict=False)] == [60] * 359


def test_a_time_without_samples_is_a_gap_which_lasts_until_now() -> None:
    world = World()
    world.add(ready(1))
    world.add(ready(2))
    world.add(ready(3), after_s=100)
    assert world.history.series("ready", "a").values == [1, 2, None, 3]
    world.now_s += 26
    assert world.history.series("ready", "a").points[-1] == (world.now_s, None)


def test_a_clock_that_was_set_back_begins_again() -> None:
    world = World()
    world.add(ready(1))
    world.add(ready(2), after_s=-500)
    assert world.history.series("ready", "a").values == [2]


def test_rates_are_those_since_the_last_point() -> None:
    world = World()
    for count in (0, 7, 20, 50):
        world.add(counted("a", count), after_s=5, total_jobs=count)
    assert world.history.series("put/s", "a").values == [None, 2]
    assert world.history.series("failed/s", "a").values == [None, 8]
    assert world.history.series("put/s").values == [None, 2]
    assert world.history.series("reserved/s").values == [None, 2]
    world.add(counted("a", 5), total_jobs=5, id="restarted")
    assert world.history.series("put/s").values == world.history.series("put/s", "a").values == [None, 2, None]


def test_plain_beanstalkd_has_gaps_where_it_says_nothing() -> None:
    world = World()
    for count in (0, 10):
        world.add(tube("a", current_jobs_ready=1, total_jobs=count), total_jobs=count, current_jobs_ready=1)
    known = {key for key in KEYS if world.history.series(key).values[-1] is not None}
    assert known == {"ready", "put/s"}
    assert {key for key in KEYS if world.history.series(key, "a").values[-1] is not None} == known


def test_a_tube_that_is_gone_is_kept_for_as_long_as_its_points() -> None:
    world = World()
    world.add(ready(1))
    for _ in range(89):
        world.add()
    assert world.history.series("ready", "a").values == [1] + [None] * 89
    world.add(ready(5))
    assert world.history.series("ready", "a").values == [None] * 89 + [5]
    assert world.history.series("ready", "nothing").values == [None] * 90


def test_of_too_many_tubes_those_that_are_gone_for_longest_are_forgotten() -> None:
    world = World(tubes_max=2)
    for name in ("a", "b", "c"):
        world.add(tube(name, current_jobs_ready=1))
    assert [world.history.series("ready", name).values for name in ("a", "b", "c")] == [
        [None] * 3,
        [None, 1, None],
        [None, None, 1],
    ]
    world.add(*(tube(name, current_jobs_ready=1) for name in ("d", "e", "f")), current_jobs_ready=3)
    assert world.history.series("ready", "f").values[-1] is None
    assert world.history.series("ready").values[-1] == 3


def test_a_tube_without_metrics_of_its_own_has_charts_too() -> None:
    """And those with metrics have theirs, however many other tubes come first."""
    world = World(tubes_max=2)
    for _ in range(2):
        tubes = [tube(name, current_jobs_ready=1) for name in ("a", "b", "c", "mail-1")]
        world.add(*tubes)
    shown = {name: world.history.series("ready", name).values for name in ("a", "b", "c", "mail-1")}
    assert shown == {"a": [1, 1], "b": [None] * 2, "c": [None] * 2, "mail-1": [1, 1]}


def waits(rest: int, tubes: Mapping[str, int]) -> Histograms:
    """Histograms: so many jobs waited for 1 s at most, and were held so, of all other tubes and of some."""

    def of(count: int) -> dict[str, Histogram]:
        return {READY: Histogram(count, 0, (count, 0)), HELD: Histogram(count, 0, (count, 0))}

    return Histograms(
        {"job": (1_000_000,)}, of(rest + sum(tubes.values())), {name: of(count) for name, count in tubes.items()}
    )


def test_waits_are_those_of_the_jobs_since_the_last_point() -> None:
    world = World()
    world.add(ready(1), histograms=waits(10, {"a": 10}))
    world.add(ready(1), histograms=waits(10, {"a": 12}))
    world.add(ready(1), histograms=waits(11, {"a": 12}))
    assert world.history.series("ready_p99", "a").values == [None, pytest.approx(0.99), None]
    assert world.history.series("ready_p99").values == [None, pytest.approx(0.99), pytest.approx(0.99)]
    assert world.history.latest("held_p50", "a") == pytest.approx(0.5)
    world.add(ready(1), histograms=waits(11, {"a": 12}))
    world.add(ready(1), histograms=waits(11, {"a": 12}))
    assert world.history.latest("held_p50", "a") is None, "it is too long ago"


def test_a_node_that_follows_has_gaps() -> None:
    world = World()
    world.add(ready(1), current_jobs_ready=1)
    world.add(cluster_role="follower", current_jobs_ready=0)
    world.add(ready(2), current_jobs_ready=2, cluster_role="leader")
    assert world.history.series("ready").values == [1, None, 2]
    assert world.history.series("put/s").values == [None, None, None]


def test_a_dead_job_is_not_the_oldest_of_a_server() -> None:
    found = sample(tube("a", oldest_ready=5), tube("grave", oldest_ready=900))
    assert whole(found)[-1] == 900
    assert whole(replace(found, dead_tubes={"grave": ("a",)}))[-1] == 5
    assert whole(replace(found, dead_tubes={"grave": ("a",), "a": ("grave",)}))[-1] == 0
