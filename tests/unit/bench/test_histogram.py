"""Percentiles against lists of which they are known, and the width of the buckets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bench.histogram import Histogram


def histogram_of(*values: int) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


def test_record_many_counts_each() -> None:
    histogram = Histogram()
    histogram.record(10, 99)
    histogram.record(1_000_000)
    assert (histogram.count, histogram.total, histogram.largest) == (100, 1_000_990, 1_000_000)
    assert (histogram.percentile(0.99), histogram.percentile(0.995)) == (10, 1_000_000)


def test_negative_value_counts_as_nothing() -> None:
    assert histogram_of(-5).percentile(1) == 0


def test_clear_forgets() -> None:
    histogram = histogram_of(1, 2, 3)
    histogram.clear()
    assert (histogram.count, histogram.total, histogram.largest, histogram.percentile(1)) == (0, 0, 0, 0)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_percentile_outside_of_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        histogram_of(1).percentile(share)


@given(st.lists(st.integers(0, 2**50), min_size=1), st.floats(0, 1))
def test_percentile_is_the_sorted_value_to_within_a_bucket(values: list[int], share: float) -> None:
    exact = next(value for i, value in enumerate(sorted(values), 1) if i >= share * len(values))
    assert exact <= histogram_of(*values).percentile(share) <= exact + exact // 64


@given(st.integers(0, 2**63 - 1))
def test_every_value_has_a_bucket(value: int) -> None:
    assert histogram_of(value).percentile(0.5) == value
