"""What each expression of the board and of the alerts must give after the load: the table that the test goes through.

A rate is over a time that includes the whole load; Prometheus extrapolates it to the ends of that time, by a scrape or
two of some ten: hence `NEARLY`. The numbers themselves are compared elsewhere.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from beanpole import Stats
from tests.ops.load import (
    BURIED,
    DEAD,
    ENDS,
    FIRED,
    FULL,
    HANGING,
    HELD,
    IDLE,
    LATE,
    MAIL,
    MERGED,
    MOVED,
    OLD,
    ORPHANS,
    PAUSED,
    POISON,
    PUT,
    READY,
    REFUSED,
    SERVER,
    TUBES,
    TWINS,
    Spans,
)
from tests.ops.prometheus import Values

PLAIN, CLUSTER = "plain", ("node-a", "node-b")
EPOCH = 3
INBOX_AGE_S = 90
LAGS = {"node-a": 0, "node-b": 70_000_000}
FAILURES = ("buried", "timed_out", "lost", "dead", "expired")
OPENED = 5
"""Connections that the load opens after its beginning."""

NEARLY = 0.25
BOUNDS = [unit * step / 10 for unit in (0.001, 0.01, 0.1, 1, 10, 100) for step in (1, 2.5, 5)]
"""Bounds of the histograms of jobs, in seconds, as far as a test's times go."""

WAITS = {
    MAIL: READY,
    ORPHANS: PUT[ORPHANS],
    HANGING: PUT[HANGING],
    DEAD: PUT[POISON],
    FULL: PUT[FULL],
    TWINS: PUT[TWINS],
    PAUSED: PUT[MOVED],
    FIRED: PUT[FIRED],
}
"""Jobs that are ready at the end."""

DELETED = ENDS[MAIL, "deleted"] + ENDS[LATE, "deleted"]


@dataclass(frozen=True)
class Run:
    """When the expressions are evaluated, and what had been measured until then."""

    at_s: float
    """The moment, as a Unix time."""
    window_s: float
    """What rates are over."""
    stats: Stats
    """What the server says itself."""
    orphans_s: float
    """For how long the orphans had been ready when the last sample was taken, at the most."""
    spans: Spans


Check = Callable[[Run, Values], None]


def by(label: str, values: Values) -> dict[str, float]:
    """The values by a label, or by several with commas between, which tell them apart."""
    found = {",".join(labels.get(each, "") for each in label.split(",")): value for labels, value in values}
    assert len(found) == len(values), f"{label} does not tell these apart: {values}"
    return found


def one(expected: float) -> Check:
    """One value, exactly."""

    def check(_: Run, values: Values) -> None:
        assert [value for _, value in values] == [expected]

    return check


def rate(count: float) -> Check:
    """One value: so many in the whole time."""

    def check(run: Run, values: Values) -> None:
        ((_, value),) = values
        assert value * run.window_s == pytest.approx(count, rel=NEARLY, abs=0.5)

    return check


def rates(label: str, counts: Mapping[str, float], *, only: bool = False) -> Check:
    """A value for each of these labels: so many in the whole time. What is not named is of no interest, or nothing."""

    def check(run: Run, values: Values) -> None:
        found = {name: value * run.window_s for name, value in by(label, values).items()}
        assert {name: found[name] for name in counts} == pytest.approx(counts, rel=NEARLY, abs=0.5)
        assert not only or all(found[name] == 0 for name in found.keys() - counts.keys())

    return check


def exactly(label: str, expected: Mapping[str, float]) -> Check:
    """A value for each of these labels; what is not named is 0."""

    def check(_: Run, values: Values) -> None:
        found = by(label, values)
        assert {name: value for name, value in found.items() if value} == {
            name: value for name, value in expected.items() if value
        }
        assert expected.keys() <= found.keys()

    return check


def has(label: str, expected: Mapping[str, float]) -> Check:
    """A value for each of these labels, exactly; others may be there."""

    def check(_: Run, values: Values) -> None:
        found = by(label, values)
        assert {name: found.get(name) for name in expected} == expected

    return check


def between(lowest: float, highest: float, label: str = "", name: str = "") -> Check:
    """One value, or that of a label, within limits."""

    def check(_: Run, values: Values) -> None:
        value = by(label, values)[name]
        assert lowest <= value <= highest, value

    return check


def within(low: float, high: float) -> tuple[float, float]:
    """The bounds between which a quantile of times is that are all from `low` to `high`."""
    below, above = bisect_left(BOUNDS, low), bisect_left(BOUNDS, high)
    return BOUNDS[below - 1] if below else 0.0, BOUNDS[above]


