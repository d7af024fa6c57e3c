"""Limits: how many numbers applications get of rules, a second (`Rate`) and a cycle (`Quota`).

They are counted by this process, in memory: a restart begins again, and each node counts for itself. What must hold
whatever crashes is the maximum of a rule, for its counter is durable.

A request is checked before its numbers are made and counted when they are, in one go, so that none is counted that is
refused. Everything here takes a bounded time and bounded memory, whatever names clients choose.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from beanpole.ids import limits
from beanpole.ids.errors import LimitError
from beanpole.ids.request import Request
from beanpole.ids.rules.limit import EACH, Limit
from beanpole.ids.waiting import network_of

Name = tuple[str, str]
"""Whose numbers are counted together: a rule and an application, each "" where they are not told apart."""


TOLERANCE_S = 1e-6
"""Seconds by which a bucket may be fuller than it is: more than sums of a clock's readings are wrong by."""


class Tally(Protocol):
    """Counts numbers by name."""

    def check(self, name: Name, count: int) -> None:
        """Return if so many numbers may be given.

        Raises LimitError: they may not.
        """

    def spend(self, name: Name, count: int) -> None:
        """Count numbers that were given."""


class Rate:
    """Numbers a second: a bucket that holds `burst` of them, and is refilled at the rate.

    For each name there is the moment when its bucket is full again (the generic cell rate algorithm). A full bucket is
    as good as none: names are kept in two tables, and each time that a bucket needs to be filled the older is dropped.
    """

    def __init__(self, limit: Limit, monotonic_s: Callable[[], float]) -> None:
        self.limit = limit
        self.monotonic_s = monotonic_s
        self.fill_s = limit.burst / limit.rate
        self._full_at_s: dict[Name, float] = {}
        self._older: dict[Name, float] = {}
        self._drop_at_s = monotonic_s() + self.fill_s

    def _full(self, name: Name, now_s: float) -> float:
        """Return when the bucket of a name is full."""
        if now_s >= self._drop_at_s:
            self._older, self._full_at_s = self._full_at_s, {}
            self._drop_at_s = now_s + self.fill_s
        return max(self._full_at_s.get(name, 0.0), self._older.get(name, 0.0), now_s)

    def check(self, name: Name, count: int) -> None:
        """See `Tally.check`."""
        limit = self.limit
        if count > limit.burst:
            raise LimitError(f"{limit}: at most {limit.burst} numbers at once", None)
        now_s = self.monotonic_s()
        retry_s = self._full(name, now_s) + count / limit.rate - now_s - self.fill_s
        if retry_s > TOLERANCE_S:
            raise LimitError(f"{limit}: {limit.rate:g} numbers a second", retry_s)
        if len(self._full_at_s) >= limits.COUNTERS_MAX and name not in self._full_at_s:
            raise LimitError(f"{limit}: too many names at a time", self._drop_at_s - now_s)

    def spend(self, name: Name, count: int) -> None:
        """See `Tally.spend`."""
        self._full_at_s[name] = self._full(name, self.monotonic_s()) + count / self.limit.rate


class Quota:
    """Numbers a cycle. A clock that goes back does not begin a cycle again."""

    def __init__(self, limit: Limit, now_s: Callable[[], float]) -> None:
        assert limit.cycle is not None, "a quota has a cycle"
        self.limit = limit
        self.cycle = limit.cycle
        self.now_s = now_s
        self._given: dict[Name, int] = {}
        self._end_s = 0

    def check(self, name: Name, count: int) -> None:
        """See `Tally.check`."""
        limit, now_s = self.limit, int(self.now_s())
        if now_s >= self._end_s:
            self._given, self._end_s = {}, self.cycle.end_s(now_s) or 0
        given = self._given.get(name, 0)
        if given + count > limit.quota:
            text = f"{limit}: {limit.quota} numbers a {limit.per.split()[0]}, {given} are given"
            raise LimitError(text, None if count > limit.quota else self._end_s - now_s)
        if len(self._given) >= limits.COUNTERS_MAX and name not in self._given:
            raise LimitError(f"{limit}: too many names at a time", self._end_s - now_s)

    def spend(self, name: Name, count: int) -> None:
        """See `Tally.spend`."""
        self._given[name] = self._given.get(name, 0) + count


class Admission:
    """All limits of a configuration."""

    def __init__(self, found: Iterable[Limit], now_s: Callable[[], float], monotonic_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self.monotonic_s = monotonic_s
        self._tallies: dict[Limit, list[Tally]] = {}
        self._about = lru_cache(limits.NAMES_CACHED)(self._find)
        self.reload(found)

    def reload(self, found: Iterable[Limit]) -> None:
        """Take over other limits; one that stays goes on counting."""
        self._tallies = {limit: self._tallies.get(limit) or self._count(limit) for limit in found}
        self._about.cache_clear()

    def _count(self, limit: Limit) -> list[Tally]:
        tallies: list[Tally] = []
        if limit.rate:
            tallies.append(Rate(limit, self.monotonic_s))
        if limit.quota:
            tallies.append(Quota(limit, self.now_s))
        return tallies

    def is_free(self, rule: str, app: str) -> bool:
        """Return whether no limit is about an application's numbers of a rule."""
        return not any(limit.is_about(rule, app) for limit in self._tallies)

    def check(self, request: Request) -> None:
        """Return if the numbers of a request may be given.

        Raises LimitError: they may not.
        """
        for tally, name in self._about(request.rule.name, request.found["app_name"]):
            tally.check(name, request.count)

    def spend(self, request: Request) -> None:
        """Count the numbers of a request that are given."""
        for tally, name in self._about(request.rule.name, request.found["app_name"]):
            tally.spend(name, request.count)

    def _find(self, rule: str, app: str) -> Sequence[tuple[Tally, Name]]:
        """Return what counts an application's numbers of a rule, and under which name."""
        return [
            (tally, (rule if limit.rule == EACH else "", app if limit.app == EACH else ""))
            for limit, tallies in self._tallies.items()
            if limit.is_about(rule, app)
            for tally in tallies
        ]


class NewNames:
    """Names that an address uses first: so many a second, and some seconds of them at once.

    Each is a row in the database and a counter in memory, and clients choose them. Those that the database has are no
    new ones, so a restart is not limited.
    """

    def __init__(self, rate: int, monotonic_s: Callable[[], float]) -> None:
        self.limit = Limit(None, None, rate, rate * limits.NEW_NAMES_BURST_S)
        self._rate = Rate(self.limit, monotonic_s)

    def spend(self, sources: Iterable[str]) -> LimitError | None:
        """Count a name for the first of some addresses that may have one; return why none of them may."""
        refusal = None
        for source in sources:
            name = network_of(source), ""
            try:
                self._rate.check(name, 1)
            except LimitError as error:
                text = f"too many new names: new_names_per_s is {self.limit.rate:g} for an address"
                refusal = LimitError(text, error.retry_s)
                continue
            self._rate.spend(name, 1)
            return None
        return refusal
