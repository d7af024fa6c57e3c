"""A reserve that is cancelled loses no job."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from beanpole import AsyncClient, Client, ConnectionLostError, TimedOutError, UnsupportedError
from tests.servers import HOST, Server

WAIT_S = 20


async def until_waiting(client: "AsyncClient[str]", tube: str, count: int) -> None:
    """Returns as soon as so many wait for jobs of a tube."""
    async with asyncio.timeout(WAIT_S):
        while (await client.stats_tube(tube)).current_waiting != count:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.002)  # what the server knows can only be asked


async def cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 2 * WAIT_S))


@pytest.mark.parametrize("asks", [False, True])
def test_cancelled_reserve_leaves_the_waiting_list(server: Server, tube: str, *, asks: bool) -> None:
    async def scene() -> None:
        async with (
            AsyncClient((HOST, server.port), use=tube, watch=tube) as worker,
            AsyncClient((HOST, server.port), use=tube, watch=tube) as other,
        ):
            await other.connect()
            if asks:
                await worker.features()
            task = asyncio.create_task(worker.reserve())
            await until_waiting(other, tube, 1)
            await cancel(task)
            await until_waiting(other, tube, 0)
            id = await other.put("x")
            assert (await worker.reserve(WAIT_S)).id == id
            await worker.delete(id)

    run(scene())


def test_a_reserve_ends_without_the_connection(server: Server, tube: str) -> None:
    async def scene() -> None:
        async with (
            AsyncClient((HOST, server.port), use=tube, watch=tube) as worker,
            AsyncClient((HOST, server.port), use=tube, watch=tube) as other,
        ):
            held = await worker.reserve_job(await other.put("held"))
            if "cancel-reserve" not in await worker.features():
                with pytest.raises(UnsupportedError):
                    await worker.cancel_reserve()
                return
            task = asyncio.create_task(worker.reserve())
            await until_waiting(other, tube, 1)
            assert await worker.cancel_reserve() is True
            with pytest.raises(TimedOutError):
                await task
            await worker.delete(held)
            id = await other.put("x")
            assert (await worker.reserve()).id == id
            assert await worker.cancel_reserve() is False
            await worker.delete(id)

    run(scene())


@pytest.mark.parametrize("asks", [False, True])
def test_job_after_the_cancel_is_given_back_as_it_was(server: Server, tube: str, *, asks: bool) -> None:
    async def scene() -> None:
        async with (
            AsyncClient((HOST, server.port), use=tube, watch=tube) as worker,
            AsyncClient((HOST, server.port), use=tube, watch=tube) as other,
        ):
            held = await worker.reserve_job(await other.put("held"))
            if asks:
                await worker.features()
            task = asyncio.create_task(worker.reserve())
            await until_waiting(other, tube, 1)
            await cancel(task)
            id = await other.put("x", priority=77)
            assert (await worker.stats_job(held)).state == "reserved"
            job = await other.reserve(WAIT_S)
            assert job.id == id
            assert (await other.stats_job(id)).pri == 77
            await worker.delete(held)
            await other.delete(id)

    run(scene())


def test_job_that_came_with_the_cancel_is_given_back(server: Server, tube: str) -> None:
    async def scene() -> None:
        async with AsyncClient((HOST, server.port), use=tube, watch=tube) as client:
            ids = [await client.put(str(i)) for i in range(20)]
            for pauses in range(10):
                task = asyncio.create_task(client.reserve())
                for _ in range(pauses):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await client.release((await task).id)
            found = [(await client.reserve(WAIT_S)).id for _ in ids]
            assert sorted(found) == ids
            await client.delete_many(ids)

    run(scene())


def test_other_commands_can_be_cancelled(server: Server, tube: str) -> None:
    async def scene() -> None:
        async with AsyncClient((HOST, server.port), use=tube, watch=tube) as client:
            await client.connect()
            task = asyncio.create_task(client.put("x"))
            await asyncio.sleep(0)
            await cancel(task)
            results = await asyncio.gather(*(client.put(str(i)) for i in range(100)))
            assert results == sorted(results)
            await client.delete_many(job.id for job in await client.reserve_many(101))

    run(scene())


def test_close_ends_what_waits(server: Server, tube: str) -> None:
    async def scene() -> None:
        async with (
            AsyncClient((HOST, server.port), watch=tube) as worker,
            AsyncClient((HOST, server.port), use=tube) as other,
        ):
            await other.connect()
            task = asyncio.create_task(worker.reserve())
            await until_waiting(other, tube, 1)
            await worker.close()
            with pytest.raises(ConnectionLostError):
                await task

    run(scene())


@pytest.mark.parametrize("put", [lambda client: client.put("x"), lambda client: client.put_many(["x"])])
def test_interrupted_call_does_not_shift_the_answers(
    server: Server, tube: str, put: "Callable[[Client[str]], object]"
) -> None:
    """Sync: whatever ends an exchange before its end closes the connection."""

    class Interrupted(Exception):  # noqa: N818 - stands for a signal's
        pass

    class Reader:
        buffered_bytes = 0

        def read_into(self, *_: object) -> bool:
            raise Interrupted

    client = Client((HOST, server.port), use=tube, watch=tube)
    client.connect()
    assert client._link is not None
    client._link._reader = Reader()  # type: ignore[assignment]
    with pytest.raises(Interrupted):
        put(client)
    assert client.using() == tube
    client.close()
