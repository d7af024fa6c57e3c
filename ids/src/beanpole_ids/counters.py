"""The counters of a node: loaded when they are asked for, refilled before they run out, unloaded when they are idle.

One task, `run`, calls the store, in rounds: it reserves ranges, loads the marks of counters, and gives back what idle
ones have left, each in a transaction of a bounded number of rows. Ranges of counters that are in use come before those
of new ones, so many new names delay others by a round. After each call the requests that wait for its counters are
served, some in a turn of the event loop, while the next round goes on. A slow store therefore delays only requests that
need it, and a crowd that waits for one counter delays no other counter.

A counter that has been idle for a while is unloaded and its unused range given back; and so are those that were used
longest ago when there is no room for others. It leaves memory before the store is called: a request for it that arrives
then waits, so no number of that range is handed out.
"""

import asyncio
import contextlib
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from beanpole_ids import limits
from beanpole_ids.audit import Update, given_back, reserved
from beanpole_ids.errors import (
    DatabaseLostError,
    LeaseLostError,
    NoNumberError,
    RuleError,
    StorageError,
)
from beanpole_ids.hand import Mark
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Counter, Key
from beanpole_ids.storage.threaded import StoreCalls
from beanpole_ids.waiting import Loads

ROUND_ROWS_NEW = 64  # rows of a round for counters without a range, however many are in use
STOP_ROWS = 8_192  # of a transaction when a service stops, and nobody waits: a fraction of a second
WAITING_TURN = 32  # requests that had waited and are served before other work: a millisecond or two
EVICT_COUNT = 4_096  # counters that a search for the oldest finds: ten milliseconds, in a thread