def quantile(which: str, *, label: str = "", name: str = "", longest: float = 0) -> Check:
    """A quantile of times that the load has measured."""

    def check(run: Run, values: Values) -> None:
        low, high = getattr(run.spans, which)
        lowest, highest = within(low, max(high, longest))
        value = by(label, values)[name]
        assert lowest <= value <= highest, f"{value} is not between {lowest} and {highest}"

    return check


def oldest(label: str = "", name: str = "") -> Check:
    """The age of the orphans, which is exact to an eighth, of a sample that may be some seconds old."""

    def check(run: Run, values: Values) -> None:
        value = by(label, values)[name]
        assert 0.8 * run.orphans_s - 6 <= value <= 1.2 * run.orphans_s + 2

    return check


def spread(_: Run, values: Values) -> None:
    """The heat map: most jobs waited as long as the load let them."""
    found = by("le", values)
    everything = found["+Inf"]
    assert everything == pytest.approx(PUT[MAIL] + PUT[LATE], rel=NEARLY)
    assert found["0.1"] < 0.1 * everything


def nearly(label: str, counts: Mapping[str, float]) -> Check:
    """A value for each of these labels and no other: as many as Prometheus extrapolates."""

    def check(_: Run, values: Values) -> None:
        assert by(label, values) == pytest.approx(counts, rel=NEARLY, abs=0.5)

    return check


def free_space(run: Run, values: Values) -> None:
    """What the disk has left, which changes."""
    assert by("server", values)[SERVER] == pytest.approx(int(run.stats["log-free-bytes"]), rel=0.2)


def processor(run: Run, values: Values) -> None:
    """No more processor time than the server has used since its start."""
    found = by("server,mode", values)
    used = run.stats.rusage_utime + run.stats.rusage_stime
    assert 0 < sum(found[f"{SERVER},{mode}"] for mode in ("user", "system")) * run.window_s < 1.5 * used


def log(run: Run, values: Values) -> None:
    """The bytes that stats says; what the disk has left changes."""
    found = by("server,kind", values)
    assert found[f"{SERVER},files"] == run.stats["log-bytes"]
    assert found[f"{SERVER},live"] == run.stats["log-live-bytes"]
    assert found[f"{SERVER},free"] == pytest.approx(int(run.stats["log-free-bytes"]), rel=0.2)


def uptime(run: Run, values: Values) -> None:
    assert run.stats.uptime - 10 <= by("server", values)[SERVER] <= run.stats.uptime


def versions(run: Run, values: Values) -> None:
    assert by("server,program,version", values)[f"{SERVER},beanpole,{run.stats['beanpole-version']}"] == 1


TIMES: Sequence[Check] = [between(0, 10)] * 3
"""Quantiles of times that nobody knows."""

BOARD: dict[str, Sequence[Check]] = {
    "Servers": [exactly("server", {SERVER: 1, **dict.fromkeys(CLUSTER, 1)})],
    "Ready jobs": [one(sum(WAITS.values()))],
    "The oldest has been ready for": [oldest()],
    "99 % of jobs wait less than": [quantile("ready")],
    "Jobs done a second": [rate(DELETED)],
    "Buried jobs": [one(BURIED)],
    "Wait from ready to reserved": [quantile("ready")] * 3,
    "How many jobs waited how long": [spread],
    "Wait, p99 by tube": [quantile("ready", label="tube", name=MAIL)],
    "How late delayed jobs start": [quantile("late")] * 3,
    "Oldest ready job by tube": [oldest("tube", ORPHANS)],
    "How long workers wait for a job": TIMES,
    "Tubes": [
        oldest("tube", ORPHANS),
        exactly("tube", WAITS),
        exactly("tube", {MAIL: HELD}),
        exactly("tube", {MAIL: BURIED}),
        rates("tube", {tube: float(PUT.get(tube, 0)) for tube in TUBES}),
        rates("tube", {MAIL: ENDS[MAIL, "deleted"], LATE: ENDS[LATE, "deleted"], ORPHANS: 0}),
        has("tube", {ORPHANS: 0, PAUSED: 1, IDLE: 2}),
    ],
    "Ready jobs by tube": [has("tube", {tube: WAITS[tube] for tube in (MAIL, ORPHANS, PAUSED, HANGING)})],
    "Jobs by state": [
        exactly("state", {"ready": sum(WAITS.values()), "reserved": HELD, "delayed": 0, "buried": BURIED})
    ],
    "Growth of ready jobs": [between(0.01, 25, "tube", ORPHANS)],
    "Jobs that are ready and nobody watches": [exactly("tube", {ORPHANS: PUT[ORPHANS]})],
    "Puts a second": [rates("tube", {MAIL: PUT[MAIL], LATE: PUT[LATE], ORPHANS: PUT[ORPHANS]})],
    "How jobs end, a second": [
        rates("outcome", {name: sum(count for (_, end), count in ENDS.items() if end == name) for _, name in ENDS})
    ],
    "Commands a second": [rates("command", {"bury": BURIED, "release": READY})],
    "Puts that a rule refused or merged, a second": [rate(REFUSED), rate(MERGED)],
    "Failures a second by tube": [
        rates(
            "tube,outcome",
            {f"{tube},{end}": count for (tube, end), count in ENDS.items() if end in FAILURES},
            only=True,
        )
    ],
    "Share of jobs that fail": [has("tube", {HANGING: 1, LATE: 0})],
    "Buried jobs by tube": [has("tube", {MAIL: BURIED, LATE: 0})],
    "How long workers hold a job": [quantile("held", longest=2.5)] * 3,
    "Held, p99 by tube": [quantile("held", label="tube", name=MAIL)],
    "Jobs in work at a time": [between(0.01, 100, "tube", MAIL)],
    "Connections": [has("kind", {"waiting": 1})],
    "Workers that wait, by tube": [has("tube", {IDLE: 1, MAIL: 0})],
    "Paused tubes": [exactly("tube", {PAUSED: 1})],
    "Turn": TIMES,
    "Commands a turn": [between(0.01, 10_000)] * 3,
    "Sync": TIMES,
    "CPU": [processor],
    "Log": [log],
    "Connections opened a second": [rates("server", {SERVER: OPENED})],
    "Number of tubes": [has("server", {SERVER: len(TUBES) + 1})],
    "Up for": [uptime],
    "Versions": [versions],
    "Times of schedules, a second": [rates("outcome", {"fired": 1, "skipped": 0, "missed": 0})],
    "How late schedules put their jobs": TIMES,
    "Number of schedules": [exactly("kind", {"all": 2, "paused": 1, "due": 0})],
    "Who leads": [
        has("server,role", {"node-a,leader": 1, "node-a,follower": 0, "node-b,leader": 0, "node-b,follower": 1})
    ],
    "Epoch": [exactly("server", dict.fromkeys(CLUSTER, EPOCH))],
    "Lag": [exactly("server", LAGS)],
}


