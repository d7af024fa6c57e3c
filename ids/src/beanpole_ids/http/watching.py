"""Health: whether the service can give numbers, and if not, why. And lists of rules and of counters in memory.

A check runs a transaction, so that it finds a database that has come back, or a node that was lost, before a request
does. Checks at the same time share a transaction, and its result is valid for a moment. Lists are read in slices:
requests are served in between.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePath
from typing import Any

from beanpole_ids import limits
from beanpole_ids.errors import NoNumberError, StorageError
from beanpole_ids.hand import Totals
from beanpole_ids.http.metrics import SLICE
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Key
from beanpole_ids.service import Service, state_of
from beanpole_ids.storage.threaded import Measured

HEALTH_MS = 1_000  # for which a health check speaks for later ones: many can't load the database


class Health:
    """The health of a service."""

    def __init__(self, service: Service, store: Measured) -> None:
        self.service = service
        self.store = store
        self.monotonic_s = store.monotonic_s
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


class Listing:
    """What there is."""

    def __init__(self, service: Service, totals: Callable[[], Awaitable[Mapping[str, Totals]]]) -> None:
        self.service = service
        self.totals = totals

    async def rules(self) -> list[dict[str, Any]]:
        """Return all rules, by name."""
        totals = await self.totals()
        now_s = self.service.counters.clock_floor_s()
        rules = sorted(self.service.config.rules.items())
        found = []
        for number, (name, rule) in enumerate(rules):
            found.append(describe(rule, totals.get(name, Totals()), now_s))
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        return found

    async def rule(self, name: str) -> dict[str, Any] | None:
        """Return a rule, or None if there is none of the name."""
        totals = await self.totals()
        rule = self.service.config.rules.get(name)
        return describe(rule, totals.get(name, Totals()), self.service.counters.clock_floor_s()) if rule else None

    async def counters(self, name: str, after: str, limit: int) -> dict[str, Any]:
        """Return counters of a rule by name, those behind an application; and the last one, if there are more."""
        rule, begin = name.encode(), after.encode("utf-8", "surrogateescape")
        loaded = self.service.counters.loaded
        apps: list[bytes] = []
        for number, key in enumerate(list(loaded)):
            if key.rule == rule and (key.app > begin or not after):
                apps.append(key.app)
            if number % SLICE == SLICE - 1:
                apps = heapq.nsmallest(limit + 1, apps)
                await asyncio.sleep(0)
        apps = heapq.nsmallest(limit + 1, apps)
        known, found = self.service.config.rules.get(name), []
        for app in apps[:limit]:
            counter = self.service.counters.get(Key(rule, app))
            if counter is not None and counter.durable is not None and known is not None:
                found.append({"app": to_text(app)} | state_of(counter, known))
        return {"rule": name, "counters": found, "next": to_text(apps[limit - 1]) if len(apps) > limit else None}


def to_text(app: bytes) -> str:
    """Return the name of an application as JSON can say it."""
    return app.decode("utf-8", "surrogateescape")


def describe(rule: Rule, totals: Totals, now_s: int) -> dict[str, Any]:
    """Return what there is to say of a rule."""
    shape, cycle = rule.counting.shape, rule.cycle
    whole, end_s = shape.remaining(shape.minimum - 1), cycle.end_s(now_s)
    return {
        "rule": rule.name,
        "kind": rule.kind,
        "source": PurePath(rule.source).name if rule.kind == "lua" else rule.source,
        "cycle": f"{cycle.seconds} s" if cycle.unit == "seconds" else cycle.unit,
        "time_zone": str(cycle.zone),
        "batch": rule.counting.batch,
        "counters": totals.counters,
        "numbers": totals.given,
        "cycle_numbers": whole,
        "remaining": whole if totals.least is None else totals.least,
        "resets_at": cycle.local(end_s).isoformat() if end_s is not None else None,
    }