class Counters:
    """All counters of a node."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        store: StoreCalls,
        now_s: Callable[[], float],
        monotonic_s: Callable[[], float],
        on_done: Callable[[Key, Exception | None, int], bool],
    ) -> None:
        self.rules = rules
        self.store = store
        self.now_s = now_s
        self.monotonic_s = monotonic_s
        self.on_done = on_done
        """Called after a round for each counter that was wanted, with the error if it could not be loaded, and how
        many requests may be served; returns whether there are more, so that it is called again."""

        self.most = limits.COUNTERS_MAX  # counters that there may be in memory
        self.evicted_count = 0  # those that were unloaded to make room for others
        self.thrashed_at_s = -math.inf  # when one was that had been used a moment before
        self.may_create: Callable[[Key], NoNumberError | None] = lambda _: None
        """Returns why a counter that the store does not have must not be created; None if it may be."""

        self.is_held: Callable[[], bool] = lambda: False
        """Whether requests wait for something else, and may then want a counter: a stop waits for that."""

        self.audit: Callable[[list[Update]], None] | None = None
        """Called with what has become durable; None: nobody wants to know."""

        self.loaded: dict[Key, Counter] = {}
        self.unloaded: dict[str, tuple[int, int]] = {}
        """Requests and numbers of counters that were unloaded, by rule; see `Counter.answered_count`."""

        self.stopping = False
        self._loads = Loads()
        self._refills: tuple[dict[Key, None], ...] = ({}, {}, {})
        """Loaded counters to refill: those that requests wait for, those that are at the low-water mark, new ones."""

        self._done: dict[Key, Exception | None] = {}
        """Counters whose requests are being served, in turn, and why they could not be loaded."""

        self._reports = False  # whether the event loop is going to call `_report_some`
        self._changed: dict[bytes, Rule] = {}  # rules that reloads have changed, by name
        self._touched: set[Key] | None = None
        """Counters that have changed since a reload has begun that is not done yet; None: there is none."""

        self._to_check: list[Key] = []  # counters that may be idle
        self._oldest: list[tuple[int, Key]] = []
        """Some that were used longest ago, the oldest last, with the time of their last number."""

        self._work = asyncio.Event()
        self._failure: StorageError | None = None
        self._retry_at_s = -1.0
        self._unload_at_s = monotonic_s() + limits.IDLE_S

    def want(self, key: Key, *, create: bool, source: str = "") -> None:
        """Load a counter soon for a client, or refill it if it is loaded. `create`: also if nobody has used it."""
        counter = self.loaded.get(key)
        if counter is None:
            self._loads.add(key, source, create=create)
        else:
            needed, low, new = self._refills
            (new if counter.durable is None else needed if counter.wanted else low)[key] = None
        self._work.set()

    def unavailable(self) -> StorageError | None:
        """Return why nothing can be reserved now; None if it can. After a failure the store rests for a moment."""
        return self._resting() or self.ending()

    def ending(self) -> StorageError | None:
        """Return that the service stops, if it does: no further request may wait."""
        return StorageError("storage: stopping") if self.stopping else None

    def _resting(self) -> StorageError | None:
        return self._failure if self.monotonic_s() < self._retry_at_s else None

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        """Let the store rest after a failure; what waits for it is refused then."""
        try:
            yield
        except LeaseLostError:
            raise
        except StorageError as error:
            self._failure = error
            self._retry_at_s = self.monotonic_s() + limits.STORE_RETRY_MS / 1000
            self._to_check.clear()  # what can't be given back would be a gap

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
        while (is_wanted := bool(self._loads) or any(self._refills)) or self._done or self._goes_on():
            if not is_wanted and not self._to_check:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limits.IDLE_S):
                        await self._work.wait()
            self._work.clear()
            await self._refill()
            await self._load()
            with self._noticing():
                await self._unload_some()

    def _goes_on(self) -> bool:
        return not self.stopping or self.is_held()

    async def _refill(self) -> None:
        """Reserve ranges of counters that are in use, and of new ones in the rows that are left, some at least."""
        keys: dict[Key, None] = {}
        in_use = limits.ROUND_ROWS - ROUND_ROWS_NEW
        for refills, rows in zip(self._refills, (in_use, in_use, limits.ROUND_ROWS), strict=True):
            taken = list(islice(refills, max(0, rows - len(keys))))
            for key in taken:
                del refills[key]
            keys |= dict.fromkeys(taken)
        if not keys:
            return
        counters = [counter for key in keys if (counter := self.get(key))]
        with self._noticing():
            if self._resting() is None:
                await self._reserve(counters)
        await self._report(dict.fromkeys(keys))

    async def _load(self) -> None:
        """Load counters that are wanted, and create those of new names."""
        wanted = self._loads.take(limits.ROUND_ROWS)
        if not wanted:
            return
        absent = {key: rule for key in wanted if key not in self.loaded and (rule := self._rule(key))}
        done: dict[Key, Exception | None] = dict.fromkeys(wanted)
        with self._noticing():
            if absent and self._resting() is None:
                marks = await self.store.load({key: rule.counting.batch for key, rule in absent.items()})
                await self._make_room(len(absent))
                for key in absent:
                    try:
                        self._add(key, marks.get(key), create=wanted[key])
                    except Exception as error:  # noqa: BLE001 - reported to the requests for this counter
                        done[key] = error
        await self._report(done)

    def _rule(self, key: Key) -> Rule | None:
        return self.rules.get(key.rule.decode())

    def _add(self, key: Key, mark: Mark | None, *, create: bool) -> None:
        """Take a counter into memory.

        Raises NoNumberError: it is new, and must not be created; or its rule can't go on from the mark.
        """
        rule = self._rule(key)  # a reload may have changed it while the store was asked
        is_abandoned = self._retry_at_s == math.inf
        if rule is None or is_abandoned or (mark is None and not create):
            return
        if len(self.loaded) >= self.most:
            raise StorageError("storage: all counters in memory wait for it")
        if mark is None and (error := self.may_create(key)) is not None:
            raise error
        self.loaded[key] = rule.counting.counter(key, mark, self.clock_floor_s())
        self._touch([key])

    async def _report(self, done: Mapping[Key, Exception | None]) -> None:
        """Let the requests be served that wait for counters; return when each counter has had its turn."""
        self.report(done)
        for _ in range(0, len(self._done), WAITING_TURN):
            await asyncio.sleep(0)

    def report(self, done: Mapping[Key, Exception | None]) -> None:
        """Let the requests be served soon that wait for counters, or fail with an error."""
        self._done |= done
        if done and not self._reports:
            self._reports = True
            asyncio.get_running_loop().call_soon(self._report_some)

    def _report_some(self) -> None:
        """Let some of them be served, of each counter the same number, before the event loop does other work."""
        share = max(1, WAITING_TURN // max(1, len(self._done)))
        try:
            for key in list(islice(self._done, WAITING_TURN)):
                error = self._done.pop(key)
                if self.on_done(key, error, share):
                    self._done[key] = error
        finally:
            self._reports = bool(self._done)
            if self._reports:
                asyncio.get_running_loop().call_soon(self._report_some)
            else:
                self._work.set()

    def serve(self, key: Key, most: int) -> None:
        """Let some requests that wait for a counter be served now, if it is done."""
        if key in self._done and not self.on_done(key, self._done[key], most):
            del self._done[key]

    async def _reserve(self, counters: list[Counter]) -> None:
        planned = [(each, mark) for each in counters if each.cycle_s >= 0 and (mark := each.plan()) is not None]
        if not planned:
            return
        keys = [counter.key for counter, _ in planned]
        self._touch(keys)
        try:
            await self.store.reserve([(counter.key, mark) for counter, mark in planned])
        except BaseException:
            for counter, mark in planned:
                counter.fail(mark)
            self._touch(keys)
            raise
        if self.audit:
            self.audit([reserved(counter, mark) for counter, mark in planned])
        for counter, mark in planned:
            counter.confirm(mark)
        self._touch(keys)

    async def unload_idle(self) -> None:
        """Unload all counters that have not been used for a while, and give back what they have reserved.

        Raises StorageError: some can't be given back, and are a gap.
        """
        self._unload_at_s = self.monotonic_s()
        await self._unload_some()
        while self._to_check:
            await self._unload_some()

    async def _unload_some(self) -> None:
        """Unload some of the counters that have not been used for a while and are not wanted. Raises: see above."""
        if self.monotonic_s() >= self._unload_at_s:
            self._unload_at_s = self.monotonic_s() + limits.IDLE_S / 2
            self._to_check = list(self.loaded)
        if not self._to_check:
            return
        before_s = self.clock_floor_s() - limits.IDLE_S
        checked = self._to_check[-limits.ROUND_ROWS :]
        del self._to_check[-len(checked) :]
        idle = [
            key
            for key in checked
            if (counter := self.loaded.get(key)) is not None and counter.time_s < before_s and not self._is_wanted(key)
        ]
        await self._unload(idle)
        await asyncio.sleep(0)

    def _is_wanted(self, key: Key) -> bool:
        """Return whether requests wait for a counter, or it is to be refilled."""
        return key in self._done or any(key in refills for refills in self._refills)

    async def _make_room(self, count: int) -> None:
        """Unload the counters that were used longest ago, if so many others would find no room. Raises: see above."""
        missing = len(self.loaded) + count - self.most
        if missing <= 0:
            return
        evicted: dict[Key, None] = {}
        is_searched = False
        while len(evicted) < missing:
            if not self._oldest:
                if is_searched:
                    break  # requests wait for all that are left
                await self._find_oldest()
                is_searched = True
                continue
            time_s, key = self._oldest.pop()
            counter = self.loaded.get(key)
            if counter is not None and counter.time_s == time_s and key not in evicted and not self._is_wanted(key):
                evicted[key] = None
        keys = [key for key in evicted if key in self.loaded]  # none is if the database was lost during the search
        if any(self.loaded[key].time_s > self.clock_floor_s() - limits.THRASH_S for key in keys):
            self.thrashed_at_s = self.monotonic_s()
        self.evicted_count += len(keys)
        await self._unload(keys)

    async def _find_oldest(self) -> None:
        """Find the counters that were used longest ago, while requests are served."""
        found: list[tuple[int, Key]] = []
        for number, key in enumerate(list(self.loaded)):
            counter = self.loaded.get(key)
            if counter is not None and not self._is_wanted(key):
                found.append((counter.time_s, key))
            if number % limits.RELOAD_TURN == limits.RELOAD_TURN - 1:
                await asyncio.sleep(0)
        self._oldest = await asyncio.to_thread(heapq.nsmallest, EVICT_COUNT, found)
        self._oldest.reverse()

    async def _unload(self, keys: list[Key]) -> int:
        """Unload counters and write their final marks; return how many of them had numbers left.

        They leave memory first: a number handed out while the store writes would be handed out again after a start.
        """
        counters = [self.loaded.pop(key) for key in keys]
        for counter in counters:
            rule = counter.key.rule.decode()
            answered, given = self.unloaded.get(rule, (0, 0))
            self.unloaded[rule] = answered + counter.answered_count, given + counter.given_count
        rests = [(each, mark) for each in counters if (mark := each.final_mark()) is not None]
        if rests:
            await self.store.give_back([(counter.key, mark) for counter, mark in rests])
            if self.audit:
                self.audit([given_back(counter, mark) for counter, mark in rests])
        return len(rests)

    # --- Reload -------------------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Counter | None:
        """Return a loaded counter, which counts as its rule says."""
        counter = self.loaded.get(key)
        if counter is not None and (rule := self._changed.get(key.rule)) and counter.counting is not rule.counting:
            counter.change(rule.counting, self.clock_floor_s())
        return counter

    def several(self, keys: list[Key]) -> Iterable[Counter | None]:
        """Return what `get` does for each of some keys."""
        return map(self.get if self._changed else self.loaded.get, keys)

    async def reload(self, rules: Mapping[str, Rule]) -> None:
        """Take over changed rules, all of them; nothing has changed until it returns.

        All loaded counters of changed rules are checked, some at a time, and those that have changed since then again.
        They follow their rule when they are used next (`get`).

        Raises RuleError: a loaded counter can't follow its rule; nothing has changed then.
        """
        # What is loaded may belong to a rule that an earlier reload has removed.
        changed = {name.encode(): rule for name, rule in rules.items() if self.rules.get(name) is not rule}
        keys = list(self.loaded) if changed else []
        self._touched = set()
        try:
            while len(keys) > limits.RELOAD_TURN:
                for first in range(0, len(keys), limits.RELOAD_TURN):
                    self._check(keys[first : first + limits.RELOAD_TURN], changed)
                    await asyncio.sleep(0)
                keys, self._touched = list(self._touched), set()
            self._check([*keys, *self._touched], changed)
        finally:
            self._touched = None
        self._changed |= changed
        self.rules = rules

    def _check(self, keys: Iterable[Key], changed: Mapping[bytes, Rule]) -> None:
        """Check that counters may follow changed rules. Raises RuleError: one may not."""
        for key in keys:
            if (rule := changed.get(key.rule)) and (counter := self.loaded.get(key)):
                try:
                    counter.fingerprints_with(rule.counting)
                except RuleError as error:
                    raise RuleError(f"rule {rule.name!r}: {error}") from error

    def _touch(self, keys: Iterable[Key]) -> None:
        """Note that what is or may be durable of some counters changes, so a reload has to check them again."""
        if self._touched is not None:
            self._touched.update(keys)

    # --- The end ------------------------------------------------------------------------------------------------------

    def abandon(self, error: DatabaseLostError) -> None:
        """Give nothing more: what is reserved may be reserved again. `run` ends."""
        self.loaded.clear()
        self._failure, self._retry_at_s = error, math.inf
        self.begin_stop()

    def begin_stop(self) -> None:
        """Load and refill nothing more; what is wanted already still is."""
        self.stopping = True
        self._work.set()

    async def stop(self) -> int:
        """Give back everything that is reserved and not handed out; return of how many counters. `run` must have ended.

        Raises StorageError: it can't be given back, and is a gap.
        """
        keys = sorted(self.loaded)  # as the rows stand in the database, so that each page of it is written once
        rows = STOP_ROWS
        return sum([await self._unload(keys[first : first + rows]) for first in range(0, len(keys), rows)])
