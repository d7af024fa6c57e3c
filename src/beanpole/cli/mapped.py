"""``--map``: the servers of a map seen as one server, by a router in this process that serves it alone."""

import asyncio
import contextlib
import mmap
import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from beanpole.address import Address
from beanpole.server.logs import Logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from beanpole.client.login import Login
    from beanpole.front.shardrouter import ShardRouter

WAIT_S = 2.0  # that a command waits for a shard that is away: somebody looks at a screen


class Silent(Logger):
    """Writes no line: what a router would say is seen in what it answers."""

    def __init__(self) -> None:
        super().__init__(str)

    def log(self, *_given: object, **_about: object) -> None: ...

    info = warning = error = critical = exception = log


def stop(task: "asyncio.Task[object]", terminated: asyncio.Event) -> None:
    """Take note of SIGTERM, and end the task."""
    terminated.set()
    task.cancel()


@contextlib.asynccontextmanager
async def own_router(
    file: Path, login: "Login", logger: Logger | None = None
) -> "AsyncIterator[tuple[Address, ShardRouter]]":
    """Run a router of a map on the loop that runs, and return its address for clients of this process.

    It is linked with each shard that is to be reached, to which it shows who it is by `login`. SIGTERM ends the task,
    and then the process as it always does, but leaves no folder behind; who takes that signal later has it. Raises
    MapError.
    """
    from beanpole.front.router import Settings
    from beanpole.front.shardrouter import ShardRouter
    from beanpole.server import listener
    from beanpole.server.process import ProcessFacts

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    terminated = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop, task, terminated)
    with (
        contextlib.ExitStack() as last,
        tempfile.TemporaryDirectory(prefix="beanpole-") as folder,
        listener.open_all((f"unix:{folder}/router",), 0)[0] as listening,
    ):
        listening.setblocking(False)
        memory = mmap.mmap(-1, mmap.PAGESIZE)
        settings = Settings((), WAIT_S, map=file, login=login)
        router = ShardRouter(ProcessFacts(), settings, [listening], logger or Silent(), memory, 0)
        front, linked = router.front, loop.create_future()
        front.run_soon = lambda: loop.call_soon(front.poll)
        loop.add_reader(front.fileno(), front.poll)
        router.ready = partial(linked.set_result, None)
        router.start_links()
        try:
            await linked
            yield Address.from_url(f"unix:{folder}/router"), router
        finally:
            if terminated.is_set():
                last.callback(signal.raise_signal, signal.SIGTERM)
                last.callback(loop.remove_signal_handler, signal.SIGTERM)
            router.ended.set()
            router.stop_links()
            loop.remove_reader(front.fileno())
            front.close_clients()
