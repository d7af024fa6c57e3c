"""A child process that is kept running beside a server, on its loop, until the server stops or that proves hopeless.

Nothing here may stop the server: what fails is logged, and a child that doesn't stay is given up.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from beanpole.process.child import Child, pause_after


class Pace:
    """How soon a child that has ended is started again, and when not. A dataclass would take 1 ms of the start."""

    def __init__(
        self,
        *,
        pause_s: float = 0.5,  # until the next start, the first time; each end within `ends_s` doubles them
        pause_max_s: float = 10.0,  # that this grows to at most
        ends_max: int = 5,  # ends within `ends_s` at which it is given up
        ends_s: float = 60.0,  # in which ends are counted: one that lives longer is worth another start
        stop_s: float = 1.0,  # that it may take to end when its lifeline is closed, before it is killed
    ) -> None:
        self.pause_s = pause_s
        self.pause_max_s = pause_max_s
        self.ends_max = ends_max
        self.ends_s = ends_s
        self.stop_s = stop_s


class Keeper:
    """Keeps one child running. A subclass says how it is started, and what its lifeline is."""

    def __init__(self, name: str, log: Callable[..., None], pace: Pace | None = None) -> None:
        self.name = name  # what it is called in the log
        self.log = log  # writes a line: a level, an event, and what it is about
        self.pace = pace or Pace()
        self.loop = asyncio.get_running_loop()
        # Done when the child that runs has to end: the server stops, or another of its kind is wanted.
        self.changed: asyncio.Future[None] = self.loop.create_future()
        self.is_stopping = False
        self.running: asyncio.Task[None] | None = None

    def spawn(self) -> int:
        """Start the process, with a lifeline. Raise OSError if it can't be started."""
        raise AssertionError("a subclass says how")

    def release(self) -> None:
        """Close the lifeline, if there is one."""

    def start(self) -> None:
        """Start the child with the loop's next turn, and again when it ends."""
        if self.running is None and not self.is_stopping:
            self.running = self.loop.create_task(self.run())

    def close(self) -> None:
        """Begin to stop: close the lifeline, at which the child ends."""
        self.is_stopping = True
        self.release()
        self.change()

    async def stopped(self) -> None:
        """Return when the child has ended; kill it if it takes too long."""
        if self.running is not None:
            await asyncio.wait([self.running])

    def change(self) -> None:
        """Let the child that runs, or the pause before the next one, be the last of its kind."""
        if not self.changed.done():
            self.changed.set_result(None)

    async def run(self) -> None:
        """Keep a child running until the server stops, or until that proves hopeless."""
        ends: deque[float] = deque()
        try:
            while not self.is_stopping:
                self.changed = self.loop.create_future()
                reason = await self.live()
                if self.changed.done():
                    continue
                now_s = self.loop.time()
                ends.append(now_s)
                while now_s - ends[0] > self.pace.ends_s:
                    ends.popleft()
                if len(ends) >= self.pace.ends_max:
                    self.give_up(reason, f"ended {len(ends)} times within {self.pace.ends_s:.0f} s")
                    return
                pause_s = pause_after(len(ends), self.pace.pause_s, self.pace.pause_max_s)
                self.log("warning", f"{self.name} ended", reason=reason, effect=f"started again in {pause_s:g} s")
                await asyncio.wait([self.changed], timeout=pause_s)
        except Exception as error:  # noqa: BLE001 - the server goes on, whatever it is
            self.release()
            self.give_up(str(error), "watching it failed", error)

    def give_up(self, reason: str, effect: str, error: Exception | None = None) -> None:
        """Start it no more."""
        advice = "the next start tries again"
        self.log("error", f"{self.name} given up", reason=reason, effect=effect, advice=advice, exc_info=error)

    async def live(self) -> str:
        """Start a child and return how it ended, when it has ended."""
        try:
            child = Child(self.spawn(), self.loop)
        except OSError as error:
            self.release()
            return str(error)
        self.log("info", f"{self.name} started", pid=child.pid)
        either: list[asyncio.Future[Any]] = [child.ended, self.changed]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        self.release()
        return await child.end(self.pace.stop_s)
