"""Answers that are kept: for how long, and how many."""

from beanpole_ids import limits
from beanpole_ids.window import Window


def test_kept_for_a_while() -> None:
    window = Window()
    window.keep(b"a", b"1", 0)
    assert window.find(b"a", limits.WINDOW_S) == b"1"
    assert window.find(b"a", limits.WINDOW_S + 1) is None
    assert window.find(b"b", 0) is None


def test_what_is_over_goes_when_something_comes() -> None:
    window = Window()
    for each in range(10):
        window.keep(b"%d" % each, b"x" * 400, each)
    window.keep(b"new", b"1", limits.WINDOW_S + 7.5)
    assert list(window.answers) == [b"8", b"9", b"new"]
    assert window.number_count == 11


def test_same_name_is_kept_once_and_longer() -> None:
    window = Window()
    window.keep(b"a", b"x" * 100, 0)
    window.keep(b"b", b"3", 1)
    window.keep(b"a", b"4", 30)
    assert window.number_count == 2
    assert list(window.answers) == [b"b", b"a"]
    assert window.find(b"a", limits.WINDOW_S + 20) == b"4"


def test_answers_and_their_numbers_are_bounded() -> None:
    window = Window()
    many = b"x" * 99_900
    for each in range(2_000):
        window.keep(b"%d" % each, many, 0)
    assert window.number_count == limits.WINDOW_NUMBERS_MAX
    assert len(window.answers) == limits.WINDOW_NUMBERS_MAX // limits.COUNT_MAX
    assert window.find(b"1999", 0) == many
    for each in range(2_000, 2_000 + limits.WINDOW_COUNT_MAX + 5):
        window.keep(b"%d" % each, b"x", 0)
    assert len(window.answers) == window.number_count == limits.WINDOW_COUNT_MAX
