"""How long jobs waited, from the difference of two histograms."""

import pytest

from beanpole.client import Histogram
from beanpole.observe.growth import Waits, quantile

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
    waits = Waits.between(before, after, BOUNDS)
    assert waits is not None
    assert waits.half_s == pytest.approx(0.000375)
    assert waits.most_s == pytest.approx(0.0004975)


def test_nothing_came() -> None:
    assert Waits.between(made(5, 0, 0, 0, 0), made(5, 0, 0, 0, 0), BOUNDS) is None
    assert Waits.between(None, made(0, 0, 0, 0, 0), BOUNDS) is None


@pytest.mark.parametrize("before", [None, made(0, 0, 0, 0, 7)])
def test_a_new_tube_counts_from_its_beginning(before: Histogram | None) -> None:
    waits = Waits.between(before, made(4, 0, 0, 0, 0), BOUNDS)
    assert waits is not None
    assert waits.half_s == pytest.approx(0.00005)
