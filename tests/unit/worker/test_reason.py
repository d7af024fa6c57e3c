"""What a job keeps of the error of its last attempt: a headline, and the end of the traceback, in 1 024 bytes."""

import pytest

from beanpole import Bury, Dead, Retry
from beanpole.worker.ending import reason_text


def raised(depth: int, error: BaseException, cause: BaseException | None = None) -> BaseException:
    """An error that was raised so many calls down."""

    def fall(left: int) -> None:
        if left:
            if left % 2:  # two lines by turns: a traceback folds those that are alike
                fall(left - 1)
            else:
                fall(left - 1)
        raise error from cause

    try:
        fall(depth)
    except BaseException as found:  # noqa: BLE001 - any is tried
        return found
    raise AssertionError("it did not raise")


def test_the_headline_comes_first_and_the_last_lines_of_the_traceback_follow() -> None:
    lines = reason_text(raised(0, ValueError("bad luck"))).splitlines()
    assert lines[0] == "ValueError: bad luck"
    assert lines[-2].endswith("in fall")
    assert lines[-1].strip() == "raise error from cause"
    assert len(lines) == 5, "the headline, and two lines for each of two calls"


def test_what_is_too_long_lacks_the_beginning_of_the_traceback() -> None:
    text = reason_text(raised(60, ValueError("bäd luck " * 20)))
    assert 900 < len(text.encode()) <= 1024
    lines = text.splitlines()
    assert lines[0] == "ValueError: " + "bäd luck " * 20
    assert lines[-1].strip() == "raise error from cause"
    assert lines[1].startswith(("  File", "    ")), "whole lines only"


def test_a_headline_that_is_too_long_is_cut_between_characters() -> None:
    for filler in ("x", "xy", "xyz"):
        text = reason_text(raised(0, ValueError(filler + "\N{SNOWMAN}" * 1000)))
        assert len(text.encode()) <= 1024
        headline = text.splitlines()[0]
        assert headline.strip("\N{SNOWMAN}") == f"ValueError: {filler}"
        assert 510 <= len(headline.encode()) <= 512


def test_the_error_behind_an_error_is_in_the_traceback() -> None:
    text = reason_text(raised(0, ValueError("outer"), raised(0, KeyError("inner"))))
    assert "KeyError: 'inner'" in text
    assert text.startswith("ValueError: outer\n")


@pytest.mark.parametrize("kind", [Retry, Bury, Dead])
def test_what_was_raised_on_purpose_is_its_reason(kind: type[Exception]) -> None:
    assert reason_text(raised(3, kind("too early"))) == "too early"
    assert reason_text(raised(3, kind())) == ""


def test_the_error_behind_a_death_is_told_with_it() -> None:
    lines = reason_text(raised(0, Dead("no such customer"), raised(0, KeyError(7)))).splitlines()
    assert lines[0] == "no such customer"
    assert lines[-1] == "KeyError: 7"


def test_an_error_of_several_lines_stands_there_once_and_its_notes_stay() -> None:
    error = raised(0, ValueError("two\nlines"))
    error.add_note("the customer is new")
    text = reason_text(error)
    assert text.startswith("ValueError: two\nlines\n")
    assert text.count("two") == text.count("lines") == 1
    assert text.endswith("\nthe customer is new")


def test_an_error_without_a_traceback_is_its_headline() -> None:
    assert reason_text(TimeoutError("longer than 3 s")) == "TimeoutError: longer than 3 s"


class ShyError(Exception):
    """An error that can't be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def test_an_error_that_cannot_be_shown_is_its_type() -> None:
    assert reason_text(raised(0, ShyError())).startswith("ShyError:")


def test_what_is_no_text_can_be_sent() -> None:
    reason_text(ValueError("\ud800")).encode()


def test_an_error_that_ends_the_program_when_it_is_shown_has_its_name() -> None:
    class EndingError(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    assert reason_text(raised(0, EndingError())).splitlines()[0] == "EndingError: "
