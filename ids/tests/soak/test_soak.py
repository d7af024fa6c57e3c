"""The soak, short, on each database; and the judge of it, who must find what is wrong."""

import random
from array import array
from pathlib import Path

import pytest

from tests.databases import Database
from tests.soak.soak import run
from tests.soak.verdict import judge, lost_at_most

SECONDS = 12.0


@pytest.mark.long
def test_soak(database: Database, tmp_path: Path) -> None:
    """Nothing comes twice, and gaps are no larger than crashes make them."""
    seed = random.SystemRandom().getrandbits(30)
    report = run(database, tmp_path, seed, numbers=100_000, events=7, seconds=SECONDS)
    assert report.verdict.numbers > 1_000, str(report)
    report.check()


@pytest.mark.long
def test_soak_without_crashes_of_nodes(database: Database, tmp_path: Path) -> None:
    """Then there is no gap at all."""
    seed = random.SystemRandom().getrandbits(30)
    report = run(database, tmp_path, seed, numbers=50_000, events=5, seconds=SECONDS, kills=False)
    report.check()


def test_judge_finds_a_duplicate_and_gaps() -> None:
    verdict = judge([{("plain", "a"): array("Q", [0, 2, 1, 10])}, {("plain", "a"): array("Q", [2, 7])}])
    assert verdict.duplicates == ["plain a 2"]
    assert verdict.gaps == {("plain", "a", 0): [3], ("plain", "a", 1): [2]}
    assert len(verdict.unexplained([0, 0])) == 2
    assert verdict.unexplained([1, 1]) == []


@pytest.mark.parametrize(("batch", "most"), [(1, 2), (200, 1_200), (1_000, 2_000), (5_000, 7_501)])
def test_what_a_crash_may_lose(batch: int, most: int) -> None:
    assert lost_at_most(batch) == most
