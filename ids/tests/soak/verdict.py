"""What all clients got together: no number may be there twice, and every gap must have a reason."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.soak.client import Got
from tests.soak.world import BATCHES, FLAKES

COUNTERS = 10**8
"""Numbers end with a counter of eight digits; what is before is the cycle."""

STEP = 2

REQUEST_MAX = 1_000
"""Numbers that a request wants at most."""


def lost_at_most(batch: int) -> int:
    """Numbers of a counter that one crash may lose: what is left when a batch is reserved, and that batch.

    It is reserved at half a batch, or when less is left than the largest request wants.
    """
    return max(batch // 2, REQUEST_MAX - 1 if batch > 1 else 0) + batch + 1


@dataclass
class Verdict:
    """What was found."""

    numbers: int = 0
    duplicates: list[str] = field(default_factory=list)
    gaps: dict[tuple[str, str, int], list[int]] = field(default_factory=dict)
    """Sizes of gaps by rule, application and node."""

    @property
    def gap_count(self) -> int:
        """How many gaps there are."""
        return sum(map(len, self.gaps.values()))

    @property
    def missing(self) -> int:
        """Numbers that nobody got, between others that somebody got."""
        return sum(map(sum, self.gaps.values()))

    def unexplained(self, losses: list[int]) -> list[str]:
        """Complaints about gaps that crashes can't explain; `losses` are the crashes of each node."""
        found = []
        for (rule, app, node), sizes in self.gaps.items():
            most = lost_at_most(BATCHES[rule])
            if len(sizes) > losses[node] or sum(sizes) > losses[node] * most:
                found.append(
                    f"rule {rule}, application {app}, node {node}: {len(sizes)} gaps of together {sum(sizes)} numbers, "
                    f"and {losses[node]} crashes of at most {most}"
                )
        return found


def judge(all_got: Iterable[Got]) -> Verdict:
    """Counts numbers, duplicates and gaps."""
    together: dict[tuple[str, str], array[int]] = {}
    for got in all_got:
        for key, numbers in got.items():
            # Those of 64 bits are unique over all applications.
            together.setdefault((FLAKES, "") if key[0] == FLAKES else key, array("Q")).extend(numbers)
    verdict = Verdict()
    for (rule, app), numbers in together.items():
        verdict.numbers += len(numbers)
        before = -1
        last: dict[tuple[int, int], int] = {}
        for number in sorted(numbers):
            if number == before:
                verdict.duplicates.append(f"{rule} {app} {number}")
            before = number
            if rule == FLAKES:
                continue
            place = (number // COUNTERS, number % STEP)
            if place in last and (missing := (number - last[place]) // STEP - 1) > 0:
                verdict.gaps.setdefault((rule, app, place[1]), []).append(missing)
            last[place] = number
    return verdict
