"""Rules in Lua, as the original has them, in a sandbox.

A rule is a file with four functions: ``min_counter()``, ``max_counter()``, ``reset_seconds()`` and
``create_id(counter, now, salt)``, where ``counter:generate_counter()`` takes a number and ``now:year()``, ``month()``,
``day()``, ``hour()``, ``minute()`` and ``second()`` are the moment that the number shows. Each rule has a state
of Lua 5.1 of its own, whose globals stay.

A rule may use string, math without random numbers, table, and the date functions of os, which return the moment that
`now` is. It has no files, processes, `require`, `debug`, `load` or coroutines, and no access to Python objects. The
instructions and the time of a call and the memory of the state are limited; catching the error with `pcall` does not
help. How: see sandbox.lua, and patterns.lua for what searches in text.
"""

import weakref
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from lupa import lua51

from beanpole_ids import limits
from beanpole_ids.errors import NeedRangeError, RuleCostError, RuleError, RuleFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from beanpole_ids.rules.cycle import Cycle

SANDBOX, PATTERNS = (Path(__file__).with_name(f"{name}.lua").read_bytes() for name in ("sandbox", "patterns"))

KEPT_BYTES_MAX = limits.LUA_MEMORY_BYTES_MAX // 2
"""Bytes that a rule may keep between two calls."""

COSTS = ("too many instructions", "too much time", "not enough memory", "stack overflow", "out of memory")
"""How the errors end or begin with which a rule is stopped."""


def no_attribute(_holder: object, _name: object, _setting: bool) -> NoReturn:
    """Refuse Lua access to the attributes of a Python object."""
    raise AttributeError("a rule has no Python")


def sentence(error: BaseException) -> str:
    """Return the message of a Lua error without its stack, and not more than a reply may hold."""
    text = str(error).partition("\n")[0][:500]
    return text or "out of memory"


class LuaRule:
    """The code of a rule."""

    def __init__(self, code: bytes, file: str, name: str = "") -> None:
        """Load a rule. `file` and `name` are those of its code and of the rule, for messages.

        Raises RuleError: it is not Lua, or fails when it is loaded.
        """
        if code.startswith(b"\x1b"):
            raise RuleError(f"{file} is compiled Lua; give the source")
        self.code = code
        self.file = file
        self.name = name
        self.cycle: Cycle | None = None
        """The rule's cycle, which knows the local time."""

        self.step = 1
        """The distance of two counters."""

        self._time_s = -1
        self._open()

    def _open(self) -> None:
        """Make a state of Lua, and load the code."""
        runtime = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=no_attribute,
            max_memory=limits.LUA_MEMORY_BYTES_MAX,
        )
        self._memory_used = runtime.get_memory_used
        try:
            self._ask, self._at, self._create, self._collect = runtime.compile(SANDBOX)(
                limits.LUA_INSTRUCTIONS_MAX,
                limits.LUA_MS_MAX / 1000,
                limits.LUA_MEMORY_BYTES_MAX,
                limits.LUA_LOOK_STEPS,
                limits.LUA_SEARCH_STEPS_MAX,
                limits.REPLY_BYTES_MAX,
                self.code,
                f"={self.file}".encode(),
                self._zone(),
                PATTERNS,
            )
        except lua51.LuaError as error:
            raise RuleError(f"{self.file}: {sentence(error)}") from error
        self._time_s = -1
        if self._is_full():
            raise RuleError(f"{self.file}: it keeps more than {KEPT_BYTES_MAX} bytes of memory")

    def _is_full(self) -> bool:
        """Return whether the rule keeps more memory than it may; some of it is garbage at first.

        What a call puts into a full state before Lua runs, such as the salt, would end the process.
        """
        if self._memory_used() <= KEPT_BYTES_MAX:
            return False
        self._collect()
        return bool(self._memory_used() > KEPT_BYTES_MAX)

    def ask(self, which: str) -> int:
        """Return what ``min_counter``, ``max_counter`` or ``reset_seconds`` says.

        Raises RuleError: it fails, or says no whole number.
        """
        try:
            value = self._ask(which.encode())
        except lua51.LuaError as error:
            raise RuleError(f"{which}(): {sentence(error)}") from error
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            raise RuleError(f"{which}() returns {value!r}, not a whole number")
        return value

    def make(self, first: int, left: int, count: int, time_s: int, salt: bytes) -> tuple[list[str], int]:
        """Return what ``create_id`` makes, called once for each number; see `rule.Maker`.

        Raises NeedRangeError: it takes more counters than there are left; RuleCostError: it was stopped;
        RuleFailedError: it fails, or makes nothing.
        """
        try:
            if time_s != self._time_s:
                assert self.cycle, "the cycle of the rule is set when it is loaded"
                local = self.cycle.local(time_s)
                offset_s = self.offset_s(time_s)
                self._at(local.year, local.month, local.day, local.hour, local.minute, local.second, time_s, offset_s)
                self._time_s = time_s
            short, used, *made = self._create(first, self.step, left, count, salt)
        except lua51.LuaError as error:
            why = sentence(error)
            if self._is_full() or why.startswith(COSTS) or why.endswith(COSTS):
                raise self._stopped(why, count) from error
            raise RuleFailedError(f"system error: {why}") from error
        if self._memory_used() > KEPT_BYTES_MAX and self._is_full():
            raise self._stopped("it keeps too much memory", count)
        if short:
            raise NeedRangeError
        return [text_of(each) for each in made], used

    def _stopped(self, why: str, count: int) -> RuleCostError:
        """Begin with a fresh state, without what was left half done; return the error for the request."""
        self._open()
        more = "; ask for fewer numbers at a time" if count > 1 else ""
        return RuleCostError(f"system error: rule {self.name!r} was stopped: {why}{more}")

    def _zone(self) -> "Callable[[float], int | bool]":
        """Return a function for Lua that does what `offset_s` does. It holds no rule, which would hold the state."""
        rule = weakref.ref(self)

        def offset_s(time_s: float) -> int | bool:
            found = rule()
            return False if found is None else found.offset_s(time_s)

        return offset_s

    def offset_s(self, time_s: float) -> int | bool:
        """Return how many seconds the zone of the rule is ahead of UTC at a moment; False if there is no such moment.

        Lua calls it. It raises nothing, and returns what Lua need not allocate: neither could fail there in good order.
        """
        try:
            assert self.cycle, "the cycle of the rule is set when it is loaded"
            offset = datetime.fromtimestamp(time_s, self.cycle.zone).utcoffset()
            return int(offset.total_seconds()) if offset is not None else 0
        except Exception:  # noqa: BLE001 - whatever Lua gives as a moment
            return False


def text_of(made: object) -> str:
    """Return what a rule has made as text, numbers as Lua writes them.

    Raises RuleFailedError: it is no text and no number.
    """
    if isinstance(made, bytes) and made:
        return made.decode("utf-8", "surrogateescape")
    if isinstance(made, int) and not isinstance(made, bool):
        return str(made)
    if isinstance(made, float):
        return format(made, ".14g")
    raise RuleFailedError("system error: the rule made no number")
