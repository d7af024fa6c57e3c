"""Numbers as people read them."""

import pytest

from beanpole.observe import units


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (12_345, "12 345"),
        (999_999, "999 999"),
        (1_234_567, "1.23M"),
        (4_600_000_000, "4.6G"),
        (10**13, "10000G"),
    ],
)
def test_count(number: int, text: str) -> None:
    assert units.count(number) == text


@pytest.mark.parametrize(
    ("per_second", "text"), [(None, "-"), (0.0, "0"), (0.44, "0.4"), (9.96, "10"), (1234.4, "1 234")]
)
def test_rate(per_second: float | None, text: str) -> None:
    assert units.rate(per_second) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (60, "1m00s"), (3599, "59m59s"), (3600, "1h00m"), (86_400, "1d00h"), (10**7, "115d17h")],
)
def test_duration(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0µs"),
        (0.0000042, "4.2µs"),
        (0.00025, "250µs"),
        (0.0009996, "1.0ms"),
        (0.0125, "12ms"),
        (0.9994, "999ms"),
        (0.9996, "1.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (125, "2m05s"),
    ],
)
def test_wait(seconds: float, text: str) -> None:
    assert units.wait(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"), [(512, "512 B"), (65_536, "64 KiB"), (10 * 2**20, "10 MiB"), (2**40, "1024 GiB")]
)
def test_size(number: int, text: str) -> None:
    assert units.size(number) == text


def test_plural() -> None:
    assert units.plural(1, "job") == "1 job"
    assert units.plural(0, "job") == "0 jobs"


def test_bars_stand_on_the_right_and_the_largest_is_full() -> None:
    assert units.spark([1.0, 4.0, 0.0, 8.0], 6) == "  ▂▅ █"
    assert units.spark([8.0, 1.0, 1.0], 2) == "██", "what is out of sight does not count"
    assert units.spark([], 3) == "   "
    assert units.spark([1.0], 0) == ""
