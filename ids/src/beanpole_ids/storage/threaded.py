"""The store as the service calls it: in a thread, so that requests are answered while it waits, and measured.

A call that takes too long is abandoned, and until it has ended every other is refused at once. One thread runs all
calls, so an abandoned call ends before the next one starts.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from beanpole_ids import limits
from beanpole_ids.errors import LeaseLostError, StorageError
from beanpole_ids.hand import Mark
from beanpole_ids.rules.sequence import Key
from beanpole_ids.storage.store import Store

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds in seconds by which reservations are counted: from a fast disk to a database that is in trouble."""


class StoreCalls(Protocol):
    """What the service calls."""

    async def load(self, wanted: Mapping[Key, int]) -> dict[Key, Mark]:
        """Return the marks of counters, without those that are new. Values: how many numbers they reserve at a time."""

    async def reserve(self, wanted: list[tuple[Key, Mark]]) -> None:
        """Make ranges durable."""

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
        """Write final marks."""


class ThreadedStore:
    """A store in a thread."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._thread = ThreadPoolExecutor(1, "ids-store")
        self._abandoned: asyncio.Future[Any] | None = None

    async def _call(self, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - what it returns
        if self._abandoned is not None and not self._abandoned.done():
            raise StorageError("storage: it does not answer")
        call = asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
        done, _ = await asyncio.wait({call}, timeout=limits.STORE_TIMEOUT_S)
        if not done:
            call.add_done_callback(asyncio.Future.exception)  # its result is not used
            self._abandoned = call
            raise StorageError(f"storage: no answer in {limits.STORE_TIMEOUT_S} s")
        return call.result()

    async def open(self) -> None:
        """Open the store, which limits its time itself."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.store.open)

    async def beat(self) -> None:
        """Check regularly that the node is still ours; this also keeps the connection alive.

        Raises LeaseLostError: it is not.
        """
        while True:
            await asyncio.sleep(limits.STORE_BEAT_S)
            try:
                await self._call(self.store.beat)
            except LeaseLostError:
                raise
            except StorageError:
                continue  # the next reservation will report it

    async def load(self, wanted: Mapping[Key, int]) -> dict[Key, Mark]:
        marks: dict[Key, Mark] = await self._call(self.store.load, wanted)
        return marks

    async def reserve(self, wanted: list[tuple[Key, Mark]]) -> None:
        await self._call(self.store.reserve, wanted)

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
        await self._call(self.store.give_back, rests)

    async def close(self) -> None:
        """Close the store after the call that is still running."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.store.close)
        self._thread.shutdown()


class Measured:
    """Calls a store and measures it, for metrics and health checks. A request costs nothing more."""

    def __init__(self, store: StoreCalls, monotonic_s: Callable[[], float]) -> None:
        self.store = store
        self.monotonic_s = monotonic_s
        self.within = [0] * (len(BUCKETS_S) + 1)
        """Reservations by the first bound that they did not exceed; the last entry counts those above all bounds."""

        self.seconds = 0.0  # of all reservations together
        self.range_count = 0  # ranges that they made durable: one transaction may have many
        self.failed_count = 0  # calls that failed
        self.failure = ""  # why the last call failed; empty if it did not

    async def load(self, wanted: Mapping[Key, int]) -> dict[Key, Mark]:
        with self:
            return await self.store.load(wanted)

    async def reserve(self, wanted: list[tuple[Key, Mark]]) -> None:
        begun_s = self.monotonic_s()
        with self:
            await self.store.reserve(wanted)
        took_s = self.monotonic_s() - begun_s
        self.within[sum(took_s > bound for bound in BUCKETS_S)] += 1
        self.seconds += took_s
        self.range_count += len(wanted)

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
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
