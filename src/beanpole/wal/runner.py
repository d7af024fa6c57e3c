"""What a log needs of the loop that it lives in; a simulation puts its own in place."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from beanpole.wal.disk import Directory, File
from beanpole.wal.syncer import Syncer


class Runner(Protocol):
    """Runs what the log does not want to wait for; everything that is called back is called on the loop."""

    def sync(self, files: Sequence[File | Directory], done: Callable[[OSError | None], None]) -> None:
        """Sync some files in order. One call is under way at a time."""

    def wait_for_sync(self) -> None:
        """Wait for the sync that is under way and call back."""

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run `work` elsewhere; `done` is given what it returned, or its OSError."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call back after this turn."""

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call back in a while."""


class LoopRunner:
    """Runs on an asyncio loop, with a thread for syncs and one for everything else."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.syncer = Syncer()
        self.sync_done: Callable[[OSError | None], None] | None = None
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="log")
        loop.add_reader(self.syncer.fileno(), self.finish_sync)

    def sync(self, files: Sequence[File | Directory], done: Callable[[OSError | None], None]) -> None:
        """Sync some files in order, in a thread."""
        self.sync_done = done
        self.syncer.start([each.fileno() for each in files])

    def finish_sync(self) -> None:
        """Call back for a sync that is done."""
        error = self.syncer.finish()
        done, self.sync_done = self.sync_done, None
        if done is not None:
            done(error)

    def wait_for_sync(self) -> None:
        """Wait for the sync that is under way and call back."""
        self.finish_sync()

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run `work` in a thread."""

        def run() -> None:
            try:
                result = work()
            except OSError as error:
                result = error
            self.loop.call_soon_threadsafe(done, result)

        self.executor.submit(run)

    def soon(self, call: Callable[[], None]) -> None:
        """Call back after this turn."""
        self.loop.call_soon(call)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call back in a while."""
        self.loop.call_later(seconds, call)

    def close(self) -> None:
        """End the threads."""
        self.loop.remove_reader(self.syncer.fileno())
        self.executor.shutdown()
        self.syncer.stop()
