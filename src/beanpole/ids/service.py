"""Requests and replies: what stands between datagrams and counters.

A request is answered at once if its numbers are reserved. Else it waits while one task, the keeper, asks the store: for
the marks of counters that are new, and for ranges, all that are wanted in one transaction. Then it is tried again
from the beginning, in the order in which requests came. So nothing is answered that is not durable, and a slow store
delays only who needs it. Time is read once for a request, and all its numbers show it.
"""

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from beanpole import limits
from beanpole.errors import (
    ExhaustedError,
    LeaseLostError,
    NeedRangeError,
    NoNumberError,
    RuleError,
    RuleFailedError,
    StorageError,
)
from beanpole.ids import wire
from beanpole.ids.rules import Config, Rule
from beanpole.ids.sequence import Counter, Key, Mark

BAD_NAME = re.compile(r"[\x00-#%&'<>]")
"""What the original refuses in an application's name: controls, space ! " # % & ' < >."""

Answer = Callable[[bytes], None]
"""Sends a reply."""


class StoreCalls(Protocol):
    """What the service asks of the store, each call in the store's own thread."""

    async def load(self, key: Key, margin: int) -> Mark | None:
        """Return the mark of a counter."""

    async def reserve(self, wanted: list[tuple[Key, Mark]]) -> None:
        """Make ranges durable."""

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
        """Write final marks."""


@dataclass(slots=True)
class Request:
    """A request that is well-formed."""

    found: dict[str, Any]
    answer: Answer
    key: Key
    rule: Rule
    count: int
    salt: bytes


