"""What happened between two samples."""

import pytest

from beanpole.client import Histogram, StatsTube
from beanpole.observe.growth import UNKNOWN, Change, Quantiles, Rates, quantile
from beanpole.observe.sampling import Sample
from tests.unit.console.made import sample, tube


def at(seconds: float, *tubes: StatsTube, **more: "int | str") -> Sample:
    """A sample of some time."""
    return sample(*tubes, at_s=seconds, histograms=None, **more)


def counted(name: str, count: int) -> StatsTube:
    """A tube that has counted as many of everything."""
    return tube(
        name,
        total_jobs=count,
        jobs_reserved=count,
        cmd_delete=count,
        jobs_released=count,
        jobs_timed_out=count,
        jobs_buried=count,
        jobs_lost=count,
        jobs_dead=count,
    )


def between(before: Sample, after: Sample) -> Change:
    """What happened between two samples."""
    first = Change(None, before)
    first.add(before.tubes.values())
    change = Change(first, after)
    for each in after.tubes.values():
        change.add([each])
    return change


def test_rates_are_differences_over_the_time_between() -> None:
    change = between(at(10, counted("a", 5), total_jobs=7), at(12, counted("a", 9), total_jobs=17))
    assert change["a"] == Rates(put=2, reserved=2, deleted=2, failed=8, timed_out=2, dead=2)
    assert change.total == Rates(put=5, reserved=2, deleted=2, failed=8, timed_out=2, dead=2)


def test_what_is_gone_takes_nothing_away_and_what_came_counts() -> None:
    change = between(at(0, counted("a", 5), counted("b", 100)), at(1, counted("a", 6), counted("c", 3)))
    assert change.total.deleted == 1 + 3
    assert change["c"] == change["b"] == change["nothing"] == UNKNOWN


def test_a_tube_that_came_again_began_at_nothing() -> None:
    assert between(at(0, counted("a", 50)), at(1, counted("a", 2)))["a"].put == 2


@pytest.mark.parametrize(
    "change",
    [
        Change(),
        between(at(0, cluster_role="follower"), at(1, counted("a", 1))),
        between(at(0, counted("a", 1), id="one"), at(1, counted("a", 2), id="two")),
        between(at(0, counted("a", 1)), at(0, counted("a", 2))),
        between(at(0, cluster_role="follower"), at(1, counted("a", 2), cluster_role="leader")),
    ],
    ids=["nothing", "first", "restarted", "no time", "was no leader"],
)
def test_nothing_is_known_between_what_can_not_be_compared(change: Change) -> None:
    assert change.total == UNKNOWN
    assert change["a"] == UNKNOWN


def test_plain_beanstalkd_counts_less() -> None:
    before, after = tube("a", total_jobs=1, cmd_delete=1), tube("a", total_jobs=3, cmd_delete=2)
    assert between(at(0, before), at(1, after))["a"] == Rates(put=2, deleted=1)
    assert between(at(0, before), at(1, after)).total == Rates(put=0, deleted=1)


# --- How long jobs waited ---------------------------------------------------------------------------------------------


BOUNDS = [100, 250, 500, 1000]
"""Microseconds; above the last one there is one count more."""


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ([10, 0, 0, 0, 0], 0.5, 50),
        ([10, 10, 0, 0, 0], 0.5, 100),
        ([10, 10, 0, 0, 0], 0.75, 175),
        ([0, 0, 4, 0, 0], 0.5, 375),
        ([0, 0, 0, 0, 9], 0.5, 1000),
        ([98, 0, 0, 1, 1], 0.99, 1000),
    ],
)
def test_quantile(counts: list[int], share: float, value: float) -> None:
    assert quantile(BOUNDS, counts, share) == value


def made(*counts: int) -> Histogram:
    return Histogram(sum(counts), 0, counts)


def test_only_what_came_since_counts() -> None:
    before, after = made(1000, 0, 0, 0, 0), made(1000, 0, 10, 0, 0)
    waits = Quantiles.between(before, after, BOUNDS)
    assert waits is not None
    assert waits.half_s == pytest.approx(0.000375)
    assert waits.most_s == pytest.approx(0.0004975)


def test_nothing_came() -> None:
    assert Quantiles.between(made(5, 0, 0, 0, 0), made(5, 0, 0, 0, 0), BOUNDS) is None
    assert Quantiles.between(None, made(0, 0, 0, 0, 0), BOUNDS) is None


@pytest.mark.parametrize("before", [None, made(0, 0, 0, 0, 7)])
def test_a_new_tube_counts_from_its_beginning(before: Histogram | None) -> None:
    waits = Quantiles.between(before, made(4, 0, 0, 0, 0), BOUNDS)
    assert waits is not None
    assert waits.half_s == pytest.approx(0.00005)
