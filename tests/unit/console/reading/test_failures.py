"""What makes a group of failures, and what is kept of them."""

from dataclasses import replace

import pytest

from beanpole.client import JobInfo
from beanpole.console.reading.failures import (
    BURIED,
    ERROR_CHARS,
    Failure,
    FailureFilter,
    Group,
    in_order,
)
from beanpole.protocol.reasons import error_of, first_line


def said(text: str | None, end: str = "") -> Failure:
    """A job that failed, of which this was said."""
    return Failure(JOB, "mail", text, end)


JOB = JobInfo(7, tube="grave", state="ready", origin="mail", died=1_000.5, reserves=3, buries=1)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("timeout after 31 s for order 8f3a", "timeout after … s for order …"),
        ("timeout after 2.5s: 10.0.0.5:11300", "timeout after …: …"),
        ("ORA-00942: HTTP 503, errno 10061", "ORA-00942: HTTP 503, errno 10061"),
        ("\n \n  KeyError:   'a'  \n  at line 3", "KeyError: 'a'"),
        ("no order 123456", "no order …"),
        ("no order 7", "no order …"),
        ("order1234567, cus_NffrFeUfNV2Hibxx", "…, cus_…"),
        ("utf8, x509 and node12", "utf8, x509 and node12"),
        ("HTTPError: 410 Gone, status_code=404", "HTTPError: 410 Gone, status_code=404"),
        ("3 Apples, 1213 Deadlocks, SKU-123456", "… Apples, … Deadlocks, SKU-…"),
        ("<Job at 0x7f3a>", "<Job at …>"),
        ("job 550e8400-e29b-41d4-a716-446655440000 lost", "job … lost"),
        ("commit deadbeef01 is gone", "commit … is gone"),
        ("the facade collapsed, deadbeef", "the facade collapsed, deadbeef"),  # words of the letters a to f
        ("since 2026-01-02T03:04:05.678Z late", "since … late"),
        ("since 2026-01-02 03:04:05+01:00 late", "since … late"),
        ("\x00\u202eevil", "\\x00[U+202E]evil"),
        ("one\x85two", "one"),
        ("", BURIED),
        ("  \n ", BURIED),
        (None, BURIED),
    ],
)
def test_error_is_the_first_line_without_what_passes(text: str | None, error: str) -> None:
    assert said(text).error == error
    once = error_of(first_line(text or ""))
    assert error_of(once) == once


def test_error_is_short() -> None:
    assert said("x" * 1_024).error == "x" * ERROR_CHARS
    assert len(said("\x00\u202e" * 512).error) <= ERROR_CHARS


def test_nobody_said_anything() -> None:
    assert said(None, "the last attempt failed").error == "(the last attempt failed)"
    assert said("", "the last attempt failed").error == "(the last attempt failed)"


def test_why_a_job_of_a_list_failed() -> None:
    assert Failure.of(JOB) == said(None)
    died = replace(JOB, reason="a\n, as b", why="attempts")
    assert Failure.of(died) == Failure(died, "mail", "a\n, as b", "the last attempt failed")
    assert Failure.of(replace(JOB, why="by-chance")).end == "by-chance"
    assert Failure.of(replace(JOB, origin=None)).tube == "grave"


def test_group_counts_what_it_is_given() -> None:
    group = Group("one", "mail", "boom")
    for number in range(20):
        job = replace(JOB, id=number + 1, died=1_000.0 + number % 7)
        group.add(Failure(job, "mail", f"boom {number}", "end"))
    group.add(Failure(replace(JOB, id=3, died=None, state="buried"), "mail", None))
    assert group.count == 21
    assert group.ids == list(range(20, 10, -1))
    assert group.example == "boom 19"
    assert (group.oldest, group.newest) == (1_000.0, 1_006.0)
    assert group.kinds == {"end": 20, "buried": 1}
    assert group.places == {("grave", "ready"): 20, ("grave", "buried"): 1}


def test_largest_and_newest_groups_come_first() -> None:
    a, b, c = (
        Group("one", "mail", name, count, newest) for name, count, newest in (("a", 1, 5), ("b", 2, None), ("c", 1, 9))
    )
    assert in_order([a, b, c]) == [b, c, a]


def test_filter_looks_at_the_whole_text() -> None:
    failed = said("Boom\n at Line 12")
    assert FailureFilter(text="LINE 12").fits(failed)
    assert not FailureFilter(text="line 13").fits(failed)
    assert FailureFilter(error="Boom").fits(failed)
    assert not FailureFilter(error="boom").fits(failed)
    assert FailureFilter(text="buried").fits(said(None))
