"""Charts: what they say to those who do not see them, and that they stay small."""

import re
from xml.etree import ElementTree as ET

import pytest

from beanpole.console.history import Series
from beanpole.console.screens import charts

BEGIN_S = 1_700_000_000.0
LINE_BYTES_MAX, SPARK_BYTES_MAX = 8_000, 600
HOSTILE = "<script>alert('1')</script>&\""


def series(*values: float | None, step_s: float = 10) -> Series:
    return Series([(BEGIN_S + number * step_s, value) for number, value in enumerate(values)])


def parsed(chart: str) -> ET.Element:
    """A chart as a browser reads it. Raises ParseError: it is not well formed."""
    return ET.fromstring(chart)  # noqa: S314 - our own


def paths(chart: str) -> list[str]:
    return re.findall(r'class="line[^"]*" fill="none" d="([^"]*)"', chart)


def test_chart_is_drawn_and_said() -> None:
    chart = charts.line([series(0, 5, 10), series(2, 2, 2)], ["put", "deleted"], "/s", "Jobs a second")
    root = parsed(chart)
    drawn = root.find("svg")
    assert drawn is not None
    assert drawn.findtext("title") == "Jobs a second"
    assert drawn.findtext("desc") == "put: 10/s at the end, 10/s at the most; deleted: 2/s at the end, 2/s at the most."
    assert [each.text for each in root.iter("text")][:3] == ["0", "5/s", "10/s"]
    assert paths(chart) == ["M48 160L340 84L632 8", "M48 129.6L340 129.6L632 129.6"]


def test_gap_is_not_drawn_and_a_point_alone_is_a_dot() -> None:
    assert paths(charts.line([series(1, 1, None, 1, None, 1)], ["ready"])) == ["M48 8L164.8 8M398.4 8h.1M632 8h.1"]


@pytest.mark.parametrize("values", [(), (1,), (None, None)])
def test_too_little_is_no_chart(values: tuple[float | None, ...]) -> None:
    chart = charts.line([series(*values)], ["ready"], title="Ready")
    assert "Nothing is known yet." in chart
    assert "Ready" in chart
    assert "<svg" not in chart


def test_texts_are_escaped() -> None:
    for chart in (
        charts.line([series(1, 2), series(2, 1)], [HOSTILE, HOSTILE], HOSTILE, HOSTILE),
        charts.spark([1, 2], HOSTILE),
    ):
        assert "<script" not in chart
        parsed(chart)


def test_charts_are_small_and_keep_what_was_highest() -> None:
    values = [float(number * 7919 % 100_000) for number in range(360)]
    values[77] = 999_999.0
    chart = charts.line([series(*values, step_s=60)] * 6, ["a name of a line"] * 6, "/s", "Jobs")
    assert len(chart) <= LINE_BYTES_MAX
    assert "1M/s at the most" in chart
    small = charts.spark(values, "ready jobs of the last hours")
    assert len(small) <= SPARK_BYTES_MAX
    assert " 1L" in small, "what was highest is at the top"


def test_spark_of_nothing_is_there() -> None:
    assert 'd=""' in charts.spark([])
    assert 'd=""' in charts.spark([None, None])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (999, "999"),
        (999.7, "1k"),
        (999_999, "1M"),
        (1_500, "1.5k"),
        (2_000_000, "2M"),
        (3e9, "3G"),
    ],
)
def test_numbers_on_axes_are_short(value: float, text: str) -> None:
    assert charts.text_of(value) == text


@pytest.mark.parametrize(("value", "top"), [(0, 1), (0.3, 0.5), (1, 1), (1.1, 2), (21, 25), (260, 500), (999, 1_000)])
def test_axis_ends_with_a_round_number(value: float, top: float) -> None:
    assert charts.ceiling(value) == pytest.approx(top)


def test_times_stand_below_in_utc() -> None:
    minutes = parsed(charts.line([series(1, 1, step_s=3_600)], ["ready"]))
    assert [each.text for each in minutes.iter("text") if "data-at" in each.attrib] == [
        "22:20", "22:30", "22:40", "22:50", "23:00", "23:10",
    ]  # fmt: skip
    seconds = parsed(charts.line([series(1, 1, step_s=20)], ["ready"]))
    assert [each.text for each in seconds.iter("text") if "data-at" in each.attrib] == [
        "22:13:20", "22:13:25", "22:13:30", "22:13:35", "22:13:40",
    ]  # fmt: skip
