"""Rules in Lua, as the original has them. They run in a process of their own, see `lua_child`.

A rule is a file with four functions: ``min_counter()``, ``max_counter()``, ``reset_seconds()`` and
``create_id(counter, now, salt)``, where ``counter:generate_counter()`` takes a number and ``now:year()``, ``month()``,
``day()``, ``hour()``, ``minute()`` and ``second()`` are the moment that the number shows. Each rule has a state
of Lua 5.1 of its own, whose globals stay.

A rule may use string, math without random numbers, table, and the date functions of os, which return the moment that
`now` is: see sandbox.lua. The CPU of a request and the memory of the state are limited; catching the error with
`pcall` does not help.

When a configuration is read, a rule is called here and waited for (`PROCESS`). A service that gives numbers does not
wait: see `beanpole_ids.texts`.
"""

import atexit
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from beanpole_ids import limits
from beanpole_ids.errors import NeedRangeError, RuleCostError, RuleError, RuleFailedError
from beanpole_ids.rules.cycle import Cycle

LUA_TRIED_CALLS = 256  # calls in a message while a rule is tried
LUA_START_TIMEOUT_S = 60  # that a configuration which is read waits for the process: a machine may be busy

NUMBERS = count(1)

TOO_LONG = "too much time"  # why a process was ended that took more than `limits.LUA_MS_MAX` for a call


class LocalZone(ZoneInfo):
    """The machine's time zone, with the data of its file: another process must not read another one."""

    data: bytes


@dataclass(eq=False, slots=True)
class LuaRule:
    """The code of a rule."""

    code: bytes
    file: str  # for messages
    name: str
    cycle: Cycle  # knows the local time
    step: int = 1  # the distance of two counters
    number: int = field(default_factory=NUMBERS.__next__)  # names this rule, and no other, to the process that runs it

    def __post_init__(self) -> None:
        if self.code.startswith(b"\x1b"):
            raise RuleError(f"{self.file} is compiled Lua; give the source")
        if len(self.code) > limits.LUA_CODE_BYTES_MAX:
            raise RuleError(f"{self.file} has more than {limits.LUA_CODE_BYTES_MAX} bytes")

    def source(self) -> tuple[str, str, tuple[str, str]]:
        """Return what a process needs to run it."""
        zone = self.cycle.zone
        data = zone.data.decode("latin-1") if isinstance(zone, LocalZone) else ""
        return self.code.decode("latin-1"), self.file, (str(zone), data)

    def call(
        self, first: int, left: int, time_s: int, wanted: Iterable[tuple[int, bytes]], ahead: int = 0
    ) -> list[Any]:
        """Return a call that makes numbers; see `lua_child.State.make`."""
        salted = [(each, salt.decode("latin-1")) for each, salt in wanted]
        return [time_s, first, self.step, left, salted, ahead]

    def ask(self, which: str) -> int:
        """Return what ``min_counter``, ``max_counter`` or ``reset_seconds`` says.

        Raises RuleError: it fails, or says no whole number.
        """
        try:
            ((value,), _) = self.made(next(PROCESS.results(self, [[which]])))
        except RuleFailedError as error:
            raise RuleError(f"{which}(): {str(error).removeprefix('system error: ')}") from error
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            raise RuleError(f"{which}() returns {value!r}, not a whole number")
        return value

    def make(self, first: int, left: int, count: int, time_s: int, salt: bytes) -> tuple[list[str], int]:
        """Return what ``create_id`` makes, called once for each number, and wait for it; see `rule.Maker`."""
        texts, uses = self.made(next(PROCESS.results(self, [self.call(first, left, time_s, [(count, salt)])])), count)
        return texts, sum(uses) if uses else count

    def made(self, result: list[Any], count: int = 1) -> tuple[Any, Any]:
        """Return the texts of a result, and how many counters each took; None for these: one each.

        Raises NeedRangeError: it takes more counters than there are left; RuleCostError: it was stopped;
        RuleFailedError: it fails, or makes nothing.
        """
        kind, *found = result
        if kind == "short":
            raise NeedRangeError
        if kind == "stopped":
            more = "; ask for fewer numbers at a time" if count > 1 else ""
            raise RuleCostError(f"system error: rule {self.name!r} was stopped: {found[0]}{more}")
        if kind == "failed":
            raise RuleFailedError(f"system error: {found[0]}")
        if kind == "said":
            return found[0], None
        return [each if each.isascii() else as_text(each) for each in found[0]], found[1]


