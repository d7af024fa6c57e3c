"""The process that runs rules in Lua. `rules.lua` starts it; its socket is its standard input.

A request is the number of a rule, its code if this process does not have it yet, and calls of it; the reply has a
result for each call, in their order, or for the first ones of them: the rest is asked for again. Both are JSON, in
which bytes stand as the characters of Latin-1.

A call may take so much CPU; then the kernel ends the process, whatever it does (`setitimer`). So a rule can't hold up
anybody for longer, in Lua or in a function of C. The memory of each state of Lua is limited, too.
"""

import contextlib
import signal
import socket
import time
from collections.abc import Callable
from datetime import datetime, tzinfo
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import orjson
from lupa import lua51

from beanpole_ids import limits

LUA_REPLY_BYTES_MAX = 131_072  # the largest numbers, and as many again for what JSON escapes
LUA_AHEAD_MS = 2  # for numbers that are made ahead, or together with others: nobody may ask for them
LUA_TURN_MS = 10  # of CPU after which this process turns to another rule

SANDBOX = Path(__file__).with_name("sandbox.lua").read_bytes()

KEPT_BYTES_MAX = limits.LUA_MEMORY_BYTES_MAX // 2  # bytes that a rule may keep between two calls
AHEAD_S = LUA_AHEAD_MS / 1000

COSTS = ("not enough memory", "stack overflow", "out of memory")
"""How the errors end or begin by which a rule has used up what it may have."""


def no_attribute(_holder: object, _name: object, _setting: bool) -> NoReturn:
    """Refuse Lua access to the attributes of a Python object."""
    raise AttributeError("a rule has no Python")


def sentence(error: BaseException) -> str:
    """Return the message of a Lua error without its stack, and not more than a reply may hold."""
    text = str(error).partition("\n")[0][:500]
    return text or "out of memory"


def text_of(made: object) -> str:
    """Return what a rule has made as text, numbers as Lua writes them."""
    if isinstance(made, str):
        return made
    return format(made, ".14g") if isinstance(made, float) else str(made)


class State:
    """A state of Lua with the code of a rule. Its globals stay from call to call."""

    def __init__(self, code: str, file: str, zone: list[str]) -> None:
        """Load a rule. `zone`: its name, and its data if the name alone does not say what it is.

        Raises LuaError: it is not Lua, or fails.
        """
        name, data = zone
        self.zone: tzinfo = ZoneInfo.from_file(BytesIO(data.encode("latin-1"))) if data else ZoneInfo(name)
        runtime = lua51.LuaRuntime(
            encoding="latin-1",
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=no_attribute,
            max_memory=limits.LUA_MEMORY_BYTES_MAX,
        )
        self._memory_used = runtime.get_memory_used
        self.ask, self._at, self._create, self._uses, self._collect = runtime.compile(SANDBOX)(
            code, f"={file}", limits.REPLY_BYTES_MAX, self.offset_s
        )
        self._time_s = -1

    def is_full(self) -> bool:
        """Return whether the rule keeps more memory than it may; some of it is garbage at first.

        What a call puts into a full state before Lua runs, such as the salt, would end the process.
        """
        if self._memory_used() <= KEPT_BYTES_MAX:
            return False
        self._collect()
        return bool(self._memory_used() > KEPT_BYTES_MAX)

    def make(  # noqa: PLR0913, PLR0917 - what stands in a call
        self, time_s: int, first: int, step: int, left: int, wanted: list[tuple[int, str]], ahead: int
    ) -> list[Any]:
        """Return the texts of numbers, and how many counters each took; None for these: one each.

        `wanted`: how many numbers with which salts, one request after another; those that take too long or fail are
        left out, but the first. `ahead`: how many more with the last salt, as long as there is time.

        Raises LuaError: the rule fails.
        """
        if time_s != self._time_s:
            local = datetime.fromtimestamp(time_s, self.zone)
            date_and_time = local.year, local.month, local.day, local.hour, local.minute, local.second
            self._at(*date_and_time, time_s, self.offset_s(time_s))
            self._time_s = time_s
        texts: list[str] = []
        uses: list[int] = []
        end_s = time.process_time() + AHEAD_S
        for count, salt in wanted:
            more = ahead if len(texts) + count == sum(each for each, _ in wanted) else 0
            try:
                short, taken, *made = self._create(first, step, left, count, more, AHEAD_S, salt)
            except lua51.LuaError:
                if not texts:
                    raise
                break
            if short and not texts:
                return ["short"]
            if short:
                break
            if not made:  # the first of those that nobody waits for has failed
                break
            used = [1] * len(made) if taken == len(made) else list(self._uses()[1:])
            texts += [each if type(each) is str else text_of(each) for each in made]
            uses += used
            first, left = first + step * sum(used), left - sum(used)
            if len(wanted) > 1 and time.process_time() > end_s:
                break
        return ["made", texts, None if sum(uses) == len(uses) else uses]

    def offset_s(self, time_s: float) -> int | bool:
        """Return how many seconds the zone of the rule is ahead of UTC at a moment; False if there is no such moment.

        Lua calls it. It raises nothing, and returns what Lua need not allocate: neither could fail there in good order.
        """
        try:
            offset = datetime.fromtimestamp(time_s, self.zone).utcoffset()
            return int(offset.total_seconds()) if offset is not None else 0
        except Exception:  # noqa: BLE001 - whatever Lua gives as a moment
            return False


