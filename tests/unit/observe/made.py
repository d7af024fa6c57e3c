"""Made-up servers, tubes and jobs: what a test does not name is as quiet as can be."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from beanpole.client.stats import Stats, StatsJob, StatsTube
from beanpole.observe.findings import Visit
from beanpole.observe.sampling import Inspected, Sample
from beanpole.observe.top_sampler import CommandRates, Row, TopSample

SECOND_NS = 1_000_000_000

SERVER = {
    "id": "a",
    "version": '"1.13"',
    "uptime": 90_061,
    "pid": 7,
    "hostname": '"host"',
    "max-job-size": 65535,
    "binlog-max-size": 10_485_760,
}
OURS = {"beanpole-version": "0.1.0", "durability": "always"}
CLUSTER: dict[str, Any] = {
    "cluster_role": "leader",
    "cluster_epoch": 7,
    "cluster_lag": 0,
    "binlog_current_index": 0,
    "binlog_oldest_index": 0,
}


def yaml(values: dict[str, object]) -> bytes:
    """What a server would send."""
    lines = [f"{key.replace('_', '-')}: {value}\n" for key, value in values.items()]
    return ("---\n" + "".join(lines)).encode()


def server(*, ours: bool = True, **values: object) -> Stats:
    """A server, by default Beanpole with a log."""
    base: dict[str, object] = {**SERVER, "binlog_current_index": 3, "binlog_oldest_index": 2}
    return Stats.parse(yaml({**base, **(OURS if ours else {}), **values}))


def tube(name: str, **values: object) -> StatsTube:
    """A tube."""
    return StatsTube.parse(yaml({"name": name, **values}))


def job(**values: object) -> StatsJob:
    """A job."""
    return StatsJob.parse(yaml({"id": 1, "state": "ready", "ttr": 60, **values}))


def row(name: str, **values: object) -> Row:
    """A row of a tube that was asked twice."""
    rates = {key: values.pop(key) for key in ("put_rate", "delete_rate", "next_job", "waits", "runs") if key in values}
    return Row(tube(name, **values), 0, **rates)  # type: ignore[arg-type]


def sample(*rows: Row, stats: Stats | None = None, at_s: float = 0) -> Sample:
    """A sample with the tubes of some rows."""
    return Sample(int(at_s * SECOND_NS), stats or server(), {each.stats.name: each.stats for each in rows})


def top_sample(*rows: Row, stats: Stats | None = None, rates: CommandRates | None = None) -> TopSample:
    """A sample as `top` shows it."""
    rates = rates or CommandRates(10.0, 20.0, 30.0, 0.0)
    return TopSample(0, stats or server(), rates, {each.stats.name: each for each in rows}, len(rows))


def visit(
    before: Sample | None = None,
    after: Sample | None = None,
    *,
    ready: dict[str, Inspected] | None = None,
    buried: dict[str, Inspected] | None = None,
    held: dict[str, float] | None = None,
    files_max: int | None = None,
    dead_tubes: Iterable[str] = (),
) -> Visit:
    """A visit of two seconds; what is not given is a healthy server."""
    after = replace(after or sample(at_s=2), dead_tubes=dict.fromkeys(dead_tubes, ("*",)))
    return Visit(before or sample(stats=after.stats), after, ready or {}, buried or {}, held or {}, files_max)
