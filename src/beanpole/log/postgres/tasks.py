"""Work that must not wait for ever: beside other work that may fail, or for a server that has been replaced."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from beanpole.log import limits
from beanpole.log.postgres.store import BusyError, LostError, OpenStore, RefusedError, Store

T = TypeVar("T")


async def run_beside(*works: Coroutine[Any, Any, None]) -> None:
    """Run something to its end, and others beside it; the end of one ends all, and so does its failure."""
    tasks = [asyncio.ensure_future(each) for each in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in tasks:
            if each.done():
                each.result()
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def watched(
    work: Coroutine[Any, Any, T], store: Store, open_store: OpenStore, on_wait: Callable[[], None] = lambda: None
) -> T:
    """Do something on a connection. While it takes long, look whether the server is still the one to work with.

    A server that stands still answers nothing and closes nothing, when another was promoted long ago. Nothing is
    cancelled for being slow: a commit may wait for its standby as long as it must.

    Raises:
        LostError: there is a server of a newer timeline.
    """
    task = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait([task], timeout=limits.SLOW_S)
            if done:
                return task.result()
            on_wait()
            if await is_replaced(store, open_store):
                raise LostError("another server was promoted")
    finally:
        await cut_short(task, store.sever)


async def within(seconds: float, work: Coroutine[Any, Any, T], sever: Callable[[], None]) -> T:
    """Do something on a connection that needs no lock and no commit.

    Raises:
        LostError: the server does not answer.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
        if not done:
            raise LostError(f"the server takes connections, and did not answer within {seconds:.0f} s")
        return task.result()
    finally:
        await cut_short(task, sever)


async def cut_short(task: asyncio.Future[Any], sever: Callable[[], None]) -> None:
    """End what is still under way on a connection.

    It is not cancelled: psycopg would ask the server to cancel, and wait for its answer.
    """
    if not task.done():
        sever()
        await asyncio.wait([task])
        task.exception()


async def is_replaced(store: Store, open_store: OpenStore) -> bool:
    """Whether connections are made to a newer server than a connection's.

    Each asks another of the hosts: one that refuses the work is not the one that was promoted.
    """
    try:
        other = await open_store()
    except (LostError, BusyError, RefusedError):
        return False
    await other.close()
    return other.server != store.server
