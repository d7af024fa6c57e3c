"""The fuzz, short."""

import random
from array import array
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.programs import Load

from tests.soak.fuzz import Report, judge, run

SECONDS = 6.0


@pytest.mark.long
def test_fuzz(tmp_path: Path) -> None:
    """The service lives, repeats nothing and answers others."""
    report = run(tmp_path, SECONDS, random.SystemRandom().getrandbits(30))
    report.check()
    assert report.counts["datagrams"], str(report)
    assert report.counts["HTTP requests"], str(report)


def test_judge_finds_what_came_twice() -> None:
    report = Report(1, Load(1, 1, 1, 0, 0, 1, 1, 1))
    judge(report, [({"order a": array("Q", [1, 2])}, Counter()), ({"order a": array("Q", [3, 2])}, Counter())])
    assert (report.numbers, report.twice) == (4, 1)
