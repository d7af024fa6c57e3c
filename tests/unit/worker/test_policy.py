"""What comes of a failed attempt: numbers in, numbers out."""

import copy
from typing import Any

import pytest

from beanpole import ArgumentError, Bury, HandlerDiedError, Retry, StatsJob, exponential, limits
from beanpole.worker.policy import attempt_number, is_used_up, next_delay_s


def constant(seconds: float):  # type: ignore[no-untyped-def] # noqa: ANN201 - a Delays
    return lambda _: seconds


def test_delays_double_up_to_the_longest() -> None:
    delays = exponential(1, 10, chance=lambda: 0.0)
    assert [delays(attempt) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_chance_cuts_a_delay_by_up_to_the_jitter() -> None:
    assert exponential(8, 8, jitter=0.25, chance=lambda: 1.0)(1) == 6
    assert exponential(8, 8, jitter=0, chance=lambda: 1.0)(1) == 8


def test_the_millionth_attempt_has_a_delay() -> None:
    assert exponential(1, 60, jitter=0)(1_000_000) == 60


@pytest.mark.parametrize(
    "wrong", [{"first_s": -1}, {"first_s": 2, "max_s": 1}, {"factor": 0.5}, {"jitter": 2}, {"first_s": float("nan")}]
)
def test_delays_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        exponential(**wrong)


@pytest.mark.parametrize(
    ("reserves", "kicks", "max_attempts", "number"),
    [
        (1, 0, 5, 1),
        (5, 0, 5, 5),
        (6, 0, 5, 6),  # nobody brought the fifth to an end
        (6, 1, 5, 1),  # buried after the fifth, and kicked
        (11, 2, 5, 1),
        (2, 1, 5, 1),  # buried by its handler at once, and kicked
        (7, 3, None, 7),
        (0, 0, 5, 1),  # what a server says that does not count
    ],
)
def test_attempts_are_counted_from_the_last_kick(
    reserves: int, kicks: int, max_attempts: int | None, number: int
) -> None:
    assert attempt_number(StatsJob(raw={}, reserves=reserves, kicks=kicks), max_attempts) == number


@pytest.mark.parametrize(
    ("reserves", "releases", "buries", "max_attempts", "used_up"),
    [
        (1, 0, 0, 1, False),
        (2, 0, 0, 1, True),  # its worker died
        (2, 1, 0, 1, False),  # its worker stopped
        (3, 1, 0, 1, True),  # one stopped and one died
        (6, 4, 0, 5, True),  # four failed and one died
        (6, 5, 0, 5, False),  # four failed and one stopped
        (7, 4, 1, 5, True),
        (9, 0, 0, None, False),
        (0, 0, 0, 1, False),
    ],
)
def test_a_job_is_used_up_when_the_worker_of_its_last_attempt_may_have_died(
    reserves: int, releases: int, buries: int, max_attempts: int | None, used_up: bool
) -> None:
    stats = StatsJob(raw={}, reserves=reserves, releases=releases, buries=buries)
    assert is_used_up(stats, attempt_number(stats, max_attempts), max_attempts) is used_up


@pytest.mark.parametrize(
    ("error", "attempt", "max_attempts", "delay_s"),
    [
        (ValueError(), 1, 5, 3),
        (ValueError(), 4, 5, 3),
        (ValueError(), 5, 5, None),
        (ValueError(), 6, 5, None),
        (ValueError(), 1000, None, 3),
        (Retry(), 1, 5, 3),
        (Retry(delay=0), 1, 5, 0),
        (Retry(delay=0.2), 1, 5, 1),  # the server counts whole seconds
        (Retry(delay=1e12), 1, 5, limits.PRI_MAX),
        (Retry(delay=9), 5, 5, None),
        (Bury("why"), 1, None, None),
        (SystemExit(1), 1, 2, 3),
    ],
)
def test_what_comes_of_a_failure(
    error: BaseException, attempt: int, max_attempts: int | None, delay_s: int | None
) -> None:
    assert next_delay_s(error, attempt, max_attempts, constant(2.5)) == delay_s


def test_a_retry_is_given_its_delay_by_name() -> None:
    with pytest.raises(TypeError, match=r"Retry\(delay=60\)"):
        Retry(60)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-5, -0.1, float("nan"), float("inf"), "5"])
def test_a_retry_takes_seconds_from_0_on(wrong: float) -> None:
    with pytest.raises(ArgumentError, match="0 or more"):
        Retry(delay=wrong)


def test_what_a_handler_raises_can_come_from_another_process() -> None:
    retry = copy.copy(Retry("later", delay=5))  # by what pickle asks for
    bury, died = copy.copy(Bury("bad")), copy.copy(HandlerDiedError(-9))
    assert (retry.delay, str(retry)) == (5, "later")
    assert str(bury) == "bad"
    assert died.exit_code == -9
