"""The histograms of tubes that are shown, and that what the others have together never jumps."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from beanpole.client.stats import Histogram, Histograms
from beanpole.console.metrics.metered import TimesDivision

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
