"""Rules in Lua, as the original has them, in a sandbox.

A rule is a file with four functions: ``min_counter()``, ``max_counter()``, ``reset_seconds()`` and
``create_id(counter, now, salt)``, where ``counter:generate_counter()`` takes a number and ``now:year()``, ``month()``,
``day()``, ``hour()``, ``minute()`` and ``second()`` are the moment that the number shows. Each rule has a state
of Lua 5.1 of its own, whose globals stay.

The rule has string, math, table, and of os what tells the time: the same moment that `now` is. It has no files,
processes, `require`, `debug`, `load` or coroutines, and no way to a Python object. A number may take only so many
instructions and the state only so much memory; what is caught by `pcall` does not lift the limit.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from lupa import lua51

from beanpole import limits
from beanpole.errors import BeanpoleError, RuleError, RuleFailedError

if TYPE_CHECKING:
    from beanpole.ids.cycle import Cycle

PRELUDE = """
local sethook, loadstring, setfenv, xpcall, error = debug.sethook, loadstring, setfenv, xpcall, error
local raw_pcall, select, real_time = pcall, select, os.time
local instructions_max, code, name = ...
local exceeded = false

local function stop()
    exceeded = true
    error("too many instructions", 0)
end

local function checked(...)
    if exceeded then error("too many instructions", 0) end
    return ...
end

string.dump = nil
local moment, take, date = {}, nil, nil
local env = {
    assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
    rawequal = rawequal, rawget = rawget, rawset = rawset, select = select, setmetatable = setmetatable,
    tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION,
    string = string, math = math, table = table, print = function() end,
    pcall = function(...) return checked(raw_pcall(...)) end,
    xpcall = function(...) return checked(xpcall(...)) end,
    os = {
        time = function(given) if given then return real_time(given) end return moment[7] end,
        date = function(format, time_s) return date(format or "%c", time_s or moment[7]) end,
        clock = os.clock, difftime = os.difftime,
    },
}
env._G = env

local function limited(call, ...)
    exceeded = false
    sethook(stop, "", instructions_max)
    return call(...)
end

local counter = {generate_counter = function() return take() end}
local now = {
    year = function() return moment[1] end, month = function() return moment[2] end,
    day = function() return moment[3] end, hour = function() return moment[4] end,
    minute = function() return moment[5] end, second = function() return moment[6] end,
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

local function create(python_take, python_date, salt, ...)
    take, date, moment = python_take, python_date, {...}
    local id = limited(env.create_id, counter, now, salt)
    sethook()
    return id
end

return ask, create
"""


class Take(Protocol):
    """Takes the next number of a counter."""

    def __call__(self) -> int:
        """Return it."""


def no_attribute(_holder: object, _name: object, _setting: bool) -> NoReturn:
    """Keep Lua from whatever a Python object has."""
    raise AttributeError("a rule has no Python")


def sentence(error: BaseException) -> str:
    """Return the message of a Lua error without its stack."""
    text = str(error).partition("\n")[0]
    return text or "out of memory"


class LuaRule:
    """The code of a rule."""

    def __init__(self, code: bytes, name: str) -> None:
        """Load a rule.

        Raises:
            RuleError: it is not Lua, or fails when it is loaded.
        """
        if code.startswith(b"\x1b"):
            raise RuleError(f"{name} is compiled Lua; give the source")
        runtime = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=no_attribute,
            max_memory=limits.IDS_LUA_MEMORY_BYTES_MAX,
        )
        self._runtime = runtime
        try:
            prelude = runtime.compile(PRELUDE.encode())
            self._ask, self._create = prelude(limits.IDS_LUA_INSTRUCTIONS_MAX, code, f"={name}".encode())
        except lua51.LuaError as error:
            raise RuleError(f"{name}: {sentence(error)}") from error
        self.cycle: Cycle | None = None
        self._moment: tuple[int, ...] = ()

    def ask(self, which: str) -> int:
        """Return what ``min_counter``, ``max_counter`` or ``reset_seconds`` says.

        Raises:
            RuleError: it fails, or says no whole number.
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

    def make(self, take: Take, time_s: int, salt: bytes) -> str:
        """Return what ``create_id`` makes.

        Raises:
            BeanpoleError: what `take` has raised.
            RuleFailedError: it fails, or makes nothing.
        """
        if not self._moment or self._moment[6] != time_s:
            assert self.cycle, "the cycle of the rule is set when it is loaded"
            local = self.cycle.local(time_s)
            self._moment = (local.year, local.month, local.day, local.hour, local.minute, local.second, time_s)
        raised: list[BeanpoleError] = []

        def careful_take() -> int:
            try:
                return take()
            except BeanpoleError as error:
                raised.append(error)
                raise

        made: Any = None
        try:
            made = self._create(careful_take, self._date, salt, *self._moment)
        except lua51.LuaError as error:
            if not raised:
                raise RuleFailedError(f"system error: {sentence(error)}") from error
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise RuleFailedError(f"system error: {sentence(error)}") from error
        if raised:
            raise raised[0]
        return text_of(made)

    def _date(self, form: bytes, time_s: float) -> bytes:
        """Do what ``os.date`` does, in the zone of the rule."""
        text = form.decode("utf-8", "surrogateescape")
        assert self.cycle, "the cycle of the rule is set when it is loaded"
        moment = datetime.fromtimestamp(time_s, UTC if text.startswith("!") else self.cycle.zone)
        return moment.strftime(text.removeprefix("!")).encode("utf-8", "surrogateescape")


def text_of(made: object) -> str:
    """Return what a rule has made as text, numbers as Lua writes them.

    Raises:
        RuleFailedError: it is no text and no number.
    """
    if isinstance(made, bytes) and made:
        return made.decode("utf-8", "surrogateescape")
    if isinstance(made, int) and not isinstance(made, bool):
        return str(made)
    if isinstance(made, float):
        return format(made, ".14g")
    raise RuleFailedError("system error: the rule made no number")


Maker = Callable[[Take, int, bytes], str]
"""What makes a number: takes from a counter, for a moment, with the salt of the client."""
