"""Rules in Lua, as the original has them, in a sandbox.

A rule is a file with four functions: ``min_counter()``, ``max_counter()``, ``reset_seconds()`` and
``create_id(counter, now, salt)``, where ``counter:generate_counter()`` takes a number and ``now:year()``, ``month()``,
``day()``, ``hour()``, ``minute()`` and ``second()`` are the moment that the number shows. Each rule has a state
of Lua 5.1 of its own, whose globals stay.

A rule may use string, math without random numbers, table, and the date functions of os, which return the moment that
`now` is. It has no files, processes, `require`, `debug`, `load` or coroutines, and no access to Python objects. The
instructions for a number and the memory of the state are limited; catching the error with `pcall` does not help.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from lupa import lua51

from beanpole.ids import limits
from beanpole.ids.errors import NeedRangeError, RuleError, RuleFailedError

if TYPE_CHECKING:
    from beanpole.ids.rules.cycle import Cycle

PRELUDE = """
local sethook, loadstring, setfenv, xpcall, error = debug.sethook, loadstring, setfenv, xpcall, error
local raw_pcall, select, real_time, unpack = pcall, select, os.time, unpack
local instructions_max, code, name, date = ...
local exceeded = false

local function stop()
    exceeded = true
    error("too many instructions", 0)
end

local function checked(...)
    if exceeded then error("too many instructions", 0) end
    return ...
end

string.dump, math.random, math.randomseed = nil
local year, month, day, hour, minute, second, time_s
local counter_value, counter_step, counters_left, short
local env = {
    assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
    rawequal = rawequal, rawget = rawget, rawset = rawset, select = select, setmetatable = setmetatable,
    tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION,
    string = string, math = math, table = table, print = function() end,
    pcall = function(...) return checked(raw_pcall(...)) end,
    xpcall = function(...) return checked(xpcall(...)) end,
    os = {
        time = function(given) if given then return real_time(given) end return time_s end,
        date = function(format, given) return date(format or "%c", given or time_s) end,
        difftime = os.difftime,
    },
}
env._G = env

local function limited(call, ...)
    exceeded = false
    sethook(stop, "", instructions_max)
    return call(...)
end

local function generate_counter()
    if counters_left == 0 then
        short = true
        error("no counter is left", 0)
    end
    local value = counter_value
    counters_left, counter_value = counters_left - 1, value + counter_step
    return value
end

local counter = {generate_counter = generate_counter}
local now = {
    year = function() return year end, month = function() return month end, day = function() return day end,
    hour = function() return hour end, minute = function() return minute end, second = function() return second end,
}

local chunk, problem = loadstring(code, name)
if not chunk then error(problem, 0) end
setfenv(chunk, env)
limited(chunk)
sethook()

local function ask(which)
    local id = limited(env[which])
    sethook()
    return id
end

local function at(...) year, month, day, hour, minute, second, time_s = ... end

local function create(first, step, left, count, salt)
    counter_value, counter_step, counters_left, short = first, step, left, false
    local made, create_id = {}, env.create_id
    for i = 1, count do
        local before = counters_left
        exceeded = false
        sethook(stop, "", instructions_max)
        local fine, id = raw_pcall(create_id, counter, now, salt)
        if short then break end
        if fine and counters_left == before then
            fine, id = false, "a number without generate_counter(): numbers would repeat"
        end
        if not fine then
            sethook()
            error(id, 0)
        end
        made[i] = id or false
    end
    sethook()
    return short, left - counters_left, unpack(made)
end

return ask, at, create
"""


def no_attribute(_holder: object, _name: object, _setting: bool) -> NoReturn:
    """Refuse Lua access to the attributes of a Python object."""
    raise AttributeError("a rule has no Python")


def sentence(error: BaseException) -> str:
    """Return the message of a Lua error without its stack, and not more than a reply may hold."""
    text = str(error).partition("\n")[0][:500]
    return text or "out of memory"


class LuaRule:
    """The code of a rule."""

    def __init__(self, code: bytes, name: str) -> None:
        """Load a rule.

        Raises RuleError: it is not Lua, or fails when it is loaded.
        """
        if code.startswith(b"\x1b"):
            raise RuleError(f"{name} is compiled Lua; give the source")
        runtime = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=no_attribute,
            max_memory=limits.LUA_MEMORY_BYTES_MAX,
        )
        self._runtime = runtime
        try:
            prelude = runtime.compile(PRELUDE.encode())
            self._ask, self._at, self._create = prelude(
                limits.LUA_INSTRUCTIONS_MAX, code, f"={name}".encode(), self._date
            )
        except lua51.LuaError as error:
            raise RuleError(f"{name}: {sentence(error)}") from error
        self.cycle: Cycle | None = None
        """The rule's cycle, which knows the local time."""

        self.step = 1
        """The distance of two counters."""

        self._time_s = -1

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
        if not isinstance(value, int) or isinstance(value, bool):
            raise RuleError(f"{which}() returns {value!r}, not a whole number")
        return value

    def make(self, first: int, left: int, count: int, time_s: int, salt: bytes) -> tuple[list[str], int]:
        """Return what ``create_id`` makes, called once for each number; see `rule.Maker`.

        Raises NeedRangeError: it takes more counters than there are left; RuleFailedError: it fails, or makes
        nothing.
        """
        try:
            if time_s != self._time_s:
                assert self.cycle, "the cycle of the rule is set when it is loaded"
                local = self.cycle.local(time_s)
                self._at(local.year, local.month, local.day, local.hour, local.minute, local.second, time_s)
                self._time_s = time_s
            short, used, *made = self._create(first, self.step, left, count, salt)
        except (lua51.LuaError, AttributeError, TypeError, ValueError, OverflowError) as error:
            raise RuleFailedError(f"system error: {sentence(error)}") from error
        if short:
            raise NeedRangeError
        return [text_of(each) for each in made], used

    def _date(self, form: bytes, time_s: float) -> bytes:
        """Do what ``os.date`` does, in the zone of the rule."""
        text = form.decode("utf-8", "surrogateescape")
        assert self.cycle, "the cycle of the rule is set when it is loaded"
        moment = datetime.fromtimestamp(time_s, UTC if text.startswith("!") else self.cycle.zone)
        return moment.strftime(text.removeprefix("!")).encode("utf-8", "surrogateescape")


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
