"""Numbers of rules in Lua: their texts are made by another process, before they are needed if possible.

A request whose number has no text yet waits, as it waits for a range (`service`). What is wanted is sent one rule at a
time, in turn, some counters of it together; so a slow rule holds up another one for as long as its process may take,
and templates not at all. To make a text takes no number: what is lost with a process that is ended is made again.

A process that takes too long has been ended by the kernel. It is not known for which of several calls: then each is
sent alone, and the one that it ends for again is refused.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from beanpole_ids import limits
from beanpole_ids.errors import NeedRangeError, RuleFailedError
from beanpole_ids.forms import Block
from beanpole_ids.rules.lua import TOO_LONG, LuaChild
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Counter, Key

LUA_START_MS = 200  # between two starts: a rule that ends its process each time must not take all of a core
LUA_TIMEOUT_S = 5  # after which a process that does not answer is ended, as one that is frozen


@dataclass(slots=True)
class Job:
    """Texts that one counter needs."""

    counter: Counter
    rule: Rule
    first: int
    left: int
    time_s: int
    wanted: Sequence[tuple[int, bytes]]  # how many with which salts, for requests that wait, in their order
    ahead: int  # how many more with the last salt, which nobody waits for
    extends: Block | None = None  # what these follow, if nobody waits for any of them


class Texts:
    """The process of a service, and what it is to make."""

    def __init__(
        self,
        plan: Callable[[Key], Job | None],
        on_done: Callable[[Key], None],
        monotonic_s: Callable[[], float],
        start: Callable[[], LuaChild],
    ) -> None:
        self.plan = plan  # returns what a counter needs now; None: nothing
        self.on_done = on_done  # called for a counter when something has been made for it, or nothing is needed
        self.monotonic_s = monotonic_s
        self.start = start
        self.stopped_count = 0  # processes that have been ended, or have ended
        self._child: LuaChild | None = None
        self._wanted: OrderedDict[bytes, dict[Key, None]] = OrderedDict()
        """Counters by their rules, whose turn it is first."""

        self._sent: list[Job] = []  # what the process is doing
        self._alone: dict[Key, None] = {}  # counters one of which ended a process
        self._forgotten: set[int] = set()
        self._started_s = -1e9
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start the process ahead of what is wanted."""
        if self._child is None:
            self._started_s = self.monotonic_s()
            self._child = self.start()
            asyncio.get_running_loop().add_reader(self._child.fileno(), self._receive)

    def want(self, key: Key) -> None:
        """Have texts made for a counter."""
        if any(job.counter.key == key for job in self._sent):
            return  # it is asked again when these have come
        self._wanted.setdefault(key.rule, {})[key] = None
        self._send()

    def forget(self, rules: Iterable[Rule]) -> None:
        """Drop rules that no counter has any more."""
        self._forgotten |= {each.lua.number for each in rules if each.lua is not None}

    def close(self) -> None:
        """End the process."""
        self._end()
        self._wanted.clear()

    # --- The process --------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send what is wanted of the next rule, unless the process is at work."""
        while self._wanted and not self._sent and self._timer is None:
            name, keys = self._wanted.popitem(last=False)
            chosen = [each for each in keys if each in self._alone][:1] or list(islice(keys, limits.LUA_CALLS_MAX))
            for key in chosen:
                del keys[key]
            if keys:
                self._wanted[name] = keys  # behind the others
            for key in chosen:
                job = self.plan(key)
                if job is not None and key in self._alone:
                    job.wanted, job.ahead = job.wanted[:1], 0
                if job is None or (key in self._alone and job.extends):
                    self._alone.pop(key, None)
                    self.on_done(key)
                else:
                    self._sent.append(job)
            if self._sent:
                self._send_jobs()

    def _send_jobs(self) -> None:
        rule = self._sent[0].rule.lua
        assert rule is not None, "only rules in Lua are sent"
        calls = [rule.call(job.first, job.left, job.time_s, job.wanted, job.ahead) for job in self._sent]
        try:
            self.begin()
            assert self._child is not None, "it has begun"
            self._child.send(rule, calls, self._forgotten)
        except OSError:
            self._fail()
            return
        self._forgotten.clear()
        self._timer = asyncio.get_running_loop().call_later(LUA_TIMEOUT_S, self._fail)

    def _receive(self) -> None:
        """Take results, or notice that the process has ended."""
        assert self._child is not None, "it is read"
        results = self._child.receive()
        if results is None or not self._sent:
            self._fail()
            return
        self._stop_timer()
        done, self._sent = self._sent, []
        for job in done[len(results) :]:  # those that it had no time for
            self._wanted.setdefault(job.counter.key.rule, {})[job.counter.key] = None
        for job, result in zip(done, results, strict=False):
            self._finish(job, result)
        self._send()

    def _finish(self, job: Job, result: list[Any]) -> None:
        """Give a counter its texts, or the reason why there are none."""
        rule, counter = job.rule.lua, job.counter
        assert rule is not None, "only rules in Lua are sent"
        self._alone.pop(counter.key, None)
        count = job.wanted[0][0]
        salts = [salt for each, salt in job.wanted for _ in range(each)]
        try:
            texts, uses = rule.made(result, count)
        except (RuleFailedError, NeedRangeError) as error:
            if job.extends is None:
                counter.block = Block(
                    job.rule, job.time_s, salts[:1], job.first, rule.step, [], error=error, count=count
                )
        else:
            if job.extends is None:
                old = counter.block
                given = old.given if isinstance(old, Block) and old.time_s == job.time_s else 0
                salts = salts[:1] if len(set(salts)) == 1 else salts[: len(texts)]
                counter.block = new = Block(job.rule, job.time_s, salts, job.first, rule.step, texts, uses)
                new.given = given
            elif texts:
                job.extends.extend(texts, uses)
        self.on_done(counter.key)

    def _fail(self) -> None:
        """Have what the process was doing done again, call by call, or refuse the only call that it was."""
        why = self._end()
        self.stopped_count += 1
        done, self._sent = self._sent, []
        is_single = len(done) == 1 and len(done[0].wanted) == 1 and not done[0].ahead
        if is_single and (why == TOO_LONG or done[0].counter.key in self._alone):
            self._finish(done[0], ["stopped", why])
        else:
            for job in done:
                self._alone[job.counter.key] = None
                self._wanted.setdefault(job.counter.key.rule, {})[job.counter.key] = None
        wait_s = max(0.0, self._started_s + LUA_START_MS / 1000 - self.monotonic_s())
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._start_again)

    def _start_again(self) -> None:
        self._stop_timer()
        if self._child is None:
            try:
                self.begin()
            except OSError:
                self._fail()
                return
        self._send()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> str:
        self._stop_timer()
        child, self._child = self._child, None
        if child is None:
            return "its process can't be started"
        asyncio.get_running_loop().remove_reader(child.fileno())
        return child.end()


def start_lua() -> LuaChild:
    """Start the process of a service."""
    child = LuaChild()
    child.socket.setblocking(False)
    return child
