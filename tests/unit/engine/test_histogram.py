"""Histograms: each number is counted between the bounds that it lies between, whatever the table says."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.state.times import BOUNDS, Histogram, Unit

UNITS = {"job": Unit.JOB_TIME, "turn": Unit.TURN_TIME, "commands": Unit.COMMANDS}
MOST = 2**64 - 1


def test_bounds_are_those_of_the_protocol() -> None:
    assert BOUNDS["job"][:4] == (100, 250, 500, 1000)
    assert BOUNDS["job"][-3:] == (25_000_000_000, 50_000_000_000, 86_400_000_000)
    assert (BOUNDS["turn"][0], BOUNDS["turn"][-1]) == (10, 10_000_000)
    assert BOUNDS["commands"] == tuple(2**power for power in range(17))
    assert list(BOUNDS) == list(UNITS)


@pytest.mark.parametrize("unit", UNITS)
def test_at_and_around_each_bound(unit: str) -> None:
    bounds = BOUNDS[unit]
    for number in {0, 1, MOST, *(bound + more for bound in bounds for more in (-1, 0, 1))}:
        histogram = Histogram(UNITS[unit])
        histogram.add(number)
        expected = [0] * (len(bounds) + 1)
        expected[bisect_left(bounds, number)] = 1
        assert (histogram.counts, histogram.sum) == (tuple(expected), number)


@given(
    unit=st.sampled_from(list(UNITS)), bits=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2**40)), max_size=50)
)
def test_recount(unit: str, bits: list[tuple[int, int]]) -> None:
    bounds = BOUNDS[unit]
    histogram = Histogram(UNITS[unit])
    expected = [0] * (len(bounds) + 1)
    for shift, number in bits:
        histogram.add(number >> shift)
        expected[bisect_left(bounds, number >> shift)] += 1
    assert histogram.counts == tuple(expected)
    assert histogram.sum == sum(number >> shift for shift, number in bits)


def test_what_is_no_number_of_it_is_refused() -> None:
    histogram = Histogram(Unit.COMMANDS)
    for number in (-1, MOST + 1):
        with pytest.raises(OverflowError):
            histogram.add(number)
    with pytest.raises(ValueError, match="no such unit"):
        Histogram(Unit.UNIT_COUNT)
    assert sum(histogram.counts) == 0