def threshold(expression: str, new: str) -> str:
    """An expression of an alert with another threshold at its end, so that it says what it looks at."""
    return re.sub(r"(<|>|==) [\de.]+$", new, expression)


ALERTS: dict[str, tuple[str, Check]] = {
    "BeanpoleJobTooOld": ("> -1", oldest("tube", ORPHANS)),
    "BeanpoleJobsLate": ("> -1", quantile("late", label="tube", name=LATE)),
    "BeanpoleNoWorkers": ("", exactly("tube", {ORPHANS: PUT[ORPHANS]})),
    "BeanpoleBuriedGrowing": ("> 0", nearly("tube", {MAIL: BURIED})),
    "BeanpoleJobsDying": ("> 0", nearly("tube,outcome", {f"{POISON},dead": 4, f"{OLD},expired": 3})),
    "BeanpoleBreakerClosed": ("> -1", has("tube", {MAIL: 0})),
    "BeanpoleTimeouts": ("> 0.05", nearly("tube", {HANGING: 1})),
    "BeanpolePutsRefused": ("> 0", nearly("tube", {FULL: REFUSED})),
    "BeanpoleSchedulesDue": ("> -1", has("server", {SERVER: 0})),
    "BeanpoleSchedulesMissed": ("> -1", has("server", {SERVER: 0})),
    "BeanpoleNotScraped": ("== 1", exactly("job", {"beanpole": 1, "beanpole-cluster": 1, "beanpole-routers": 1})),
    "BeanpoleDown": ("== 1", exactly("server", {SERVER: 1, PLAIN: 1, **dict.fromkeys(CLUSTER, 1)})),
    "BeanpoleRestarting": ("> -1", has("server", {SERVER: 0, PLAIN: 0})),
    "BeanpoleDraining": ("== 0", has("server", {SERVER: 0, PLAIN: 0})),
    "BeanpoleSlowTurns": ("> -1", between(0, 10, "server", SERVER)),
    "BeanpoleSlowSyncs": ("> -1", between(0, 10, "server", SERVER)),
    "BeanpoleLogNearlyFull": ("< 1e18", free_space),
    "BeanpoleLogFull": ("== 0", has("server", {SERVER: 0})),
    "BeanpoleRouterWithoutLink": ("", exactly("job", {"beanpole-routers": 0})),
    "BeanpoleClusterWithoutLeader": ("== 1", exactly("job", {"beanpole-cluster": 1})),
    "BeanpoleInboxWaits": ("> 30", has("server", {"node-a": INBOX_AGE_S})),
    "BeanpoleClusterLag": ("> 64e6", has("server", {"node-b": LAGS["node-b"]})),
}
"""Of each alert: what stands in place of its threshold, if anything, so that it says what the load did; and that."""
