"""The table of published figures: each is found in what its command prints, and held against what was found."""

import re
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest

from benchmarks import reproduce, worker
from benchmarks.bench import report, run
from benchmarks.bench.__main__ import bench
from benchmarks.bench.plan import Sample
from benchmarks.bench.report import Outcome
from benchmarks.reproduce import FIGURES, Figure

SECOND = Figure("second", "the day after the first", 2, ("calendar", "2000", "1"), 16 * " " + "1", 0, steady=False)
"""Not measured: what a command prints that is quick and always the same."""


def test_every_figure_has_a_name_of_its_own() -> None:
    assert len({each.name for each in FIGURES}) == len(FIGURES)


@pytest.mark.parametrize("command", dict.fromkeys(each.command for each in FIGURES), ids=" ".join)
def test_commands_are_there_and_take_their_arguments(command: tuple[str, ...]) -> None:
    module, *arguments = command
    assert find_spec(module) is not None
    if module == "benchmarks.bench":
        given = bench.make_context("bench", [*arguments]).params
        assert [row.name for row in run.choose(run.Options(only=given["only"]))] == [*given["only"]]
    elif arguments:
        subprocess.run([sys.executable, "-m", *command, "--help"], check=True, capture_output=True)


@pytest.mark.parametrize(
    "figure", [each for each in FIGURES if each.command[0] == "benchmarks.bench"], ids=lambda each: each.name
)
def test_figures_of_the_benchmark_are_found_in_its_table(figure: Figure) -> None:
    (row,) = run.choose(run.Options(only=(figure.row,)))
    outcome = Outcome(row)
    for who, what, value in (
        ("ours", "scenario", 6.0),
        ("theirs", "scenario", 12.0),
        ("floor", "scenario", 3.0),
        ("ours", "baseline", 2.0),
    ):
        outcome.add(who, what, Sample({row.figure: value}))
    text = report.as_text(report.ASKED_HEAD, report.asked_table([outcome]))
    wanted = {"ours": 6.0, "ratio": 0.5, "floor ×": 2.0, "own ×": 3.0}
    assert figure.find(text) == wanted[report.ASKED_HEAD[figure.column + 1]]


def test_figures_of_the_worker_are_found_in_its_table() -> None:
    figures = [each for each in FIGURES if each.command[0] == "benchmarks.worker"]
    served = {"Beanpole": 44665.4, "beanstalkd": 89330.8, "Beanpole, log": 12.34}
    rows = [{"name": name, **served} for name in {each.row for each in figures}]
    text = report.as_text(worker.HEAD, worker.cells_of(rows))
    assert {each.find(text) for each in figures if each.name.endswith("-log")} == {12.3}
    assert {each.find(text) for each in figures if not each.name.endswith(("-log", "-cpu"))} == {44665.0}
    assert {each.find(text) for each in figures if each.is_ratio} == {0.5}


def test_a_number_is_read_as_programs_write_it() -> None:
    figure = replace(SECOND, row="put_many", column=0)
    assert figure.find("put_many, again   7/s\nput_many      1,557,587/s   0.6 us\n") == 1557587
    assert figure.find("put_many   -   7\n") is None


@pytest.mark.parametrize(
    ("change", "yours", "verdict"),
    [
        ({"ours": 0.5}, 0.74, "as ours"),
        ({"ours": 0.5}, 0.34, "as ours"),
        ({"ours": 0.5}, 0.76, "not within 1.5 times ours"),
        ({"ours": 0.5}, 0.32, "not within 1.5 times ours"),
        ({"ours": 0.5, "steady": False}, 5.0, "depends on the machine"),
        ({"ours": 0.5, "is_ratio": False}, 5.0, "depends on the machine"),
        ({"ours": 0.5}, None, "not measured"),
    ],
)
def test_verdict(change: dict[str, float], yours: float | None, verdict: str) -> None:
    assert replace(SECOND, **{"steady": True} | change).verdict(yours) == verdict  # type: ignore[arg-type]


def test_ours_is_printed_beside_yours() -> None:
    """The command runs, and what it does not print is named."""
    table, complete = reproduce.compare([SECOND, replace(SECOND, name="third", row="nothing")])
    *_, found, missing = table.splitlines()
    assert re.split(" {2,}", found) == ["second", SECOND.what, "2.00 ×", "2.00 ×", "depends on the machine"]
    assert missing.endswith("2.00 ×  -       not measured")
    assert not complete
    assert reproduce.compare([SECOND])[1]


def test_names_choose_figures() -> None:
    assert [each.name for each in reproduce.chosen(["jobs-put"])] == ["jobs-put"]
    assert {each.name for each in reproduce.chosen(["jobs-put-", "start"])} == {
        "start",
        "jobs-put-log",
        "jobs-put-many",
        "jobs-put-many-log",
    }
    assert reproduce.chosen([]) == [*FIGURES]
    with pytest.raises(SystemExit, match="no figure is called 'nothing'"):
        reproduce.chosen(["nothing"])
