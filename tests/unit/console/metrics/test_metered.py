"""Which tubes have metrics and histograms of their own, and that what the others have together never falls or jumps."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from beanpole.client import StatsTube
from beanpole.client.stats import Histogram, Histograms
from beanpole.console.metrics.metered import Division, TimesDivision
from tests.unit.console.made import sample, tube

BOUNDS = {"job": (100, 250), "turn": (10,), "commands": (1, 2)}


def histogram(count: int) -> Histogram:
    return Histogram(count, 200 * count, (0, count, 0))


def found(server: int, tubes: Mapping[str, int]) -> Histograms:
    """What a server says that counted so many jobs, those of some tubes among them."""
    of_tubes = {name: {"job-ready": histogram(count)} if count else {} for name, count in tubes.items()}
    return Histograms(BOUNDS, {"job-ready": histogram(server), "turn": Histogram(1, 5, (1, 0))}, of_tubes)


def test_what_is_not_shown_is_left_together() -> None:
    times = TimesDivision().divide("abc", ["a", "b"], found(10, {"a": 2, "b": 0, "c": 5}))
    assert times.tubes == {"a": {"job-ready": [400, 0, 2, 0]}, "b": {}}
    assert times.rest == {"job-ready": [1600, 0, 8, 0]}
    assert times.server == {"turn": [5, 1, 0]}


def test_a_tube_that_came_again_in_between_is_not_counted_twice() -> None:
    division = TimesDivision()
    division.divide("a", ["a"], found(5, {"a": 5}))
    times = division.divide("a", ["a"], found(6, {"a": 1}))
    assert times.tubes["a"]["job-ready"] == [200, 0, 1, 0]
    assert times.rest["job-ready"] == [0, 0, 0, 0]


def test_pages_of_two_moments_take_nothing_away() -> None:
    division = TimesDivision()
    assert division.divide("ab", ["a"], found(10, {"a": 4})).rest["job-ready"] == [1200, 0, 6, 0]
    assert division.divide("ab", ["a"], found(10, {"a": 5})).rest["job-ready"] == [1200, 0, 6, 0]


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), max_size=6), min_size=1, max_size=12))
def test_jobs_are_counted_once_whatever_tubes_come_and_go(samples: list[dict[str, int]]) -> None:
    division, counts = TimesDivision(), dict[str, int]()
    server = expected = 0
    names: list[str] = []
    for grown in samples:
        server += sum(grown.values())
        there, before = set(counts), names
        counts = {name: counts.get(name, 0) + more for name, more in grown.items()}
        names = sorted(counts)[:2]
        times = division.divide(set(counts), names, found(server, counts))
        # A tube that was one of the others until now leaves its jobs with them: its own line begins with what it has.
        expected += sum(
            more for name, more in grown.items() if name not in names or (name in there and name not in before)
        )
        assert times.rest["job-ready"][2] == expected
        assert {name: rows["job-ready"][2] for name, rows in times.tubes.items() if rows} == {
            name: counts[name] for name in names if counts[name]
        }


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
