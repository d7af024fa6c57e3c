"""A store with measurements: how long reservations take, how many fail, and whether the last call did.

Metrics and health checks read them. A reservation costs next to nothing more, and a request nothing.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from beanpole_ids.errors import StorageError
from beanpole_ids.mark import Mark
from beanpole_ids.rules.sequence import Key

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds in seconds by which reservations are counted: from a fast disk to a database that is in trouble."""


class StoreCalls(Protocol):
    """The store as the service calls it."""

    async def load(self, wanted: Mapping[Key, int]) -> dict[Key, Mark]:
        """Return the marks of counters, without those that are new. Values: how many numbers they reserve at a time."""

    async def reserve(self, wanted: list[tuple[Key, Mark]]) -> None:
        """Make ranges durable."""

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
        """Write final marks."""


class Measured:
    """Calls a store and measures it."""

    def __init__(self, store: StoreCalls, monotonic_s: Callable[[], float]) -> None:
        self.store = store
        self.monotonic_s = monotonic_s
        self.within = [0] * (len(BUCKETS_S) + 1)
        """Reservations by the first bound that they did not exceed; the last entry counts those above all bounds."""

        self.seconds = 0.0
        """Seconds of all reservations together."""

        self.range_count = 0
        """Ranges that they made durable: one transaction may have many."""

        self.failed_count = 0
        """Calls that failed."""

        self.failure = ""
        """Why the last call failed; empty if it did not."""

    async def load(self, wanted: Mapping[Key, int]) -> dict[Key, Mark]:
        """Return the marks of counters."""
        with self:
            return await self.store.load(wanted)

    async def reserve(self, wanted: list[tuple[Key, Mark]]) -> None:
        """Make ranges durable."""
        begun_s = self.monotonic_s()
        with self:
            await self.store.reserve(wanted)
        took_s = self.monotonic_s() - begun_s
        self.within[sum(took_s > bound for bound in BUCKETS_S)] += 1
        self.seconds += took_s
        self.range_count += len(wanted)

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
        """Write final marks."""
        with self:
            await self.store.give_back(rests)

    async def check(self) -> None:
        """Check that the node is still ours and a transaction can be committed: reserve nothing.

        Raises StorageError: it is not, or can't.
        """
        with self:
            await self.store.reserve([])

    def __enter__(self) -> None:
        """A call begins."""

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, StorageError):
            self.failed_count += 1
            self.failure = str(error)
        elif kind is None:
            self.failure = ""
