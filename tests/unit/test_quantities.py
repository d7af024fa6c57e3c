"""Times and sizes as people write them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.quantities import DURATIONS, bytes_of, moment_of, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("0", 0), ("1d1h1m1s1ms", "90061.001")]
    + [("500ms", "0.5"), ("1m500ms", "60.5"), ("1.5h", 5400), ("0.1", "0.1"), ("99.5", "99.5"), ("007", 7)]
    + [
        (each, None)
        for each in ("", "m", "10x", "1m2h", "1h1h", "-1", "+1", "1e3", "²", "1.", ".5", "1 h", " 1", "1\n")
    ]
    + [(each, None) for each in ("nan", "inf", "1H", "1M", "٣", "9" * 5000, "1h30")],
)
def test_seconds_of(text: str, seconds: int | str | None) -> None:
    assert seconds_of(text) == (None if seconds is None else Fraction(seconds))


@pytest.mark.parametrize(
    ("text", "moment"),
    [("1798732800.25", "1798732800.25"), ("0", 0), ("1970-01-01T00:00Z", 0), ("1970-01-01 01:00:00.5+01:00", "0.5")]
    + [("2026-12-31t18:00:00-02:00", 1_798_747_200), ("1969-12-31T23:59:59Z", -1)]
    + [
        (each, None)
        for each in ("", "-1", "now", "2026-12-31", "2026-12-31T18:00", "2026-13-01T00:00Z", "20261231T18Z")
    ]
    + [(each, None) for each in ("2026-12-31T18:00Z\n", "2026-12-31T25:00Z", "2026-12-31T18:00+25:00")],
)
def test_moment_of(text: str, moment: int | str | None) -> None:
    """One without an offset is no moment, for nobody says whose time it is."""
    assert moment_of(text) == (None if moment is None else Fraction(moment))


def test_a_number_alone_counts_what_is_asked_for() -> None:
    assert seconds_of("50", "ms") == Fraction(1, 20)
    assert seconds_of("2s", "ms") == 2
    assert seconds_of("10m", "ms") == 600


@given(st.lists(st.integers(0, 10**6), min_size=5, max_size=5))
def test_parts_add_up(numbers: list[int]) -> None:
    parts = list(zip(numbers, DURATIONS.items(), strict=True))
    text = "".join(f"{number}{unit}" for number, (unit, _) in parts)
    assert seconds_of(text) == sum(number * size for number, (_, size) in parts)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("65536", 65536),
        ("512B", 512),
        ("64K", 65536),
        ("64k", 65536),
        ("64KiB", 65536),
        ("64kib", 65536),
        ("64Ki", 65536),
    ]
    + [("64KB", 64_000), ("1M", 2**20), ("1.5 MiB", 3 * 2**19), ("10 MiB", 10 * 2**20), ("2g", 2**31), ("1TB", 10**12)]
    + [(each, None) for each in ("", "K", "1.5", "0.1K", "1i", "1iB", "-1", "1KK", "1P", "1  M", "9" * 5000)],
)
def test_bytes_of(text: str, number: int | None) -> None:
    assert bytes_of(text) == number
