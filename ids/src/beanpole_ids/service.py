"""Requests and replies: what stands between datagrams and counters.

A request is answered at once if its numbers are reserved. Otherwise it waits until `counters` has loaded its counter or
reserved a range, and is then served from the beginning, in the order of arrival. So no number is sent before it is
durable. Time is read once for a request, and all its numbers show it. Numbers are taken from a counter when the reply
that contains them is ready to be sent: a request that fails before takes none.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from beanpole_ids import limits
from beanpole_ids.admission import Admission, NewNames
from beanpole_ids.cookie import Cookies
from beanpole_ids.counters import Counters
from beanpole_ids.errors import (
    ExhaustedError,
    LimitError,
    NeedCookieError,
    NeedTextsError,
    NoNumberError,
    RuleCostError,
    RuleError,
    StorageError,
)
from beanpole_ids.fast import Counts, Fast
from beanpole_ids.forms import Block
from beanpole_ids.origin import Origin
from beanpole_ids.original import wire
from beanpole_ids.request import Answer, BadRequestError, Reader, Request, too_large
from beanpole_ids.rules.config import Config
from beanpole_ids.rules.lua import LuaChild
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Counter, Key
from beanpole_ids.storage.threaded import StoreCalls
from beanpole_ids.tallies import needs_proof
from beanpole_ids.texts import Job, Texts, start_lua
from beanpole_ids.waiting import Waiting
from beanpole_ids.window import Window

LUA_AHEAD_MAX = 1_000  # texts in Lua that are made ahead at a time; they are lost when the second is over
WAITING_NUMBERS = 100  # numbers that take as long as another request

DROPPED = ("malformed", "reply", "own address", "late", "crowded", "unproven")
"""Why a datagram is not answered: it is no JSON object; it is a reply; it comes from our own socket; it has waited
longer than its client does; its source has too much waiting; no refusal is short enough for a source that may be
forged."""


def is_reply(found: dict[str, Any]) -> bool:
    """Whether an object is a reply, of this server or another: two that answered each other would not end."""
    return type(found.get("code")) is int and ("message" in found or "data" in found)


class Service:
    """The requests of a node."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a test may replace
        self,
        config: Config,
        store: StoreCalls,
        now_s: Callable[[], float],
        monotonic_s: Callable[[], float],
        on_failure: Callable[[Exception], None] = lambda _: None,
        start_lua: Callable[[], LuaChild] = start_lua,
    ) -> None:
        self.config = config
        self.now_s = now_s
        self.monotonic_s = monotonic_s
        self.on_failure = on_failure
        """Called when a request has failed by an error of ours."""

        self.counters = Counters(config.rules, store, now_s, monotonic_s, self._serve_waiting)
        self.reader = Reader(config.rules)
        self.admission = Admission(config.limits)
        self.cookies = Cookies(config.trusted_networks, monotonic_s)
        self.waiting = Waiting()
        self.new_names = NewNames(config.new_names_per_s, monotonic_s)
        self.counters.may_create = self._may_create
        self.texts = Texts(self._plan_texts, self._texts_done, monotonic_s, start_lua)
        self.counters.is_held = self._is_held
        self.window = Window()
        self.counts = Counts()
        self.dropped = dict.fromkeys(DROPPED, 0)
        """Datagrams that were not answered, by reason."""

        self.fast = Fast(
            self.counts, self.waiting.queues, self.window, self.counters, self.admission.allowance, self.texts
        )
        """Serves simple requests for what `attempt` has answered once."""

        self.refused: dict[tuple[str, int], int] = {}
        """Requests without a number, by rule (an unknown one is empty) and code. Those with one: see `Counter`."""

    # --- A request ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, answer: Answer, source: str = "", *, is_trusted: bool = True) -> None:
        """Serve a datagram. One without a JSON object is dropped and counted, and a reply; every other is answered.

        `source` is the client's IP address, or "" if it is not known. An address that is not trusted may be forged: it
        gets no long reply without a cookie; see `beanpole_ids.cookie`.
        """
        room = limits.REPLY_BYTES_MAX if is_trusted else limits.UNPROVEN_FACTOR * len(data)
        try:
            found = wire.parse(data) if len(data) <= limits.REQUEST_BYTES_MAX else None
        except wire.TooDeepError as error:
            found = error.plain
            if not is_reply(found):
                self.counts.requests += 1
                self.refuse(found, answer, str(error), room=room)
                return
        if found is None:
            self.dropped["malformed"] += 1
            return
        if is_reply(found):
            self.dropped["reply"] += 1
            return
        self.counts.requests += 1
        try:
            request = self.reader.read(found, answer, source)
            if not is_trusted and not self.cookies.is_good(found.get("cookie"), source):
                request.room, request.is_proven = room, False
                if request.count > 1 or self.needs_proof(request):
                    self.refuse_with(request, NeedCookieError())
                    return
            self.serve(request)
        except BadRequestError as error:
            self.refuse(found, answer, str(error), room=room)
        except Exception as error:  # noqa: BLE001 - reported by `fail`
            self.fail(found, answer, error, room)

    def needs_proof(self, request: Request) -> bool:
        """Return whether an address that may be forged gets no number by this request."""
        rule = request.rule
        return request.is_get and needs_proof(self.admission.allowance(rule.name), is_shared=rule.shared)

    def answer_quickly(self, data: bytes, source: str) -> bytes | None:
        """Return the reply to a simple request of an address that is proven; None: `receive` must serve it."""
        try:
            now_s = self.now_s()
        except NoNumberError:
            return None
        return self.fast.answer(data, now_s, self.monotonic_s(), Origin(b"", source, None))

    def fail(self, found: dict[str, Any], answer: Answer, error: Exception, room: int = limits.REPLY_BYTES_MAX) -> None:
        """Record an error of ours, which must end nothing but its request, and answer that there was one."""
        self.record_failure(error)
        with contextlib.suppress(Exception):  # such as the same again
            self.refuse(found, answer, "system error: an error of ours; the log has it", room=room)

    def record_failure(self, error: Exception) -> None:
        """Count and report a request that failed by an error of ours."""
        self.counts.failed += 1
        self.on_failure(error)

    def refuse(
        self,
        found: dict[str, Any],
        answer: Answer,
        message: str,
        code: int = -1,
        *,
        room: int = limits.REPLY_BYTES_MAX,
        **more: object,
    ) -> None:
        """Answer that there is no number, and why; without the request if the two don't fit into `room` bytes."""
        self.counts.refused += 1
        rule = found.get("rule_name")
        tally = (rule if isinstance(rule, str) and rule in self.config.rules else "", code)
        self.refused[tally] = self.refused.get(tally, 0) + 1
        why = {"code": code, "message": message} | more
        for whole in (found | why, why):
            if len(reply := wire.render(whole)) <= room:
                answer(reply)
                return
        self.dropped["unproven"] += 1

    def refuse_with(self, request: Request, error: NoNumberError) -> None:
        """Answer why there is no number, and what helps: when to ask again, or the cookie to ask with."""
        message, more = str(error), dict[str, object]()
        if isinstance(error, ExhaustedError):
            when = error.resets_at_s
            if when is not None:
                more["resets_at"] = request.rule.cycle.local(when).isoformat()
            message += f"; counting starts again: {more.get('resets_at', 'never')}"
        elif isinstance(error, LimitError) and error.retry_s is not None:
            more["retry_s"] = math.ceil(error.retry_s * 1000 - 1e-6) / 1000
        elif isinstance(error, NeedCookieError):
            more["cookie"] = self.cookies.make(request.source)
        self.refuse(request.found, request.answer, message, error.code, room=request.room, **more)

    def serve(self, request: Request) -> None:
        """Answer a request, or let it wait for the store."""
        if request.key in self.waiting.queues:
            self.wait(request)
            return
        try:
            if self.attempt(request):
                return
        except NoNumberError as error:
            self.refuse_with(request, error)
        except NeedTextsError:
            self.wait(request, for_texts=True)
        else:
            self.wait(request)

    def attempt(self, request: Request) -> bool:
        """Try to answer a request; return whether it is answered, and need not wait for the store.

        Raises NoNumberError: it can't be, and waiting does not help; NeedTextsError: it has to wait for them.
        """
        counter = self.counters.get(request.key)
        if request.is_get:
            reply = self.fast.answer_read(request, counter, self.now_s, self.monotonic_s())
        elif counter is None:
            reply = None
        elif counter.durable is None:
            self.refuse(request.found, request.answer, "not exist", room=request.room)
            return True
        else:
            state = state_of(counter, request.rule)
            reply = wire.render(request.found | {"code": 0, "message": "ok", "data": state})
            if len(reply) > request.room:
                raise too_large(len(reply), request.count)
        if reply is not None:
            request.answer(reply)
        return reply is not None

    # --- Waiting ------------------------------------------------------------------------------------------------------

    def wait(self, request: Request, *, for_texts: bool = False) -> None:
        """Let a request wait for its counter, behind those that do already; refuse it if that does not help."""
        if known := self.waiting.queues.get(request.key):
            for_texts = known.texts_since_s is not None
        if error := self.counters.ending() if for_texts else self.counters.unavailable():
            self.refuse_with(request, error)
            return
        if self.waiting.is_full(request.source):
            self.refuse_with(request, StorageError("storage: too many requests wait for it"))
            return
        request.waits_since_s = self.monotonic_s()
        line = self.waiting.add(request)
        if for_texts:
            if known is None:
                line.texts_since_s = request.waits_since_s
                self.texts.want(request.key)
            self.counters.serve(request.key, 2)
            return
        if counter := self.counters.get(request.key):
            counter.wanted = max(counter.wanted, min(line.number_count, limits.BATCH_MAX))
        self.counters.want(request.key, create=request.is_get, source=request.source)
        self.counters.serve(request.key, 2)  # so that a line becomes shorter, however fast others join it

    def _may_create(self, key: Key) -> NoNumberError | None:
        """Return why a counter that nobody has used must not be created for the requests that wait for it.

        An address that may be forged creates none: it would take memory, and a row, in the name of another.
        """
        sources = self.waiting.sources(key)
        return self.new_names.spend(sources) if sources else NeedCookieError()

    def _serve_waiting(self, key: Key, error: Exception | None, most: int) -> bool:
        """Serve the requests that waited for a counter, or answer with the error that it could not be loaded.

        In their order, until one must wait again, or as many are served as may be: then there are more, and it returns
        True. An error of ours ends its request.
        """
        line = self.waiting.queues.get(key)
        if line is None:
            return False
        counter = self.counters.get(key)
        spent = 0
        while spent < most:
            if counter is not None:  # they share the next range
                counter.wanted = min(line.number_count, limits.BATCH_MAX)
            before = self.counts.numbers
            try:
                is_served = self._is_served(line.first, error)
            except NeedTextsError:
                if line.texts_since_s is None:
                    line.texts_since_s = self.monotonic_s()
                self.texts.want(key)
                return False
            if not is_served:
                line.texts_since_s = None
                self.counters.want(key, create=line.number_count > 0, source=line.first.source)
                return False
            spent += 1 + (self.counts.numbers - before) // WAITING_NUMBERS  # a refusal has none
            self.waiting.drop_first(line)
            if not line:
                del self.waiting.queues[key]
                if counter is not None:
                    counter.wanted = 0
                return False
        return True

    def _is_served(self, request: Request, error: Exception | None) -> bool:
        """Answer a request that has waited; return whether it has its answer, and need not wait for the store.

        Raises NeedTextsError: it has to wait for them.
        """
        try:
            if isinstance(error, NeedCookieError) and request.is_proven:  # it came after those who have to prove it
                return self._is_served_again(request)
            if isinstance(error, NoNumberError):
                self.refuse_with(request, error)
            elif error is not None:
                self.fail(request.found, request.answer, error, request.room)
            else:
                return self._is_served_again(request)
        except NeedTextsError:
            raise
        except Exception as failure:  # noqa: BLE001 - reported by `fail`
            self.fail(request.found, request.answer, failure, request.room)
        return True

    def _is_served_again(self, request: Request) -> bool:
        rule = self.config.rules.get(request.rule.name)
        if rule is None:  # removed by a reload while the request waited
            self.refuse(request.found, request.answer, "system error: unknown rule", room=request.room)
            return True
        request.rule = rule
        if request.key not in self.counters.loaded and not request.is_get:
            if failure := self.counters.unavailable():  # nobody knows whether it exists
                self.refuse_with(request, failure)
            else:
                self.refuse(request.found, request.answer, "not exist", room=request.room)
            return True
        try:
            if self.attempt(request):
                return True
            if failure := self.counters.unavailable():
                raise failure
        except NoNumberError as refusal:
            self.refuse_with(request, refusal)
            return True
        except NeedTextsError:
            now_s, line = self.monotonic_s(), self.waiting.queues[request.key]
            since_s = now_s if line.texts_since_s is None else max(request.waits_since_s, line.texts_since_s)
            if now_s - since_s < limits.LUA_WAIT_MS / 1000:
                raise
            self.refuse_with(request, RuleCostError(f"system error: rule {rule.name!r} is too slow"))
            return True
        return False

    def begin_lua(self) -> None:
        """Start the process of rules in Lua, if there are any, ahead of the first request."""
        if any(rule.lua is not None for rule in self.config.rules.values()):
            with contextlib.suppress(OSError):  # a request says what is wrong
                self.texts.begin()

    # --- Texts --------------------------------------------------------------------------------------------------------

    def _plan_texts(self, key: Key) -> Job | None:
        """Return what texts a counter needs: for the requests that wait, else to go on with those it has."""
        counter, rule = self.counters.get(key), self.config.rules.get(key.rule.decode())
        if counter is None or rule is None or rule.lua is None:
            return None
        try:
            time_s = counter.open(self.now_s())
        except NoNumberError:
            return None
        first, left = counter.offer()
        block = counter.block if isinstance(counter.block, Block) and counter.block.rule is rule else None
        ahead = min(2 * block.given, LUA_AHEAD_MAX) if block else 0
        if line := self.waiting.queues.get(key):
            requests = islice(line.in_turn(), limits.LUA_CALLS_MAX)
            wanted = [(each.count, each.salt) for each in requests if each.is_get]
            is_possible = wanted and left >= wanted[0][0]
            return Job(counter, rule, first, left, time_s, wanted, ahead) if is_possible else None
        if block is None or block.asked or block.time_s != time_s or len(block.salts) > 1:
            return None
        block.asked = True
        left -= (block.end - first) // counter.bounds.step
        wanted = [(0, block.salts[0])]
        return Job(counter, rule, block.end, left, time_s, wanted, ahead, block) if left > 0 and ahead else None

    def _texts_done(self, key: Key) -> None:
        if key in self.waiting.queues:
            self.counters.report({key: None})

    def _is_held(self) -> bool:
        return any(line.texts_since_s is not None for line in self.waiting.queues.values())

    # --- Reload -------------------------------------------------------------------------------------------------------

    async def reload(self, config: Config) -> None:
        """Take over changed rules, all of them; nothing has changed until it returns. One at a time.

        Raises RuleError: something else has changed, which only a restart takes over.
        """
        for name in ("processes", "step", "offset", "database", "host", "port", "http", "audit_log"):
            if getattr(config, name) != getattr(self.config, name):
                raise RuleError(f"{name} has changed; only a restart takes it over")
        await asyncio.to_thread(check_kinds, self.config.rules, config.rules)  # there may be ten thousand
        await self.counters.reload(config.rules)
        # Nothing waits from here on: rules and counters change at once.
        self.admission.reload(config.limits)
        self.texts.forget(old for name, old in self.config.rules.items() if config.rules.get(name) is not old)
        if config.trusted_networks != self.config.trusted_networks:
            self.cookies = self.cookies.trusting(config.trusted_networks)
        if config.new_names_per_s != self.config.new_names_per_s:
            self.new_names = NewNames(config.new_names_per_s, self.monotonic_s)
        self.config, self.reader = config, Reader(config.rules)
        self.fast.forget()
        self.begin_lua()


def check_kinds(before: Mapping[str, Rule], after: Mapping[str, Rule]) -> None:
    """Check that rules have kept their kinds.

    Raises RuleError: one has not.
    """
    for name, old in before.items():
        rule = after.get(name)
        if rule and rule is not old and rule.counting.layout_kind != old.counting.layout_kind:
            raise RuleError(f"rule {name!r}: its kind has changed, and numbers could repeat; give it another name")


def state_of(counter: Counter, rule: Rule) -> dict[str, Any]:
    """Return how a counter of a rule stands."""
    end_s = counter.cycles.end_s(counter.time_s)
    return {
        "counter": counter.last,
        "node_offset": counter.shape.offset,
        "remaining": counter.shape.remaining(counter.last),
        "reserved": counter.reserved,
        "resets_at": rule.cycle.local(end_s).isoformat() if end_s is not None else None,
    }
