"""The counters of a node: loaded when they are asked for, refilled before they run out, unloaded when they are idle.

One task, `run`, calls the store: it loads the marks of new counters and reserves ranges, all that are wanted in one
transaction. After each round it reports the counters it has dealt with, so that requests which wait for them are
served again. A slow store therefore delays only requests that need it.

A counter that has been idle for a while is unloaded and its unused range given back. It leaves memory before the store
is called: a request for it that arrives in the meantime waits, so no number of that range is handed out.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping

from beanpole.ids import limits
from beanpole.ids.errors import LeaseLostError, NoNumberError, RuleError, StorageError
from beanpole.ids.rules.rule import Rule
from beanpole.ids.rules.sequence import Counter, Key
from beanpole.ids.storage.measured import StoreCalls


class Counters:
    """All counters of a node."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        store: StoreCalls,
        now_s: Callable[[], float],
        monotonic_s: Callable[[], float],
        on_done: Callable[[Key, Exception | None], None],
    ) -> None:
        self.rules = rules
        self.store = store
        self.now_s = now_s
        self.monotonic_s = monotonic_s
        self.on_done = on_done
        """Called after a round for each counter that was wanted, with the error if it could not be loaded."""

        self.loaded: dict[Key, Counter] = {}
        self.unloaded: dict[str, tuple[int, int]] = {}
        """Requests and numbers of counters that were unloaded, by rule; see `Counter.answered_count`."""

        self.stopping = False
        self._wanted: dict[Key, bool] = {}
        """Counters to load or refill in the next round, and whether to create those that the store does not have."""

        self._work = asyncio.Event()
        self._failure: StorageError | None = None
        self._retry_at_s = -1.0
        self._unload_at_s = monotonic_s() + limits.IDLE_S

    def want(self, key: Key, *, create: bool) -> None:
        """Load a counter in the next round, or refill it if it is loaded. `create`: also if nobody has used it."""
        self._wanted[key] = create or self._wanted.get(key, False)
        self._work.set()

    def unavailable(self) -> StorageError | None:
        """Return why nothing can be reserved now; None if it can. After a failure the store rests for a moment."""
        if self.stopping:
            return StorageError("storage: stopping")
        return self._failure if self.monotonic_s() < self._retry_at_s else None

    def clock_floor_s(self) -> int:
        """Return the time for a counter that is loaded; 0 while the clock can't be trusted."""
        try:
            return int(self.now_s())
        except NoNumberError:
            return 0

    async def run(self) -> None:
        """Load and refill what is wanted, until the service stops and nothing is wanted.

        Raises LeaseLostError: another process has the node; the service must end.
        """
        while self._wanted or not self.stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.IDLE_S):
                    await self._work.wait()
            self._work.clear()
            wanted, self._wanted = self._wanted, {}
            known = [self.loaded[key] for key in wanted if key in self.loaded]
            failed: dict[Key, Exception] = {}
            try:
                for key, create in wanted.items():
                    if key not in self.loaded:
                        await self._load(key, failed, create=create)
                await self._reserve(known)
                if self.monotonic_s() >= self._unload_at_s:
                    await self.unload_idle(wanted)
            except LeaseLostError:
                raise
            except StorageError as error:
                self._failure = error
                self._retry_at_s = self.monotonic_s() + limits.STORE_RETRY_MS / 1000
            for key in wanted:
                self.on_done(key, failed.get(key))

    async def _load(self, key: Key, failed: dict[Key, Exception], *, create: bool) -> None:
        name = key.rule.decode()
        rule = self.rules.get(name)
        if rule is None:  # removed by a reload
            return
        mark = await self.store.load(key, rule.counting.batch)
        if mark is None and not create:
            return
        counting = self.rules.get(name, rule).counting  # a reload may have changed it while the store was asked
        try:
            self.loaded[key] = counting.counter(key, mark, self.clock_floor_s())
        except Exception as error:  # noqa: BLE001 - reported to the requests for this counter
            failed[key] = error

    async def _reserve(self, counters: list[Counter]) -> None:
        planned = [(each, mark) for each in counters if each.cycle_s >= 0 and (mark := each.plan()) is not None]
        if not planned:
            return
        try:
            await self.store.reserve([(counter.key, mark) for counter, mark in planned])
        except BaseException:
            for counter, mark in planned:
                counter.fail(mark)
            raise
        for counter, mark in planned:
            counter.confirm(mark)

    async def unload_idle(self, wanted: Collection[Key] = ()) -> None:
        """Unload counters that have not been used for a while and are not wanted; give back what they have reserved."""
        self._unload_at_s = self.monotonic_s() + limits.IDLE_S / 2
        before_s = self.clock_floor_s() - limits.IDLE_S
        busy = {*wanted, *self._wanted}
        idle = [key for key, each in self.loaded.items() if each.time_s < before_s and key not in busy]
        for key in idle:
            rule = key.rule.decode()
            answered, given = self.unloaded.get(rule, (0, 0))
            self.unloaded[rule] = answered + self.loaded[key].answered_count, given + self.loaded[key].given_count
        await self._unload(idle)

    async def _unload(self, keys: list[Key]) -> int:
        """Unload counters and write their final marks; return how many of them had numbers left.

        They leave memory first: a number handed out while the store writes would be handed out again after a start.
        """
        counters = [self.loaded.pop(key) for key in keys]
        marks = [(each.key, mark) for each in counters if (mark := each.final_mark()) is not None]
        if marks:
            await self.store.give_back(marks)
        return len(marks)

    def reload(self, rules: Mapping[str, Rule]) -> None:
        """Take over changed rules, all of them.

        Raises RuleError: a loaded counter can't follow its rule; nothing has changed then.
        """
        # What is loaded may belong to a rule that an earlier reload has removed.
        changes = [(counter, rule) for key, counter in self.loaded.items() if (rule := rules.get(key.rule.decode()))]
        for counter, rule in changes:
            try:
                counter.fingerprints_with(rule.counting)
            except RuleError as error:
                raise RuleError(f"rule {rule.name!r}: {error}") from error
        now_s = self.clock_floor_s()
        for counter, rule in changes:
            counter.change(rule.counting, now_s)
        self.rules = rules

    def begin_stop(self) -> None:
        """Load and refill nothing more; what is wanted already still is."""
        self.stopping = True
        self._work.set()

    async def stop(self) -> int:
        """Give back everything that is reserved and not handed out; return of how many counters. `run` must have ended.

        Raises StorageError: it can't be given back, and is a gap.
        """
        return await self._unload(list(self.loaded))
