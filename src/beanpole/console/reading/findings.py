"""What the doctor finds, out of the samples that the console takes anyway: no visit of its own, and no wait.

A sample is compared with one of up to a minute before. No job is inspected: checks that need its body or its age say
nothing here, `beanpole doctor` has them all.
"""

from collections import deque
from contextlib import suppress

from beanpole.console.errors import AwayError
from beanpole.console.reading.rules import dead_tubes
from beanpole.console.servers import Server
from beanpole.errors import BeanpoleError
from beanpole.observe.doctor import diagnose
from beanpole.observe.findings import Finding, Visit
from beanpole.observe.sampling import Sample

SECOND_NS = 1_000_000_000

KEPT_FOR_NS = 60 * SECOND_NS
"""How old the sample is at most that the last one is compared with: a burst that was just put is no trouble yet."""

APART_NS = 5 * SECOND_NS
"""Between samples that are kept."""

LATER_NS = 600 * SECOND_NS
"""After so long without a look, nothing is compared: what was then is no news."""

Findings = list[tuple[str, Finding]]
"""The names of checks, and what they have found, the worst first."""


class Doctor:
    """Who looks at one server again and again."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque()
        self._last: Sample | None = None
        self._found: Findings = []

    def look(self, sample: Sample, dead: frozenset[str], own_connections: int) -> Findings:
        """Returns what is found in a sample; the same one is looked at once."""
        if sample is not self._last:
            self._last, self._found = sample, diagnose(self._visit(sample, dead, own_connections))
        return self._found

    def _visit(self, sample: Sample, dead: frozenset[str], own_connections: int) -> Visit:
        if self._kept and sample.at_ns - self._kept[-1].at_ns > LATER_NS:
            self._kept.clear()
        if not self._kept or sample.at_ns - self._kept[-1].at_ns >= APART_NS:
            self._kept.append(sample)
        while len(self._kept) > 2 and sample.at_ns - self._kept[0].at_ns > KEPT_FOR_NS:
            self._kept.popleft()
        before = self._kept[0]
        return Visit(before, sample, dead_tubes=dead, own_connections=own_connections)


async def find(server: Server, sample: Sample) -> Findings:
    """Returns what is wrong with a server that leads; nothing of one that follows: its leader knows."""
    if not sample.leads:
        return []
    dead: frozenset[str] = frozenset()
    with suppress(AwayError, BeanpoleError, OSError):
        client = await server.client()
        if "list-rules" in await client.features():
            dead = frozenset(dead_tubes(await client.list_rules()))
    return server.kept(Doctor).look(sample, dead, server.own_connections)