class Rules:
    """The rules that this process has."""

    def __init__(self, limit_s: Callable[[float], object]) -> None:
        """`limit_s`: ends the process after so many seconds of CPU; 0: does not."""
        self.limit_s = limit_s
        self.sources: dict[int, list[Any]] = {}
        self.states: dict[int, State] = {}

    def answer(self, data: bytes) -> bytes:
        """Return the reply to a request."""
        asked = orjson.loads(data)
        number = asked["rule"]
        for each in asked.get("forgotten", ()):
            self.sources.pop(each, None)
            self.states.pop(each, None)
        if "source" in asked:
            self.sources[number] = asked["source"]
        results: list[bytes] = []
        end_s, size = time.process_time() + LUA_TURN_MS / 1000, 0
        for call in asked["calls"]:
            self.limit_s(limits.LUA_MS_MAX / 1000)
            result = orjson.dumps(self.run(number, call))
            self.limit_s(0)
            if len(result) > LUA_REPLY_BYTES_MAX:
                result = orjson.dumps(["failed", f"numbers of more than {limits.REPLY_BYTES_MAX} bytes"])
            size += len(result)
            if results and size > LUA_REPLY_BYTES_MAX:
                break
            results.append(result)
            if time.process_time() > end_s:
                break
        return b"[" + b",".join(results) + b"]"

    def run(self, number: int, call: list[Any]) -> list[Any]:
        """Return the result of a call."""
        try:
            if (state := self.states.get(number)) is None:
                state = self.states[number] = State(*self.sources[number])
            is_question = isinstance(call[0], str)
            result = ["said", [state.ask(call[0])]] if is_question else state.make(*call)
        except lua51.LuaError as error:
            why = sentence(error)
            result = ["stopped" if why.startswith(COSTS) or why.endswith(COSTS) else "failed", why]
        if state is not None and state.is_full():
            result = ["stopped", f"it keeps more than {KEPT_BYTES_MAX} bytes of memory"]
        if result[0] == "stopped":
            self.states.pop(number, None)  # the next call begins with a fresh one
        return result


def main() -> None:
    """Answer requests until the service closes the socket, or has ended."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, signal.SIG_IGN)  # they are for the service, which needs numbers until it has stopped
    rules = Rules(lambda seconds: signal.setitimer(signal.ITIMER_PROF, seconds))
    with socket.socket(fileno=0) as service, contextlib.suppress(OSError):
        while data := service.recv(limits.LUA_SOCKET_BYTES):
            service.send(rules.answer(data))


if __name__ == "__main__":
    main()
