"""The table of ratios, from samples that are made up."""

import json

import pytest

from benchmarks.bench import report
from benchmarks.bench.plan import Ask, Figure, Row, Sample, Scenario
from benchmarks.bench.report import Outcome


def outcome_of(ask: Ask | None, figure: Figure = "cpu_us", **values: list[float]) -> Outcome:
    """A row whose samples are given as `ours`, `theirs`, `ours_baseline` and `theirs_baseline`."""
    baseline = Scenario() if any(key.endswith("_baseline") for key in values) else None
    outcome = Outcome(Row("row", "a row", figure, Scenario(), ask, baseline))
    for key, figures in values.items():
        who, _, what = key.partition("_")
        for value in figures:
            outcome.add(who, what or "scenario", Sample({figure: value}, commands=10, peak_bytes=1 << 20))
    return outcome


@pytest.mark.parametrize(
    ("ask", "verdict"),
    [
        (Ask(0.49), "no"),
        (Ask(0.5), "yes"),
        (Ask(0.51, at_most=False), "no"),
        (Ask(0.5, at_most=False), "yes"),
        (Ask(2.0, of="absolute"), "yes"),
        (Ask(1.9, of="absolute"), "no"),
        (Ask(1.2, of="own"), "no"),
        (Ask(1.25, of="own"), "yes"),
        (Ask(0.9, of="floor"), "no"),
        (Ask(1.0, of="floor"), "yes"),
        (None, ""),
    ],
)
def test_verdict_by_kind_of_bound(ask: Ask | None, verdict: str) -> None:
    outcome = outcome_of(ask, ours=[2.0], theirs=[4.0], floor=[2.0], ours_baseline=[1.6], theirs_baseline=[1.0])
    assert outcome.verdict() == verdict


def test_what_is_asked_is_shown_with_ratios_of_medians() -> None:
    ours, theirs = [1.0, 9.0, 2.0], [4.0, 3.0, 100.0]
    outcome = outcome_of(Ask(1.2, of="own"), ours=ours, theirs=theirs, ours_baseline=[1.6], theirs_baseline=[0.2])
    assert outcome.against_theirs() == 0.5
    line = dict(zip(report.ASKED_HEAD, report.asked_table([outcome])[0], strict=True))
    assert (line["ratio"], line["own ×"], line["their own ×"], line["met"]) == ("0.50 ×", "1.25 ×", "20.0 ×", "no")
    alone = dict(zip(report.ASKED_HEAD, report.asked_table([outcome_of(Ask(0.5), ours=[2.0])])[0], strict=True))
    assert (alone["ours"], alone["beanstalkd"], alone["ratio"], alone["met"]) == ("2.00", "-", "-", "")


def test_figures_have_a_line_a_server_and_end_with_ratios() -> None:
    lines = report.figures_table([outcome_of(None, ours=[2.0], theirs=[8.0], against=[5.0])])
    assert [line[1] for line in lines] == ["ours", "theirs", "against", "ratio", "ratio to against"]
    assert dict(zip(report.FIGURES_HEAD, lines[2], strict=True))["CPU µs"] == "5.00"
    for line, cpu in ((lines[-2], "0.25 ×"), (lines[-1], "0.40 ×")):
        ratios = dict(zip(report.FIGURES_HEAD, line, strict=True))
        assert (ratios["CPU µs"], ratios["peak MiB"]) == (cpu, "1.00 ×")
    failed = outcome_of(None, ours=[2.0])
    failed.failures["theirs", "scenario"] = "too slow"
    failed.add("ours", "scenario", Sample({"cpu_us": 1.0}, others_busy=1.2))
    ours, theirs = report.figures_table([failed])
    assert "others used" in ours[-1]
    assert theirs[-1] == "too slow"


@pytest.mark.parametrize(("generator", "server", "bound"), [(1.0, 0.5, True), (1.0, 1.0, False), (0.5, 0.5, False)])
def test_generator_bound_when_it_alone_is_busy(generator: float, server: float, bound: bool) -> None:
    outcome = Outcome(Row("row", "a row", "rate", Scenario()))
    outcome.add("ours", "scenario", Sample({"rate": 1.0}, generator_busy=generator, server_busy=server))
    assert outcome.generator_bound("ours") is bound
    assert ("generator-bound" in report.figures_table([outcome])[0][-1]) is bound


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0123, "0.012"), (0.25, "0.25"), (12.34, "12.3"), (123.4, "123"), (1234567.8, "1 234 568")],
)
def test_number(value: float | None, text: str) -> None:
    assert report.number(value) == text


def test_text_is_aligned_and_markdown_is_a_table() -> None:
    assert report.as_text(("a", "bb"), [("ccc", "d")]) == "a    bb\n-------\nccc  d"
    assert report.as_markdown(("a", "bb"), [("ccc", "d")]) == "| a | bb |\n| --- | --- |\n| ccc | d |"


def test_json_holds_every_sample() -> None:
    document = report.as_json([outcome_of(Ask(0.5), ours=[1.0, 2.0, 3.0], theirs=[8.0])], {"kernel": "x"})
    read = json.loads(json.dumps(document))
    assert read["rows"][0]["ratio"] == 0.25
    assert len(read["rows"][0]["samples"]["ours scenario"]) == 3
