"""Numbers as people read them."""

from collections.abc import Callable
from typing import Any

import pytest

from beanpole.observe import units

UNITS: dict[Callable[..., str], dict[Any, str]] = {
    units.count: {0: "0", 999: "999", 12_345: "12 345", 999_999: "999 999", 1_234_567: "1.23M", 10**13: "10000G"}
    | {4_600_000_000: "4.6G"},
    units.rate: {None: "-", 0.0: "0", 0.44: "0.4", 9.96: "10", 1234.4: "1 234"},
    units.duration: {0: "0s", 59.9: "59s", 60: "1m00s", 3599: "59m59s", 3600: "1h00m", 86_400: "1d00h"}
    | {10**7: "115d17h"},
    units.wait: {0: "0µs", 4.2e-6: "4.2µs", 0.00025: "250µs", 0.0009996: "1.0ms", 0.0125: "12ms", 0.9994: "999ms"}
    | {0.9996: "1.0s", 9.94: "9.9s", 9.96: "10s", 125: "2m05s"},
    units.size: {512: "512 B", 65_536: "64 KiB", 10 * 2**20: "10 MiB", 2**40: "1024 GiB"},
}


@pytest.mark.parametrize(("say", "wanted"), UNITS.items(), ids=[each.__name__ for each in UNITS])
def test_numbers(say: Callable[..., str], wanted: dict[Any, str]) -> None:
    assert {number: say(number) for number in wanted} == wanted


def test_plural() -> None:
    assert units.plural(1, "job") == "1 job"
    assert units.plural(0, "job") == "0 jobs"


def test_bars_stand_on_the_right_and_the_largest_is_full() -> None:
    assert units.spark([1.0, 4.0, 0.0, 8.0], 6) == "  ▂▅ █"
    assert units.spark([8.0, 1.0, 1.0], 2) == "██", "what is out of sight does not count"
    assert units.spark([], 3) == "   "
    assert units.spark([1.0], 0) == ""
