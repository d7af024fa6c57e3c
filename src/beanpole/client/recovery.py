"""What a client does when it can't connect, or has lost a connection: it dials again, with pauses. No I/O.

When it has lost a connection that worked, it does so as long as it has patience, for whatever was not sent yet.

A call of which sending it twice does no harm (:func:`safe_s`) does not fail either when it was sent: it is sent again
over the next connection. A reserve's timeout goes on in that time. All other calls fail that were sent and not
answered, for nobody knows whether they were executed.

The first connection of a client is another matter: a wrong address shall be found at once.
"""

import logging
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from beanpole.address import Address
from beanpole.client import batch
from beanpole.client.about import about, named
from beanpole.client.session import Session
from beanpole.errors import CannotConnectError, ConnectionLostError, TimedOutError
from beanpole.protocol import wire
from beanpole.protocol.limits import ONCE_S_DEFAULT
from beanpole.protocol.wire import Call

T = TypeVar("T")

PAUSE_MAX_S = 2.0
"""Seconds of the longest pause of a client that has lost its connection: the return of the server is soon noticed.

A connection that lives for longer was not lost again at once.
"""

logger = logging.getLogger("beanpole.client")

SAFE = frozenset(
    b"reserve reserve-with-timeout reserve-many watch ignore use"
    b" peek peek-ready peek-delayed peek-buried find-job list-jobs explain explain-tube"
    b" stats stats-job stats-tube stats-tubes stats-histograms stats-failures stats-groups list-sessions"
    b" list-tubes list-tube-used list-tubes-watched list-rules get-rules list-schedules get-schedule"
    b" list-extensions list-rights keep-session".split()
)
"""The commands that may be sent twice: they read, or are undone by the end of the connection."""


def safe_s(call: "Call[Any]") -> float:
    """For how many seconds a call may be sent again when nobody knows whether it was executed; 0: it may not.

    A put with a key may: the tube holds one job with that key, though it runs again if it was done in the meantime.
    A put with a token may as long as the token counts: it is done once, whatever became of its job.
    """
    verb, *words = call.data.partition(b"\r\n")[0].split(b" ")
    options = dict(word.split(b"=", 1) for word in words if b"=" in word) if verb == b"put-job" else {}
    if verb in SAFE or b"key" in options:
        return math.inf
    return float(options.get(b"for", ONCE_S_DEFAULT)) if b"once" in options else 0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Attempts with pauses that double, each cut by up to half at random, so that many clients don't come at once."""

    attempts: int = 5
    """Attempts in all; 1: no second one."""

    first_s: float = 0.05
    """Seconds of the pause after the first attempt."""

    max_s: float = 5.0
    """Seconds of the longest pause."""

    chance: Callable[[], float] = random.random
    """A number from 0 to 1, a new one each time."""

    def for_ever(self) -> Iterator[float]:
        """The seconds to wait after each attempt of a client that has lost its connection, without end.

        They stay short, so that the return of the server is soon noticed.
        """
        most_s = min(self.max_s, PAUSE_MAX_S)
        return replace(self, attempts=sys.maxsize, max_s=most_s).pauses()

    def pauses(self) -> Iterator[float]:
        """The seconds to wait after each attempt but the last."""
        pause_s = self.first_s
        for _ in range(self.attempts - 1):
            yield min(pause_s, self.max_s) * (1 - self.chance() / 2)
            pause_s *= 2


def wall_s() -> float:
    """Return the time of this machine, in seconds since 1970."""
    return time.time()


