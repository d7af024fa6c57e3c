"""The tables of metrics: no name twice, and docs/monitoring.md says the same."""

import re
from pathlib import Path

import pytest

from beanpole.console.metrics import families
from beanpole.console.metrics.families import HISTOGRAM_FAMILIES, SERVER_FAMILIES, TUBE_FAMILIES, Kind
from beanpole.server.handshakes import OUTCOMES

ALL = (*SERVER_FAMILIES, *families.RIGHTS_FAMILIES, *TUBE_FAMILIES, families.TAKES_DEAD, *HISTOGRAM_FAMILIES)


def test_no_name_is_there_twice() -> None:
    names = [families.UP, *(each.name for each in ALL)]
    assert len(names) == len(set(names))


def test_every_part_of_a_tube_has_the_labels_that_it_needs() -> None:
    for family in TUBE_FAMILIES:
        assert all(bool(label) is (len(family.labels) == 2) for label, _ in family.parts), family.name


@pytest.mark.repository
def test_the_page_has_the_same_metrics() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "monitoring.md").read_text()
    rows = re.findall(r"^\| `(beanpole_[a-z_]+)` \| (\w+) \| ([^|]*) \|", page, re.MULTILINE)
    documented = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    actual = {each.name + "_total" * (each.kind is Kind.COUNTER): (str(each.kind), each.labels) for each in ALL}
    assert documented == actual | {families.UP: ("gauge", ())}, "repair the tables of docs/monitoring.md"


def test_every_outcome_of_a_handshake_has_its_line() -> None:
    assert families.HANDSHAKES == OUTCOMES