class Service:
    """All counters of a node."""

    def __init__(
        self, config: Config, store: StoreCalls, now_s: Callable[[], int], monotonic_s: Callable[[], float]
    ) -> None:
        self.config = config
        self.store = store
        self.now_s = now_s
        self.monotonic_s = monotonic_s
        self.counters: dict[Key, Counter] = {}
        self.waiting: dict[Key, deque[Request]] = {}
        self.waiting_count = 0
        self.wanted: dict[Key, None] = {}
        """Counters that the keeper must look at, in order."""

        self.window: OrderedDict[tuple[Key, str, int], tuple[float, Any]] = OrderedDict()
        self.counts = {"requests": 0, "numbers": 0, "dropped": 0, "refused": 0, "repeated": 0}
        self.refused: dict[tuple[str, int], int] = {}
        """Requests without a number, by rule (an unknown one is empty) and code. Those with one: see `Counter`."""

        self.stopping = False
        self._work = asyncio.Event()
        self._down_until_s = -1.0
        self._down = StorageError("storage: not available")

    # --- A request ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, answer: Answer) -> None:
        """Take a datagram. What is no object is dropped and counted; every object is answered."""
        found = wire.parse(data) if len(data) <= limits.IDS_REQUEST_BYTES_MAX else None
        if found is None:
            self.counts["dropped"] += 1
            return
        self.counts["requests"] += 1
        for name in ("action", "app_name", "rule_name"):
            if not isinstance(found.get(name), str):
                self.refuse(found, answer, f"need {name}")
                return
        count, request_id = found.get("count", 1), found.get("request_id", "")
        rule = self.config.rules.get(found["rule_name"])
        app = to_bytes(found["app_name"])
        is_get = found["action"] in {"get", "create"}
        if type(count) is not int or not 1 <= count <= limits.IDS_COUNT_MAX:
            self.refuse(found, answer, f"count must be 1 to {limits.IDS_COUNT_MAX}")
        elif not isinstance(request_id, str | int):
            self.refuse(found, answer, "request_id must be a string or a whole number")
        elif rule is None:
            self.refuse(found, answer, "system error: unknown rule" if is_get else "not exist")
        elif (is_get and BAD_NAME.search(found["app_name"])) or len(app) > limits.IDS_NAME_BYTES_MAX:
            self.refuse(found, answer, "system error: app_name has a bad character or is too long")
        else:
            salt = to_bytes(found["salt"]) if isinstance(found.get("salt"), str) else b""
            key = Key(rule.name.encode(), app)
            request = Request(found, answer, key, rule, count, salt)
            self.serve(request)

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
        answer(reply if len(reply) <= limits.IDS_REPLY_BYTES_MAX else wire.render(why))

    def serve(self, request: Request) -> None:
        """Answer a request, or let it wait for the store."""
        rule = self.config.rules.get(request.rule.name)
        if rule is None:
            self.refuse(request.found, request.answer, "system error: unknown rule")
            return
        request.rule = rule  # a reload may have come while it waited
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
        if request.found["action"] not in {"get", "create"}:
            return counter is not None and self.monitor(request, counter)
        if "request_id" in request.found and self.repeat(request):
            return True
        if counter is None:
            if len(self.counters) >= limits.IDS_COUNTERS_MAX:
                raise RuleFailedError("system error: too many names")
            return False
        now_s = self.now_s()
        time_s = counter.open(now_s)
        before = counter.last
        try:
            made = self.make(request, counter, time_s)
        except NeedRangeError:
            taken = counter.shape.remaining(before) - counter.shape.remaining(counter.last)
            counter.give_back(before)
            counter.need(max(request.count, taken + 1))
            return False
        except NoNumberError:
            counter.give_back(before)
            raise
        data = made if "count" in request.found else made[0]
        reply = wire.render(request.found | {"code": 0, "message": "success", "data": data})
        if len(reply) > limits.IDS_REPLY_BYTES_MAX:
            counter.give_back(before)
            raise RuleFailedError("count is too large: the numbers don't fit into a datagram")
        self.remember(request, data)
        self.counts["numbers"] += len(made)
        counter.answered_count += 1
        counter.given_count += len(made)
        if counter.low and self.monotonic_s() >= self._down_until_s:
            self.want(counter.key)
        request.answer(reply)
        return True

    def make(self, request: Request, counter: Counter, time_s: int) -> list[str]:
        """Return the numbers of a request."""
        made = []
        for _ in range(request.count):
            last = counter.last
            made.append(request.rule.make(counter.take, time_s, request.salt))
            if counter.last == last:
                raise RuleFailedError("system error: the rule took no counter")
        return made

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
        request.answer(wire.render(request.found | {"code": 0, "message": "ok", "data": data}))
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
        name = (request.key, repr(request.found["request_id"]), request.count)
        entry = self.window.get(name)
        if entry is None or entry[0] < self.monotonic_s():
            return False
        self.counts["repeated"] += 1
        request.answer(wire.render(request.found | {"code": 0, "message": "success", "data": entry[1]}))
        return True

    def remember(self, request: Request, data: Any) -> None:  # noqa: ANN401 - a number or a list of them
        """Keep an answer for a while, if the request has a name."""
        if "request_id" not in request.found:
            return
        now_s = self.monotonic_s()
        while self.window and next(iter(self.window.values()))[0] < now_s:
            self.window.popitem(last=False)
        while len(self.window) >= limits.IDS_WINDOW_COUNT_MAX:
            self.window.popitem(last=False)
        name = (request.key, repr(request.found["request_id"]), request.count)
        self.window[name] = (now_s + limits.IDS_WINDOW_S, data)

    # --- The store ----------------------------------------------------------------------------------------------------

    def wait(self, request: Request) -> None:
        """Let a request wait for the keeper; refuse it if that does not help."""
        if self.stopping or self.monotonic_s() < self._down_until_s:
            self.tell(request, StorageError("storage: stopping") if self.stopping else self._down)
        elif self.waiting_count >= limits.IDS_WAITING_MAX:
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
            await self._work.wait()
            self._work.clear()
            keys, self.wanted = list(self.wanted), {}
            try:
                known = [self.counters[key] for key in keys if key in self.counters]
                await self._load([key for key in keys if key not in self.counters])
                await self._reserve(known)
            except LeaseLostError:
                raise
            except StorageError as error:
                self._down = error
                self._down_until_s = self.monotonic_s() + limits.IDS_STORE_RETRY_MS / 1000
            self._retry(keys)

    async def _load(self, keys: list[Key]) -> None:
        for key in keys:
            requests = self.waiting.get(key)
            if not requests:
                continue
            rule = requests[0].rule
            margin = rule.counting.batch * rule.counting.shape.step if self.config.original else 0
            mark = await self.store.load(key, margin)
            if mark is None and not any(each.found["action"] in {"get", "create"} for each in requests):
                continue
            current = self.config.rules.get(rule.name, rule)
            self.counters[key] = Counter(key, current.counting, mark, self.clock_floor_s())

    def clock_floor_s(self) -> int:
        """Return the time for a counter that is loaded; 0 while the clock can't be trusted."""
        try:
            return self.now_s()
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
            requests = self.waiting.pop(key, deque())
            self.waiting_count -= len(requests)
            for request in requests:
                if request.key not in self.counters and request.found["action"] not in {"get", "create"}:
                    self.refuse(request.found, request.answer, "not exist")
                else:
                    self.serve(request)

    # --- Reload and stop ----------------------------------------------------------------------------------------------

    def reload(self, config: Config) -> None:
        """Take over changed rules, all of them.

        Raises:
            RuleError: something else has changed, which only a restart takes over.
        """
        for name in ("step", "offset", "database", "host", "port", "http"):
            if getattr(config, name) != getattr(self.config, name):
                raise RuleError(f"{name} has changed; only a restart takes it over")
        now_s = self.clock_floor_s()
        self.config = config
        for key, counter in self.counters.items():
            rule = config.rules.get(key.rule.decode())
            if rule is not None:
                counter.change(rule.counting, now_s)

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


def to_bytes(text: str) -> bytes:
    """Return the bytes of a string as they came, and of half a pair of UTF-16 what WTF-8 says."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
