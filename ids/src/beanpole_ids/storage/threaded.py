"""A store in a thread of its own, so that requests are answered while it waits for a disk or a network.

A call that takes too long is abandoned, and until it has ended every other is refused at once. One thread runs all
calls, so an abandoned call ends before the next one starts.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from beanpole_ids import limits
from beanpole_ids.errors import LeaseLostError, StorageError
from beanpole_ids.mark import Mark
from beanpole_ids.rules.sequence import Key
from beanpole_ids.storage.store import Store


class ThreadedStore:
    """The store as the service calls it."""

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
        """Return the marks of counters."""
        marks: dict[Key, Mark] = await self._call(self.store.load, wanted)
        return marks

    async def reserve(self, wanted: list[tuple[Key, Mark]]) -> None:
        """Make ranges durable."""
        await self._call(self.store.reserve, wanted)

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
        """Write final marks."""
        await self._call(self.store.give_back, rests)

    async def close(self) -> None:
        """Close the store after the call that is still running."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.store.close)
        self._thread.shutdown()
