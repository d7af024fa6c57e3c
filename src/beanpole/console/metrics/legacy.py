"""The metrics that messagebird/beanstalkd_exporter has, for boards that were made for it: ``--legacy-metrics``.

Each is a gauge named after the server's key; the labels are `instance`, the server's address, and `tube`. What the
exporter makes of keys that are no numbers is left out: it says nothing.
"""

from collections.abc import Iterator, Sequence

from beanpole.console.metrics.exposition import Scraped, escaped, head, line
from beanpole.console.metrics.families import Kind, number
from beanpole.console.metrics.tubes import number as count

SERVER_KEYS = (
    "current-jobs-urgent",
    "current-jobs-ready",
    "current-jobs-reserved",
    "current-jobs-delayed",
    "current-jobs-buried",
    "cmd-put",
    "cmd-peek",
    "cmd-peek-ready",
    "cmd-peek-delayed",
    "cmd-peek-buried",
    "cmd-reserve",
    "cmd-reserve-with-timeout",
    "cmd-touch",
    "cmd-use",
    "cmd-watch",
    "cmd-ignore",
    "cmd-delete",
    "cmd-release",
    "cmd-bury",
    "cmd-kick",
    "cmd-stats",
    "cmd-stats-job",
    "cmd-stats-tube",
    "cmd-list-tubes",
    "cmd-list-tube-used",
    "cmd-list-tubes-watched",
    "cmd-pause-tube",
    "job-timeouts",
    "total-jobs",
    "max-job-size",
    "current-tubes",
    "current-connections",
    "current-producers",
    "current-workers",
    "current-waiting",
    "total-connections",
    "rusage-utime",
    "rusage-stime",
    "uptime",
    "binlog-oldest-index",
    "binlog-current-index",
    "binlog-max-size",
    "binlog-records-written",
    "binlog-records-migrated",
    "draining",
)
"""Keys of `stats`, each a metric of the same name with underscores."""

TUBE_KEYS = (
    "current-jobs-urgent",
    "current-jobs-ready",
    "current-jobs-reserved",
    "current-jobs-delayed",
    "current-jobs-buried",
    "total-jobs",
    "current-using",
    "current-waiting",
    "current-watching",
    "pause",
    "cmd-delete",
    "cmd-pause-tube",
    "pause-time-left",
)
"""Keys of `stats-tube`, each a metric with `tube_` before its name."""


def legacy_lines(servers: Sequence[Scraped], *, openmetrics: bool) -> Iterator[str]:
    """The lines of all these metrics."""
    there = [(server, server.sample) for server in servers if server.sample is not None and server.sample.leads]
    for key in SERVER_KEYS:
        name = key.replace("-", "_")
        values = [(server, number(sample.stats, key)) for server, sample in there]
        if values:
            yield head(name, Kind.GAUGE, f"{key} in stats.", openmetrics=openmetrics)
            yield from (line(name, (instance(server),), value) for server, value in values if value is not None)
    for key in TUBE_KEYS:
        name = "tube_" + key.replace("-", "_")
        if there:
            yield head(name, Kind.GAUGE, f"{key} in stats-tube.", openmetrics=openmetrics)
        for server, sample in there:
            for tube in sample.named.values():
                yield line(name, (instance(server), f'tube="{escaped(tube.name)}"'), count(tube.raw, key))


def instance(server: Scraped) -> str:
    """The label `instance` as text."""
    return f'instance="{escaped(server.address)}"'
