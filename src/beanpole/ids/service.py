"""Requests and replies: what stands between datagrams and counters.

A request is answered at once if its numbers are reserved. Else it waits while one task, the keeper, asks the store: for
the marks of counters that are new, and for ranges, all that are wanted in one transaction. Then it is tried again
from the beginning, in the order in which requests came. So nothing is answered that is not durable, and a slow store
delays only who needs it. Time is read once for a request, and all its numbers show it. Numbers are taken from a counter
when the reply that has them is ready to be sent: what fails before takes none.

A counter that nobody has used for a while is forgotten: the keeper gives its unused range back, and loads it again when
it is asked for. Meanwhile requests for it wait, so nothing is handed out of a range that is being given back.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

from beanpole.ids import limits
from beanpole.ids.errors import (
    ExhaustedError,
    LeaseLostError,
    NeedRangeError,
    NoNumberError,
    RuleError,
    RuleFailedError,
    StorageError,
)
from beanpole.ids.original import wire
from beanpole.ids.request import Answer, BadRequestError, Reader, Request
from beanpole.ids.rules.config import Config
from beanpole.ids.rules.sequence import Counter, Key
from beanpole.ids.storage.measured import StoreCalls
from beanpole.ids.window import Window
from beanpole.limits import IDS_REQUEST_BYTES_MAX


class Service:
    """All counters of a node."""

    def __init__(
        self,
        config: Config,
        store: StoreCalls,
        now_s: Callable[[], float],
        monotonic_s: Callable[[], float],
        on_failure: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self.config = config
        self.store = store
        self.now_s = now_s
        self.monotonic_s = monotonic_s
        self.on_failure = on_failure
        """Is told of a request that failed by an error of ours."""

        self.reader = Reader(config.rules)
        self.counters: dict[Key, Counter] = {}
        self.waiting: dict[Key, deque[Request]] = {}
        self.waiting_count = 0
        self.wanted: dict[Key, None] = {}
        """Counters that the keeper must look at, in order."""

        self.window = Window()
        self.gone: dict[str, tuple[int, int]] = {}
        """Requests and numbers of counters that were forgotten, by rule; see `Counter.answered_count`."""

        self.counts = {"requests": 0, "numbers": 0, "dropped": 0, "refused": 0, "repeated": 0, "failed": 0}
        self.refused: dict[tuple[str, int], int] = {}
        """Requests without a number, by rule (an unknown one is empty) and code. Those with one: see `Counter`."""

        self.stopping = False
        self._work = asyncio.Event()
        self._down_until_s = -1.0
        self._down = StorageError("storage: not available")
        self._forget_at_s = monotonic_s() + limits.IDLE_S

    # --- A request ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, answer: Answer) -> None:
        """Take a datagram. What is no object is dropped and counted; every object is answered."""
        try:
            found = wire.parse(data) if len(data) <= IDS_REQUEST_BYTES_MAX else None
        except wire.TooDeepError as error:
            self.counts["requests"] += 1
            self.refuse(error.plain, answer, str(error))
            return
        if found is None:
            self.counts["dropped"] += 1
            return
        self.counts["requests"] += 1
        try:
            self.serve(self.reader.read(found, answer))
        except BadRequestError as error:
            self.refuse(found, answer, str(error))
        except Exception as error:  # noqa: BLE001 - told of by `fail`
            self.fail(found, answer, error)

    def fail(self, found: dict[str, Any], answer: Answer, error: Exception) -> None:
        """Note an error of ours, which must end nothing but its request, and answer that there was one."""
        self.note(error)
        with contextlib.suppress(Exception):  # such as the same again
            self.refuse(found, answer, "system error: an error of ours; the log has it")

    def note(self, error: Exception) -> None:
        """Count and tell of a request that failed by an error of ours."""
        self.counts["failed"] += 1
        self.on_failure(error)

    def refuse(
        self, found: dict[str, Any], answer: Answer, message: str, code: int = -1, resets_at: str | None = None
    ) -> None:
        """Answer that there is no number, and why; without the request if the two don't fit into a datagram."""
        self.counts["refused"] += 1
        rule = found.get("rule_name")
        tally = (rule if isinstance(rule, str) and rule in self.config.rules else "", code)
        self.refused[tally] = self.refused.get(tally, 0) + 1
        why = {"code": code, "message": message} | ({"resets_at": resets_at} if resets_at else {})
        reply = wire.render(found | why)
        answer(reply if len(reply) <= limits.REPLY_BYTES_MAX else wire.render(why))

    def serve(self, request: Request) -> None:
        """Answer a request, or let it wait for the store."""
        if request.key in self.waiting:
            self.wait(request)
            return
        try:
            if self.attempt(request):
                return
        except NoNumberError as error:
            self.tell(request, error)
            return
        self.wait(request)

    def attempt(self, request: Request) -> bool:
        """Try to answer a request; return whether it is answered.

        Raises:
            NoNumberError: it can't be, and waiting does not help.
        """
        counter = self.counters.get(request.key)
        if not request.is_get:
            return counter is not None and self.monitor(request, counter)
        found, count = request.found, request.count
        if "request_id" in found and self.repeat(request):
            return True
        if counter is None:
            if len(self.counters) >= limits.COUNTERS_MAX:
                raise RuleFailedError("system error: too many names")
            return False
        time_s = counter.open(self.now_s())
        first, left = counter.offer()
        if left < count:
            counter.need(count)
            return False
        try:
            made, used = request.rule.make(first, left, count, time_s, request.salt)
        except NeedRangeError:
            counter.need(left + 1)
            return False
        data = made if "count" in found else made[0]
        reply = request.reply("success", data)
        counter.took(first, used)
        counter.answered_count += 1
        counter.given_count += count
        self.counts["numbers"] += count
        if "request_id" in found:
            self.window.keep(request.name, data, self.monotonic_s())
        if left - used <= counter.low_water and self.monotonic_s() >= self._down_until_s:
            self.want(counter.key)
        request.answer(reply)
        return True

    def monitor(self, request: Request, counter: Counter) -> bool:
        """Answer how a counter stands."""
        if counter.durable is None:
            self.refuse(request.found, request.answer, "not exist")
            return True
        end_s = counter.cycles.end_s(counter.time_s)
        data = {
            "counter": counter.last,
            "node_offset": counter.shape.offset,
            "remaining": counter.remaining,
            "reserved": counter.reserved,
            "resets_at": request.rule.cycle.local(end_s).isoformat() if end_s is not None else None,
        }
        request.answer(request.reply("ok", data))
        return True

    def tell(self, request: Request, error: NoNumberError) -> None:
        """Answer why there is no number; of an exhausted cycle also when it resets."""
        message, when = str(error), None
        if isinstance(error, ExhaustedError):
            if error.resets_at_s is not None:
                when = request.rule.cycle.local(error.resets_at_s).isoformat()
            message += f"; counting begins anew: {when or 'never'}"
        self.refuse(request.found, request.answer, message, error.code, when)

    # --- The window of repeated requests ------------------------------------------------------------------------------

    def repeat(self, request: Request) -> bool:
        """Answer a repeated request as before; return whether it was one."""
        data = self.window.find(request.name, self.monotonic_s())
        if data is None:
            return False
        reply = request.reply("success", data)
        self.counts["repeated"] += 1
        request.answer(reply)
        return True

    # --- The store ----------------------------------------------------------------------------------------------------

    def wait(self, request: Request) -> None:
        """Let a request wait for the keeper; refuse it if that does not help."""
        if self.stopping or self.monotonic_s() < self._down_until_s:
            self.tell(request, StorageError("storage: stopping") if self.stopping else self._down)
        elif self.waiting_count >= limits.WAITING_MAX:
            self.tell(request, StorageError("storage: too many requests wait for it"))
        else:
            self.waiting_count += 1
            self.waiting.setdefault(request.key, deque()).append(request)
            self.want(request.key)

    def want(self, key: Key) -> None:
        """Let the keeper look at a counter."""
        self.wanted[key] = None
        self._work.set()

    async def keep(self) -> None:
        """Ask the store for whatever is wanted, until the service stops and nothing waits.

        Raises:
            LeaseLostError: another process has the node; the service must end.
        """
        while not (self.stopping and not self.waiting):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.IDLE_S):
                    await self._work.wait()
            self._work.clear()
            keys, self.wanted = list(self.wanted), {}
            try:
                known = [self.counters[key] for key in keys if key in self.counters]
                await self._load([key for key in keys if key not in self.counters])
                await self._reserve(known)
                if self.monotonic_s() >= self._forget_at_s:
                    await self.forget_idle()
            except LeaseLostError:
                raise
            except StorageError as error:
                self._down = error
                self._down_until_s = self.monotonic_s() + limits.STORE_RETRY_MS / 1000
            self._retry(keys)

    async def _load(self, keys: list[Key]) -> None:
        for key in keys:
            requests = self.waiting.get(key)
            if not requests:
                continue
            rule = requests[0].rule
            mark = await self.store.load(key, rule.counting.batch)
            if mark is None and not any(each.is_get for each in requests):
                continue
            current = self.config.rules.get(rule.name, rule)
            try:
                self.counters[key] = current.counting.counter(key, mark, self.clock_floor_s())
            except RuleFailedError as error:
                for request in self._no_longer_wait(key):
                    self._guarded(self.tell, request, error)
            except Exception as error:  # noqa: BLE001 - told of by `fail`
                for request in self._no_longer_wait(key):
                    self.fail(request.found, request.answer, error)

    def _no_longer_wait(self, key: Key) -> deque[Request]:
        requests = self.waiting.pop(key, deque())
        self.waiting_count -= len(requests)
        return requests

    async def forget_idle(self) -> None:
        """Forget counters that nobody has used for a while. What they have reserved is given back before.

        They are gone before the store is asked: who wants one meanwhile waits for the keeper, which is here.
        """
        self._forget_at_s = self.monotonic_s() + limits.IDLE_S / 2
        before_s = self.clock_floor_s() - limits.IDLE_S
        idle = [each for each in self.counters.values() if each.time_s < before_s and each.key not in self.waiting]
        rests = [(each.key, rest) for each in idle if (rest := each.rest()) is not None]
        for each in idle:
            del self.counters[each.key]
            rule = each.key.rule.decode()
            answered, given = self.gone.get(rule, (0, 0))
            self.gone[rule] = answered + each.answered_count, given + each.given_count
        if rests:
            await self.store.give_back(rests)

    def clock_floor_s(self) -> int:
        """Return the time for a counter that is loaded; 0 while the clock can't be trusted."""
        try:
            return int(self.now_s())
        except NoNumberError:
            return 0

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

    def _retry(self, keys: list[Key]) -> None:
        """Try again who has waited; who still lacks something waits further, or hears why not."""
        for key in keys:
            for request in self._no_longer_wait(key):
                self._guarded(self._try_again, request)

    def _try_again(self, request: Request) -> None:
        rule = self.config.rules.get(request.rule.name)
        if rule is None:  # a reload came while it waited
            self.refuse(request.found, request.answer, "system error: unknown rule")
            return
        request.rule = rule
        if request.key not in self.counters and not request.is_get:
            self.refuse(request.found, request.answer, "not exist")
        else:
            self.serve(request)

    def _guarded(self, act: Callable[..., None], request: Request, *more: object) -> None:
        """Do something with a request; what goes wrong ends the request and not the keeper, so not the process."""
        try:
            act(request, *more)
        except Exception as error:  # noqa: BLE001 - told of by `fail`
            self.fail(request.found, request.answer, error)

    # --- Reload and stop ----------------------------------------------------------------------------------------------

    def reload(self, config: Config) -> None:
        """Take over changed rules, all of them.

        Raises:
            RuleError: something else has changed, which only a restart takes over.
        """
        for name in ("step", "offset", "database", "host", "port", "http"):
            if getattr(config, name) != getattr(self.config, name):
                raise RuleError(f"{name} has changed; only a restart takes it over")
        rules = config.rules
        for name, old in self.config.rules.items():
            if name in rules and rules[name].counting.layout_kind != old.counting.layout_kind:
                raise RuleError(f"rule {name!r}: its kind has changed, and numbers could repeat; give it another name")
        # What is in memory may be of a rule that an earlier reload has taken away.
        changes = [(counter, rule) for key, counter in self.counters.items() if (rule := rules.get(key.rule.decode()))]
        for counter, rule in changes:
            try:
                counter.texts_of(rule.counting)
            except RuleError as error:
                raise RuleError(f"rule {rule.name!r}: {error}") from error
        now_s = self.clock_floor_s()
        reader = Reader(rules)
        for counter, rule in changes:
            counter.change(rule.counting, now_s)
        self.config, self.reader = config, reader

    async def stop(self) -> int:
        """Give back what is reserved and not handed out; return of how many counters. The keeper must have ended.

        Raises:
            StorageError: it can't be given back, and is a gap.
        """
        rests = [(key, rest) for key, counter in self.counters.items() if (rest := counter.rest()) is not None]
        # Before the store is asked: what is handed out while it writes would be handed out again after a start.
        self.counters.clear()
        if rests:
            await self.store.give_back(rests)
        return len(rests)

    def begin_stop(self) -> None:
        """Let nothing wait any more; what waits already is answered."""
        self.stopping = True
        self._work.set()
