"""A reserve that is cancelled loses no job."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

import pytest

from beanpole import AsyncClient, Client, ConnectionLostError, TimedOutError, UnsupportedError
from tests.servers import HOST, Server

WAIT_S = 20

P = ParamSpec("P")


def scene(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in a loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 2 * WAIT_S))

    return run


@contextlib.asynccontextmanager
async def pair(server: Server, tube: str) -> "AsyncIterator[tuple[AsyncClient[str], AsyncClient[str]]]":
    """A client that waits, and one beside it that is connected, of the same tube."""
    address = (HOST, server.port)
    async with AsyncClient(address, use=tube, watch=tube) as one, AsyncClient(address, use=tube, watch=tube) as other:
        await other.connect()
        yield one, other


async def until_waiting(client: "AsyncClient[str]", tube: str, count: int) -> None:
    """Returns as soon as so many wait for jobs of a tube."""
    async with asyncio.timeout(WAIT_S):
        while (await client.stats_tube(tube)).current_waiting != count:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.002)  # what the server knows can only be asked


async def cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("asks", [False, True])
@scene
async def test_cancelled_reserve_leaves_the_waiting_list(server: Server, tube: str, *, asks: bool) -> None:
    async with pair(server, tube) as (worker, other):
        if asks:
            await worker.features()
        task = asyncio.create_task(worker.reserve())
        await until_waiting(other, tube, 1)
        await cancel(task)
        await until_waiting(other, tube, 0)
        id = await other.put("x")
        assert (await worker.reserve(WAIT_S)).id == id
        await worker.delete(id)


@scene
async def test_a_reserve_ends_without_the_connection(server: Server, tube: str) -> None:
    async with pair(server, tube) as (worker, other):
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


@pytest.mark.parametrize("asks", [False, True])
@scene
async def test_job_after_the_cancel_is_given_back_as_it_was(server: Server, tube: str, *, asks: bool) -> None:
    async with pair(server, tube) as (worker, other):
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


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("timeout_s", [None, 3600])
@scene
async def test_the_client_goes_on_at_once(server: Server, tube: str, *, holds: bool, timeout_s: int | None) -> None:
    """Nobody puts a job, so that a reserve that goes on would never end."""
    async with pair(server, tube) as (client, other):
        held = await client.reserve_job(await other.put("held")) if holds else None
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
            lambda: client.reserve(timeout_s),
            lambda: client.reserve_many(5, timeout_s),
        ]
        for call in calls:
            task = asyncio.create_task(call())
            await until_waiting(other, tube, 1)
            behind = asyncio.create_task(client.tubes())
            await asyncio.sleep(0)
            await cancel(task)
            assert tube in await behind
            if held is not None:
                assert (await client.stats_job(held)).state == "reserved"
        if held is not None:
            await client.delete(held)


@scene
async def test_a_cancelled_call_that_waits_for_its_turn_is_never_sent(server: Server, tube: str) -> None:
    async with pair(server, tube) as (client, other):
        waits = asyncio.create_task(client.reserve())
        await until_waiting(other, tube, 1)
        puts = [asyncio.create_task(client.put(str(i))) for i in range(6)]
        await asyncio.sleep(0)
        for task in puts[::2]:
            await cancel(task)
        id = await other.put("x")
        assert (await waits).id == id
        await asyncio.gather(*puts[1::2])
        await client.delete(id)
        jobs = await client.reserve_many(10, 0)
        assert [job.body for job in jobs] == ["1", "3", "5"]
        await client.delete_many(jobs)


@scene
async def test_a_batch_ends_although_a_reserve_waits_behind_it(server: Server, tube: str) -> None:
    async with pair(server, tube) as (worker, other):
        many = asyncio.create_task(worker.reserve_many(1))
        await until_waiting(other, tube, 1)
        behind = asyncio.create_task(worker.reserve())
        id = await other.put("x")
        jobs = await asyncio.wait_for(many, WAIT_S)
        assert [each.id for each in jobs] == [id]
        await cancel(behind)
        await worker.delete_many(jobs)
        put = asyncio.create_task(worker.put_many(["y"], tube=f"{tube}-more"))
        behind = asyncio.create_task(worker.reserve())
        await asyncio.wait_for(put, WAIT_S)
        await cancel(behind)


@scene
async def test_whoever_waits_again_and_again_lets_others_in(server: Server, tube: str) -> None:
    """A consumer and a producer share a client: who comes first is served first."""
    async with AsyncClient((HOST, server.port), use=tube, watch=tube) as client:
        done: list[str] = []

        async def consume() -> None:
            while len(done) < 3:
                with contextlib.suppress(TimedOutError):
                    job = await client.reserve(1)
                    done.append(job.body)
                    await client.delete(job)

        consumer = asyncio.create_task(consume())
        await asyncio.sleep(0)
        for number in range(3):
            await client.put(str(number))
        await consumer
        assert done == ["0", "1", "2"]


async def reserve_and_cancel(
    client: "AsyncClient[str]", other: "AsyncClient[str]", left: set[int], chance: random.Random
) -> None:
    """Reserves, cancels that a moment later, and does whatever it got all the same; `left` is what others get."""
    reserve: Coroutine[Any, Any, Any] = client.reserve(3600)
    if chance.random() < 0.3:
        reserve.close()
        reserve = client.reserve_many(2, 3600)
    task = asyncio.create_task(reserve)
    for _ in range(chance.randrange(8)):
        await asyncio.sleep(0)
    if chance.random() < 0.5:
        left.add(await other.put("x"))
    if chance.random() < 0.5:
        await other.stats()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        found = await task
        for job in found if isinstance(found, list) else [found]:
            left.remove(job.id)
            await client.delete(job)
    if chance.random() < 0.3:
        await client.tubes()


async def take(client: "AsyncClient[str]", left: set[int]) -> None:
    """Takes exactly these jobs; a server that counts attempts has counted none of those before."""
    while left:
        for job in await client.reserve_many(100, WAIT_S):
            left.remove(job.id)
            assert job.info is None or job.info.attempt == 1
            await client.delete(job)
    with pytest.raises(TimedOutError):
        await client.reserve(0)


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("seed", range(3))
@scene
async def test_nothing_is_lost_whenever_a_reserve_is_cancelled(
    server: Server, tube: str, *, holds: bool, seed: int
) -> None:
    """Cancelled at any point, while jobs come: each is given out once."""
    chance = random.Random(seed)
    async with pair(server, tube) as (client, other):
        counts = "rule.attempts" in await other.features()
        if counts:
            await other.set_rules(tube, {"attempts": 9})
        held = await client.reserve_job(await other.put("held")) if holds else None
        left = set[int]()
        for _ in range(60 if counts or not holds else 4):  # elsewhere a client that holds jobs takes a second
            await reserve_and_cancel(client, other, left, chance)
        if held is not None:
            assert (await client.stats_job(held)).state == "reserved"
            await client.delete(held)
        for _ in range(2):  # behind a stats-job, and behind the release that follows
            await client.tubes()
        assert client.untouched
        await take(other, left)
        if counts:
            await other.drop_rules(tube)


@scene
async def test_other_commands_can_be_cancelled(server: Server, tube: str) -> None:
    async with AsyncClient((HOST, server.port), use=tube, watch=tube) as client:
        await client.connect()
        task = asyncio.create_task(client.put("x"))
        await asyncio.sleep(0)
        await cancel(task)
        results = await asyncio.gather(*(client.put(str(i)) for i in range(100)))
        assert results == sorted(results)
        await client.delete_many(job.id for job in await client.reserve_many(101))


@scene
async def test_close_ends_what_waits(server: Server, tube: str) -> None:
    async with pair(server, tube) as (worker, other):
        task = asyncio.create_task(worker.reserve())
        await until_waiting(other, tube, 1)
        await worker.close()
        with pytest.raises(ConnectionLostError):
            await task


@pytest.mark.parametrize("put", [lambda client: client.put("x"), lambda client: client.put_many(["x"])])
def test_interrupted_call_does_not_shift_the_answers(
    server: Server, tube: str, put: "Callable[[Client[str]], object]"
) -> None:
    """Sync: whatever ends an exchange before its end closes the connection."""

    class Interrupted(Exception):  # noqa: N818 - stands for a signal's
        pass

    client = Client((HOST, server.port), use=tube, watch=tube)
    client.connect()
    link = client._link
    assert link is not None

    def interrupted(data: bytes, *_: object) -> None:
        link._socket.sendall(data)
        raise Interrupted

    link.exchange = interrupted  # type: ignore[assignment, method-assign]  # between the sending and the reply
    with pytest.raises(Interrupted):
        put(client)
    assert client.using() == tube
    client.close()
