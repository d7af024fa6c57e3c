"""What a worker has done, as Prometheus reads it: how long attempts took, how they ended, and how many slots work.

The slots count here, also for handlers that run in processes of their own: so these are the numbers of the worker as a
whole. The text is written here, for a worker needs no library of Prometheus.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import beanpole
from beanpole.worker.task import Counters, Outcome

SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000),
)
"""The bounds of the histograms of durations, in seconds."""

ATTEMPTS = (1, 2, 3, 4, 5, 7, 10, 15, 25)
"""The bounds of the histograms of attempts."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Histogram:
    """Numbers, counted between bounds; one that is equal to a bound is counted below it."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum: float = 0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, number: float) -> None:
        """Counts a number."""
        self.counts[bisect_left(self.bounds, number)] += 1
        self.sum += number

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Returns the samples; each bucket has those before it as well."""
        total = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}\n'
        yield f"{name}_sum{{{labels}}} {self.sum!r}\n"
        yield f"{name}_count{{{labels}}} {total}\n"


class Metrics:
    """What a worker has done since it was made."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, Outcome], Histogram] = {}
        self._attempts: dict[str, Histogram] = {}
        self._outcomes: dict[tuple[str, Outcome], int] = {}

    def expect(self, tube: str) -> None:
        """Shows a tube from now on, before it has had a job: what grows from 0 is seen to grow."""
        self._attempts.setdefault(tube, Histogram(ATTEMPTS))
        for outcome in Outcome:
            self._outcomes.setdefault((tube, outcome), 0)
        self._durations.setdefault((tube, Outcome.DONE), Histogram(SECONDS))

    def begin(self, tube: str, attempt: int) -> None:
        """Counts an attempt: which one at its job it is."""
        self.expect(tube)
        self._attempts[tube].add(attempt)

    def end(self, tube: str, outcome: Outcome, seconds: float | None) -> None:
        """Counts how an attempt ended, and how long its handler took; None: none was called."""
        self.expect(tube)
        self._outcomes[tube, outcome] += 1
        if seconds is not None:
            self._durations.setdefault((tube, outcome), Histogram(SECONDS)).add(seconds)

    def text(self, counters: Counters, slots: int) -> str:
        """Returns everything in the text format of Prometheus."""
        return "".join(self._lines(counters, slots))

    def _lines(self, counters: Counters, slots: int) -> Iterator[str]:
        yield from _head("build_info", "gauge", "The version of the worker.")
        yield f'beanpole_worker_build_info{{version="{beanpole.__version__}"}} 1\n'
        yield from _head("job_seconds", "histogram", "How long handlers took, by how the attempt ended.")
        for (tube, outcome), histogram in sorted(self._durations.items()):
            yield from histogram.lines("beanpole_worker_job_seconds", f'tube="{tube}",outcome="{outcome}"')
        yield from _head("job_ends_total", "counter", "Attempts that have ended, by how.")
        for (tube, outcome), count in sorted(self._outcomes.items()):
            yield f'beanpole_worker_job_ends_total{{tube="{tube}",outcome="{outcome}"}} {count}\n'
        yield from _head("job_attempts", "histogram", "Which attempt at its job each was.")
        for tube, histogram in sorted(self._attempts.items()):
            yield from histogram.lines("beanpole_worker_job_attempts", f'tube="{tube}"')
        yield from _single("jobs_reserved_total", "counter", "Jobs reserved.", counters.reserved)
        yield from _single("jobs_failed_total", "counter", "Handlers that raised, or took too long.", counters.failed)
        yield from _single("slots", "gauge", "Jobs that may be worked on at a time.", slots)
        yield from _single("slots_in_use", "gauge", "Jobs that are worked on now.", counters.running)
        yield from _single("connections", "gauge", "Open connections to the server.", counters.connections)


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP beanpole_worker_{name} {text}\n# TYPE beanpole_worker_{name} {kind}\n"


def _single(name: str, kind: str, text: str, value: int) -> Iterator[str]:
    yield from _head(name, kind, text)
    yield f"beanpole_worker_{name} {value}\n"
