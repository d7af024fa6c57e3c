"""What the log does not wait for, done when the simulation says so."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from beanpole.log.files.disk import Directory
from beanpole.log.files.diskfile import File
from beanpole.log.files.runner import SyncDone
from tests.simulation.disk import Ban, SimDisk, SimFile

NS_PER_S = 1_000_000_000

STEPS_MAX = 20_000
"""More than these without a client's doing are a loop."""


@dataclass(slots=True)
class Clock:
    """The time: one that only goes on, and one on the wall, which people set."""

    now_ns: int = 1_000 * NS_PER_S
    offset_ns: int = 1_700_000_000 * NS_PER_S
    """The wall clock minus the other."""

    def wall_ns(self) -> int:
        return self.now_ns + self.offset_ns


class SimRunner:
    """Keeps what is to be done until it is asked to do it."""

    def __init__(self, clock: Clock, ban: Ban) -> None:
        self.clock = clock
        self.ban = ban
        self.under_way: tuple[list[tuple[SimDisk | SimFile, int]], SyncDone] | None = None
        self.works: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.done: deque[Callable[[], None]] = deque()
        self.calls: deque[Callable[[], None]] = deque()
        self.timers: list[tuple[int, int, Callable[[], None]]] = []
        self.timer_count = 0

    # --- what the log calls -------------------------------------------------------------------------------------------

    def sync(self, files: Sequence[File | Directory], done: SyncDone) -> None:
        """Begins a sync: what is written from now on need not be in it."""
        self.ban.note("sync")
        assert self.under_way is None, "a sync begins while another is under way"
        targets = []
        for each in files:
            assert isinstance(each, SimDisk | SimFile)
            targets.append((each, each.mark()))
        self.under_way = targets, done

    def wait_for_sync(self) -> None:
        self.ban.note("wait_for_sync")
        assert self.under_way is not None, "the log waits for a sync that it did not begin"
        self.finish_sync()

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.ban.note("background")
        self.works.append((work, done))

    def finish_background(self) -> bool:
        self.ban.note("finish_background")
        if not self.done:
            self.run_background()
        if not self.done:
            return False
        self.take_result()
        return True

    def soon(self, call: Callable[[], None]) -> None:
        self.ban.note("soon")
        self.calls.append(call)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.ban.note("later")
        self.timer_count += 1
        heapq.heappush(self.timers, (self.clock.now_ns + int(seconds * NS_PER_S), self.timer_count, call))

    # --- what the simulation calls ------------------------------------------------------------------------------------

    def finish_sync(self) -> None:
        """Ends the sync that is under way, if there is one."""
        if self.under_way is None:
            return
        (targets, done), self.under_way = self.under_way, None
        error: OSError | None = None
        began_ns = self.clock.now_ns
        try:
            for target, mark in targets:
                target.sync_until(mark)
        except OSError as failure:
            error = failure
        done(error, self.clock.now_ns - began_ns)

    def run_background(self) -> None:
        """Does one piece of work; the loop hears of it later."""
        if not self.works:
            return
        work, done = self.works.popleft()
        try:
            result = work()
        except OSError as error:
            result = error
        self.done.append(partial(done, result))
        self.calls.append(self.take_result)

    def take_result(self) -> None:
        """Tells the log of the oldest work that is done; once too often after `finish_background`, as the loop does."""
        if self.done:
            self.done.popleft()()

    def run_soon(self) -> None:
        if self.calls:
            self.calls.popleft()()

    def run_timers(self) -> None:
        while self.timers and self.timers[0][0] <= self.clock.now_ns:
            heapq.heappop(self.timers)[2]()

    def settle(self) -> None:
        """Does everything but what waits for time."""
        for _ in range(STEPS_MAX):
            if self.under_way is None and not self.works and not self.calls:
                return
            self.finish_sync()
            self.run_background()
            self.run_soon()
        raise AssertionError("the log never comes to rest")
