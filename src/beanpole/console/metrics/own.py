"""What the console's own process costs, without labels: `process_...`, as prometheus-client collects it."""

from collections.abc import Iterator

from prometheus_client import ProcessCollector

from beanpole.console.metrics.exposition import head, line
from beanpole.console.metrics.families import Kind

COLLECTOR = ProcessCollector(registry=None)


def own_lines(*, openmetrics: bool) -> Iterator[str]:
    """The lines of the process."""
    for metric in COLLECTOR.collect():
        yield head(metric.name, Kind(metric.type), metric.documentation, openmetrics=openmetrics)
        for sample in metric.samples:
            yield line(sample.name, (), sample.value)
