"""Which tubes have metrics of their own, and that the sums over the others never fall."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from beanpole.client import StatsTube
from beanpole.console.metrics.metered import Division
from tests.unit.console.made import sample, tube


def divide(division: Division, tubes: Sequence[StatsTube], server_id: str = "a") -> tuple[list[str], dict[str, int]]:
    named, rest = asyncio.run(division.divide(sample(*tubes, id=server_id)))
    return list(named), rest


def test_the_first_by_name_have_their_own() -> None:
    tubes = [
        tube(name, total_jobs=1, current_jobs_ready=2, pause=9, oldest_ready=age) for age, name in enumerate("abcd")
    ]
    named, rest = divide(Division(tubes_max=2), tubes)
    assert named == ["a", "b"]
    assert {key: rest[key] for key in ("total-jobs", "current-jobs-ready", "pause", "oldest-ready")} == {
        "total-jobs": 2,
        "current-jobs-ready": 4,
        "pause": 2,
        "oldest-ready": 3,
    }


def test_patterns_choose() -> None:
    tubes = [tube(name, total_jobs=1) for name in ("a", "mail-1", "mail-2", "z")]
    named, rest = divide(Division(lambda name: name != "a", tubes_max=2), tubes)
    assert named == ["mail-1", "mail-2"]
    assert rest["total-jobs"] == 2


def test_without_others_there_is_no_sum() -> None:
    assert divide(Division(), [tube("a", total_jobs=1)]) == (["a"], {})


def test_another_process_begins_again() -> None:
    division = Division(tubes_max=0)
    assert divide(division, [tube("a", total_jobs=5)])[1]["total-jobs"] == 5
    assert divide(division, [tube("a", total_jobs=1)], "b")[1]["total-jobs"] == 1


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), max_size=6), min_size=1, max_size=12))
def test_events_are_counted_once_whatever_tubes_come_and_go(samples: list[dict[str, int]]) -> None:
    division, counts, expected = Division(tubes_max=2), dict[str, int](), 0
    for grown in samples:
        counts = {name: counts.get(name, 0) + more for name, more in grown.items()}
        tubes = [tube(name, total_jobs=counts[name]) for name in sorted(counts)]
        named, rest = divide(division, tubes)
        expected += sum(more for name, more in grown.items() if name not in named)
        # What a tube had while it was shown, or before it was seen, is never added later.
        assert rest.get("total-jobs", 0) == expected


def test_tubes_that_a_sample_did_not_reach_are_not_counted_again() -> None:
    division = Division(tubes_max=0)
    assert divide(division, [tube("a", total_jobs=1), tube("b", total_jobs=5)])[1]["total-jobs"] == 6
    asyncio.run(division.divide(replace(sample(tube("a", total_jobs=2)), is_complete=False)))
    assert divide(division, [tube("a", total_jobs=2), tube("b", total_jobs=6)])[1]["total-jobs"] == 8
