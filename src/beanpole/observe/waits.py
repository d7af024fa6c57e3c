"""How long jobs were ready before somebody reserved them, from the histograms that a server keeps.

A histogram counts since the server started; what happened between two samples is the difference of its counts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from beanpole.client import Histogram

MICROSECONDS = 1_000_000
"""In a second."""


class Waits(NamedTuple):
    """How long jobs were ready that were reserved between two samples, in seconds."""

    half_s: float
    """Half of them at the most."""
    most_s: float
    """99 % of them at the most."""

    @classmethod
    def between(cls, before: "Histogram | None", after: "Histogram", bounds: Sequence[int]) -> Self | None:
        """What was counted after `before`; None: nothing. One that fell is another tube's, and began at 0."""
        counts = list(after.counts)
        if before is not None and before.count <= after.count:
            counts = [now - then for now, then in zip(counts, before.counts, strict=True)]
        if min(counts, default=0) < 0 or not any(counts):
            return None
        return cls(quantile(bounds, counts, 0.5) / MICROSECONDS, quantile(bounds, counts, 0.99) / MICROSECONDS)


def quantile(bounds: Sequence[int], counts: Sequence[int], share: float) -> float:
    """The value that a share of all values does not exceed; between two bounds they count as evenly spread.

    The last count has no upper bound: there it is the highest bound.
    """
    rank, below, lower = share * sum(counts), 0, 0
    for bound, number in zip(bounds, counts, strict=False):
        if number and below + number >= rank:
            return lower + (bound - lower) * max(rank - below, 0) / number
        below, lower = below + number, bound
    return float(lower)