class Outage:
    """The time from the loss of a connection that had worked to the next one; a client has one, on or off."""

    def __init__(
        self,
        patience_s: float | None,
        backoff: Backoff,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_logged: bool = True,
    ) -> None:
        self._patience_s = patience_s
        self._backoff = backoff
        self.is_logged = is_logged
        self._pauses = backoff.for_ever()
        self.clock = clock
        self._since_s: float | None = None
        self.closings = 0
        """How often the client was closed."""
        self._over_s = -math.inf
        """When the last one ended."""

    @property
    def is_on(self) -> bool:
        """Whether the connection was lost, and there is no other yet."""
        return self._since_s is not None

    @property
    def lasts_s(self) -> float:
        """How long it lasts; 0: it is off."""
        return 0.0 if self._since_s is None else self.clock() - self._since_s

    @property
    def is_bearable(self) -> bool:
        """Whether it is on, and the patience is not over."""
        return self.is_on and (self._patience_s is None or self.lasts_s < self._patience_s)

    def begin(self, address: Address, error: BaseException) -> None:
        """A connection that had worked is lost. A client without patience has no outages: its calls fail."""
        if self.is_on or self._patience_s == 0:
            return
        self._since_s = now_s = self.clock()
        if now_s - self._over_s > PAUSE_MAX_S:  # else the server comes and goes, and the pauses stay long
            self._pauses = self._backoff.for_ever()
        how_long = "until there is one" if self._patience_s is None else f"for up to {self._patience_s:g} s"
        if self.is_logged:
            logger.warning("lost the connection to %s (%s); connecting again %s", address, error, how_long)

    def end(self, address: Address) -> None:
        if self.is_on:
            if self.is_logged:
                logger.info("connected again to %s after %.1f s", address, self.lasts_s)
            self._since_s, self._over_s = None, self.clock()

    def forget(self) -> None:
        """The client is closed: it does not connect again until there is another call."""
        self._since_s = None
        self.closings += 1

    def pause_s(self, left_s: float | None) -> float:
        """Seconds until the next attempt of a call that has `left_s` for its reply (None: any).

        It is cut by that and by the end of the patience, but not to nothing: a call that may not wait at all can be
        made again and again.
        """
        pause_s = next(self._pauses)
        if self._patience_s is not None:
            left_s = min(math.inf if left_s is None else left_s, self._patience_s - self.lasts_s)
        return pause_s if left_s is None else min(pause_s, max(left_s, self._backoff.first_s))

    def bear(self, error: ConnectionLostError, left_s: float | None) -> float:
        """The same, while it is bearable. Raises CannotConnectError when that is over."""
        if not self.is_bearable:
            raise CannotConnectError(f"{error}; the connection was lost {self.lasts_s:.1f} s ago") from error
        return self.pause_s(left_s)

    def check_open(self, closings: int) -> None:
        """Raises ConnectionLostError if the client was closed since it had been so often."""
        if closings != self.closings:
            raise ConnectionLostError("the client was closed", outcome_unknown=False)


class Retry(Generic[T]):
    """A call that has failed with its connection, and was not sent, or may be sent again."""

    def __init__(
        self, outage: Outage, session: Session[Any], call: "Call[T]", begun_s: float, repetitions: int
    ) -> None:
        self._outage = outage
        self._session = session
        self._call = call
        safe_for_s = safe_s(call)
        self._is_safe = safe_for_s > 0
        self._safe_until_s = begun_s + safe_for_s
        self._deadline_s: float | None = None
        if call.data.startswith(b"reserve") and self._is_safe and call.wait_s is not None:
            self._deadline_s = begun_s + call.wait_s
        self._closings = outage.closings
        self._repetitions = 0 if call.needs else repetitions
        """How often it is sent again though that may do harm, as the caller wants that."""
        self._was_sent = False
        """Whether it was sent, so that nobody knows whether it was executed."""

    def pause_s(self, error: ConnectionLostError) -> float:
        """How long to wait before the call is sent again. Raises the error if it is not."""
        if not isinstance(error, CannotConnectError):
            named(error, about(self._call.data, self._call.tube or self._session.used, self._session.watching))
        may_go_on = self._is_safe or not error.outcome_unknown
        self._was_sent = error.outcome_unknown = self._was_sent or error.outcome_unknown
        if may_go_on and self._outage.is_on:
            try:
                pause_s = self._outage.bear(error, self._left_s())
            except CannotConnectError as over:
                over.outcome_unknown = self._was_sent
                raise
            if not self._was_sent or self._outage.clock() + pause_s < self._safe_until_s:
                return pause_s
        if self._repetitions == 0 or isinstance(error, CannotConnectError):
            raise error
        self._repetitions -= 1
        return 0.0

    def check_open(self) -> None:
        """Raises ConnectionLostError if the client was closed meanwhile."""
        self._outage.check_open(self._closings)

    def call(self) -> "Call[T]":
        """What to send now: a reserve waits for what is left of its timeout.

        Raises TimedOutError when that is nothing, though nobody is there to say so.
        """
        left_s = self._left_s()
        if left_s is None:
            return self._call
        if left_s <= 0:
            error = TimedOutError(
                f"TIMED_OUT: no job came in time; the connection was lost {self._outage.lasts_s:.1f} s ago"
            )
            raise named(error, about(self._call.data, self._session.used, self._session.watching))
        return waiting(self._session, self._call, math.ceil(left_s))

    def _left_s(self) -> float | None:
        return None if self._deadline_s is None else self._deadline_s - self._outage.clock()


def waiting(session: Session[Any], call: "Call[T]", timeout_s: int | None) -> "Call[T]":
    """The same reserve with another timeout."""
    verb, *words = call.data.split()
    if verb == b"reserve-many" and words[0] == b"0":
        return batch.wait_for_job_call(timeout_s)  # type: ignore[return-value]
    if verb == b"reserve-many":
        return batch.reserve_many_call(session, int(words[0]), timeout_s, "same" if words[2:] else None)  # type: ignore[return-value]
    return Call(wire.reserve(timeout_s), call.expected, call.take, wait_s=timeout_s)