def as_text(latin: str) -> str:
    """Return the text of bytes that stand as characters of Latin-1."""
    return latin.encode("latin-1").decode("utf-8", "surrogateescape")


class LuaChild:
    """A process that runs rules."""

    def __init__(self) -> None:
        """Start it, which takes it a tenth of a second; messages wait for that. Raises OSError: it can't be started."""
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            for each in (self.socket, other):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.LUA_SOCKET_BYTES)
            command = [sys.executable, "-P", "-m", "beanpole_ids.rules.lua_child"]
            self.process = subprocess.Popen(  # noqa: S603 - this very Python
                command, stdin=other.fileno(), stdout=subprocess.DEVNULL
            )
        self.known: set[int] = set()

    def send(self, rule: LuaRule, calls: list[list[Any]], forgotten: Iterable[int] = ()) -> None:
        """Send calls of a rule, with its code if the process does not have it yet. One message at a time is answered.

        Raises OSError: the process has ended.
        """
        message: dict[str, Any] = {"rule": rule.number, "calls": calls}
        if gone := self.known.intersection(forgotten):
            message["forgotten"] = list(gone)
            self.known -= gone
        if rule.number not in self.known:
            message["source"] = rule.source()
            self.known.add(rule.number)
        self.socket.send(orjson.dumps(message))

    def receive(self) -> list[Any] | None:
        """Return the results of calls, the first ones at least; None: the process has ended.

        Raises OSError: nothing has come in time.
        """
        try:
            data = self.socket.recv(limits.LUA_SOCKET_BYTES)
        except ConnectionError:
            return None
        found: list[Any] | None = orjson.loads(data) if data else None
        return found

    def fileno(self) -> int:
        return self.socket.fileno()

    def end(self) -> str:
        """End the process; return why it has ended already if it has, as after a call that took too long."""
        self.socket.close()
        self.process.kill()  # one that has closed its socket is past being killed, and keeps its reason
        code = self.process.wait()
        return TOO_LONG if code == -signal.SIGPROF else f"its process ended with {code}"


class LuaProcess:
    """A process that is started when it is needed, and waited for."""

    def __init__(self) -> None:
        self.child: LuaChild | None = None

    def results(self, rule: LuaRule, calls: list[list[Any]]) -> Iterator[list[Any]]:
        """Return the result of each of some calls, which are made as these are read.

        Raises RuleError: the process can't be started, or does not answer.
        """
        place, count = 0, LUA_TRIED_CALLS
        while place < len(calls):
            try:
                if self.child is None:
                    self.child = LuaChild()
                    self.child.socket.settimeout(LUA_START_TIMEOUT_S)
                self.child.send(rule, calls[place : place + count])
                found = self.child.receive()
            except (BrokenPipeError, ConnectionResetError):  # it had ended before it was asked
                found = None
            except OSError as error:
                self.close()
                raise RuleError(f"the process of rules in Lua fails: {error}") from error
            if found is None:
                why = self.close()
                if count > 1:
                    count = 1  # of several calls nobody knows for which it was ended
                    continue
                found = [["stopped", why]]
            yield from found
            place += len(found)

    def close(self) -> str:
        """End the process, if there is one; return why it has ended."""
        child, self.child = self.child, None
        return child.end() if child else ""


PROCESS = LuaProcess()
"""Runs rules while a configuration is read. Whoever has read one closes it, as the process takes memory."""

atexit.register(PROCESS.close)
