"""Health: whether the service can give numbers, and if not, why.

A check runs a transaction, so that it finds a database that has come back, or a node that was lost, before a request
does. Checks at the same time share a transaction, and its result is valid for a moment.
"""

import asyncio
from collections.abc import Callable

from beanpole_ids import limits
from beanpole_ids.errors import NoNumberError, StorageError
from beanpole_ids.service import Service
from beanpole_ids.storage.measured import Measured

HEALTH_MS = 1_000  # for which a health check speaks for later ones: many can't load the database


class Health:
    """The health of a service."""

    def __init__(self, service: Service, store: Measured, monotonic_s: Callable[[], float]) -> None:
        self.service = service
        self.store = store
        self.monotonic_s = monotonic_s
        self._check: asyncio.Task[None] | None = None
        self._valid_until_s = -1.0

    async def reasons(self) -> list[str]:
        """Return why no numbers can be given; an empty list if they can."""
        if self.service.counters.stopping:
            return ["stopping"]
        found = []
        try:
            self.service.now_s()
        except NoNumberError as error:
            found.append(str(error))
        if not await self._answered():
            found.append("storage: it does not answer")
        elif self.store.failure:
            found.append(self.store.failure)
        return found

    def warnings(self) -> list[str]:
        """Return what is going to cost time, though numbers can be given."""
        counters, found = self.service.counters, []
        if len(counters.loaded) >= counters.most:
            found.append(f"memory: it has room for {counters.most} counters, and has as many; others take their places")
        if self.monotonic_s() - counters.thrashed_at_s < limits.THRASH_S:
            found.append(
                f"memory: more than {counters.most} counters are in use: one that was used in the last "
                f"{limits.THRASH_S} s had to make room, and its next request waits for the database"
            )
        return found

    async def _answered(self) -> bool:
        """Return whether the store has answered, now or a moment ago."""
        if self._check is None:
            if self.monotonic_s() < self._valid_until_s:
                return True
            self._check = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait({self._check}, timeout=HEALTH_MS / 1000)
        return bool(done)

    async def _ask(self) -> None:
        try:
            await self.store.check()
        except StorageError:
            pass  # the store has recorded it
        finally:
            self._check = None
            self._valid_until_s = self.monotonic_s() + HEALTH_MS / 1000
