"""Samples of real servers: every tube in its turn, exact rates, and no trace left behind."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import beanpole as library
from beanpole.errors import ConnectionLostError
from beanpole.monitor.sampling import Sampler
from tests.e2e.process import serving
from tests.servers import HOST, Server
from tests.unit.monitor.made import SECOND_NS

Test = Callable[[Sampler, "library.Client[str]"], Awaitable[None]]


def sampled(server: Server, test: Test, tubes_max: int = 1000) -> None:
    """Runs a test with a sampler whose clock goes on by two seconds whenever it is read, and a client beside it."""
    clock = iter(range(0, 10**6 * SECOND_NS, 2 * SECOND_NS))

    async def run() -> None:
        async with library.AsyncClient((HOST, server.port), None) as client:
            with library.Client((HOST, server.port)) as other:
                await test(Sampler(client, lambda: next(clock), tubes_max), other)

    asyncio.run(run())


def test_every_tube_has_its_turn(server: Server) -> None:
    async def test(sampler: Sampler, other: "library.Client[str]") -> None:
        for number in range(5):
            other.put("x", tube=f"t{number}")
        sample = await sampler.take()
        assert (len(sample.rows), sample.tube_count) == (2, 6)
        assert len((await sampler.take()).rows) == 4
        other.delete(1)
        sample = await sampler.take()
        assert set(sample.rows) == {"default", "t0", "t1", "t2", "t3", "t4"}, "t0 is not asked again in this sweep"
        assert sample.rows["t0"].stats.current_jobs_ready == 1
        assert set((await sampler.take()).rows) == {"default", "t1", "t2", "t3", "t4"}
        assert set((await sampler.take([], "T4")).rows) == {"t4"}

    sampled(server, test, tubes_max=2)


def test_wanted_tubes_are_asked_each_time(server: Server) -> None:
    async def test(sampler: Sampler, other: "library.Client[str]") -> None:
        for tube in ("a", "b", "c"):
            other.put("x", tube=tube)
        await sampler.take()
        other.put("x", tube="c")
        sample = await sampler.take(["c", "gone"])
        assert sample.rows["c"].stats.current_jobs_ready == 2
        job = sample.rows["c"].next_job
        assert job is not None
        assert job.id == 3
        assert "gone" not in other.tubes()
        other.delete_many([3, 4])
        other.use("default")
        assert "c" not in other.tubes(), "the sampler does not use it any more"
        sample = await sampler.take(["c"])
        assert "c" not in sample.rows

    sampled(server, test, tubes_max=1)


def test_rates(server: Server) -> None:
    async def test(sampler: Sampler, other: "library.Client[str]") -> None:
        other.put("x", tube="mail")
        first = await sampler.take()
        assert first.rates is None
        assert first.rows["mail"].put_rate is None
        ids = other.put_many(["x"] * 12, tube="mail")
        other.delete_many(ids[:4])
        second = await sampler.take()
        assert second.rates is not None
        # Two readings of the clock a sample, so that four seconds are between two.
        assert (second.rates.put, second.rates.delete, second.rates.reserve) == (3.0, 1.0, 0.0)
        assert (second.rows["mail"].put_rate, second.rows["mail"].delete_rate) == (3.0, 1.0)

    sampled(server, test)


def test_another_server_has_no_past(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"

    async def run() -> None:
        backoff = library.Backoff(attempts=1)
        async with library.AsyncClient(address, None, backoff=backoff) as client:
            sampler = Sampler(client, lambda: 0)
            with serving("-l", address, listen=False), library.Client(address) as other:
                other.put("x", tube="mail")
                await sampler.take()
            try:
                await sampler.take()
            except ConnectionLostError:
                pass
            else:
                raise AssertionError("there is no server")
            with serving("-l", address, listen=False), library.Client(address) as other:
                other.put("x", tube="mail")
                sample = await sampler.take()
        assert sample.rates is None
        assert sample.rows["mail"].put_rate is None

    asyncio.run(run())
