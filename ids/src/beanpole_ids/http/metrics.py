"""Metrics for Prometheus: numbers that the service counts anyway, collected for each scrape.

Clients choose the names of applications, so these are no label: the metrics of a rule are the sums over its counters,
and the least that one of them has left. Counters are read in slices, and requests are answered in between.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from beanpole_ids.hand import Totals, add
from beanpole_ids.http.numbers import OUTCOMES
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Clock
from beanpole_ids.service import Service
from beanpole_ids.storage.threaded import BUCKETS_S, Measured

Kind = type[GaugeMetricFamily] | type[CounterMetricFamily]
GAUGE, COUNTER = GaugeMetricFamily, CounterMetricFamily

SLICE = 500
"""Rules or counters that are listed before requests are served again: less than a millisecond."""

COUNTED = 2_000
"""Counters that are added up before that: half a millisecond."""


@dataclass(slots=True)
class Page(Collector):
    """One answer to a scrape."""

    families: list[Metric] = field(default_factory=list)

    def collect(self) -> Iterable[Metric]:
        return self.families

    def gauge(self, name: str, help_text: str, value: float) -> None:
        self.families.append(GaugeMetricFamily("beanpole_ids_" + name, help_text, value=value))

    def counter(self, name: str, help_text: str, value: float) -> None:
        self.families.append(CounterMetricFamily("beanpole_ids_" + name, help_text, value=value))

    def by(
        self,
        kind: Kind,
        name: str,
        help_text: str,
        labels: tuple[str, ...],
        values: Iterable[tuple[tuple[str, ...], float]],
    ) -> None:
        """Add a family with labels."""
        family = kind("beanpole_ids_" + name, help_text, labels=labels)
        for names, value in values:
            family.add_metric(names, value)
        self.families.append(family)


@dataclass(slots=True)
class Metrics:
    """All metrics of a service."""

    service: Service
    store: Measured
    clock: Clock
    epoch: int
    """The lease's: each start of this node raises it."""

    version: str
    unsent_count: Callable[[], int]
    """Replies that could not be sent over UDP."""

    connection_count: Callable[[], int] = int
    """HTTP connections."""

    refused_count: Callable[[], int] = int
    """Those that were cut off for others, or came when there were too many."""

    http: dict[tuple[str, str], int] = field(default_factory=dict)
    """HTTP requests by path, as the API has it, and status."""

    async def page(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        page = Page(list(ProcessCollector(registry=None).collect()))
        self._traffic(page)
        self._store(page)
        totals, refused = await self.totals(), dict(self.service.refused)
        now_s = self.service.counters.clock_floor_s()
        # In a thread: ten thousand rules are a hundred thousand lines, and nobody else must wait for them.
        return await asyncio.to_thread(write, page, self.service.config.rules, totals, refused, now_s)

    async def totals(self) -> dict[str, Totals]:
        """Return the totals of all rules."""
        counters = self.service.counters
        seen = {name.encode(): Totals() for name in self.service.config.rules}
        seen |= {name.encode(): Totals(*counts) for name, counts in counters.unloaded.items()}
        now_s = counters.clock_floor_s()
        # Not its items: a hundred thousand new pairs would wake the garbage collector for tens of milliseconds.
        keys = list(counters.loaded)
        for first in range(0, len(keys), COUNTED):
            add(seen, counters.several(keys[first : first + COUNTED]), now_s)
            await asyncio.sleep(0)
        return {name.decode(): totals for name, totals in seen.items()}

    def _traffic(self, page: Page) -> None:
        service = self.service
        page.counter("repeated_requests", "Requests that got what their first sending got.", service.counts.repeated)
        page.counter("failed_requests", "Requests that failed by an error of ours.", service.counts.failed)
        drops = (((reason,), count) for reason, count in service.dropped.items())
        page.by(COUNTER, "dropped_datagrams", "Datagrams that were not answered.", ("reason",), drops)
        page.counter("unsent_replies", "Replies that could not be sent over UDP.", self.unsent_count())
        page.gauge("waiting_requests", "Requests that wait for a reservation.", service.waiting.count)
        text = "Counters that made room for others, having been unused the longest."
        page.counter("evicted_counters", text, service.counters.evicted_count)
        page.gauge("http_connections", "HTTP connections.", self.connection_count())
        text = "HTTP connections that were cut off for others, or came when there were too many."
        page.counter("http_refused_connections", text, self.refused_count())
        page.by(COUNTER, "http_requests", "HTTP requests.", ("path", "status"), self.http.items())

    def _store(self, page: Page) -> None:
        store, config = self.store, self.service.config
        buckets, sum_up = [], 0
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), store.within, strict=True):
            sum_up += count
            buckets.append((bound, sum_up))
        family = HistogramMetricFamily("beanpole_ids_reservation_seconds", "Transactions that reserved ranges.")
        family.add_metric((), buckets, store.seconds)
        page.families.append(family)
        page.counter("reserved_ranges", "Ranges that were reserved.", store.range_count)
        page.counter("storage_failures", "Calls of the database that failed.", store.failed_count)
        page.gauge("storage_failing", "1 if the last call of the database failed.", bool(store.failure))
        page.counter("clock_back", "Readings of a clock that had gone back.", self.clock.back_count)
        page.gauge("lease_epoch", "Raised by each start of this node.", self.epoch)
        info = (self.version, str(config.offset), str(config.step))
        page.by(GAUGE, "info", "What this is.", ("version", "node", "step"), [(info, 1)])


def write(
    page: Page, rules: Mapping[str, Rule], seen: dict[str, Totals], refused: Mapping[tuple[str, int], int], now_s: int
) -> bytes:
    """Return a page with its rules: what is known of them, requests without a number by rule and code, the time."""

    def each(attribute: str) -> dict[str, int | None]:
        return {name: getattr(totals, attribute) for name, totals in seen.items()}

    outcomes = {(name, OUTCOMES[0]): rule.answered for name, rule in seen.items()}
    outcomes |= {(rule, OUTCOMES[code]): count for (rule, code), count in refused.items()}
    page.by(
        COUNTER,
        "requests",
        "Requests that were answered. The rule is empty if there is none of that name.",
        ("rule", "outcome"),
        outcomes.items(),
    )
    shapes = {name: rule.counting.shape for name, rule in rules.items()}
    numbers = {name: shape.remaining(shape.minimum - 1) for name, shape in shapes.items()}
    ends = {name: rule.cycle.end_s(now_s) for name, rule in rules.items()}
    by_rule: tuple[tuple[Kind, str, str, Mapping[str, int | None]], ...] = (
        (COUNTER, "numbers", "Numbers that were given.", each("given")),
        (GAUGE, "counters", "Applications whose counters are in memory.", each("counters")),
        (GAUGE, "counters_exhausted", "Those of them whose cycle has no number left.", each("exhausted")),
        (GAUGE, "held_numbers", "Reserved and not given: what a crash would lose as a gap.", each("held")),
        (
            GAUGE,
            "remaining_numbers",
            "Numbers left in the cycle to the application that has the fewest.",
            each("least"),
        ),
        (GAUGE, "cycle_numbers", "Numbers that a cycle of this node has in all.", numbers),
        (GAUGE, "cycle_end_timestamp_seconds", "When counting starts again; absent if it never does.", ends),
    )
    for kind, name, text, values in by_rule:
        known = (((rule,), value) for rule, value in values.items() if value is not None)
        page.by(kind, name, text, ("rule",), known)
    return generate_latest(page)
