"""Answers that are kept: for how long, and how many."""

from beanpole.ids import limits
from beanpole.ids.window import Window
from beanpole.limits import IDS_COUNT_MAX


def test_kept_for_a_while() -> None:
    window = Window()
    window.keep(("a",), "1", 0)
    assert window.find(("a",), limits.WINDOW_S) == "1"
    assert window.find(("a",), limits.WINDOW_S + 1) is None
    assert window.find(("b",), 0) is None


def test_what_is_over_goes_when_something_comes() -> None:
    window = Window()
    for each in range(10):
        window.keep((each,), [str(each)] * 5, each)
    window.keep(("new",), "1", limits.WINDOW_S + 7.5)
    assert list(window.answers) == [(8,), (9,), ("new",)]
    assert window.number_count == 11


def test_same_name_is_kept_once_and_longer() -> None:
    window = Window()
    window.keep(("a",), ["1", "2"], 0)
    window.keep(("b",), "3", 1)
    window.keep(("a",), "4", 30)
    assert window.number_count == 2
    assert list(window.answers) == [("b",), ("a",)]
    assert window.find(("a",), limits.WINDOW_S + 20) == "4"


def test_answers_and_their_numbers_are_bounded() -> None:
    window = Window()
    many = ["x"] * IDS_COUNT_MAX
    for each in range(2_000):
        window.keep((each,), many, 0)
    assert window.number_count == limits.WINDOW_NUMBERS_MAX
    assert len(window.answers) == limits.WINDOW_NUMBERS_MAX // IDS_COUNT_MAX
    assert window.find((1_999,), 0) == many
    for each in range(2_000, 2_000 + limits.WINDOW_COUNT_MAX + 5):
        window.keep((each,), "x", 0)
    assert len(window.answers) == window.number_count == limits.WINDOW_COUNT_MAX


def test_long_numbers_count_as_several() -> None:
    window = Window()
    for each in range(200):
        window.keep((each,), "x" * 20_000, 0)
        window.keep((each, "many"), ["x" * 250] * 100, 0)
    assert window.number_count == 200 * (201 + 300)
    for each in range(5_000):
        window.keep((each, "later"), "x" * 20_000, 0)
    assert 199 * 5_000 < window.number_count <= limits.WINDOW_NUMBERS_MAX
    assert len(window.answers) < 5_000
