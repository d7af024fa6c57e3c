"""The tables themselves: what is in them makes sense, and everything in them can be chosen."""

import pytest

from benchmarks.bench import run
from benchmarks.bench.connection import GroupState
from benchmarks.bench.dial import SetupError
from benchmarks.bench.plan import FIGURES, Row
from benchmarks.bench.tables import TABLES

EVERY = [row for table in TABLES.values() for row in table]


def test_names_are_unique() -> None:
    assert len({row.name for row in EVERY}) == len(EVERY)


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row.name)
def test_row_can_be_driven_and_judged(row: Row) -> None:
    assert row.figure in FIGURES
    assert (row.baseline is not None) == (row.ask is not None and row.ask.of == "own")
    for scenario in (row.scenario, row.baseline, row.quick):
        for group in scenario.groups if scenario else ():
            GroupState(group)


def test_only_takes_names_and_beginnings() -> None:
    for only, wanted in (
        (("start",), ["start"]),
        (("cycle-",), ["cycle-50x1", "cycle-50x16", "cycle-50x100"]),
        (("cycle-50x1", "durable-disk"), ["cycle-50x1", "durable-disk"]),
    ):
        assert [row.name for row in run.choose(run.Options(only=only))] == wanted
    with pytest.raises(SetupError, match="nonsense"):
        run.choose(run.Options(only=("nonsense",)))

    assert run.choose(run.Options(tables=("durable",))) == list(TABLES["durable"])
