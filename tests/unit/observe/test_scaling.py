"""How many workers a tube needs."""

from dataclasses import replace

import pytest

from beanpole.client.ruling import Rules
from beanpole.client.stats import Histogram, Histograms
from beanpole.observe.sampling import HELD, Sample
from beanpole.observe.scaling import need_of, run_time
from tests.unit.observe.made import row, sample, tube


@pytest.mark.parametrize(
    ("arrival", "ready", "reserved", "run_s", "rules", "stats", "jobs", "limit"),
    [
        pytest.param(0.0, 0, 0, 2.0, {}, {}, 0, "", id="nothing to do"),
        pytest.param(10.0, 0, 0, 2.0, {}, {}, 20, "", id="what comes"),
        pytest.param(0.0, 600, 0, 2.0, {}, {}, 20, "", id="what has piled up"),
        pytest.param(10.0, 600, 3, 2.0, {}, {}, 40, "", id="both"),
        pytest.param(0.0, 1, 0, 0.001, {}, {}, 1, "", id="one at least"),
        pytest.param(5.0, 100, 0, None, {}, {}, 1, "", id="one to find out how long a job runs"),
        pytest.param(0.0, 0, 7, 2.0, {}, {}, 7, "", id="those that run now"),
        pytest.param(10.0, 0, 0, 2.0, {"rate": "5/s burst 5"}, {}, 10, "rate", id="rate"),
        pytest.param(10.0, 0, 0, 2.0, {"concurrency": "4"}, {}, 4, "concurrency", id="concurrency"),
        pytest.param(10.0, 0, 0, 2.0, {"concurrency": "40"}, {}, 20, "", id="concurrency that does not bind"),
        pytest.param(10.0, 0, 0, 2.0, {}, {"breaker_closed": 1}, 1, "breaker", id="breaker"),
        pytest.param(10.0, 9, 2, 2.0, {}, {"pause": 60, "pause_time_left": 30}, 2, "pause", id="pause"),
    ],
)
def test_need(  # noqa: PLR0917 - a row of the table
    arrival: float,
    ready: int,
    reserved: int,
    run_s: float | None,
    rules: dict[str, str],
    stats: dict[str, int],
    jobs: int,
    limit: str,
) -> None:
    now = tube("mail", current_jobs_ready=ready, current_jobs_reserved=reserved, **stats)
    need = need_of(now, arrival, run_s, Rules("mail", rules), drain_s=60, slots=1)
    assert (need.workers, need.jobs, need.limit) == (jobs, jobs, limit)


def test_workers_with_several_slots_are_rounded_up() -> None:
    assert need_of(tube("mail"), 10.0, 1.7, None, drain_s=60, slots=8).workers == 3


def timed(count: int, total_us: int) -> Sample:
    histograms = Histograms({"job": ()}, {}, {"mail": {HELD: Histogram(count, total_us, (count,))}})
    return replace(sample(row("mail")), histograms=histograms)


def test_run_time_is_that_of_the_jobs_that_ended_between_two_samples() -> None:
    assert run_time(timed(100, 100_000_000), timed(110, 120_000_000), "mail") == 2.0


def test_run_time_is_that_of_all_jobs_where_none_has_just_ended() -> None:
    assert run_time(timed(100, 100_000_000), timed(100, 100_000_000), "mail") == 1.0
    assert run_time(None, timed(100, 100_000_000), "mail") == 1.0


def test_run_time_of_no_job_is_unknown() -> None:
    assert run_time(None, timed(0, 0), "mail") is None
    assert run_time(None, sample(row("mail")), "mail") is None
