"""How long jobs take, in the reference model: every time is kept, and all are counted again for each reply."""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from bisect import bisect_left
from collections import defaultdict
from typing import Any

from tests.model.bookkeeping import Bookkeeping, Thing, listed

STEPS = [factor * 10**power // 10 for power in range(2, 11) for factor in (10, 25, 50)]
BOUNDS = {
    "job": [*STEPS, 86_400_000_000],
    "turn": [10, 25, 50, *(step for step in STEPS if step <= 10_000_000)],
    "commands": [2**power for power in range(17)],
}
UNITS = {
    "job-ready": "job",
    "job-held": "job",
    "job-late": "job",
    "reserve-wait": "job",
    "turn": "turn",
    "turn-commands": "commands",
    "sync": "turn",
    "schedule-late": "job",
}


def histogram(name: str, times: list[int]) -> str:
    """A line of numbers that were counted."""
    bounds = BOUNDS[UNITS[name]]
    places = [bisect_left(bounds, each) for each in times]
    return " ".join(map(str, [len(times), sum(times), *(places.count(place) for place in range(len(bounds) + 1))]))


class Times(Bookkeeping):
    """What is timed of jobs. What a server takes itself is nothing here."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.times: dict[str, list[int]] = defaultdict(list)
        self.tube_times: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))

    def note_wait(self, since: int) -> None:
        """A reserve has got its job."""
        self.times["reserve-wait"].append((self.now - since) // 1000)

    def note(self, job: Thing, state: str) -> None:
        """A job goes from its state into another one. It is still in the tube in which it came into its state."""
        names = {"reserved": ["job-held"], "ready": ["job-ready", *["job-late"] * job.was_due]}
        if job.state == "reserved" or (job.state == "ready" and state == "reserved"):
            for name in names[job.state]:
                self.times[name].append((self.now - job.since) // 1000)
                self.tube_times[job.home][name].append((self.now - job.since) // 1000)

    def forget_tubes(self) -> None:
        super().forget_tubes()
        for tube in set(self.tube_times) - set(self.tubes):
            del self.tube_times[tube]

    def stats_histograms(self, session: Thing, options: dict[str, Any]) -> str:
        names = sorted(tube for tube in self.tubes if tube > options.get("after", ""))[: options.get("limit", 1000)]
        bounds = ", ".join(f'"{unit}": {each}' for unit, each in BOUNDS.items())
        lines = [f"bounds: {{{bounds}}}", *(f"{name}: {histogram(name, self.times[name])}" for name in UNITS)]
        lines.append("tubes:" if names else "tubes: []")
        for tube in names:
            timed = self.tube_times[tube]
            lines += [
                f"- name: {tube}",
                *(f"  {name}: {histogram(name, timed[name])}" for name in UNITS if timed[name]),
            ]
        return listed("---\n" + "".join(f"{line}\n" for line in lines))
