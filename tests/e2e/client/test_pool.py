"""Pools over several servers: fail-over, threads and tasks."""

import asyncio
import threading

import pytest

from beanpole import AsyncPool, Backoff, CannotConnectError, DrainingError, Pool
from tests.e2e.process import serving, wait_until
from tests.servers import HOST, Server, beanpole_server, kept_port

ONCE = Backoff(attempts=2, first_s=0.001)


def url(server: Server) -> str:
    return f"beanstalk://{HOST}:{server.port}"


def test_pool_puts_elsewhere_when_a_server_is_gone_or_drains() -> None:
    with (
        beanpole_server() as first,
        beanpole_server() as second,
        Pool([f"beanstalk://{HOST}:1", url(first), url(second)], strategy="first", backoff=ONCE) as pool,
    ):
        pool.put("a")
        first.drain()
        pool.put("b")
        with pool.client(url(first)) as client:
            assert client.stats().current_jobs_ready == 1
        with pool.client(url(second)) as client:
            assert client.stats().current_jobs_ready == 1
        second.drain()
        with pytest.raises(DrainingError):
            pool.put("c")


def test_pool_without_any_server() -> None:
    with (
        Pool([f"beanstalk://{HOST}:1", f"beanstalk://{HOST}:2"], backoff=ONCE) as pool,
        pytest.raises(CannotConnectError, match=r"no server of 2 can be reached; the last: .*: Connection refused$"),
    ):
        pool.put("x")


@pytest.mark.parametrize("patience", [60, 0])
def test_who_puts_while_the_server_is_away_waits_for_it_as_long_as_the_pool_has_patience(patience: float) -> None:
    done: list[object] = []

    def work() -> None:
        try:
            done.append(pool.put("x"))
        except CannotConnectError as error:
            done.append(error)

    with kept_port() as port, Pool([f"{HOST}:{port}"], backoff=ONCE, patience=patience) as pool:
        flags = ("-l", HOST, "-p", str(port))
        with serving(*flags, listen=False):
            assert pool.put("x") == 1
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        if patience:
            wait_until(lambda: pool._outage.is_on, "nobody can be reached")
            with serving(*flags, listen=False):
                wait_until(lambda: len(done) == 4, "all are put")
        for thread in threads:
            thread.join()
    assert sorted(map(type, done), key=str) == [int if patience else CannotConnectError] * 4


def test_pool_gives_jobs_back_that_its_user_forgot(server: Server, tube: str) -> None:
    with Pool([url(server)], watch=tube, use=tube) as pool:
        id = pool.put("x")
        with pool.client() as client:
            client.reserve_job(id)
        with pool.client() as client:
            assert client.reserve(20).id == id
            client.delete(id)
            kept = client
        with pool.client() as client:
            assert client is kept
            client.watch("other")
        with pool.client() as client:
            assert client is not kept


def test_pool_serves_many_threads(server: Server, tube: str) -> None:
    found: list[int] = []

    def work() -> None:
        for _ in range(50):
            id = pool.put("x")
            with pool.client() as client:
                found.append(client.reserve_job(id).id)
                client.delete(id)

    with Pool([url(server)], use=tube) as pool:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(found)) == 400
    with pytest.raises(RuntimeError):
        pool.put("x")


def test_pool_serves_many_tasks(server: Server, tube: str) -> None:
    async def work(pool: AsyncPool) -> int:
        id = await pool.put("x")
        async with pool.client() as client:
            await client.delete(await client.reserve_job(id))
        return id

    async def scene() -> None:
        async with AsyncPool([f"beanstalk://{HOST}:1", url(server)], use=tube, backoff=ONCE) as pool:
            ids = await asyncio.gather(*(work(pool) for _ in range(100)))
            assert len(set(ids)) == 100

    asyncio.run(scene())
