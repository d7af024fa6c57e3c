"""What a log needs of the loop that it lives in; a simulation puts its own in place."""

import asyncio
import select
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from beanpole.log.files.disk import Directory, DiskDirectory
from beanpole.log.files.diskfile import File
from beanpole.log.files.syncer import Syncer

SyncDone = Callable[[OSError | None, int], None]
"""Called with why a sync failed, None if it did not, and how many nanoseconds the disk took."""


class Runner(Protocol):
    """Runs what the log does not want to wait for; everything that is called back is called on the loop."""

    def sync(self, files: Sequence[File | Directory], done: SyncDone) -> None:
        """Sync some files in order. One call is under way at a time."""

    def wait_for_sync(self) -> None:
        """Wait for the sync that is under way and call back."""

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run `work` elsewhere; `done` is given what it returned, or its OSError."""

    def finish_background(self) -> bool:
        """Wait for the oldest work in the background and call back; False: there is none."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call back after this turn."""

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call back in a while."""


class LoopRunner:
    """Runs on an asyncio loop, with a thread for syncs and one for everything else."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.syncer = Syncer()
        self.sync_done: SyncDone | None = None
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="log")
        self.works: deque[tuple[Future[Any], Callable[[Any], None]]] = deque()
        loop.add_reader(self.syncer.fileno(), self.finish_sync)

    def sync(self, files: Sequence[File | Directory], done: SyncDone) -> None:
        self.sync_done = done
        # fdatasync is enough for a file, whose size is set when it is created; a directory needs fsync.
        self.syncer.start([(each.fileno(), isinstance(each, DiskDirectory)) for each in files])

    def finish_sync(self) -> None:
        """Call back for a sync that is done. The loop may say so once too often: after `wait_for_sync`."""
        if self.sync_done is not None and self.syncer.is_done():
            done, self.sync_done = self.sync_done, None
            done(self.syncer.error(), self.syncer.duration_ns())

    def wait_for_sync(self) -> None:
        assert self.sync_done is not None, "nothing is synced, so there is nothing to wait for"
        waiting = select.poll()  # select() knows no descriptor above 1023
        waiting.register(self.syncer.fileno(), select.POLLIN)
        waiting.poll()
        self.finish_sync()

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        future = self.executor.submit(work)
        self.works.append((future, done))
        future.add_done_callback(lambda _: self.loop.call_soon_threadsafe(self.take_result))

    def take_result(self) -> None:
        """Call back for the oldest work if it is done. The loop may say so once too often: after `finish_background`.

        What is no OSError is raised here, on the loop, where the server hears of it.
        """
        if self.works and self.works[0][0].done():
            future, done = self.works.popleft()
            try:
                result = future.result()
            except OSError as error:
                result = error
            done(result)

    def finish_background(self) -> bool:
        if not self.works:
            return False
        wait([self.works[0][0]])
        self.take_result()
        return True

    def soon(self, call: Callable[[], None]) -> None:
        self.loop.call_soon(call)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.loop.call_later(seconds, call)

    def close(self) -> None:
        """End the threads."""
        self.loop.remove_reader(self.syncer.fileno())
        self.executor.shutdown()
        self.syncer.stop()
