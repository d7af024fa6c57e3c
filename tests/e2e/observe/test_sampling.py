"""Samples of real servers: every tube in its turn, exact rates, and no trace left behind."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import beanpole as library
from beanpole.errors import ConnectionLostError
from beanpole.observe.top_sampler import TopSampler
from tests.e2e.process import serving
from tests.servers import HOST, Server, beanpole_server
from tests.unit.observe.made import SECOND_NS

Test = Callable[[TopSampler, "library.Client[str]"], Awaitable[None]]


def sampled(server: Server, test: Test, tubes_max: int = 1000) -> None:
    """Runs a test with a sampler whose clock goes on by two seconds whenever it is read, and a client beside it."""
    clock = iter(range(0, 10**6 * SECOND_NS, 2 * SECOND_NS))

    async def run() -> None:
        async with library.AsyncClient((HOST, server.port), None) as client:
            with library.Client((HOST, server.port)) as other:
                await test(TopSampler(client, lambda: next(clock), tubes_max), other)

    asyncio.run(run())


def test_every_tube_has_its_turn(server: Server) -> None:
    async def test(sampler: TopSampler, other: "library.Client[str]") -> None:
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
    async def test(sampler: TopSampler, other: "library.Client[str]") -> None:
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
    async def test(sampler: TopSampler, other: "library.Client[str]") -> None:
        other.put("x", tube="mail")
        first = await sampler.take()
        assert first.rates is None
        assert first.rows["mail"].put_rate is None
        ids = other.put_many(["x"] * 12, tube="mail")
        other.delete_many(ids[:4])
        second = await sampler.take()
        assert second.rates is not None
        assert (second.rates.put, second.rates.delete, second.rates.reserve) == (6.0, 2.0, 0.0)
        assert (second.rows["mail"].put_rate, second.rows["mail"].delete_rate) == (6.0, 2.0)

    sampled(server, test)


def test_rates_of_extensions() -> None:
    async def test(sampler: TopSampler, other: "library.Client[str]") -> None:
        other.watch("mail")
        other.put("x", tube="mail", key="before")
        await sampler.take()
        other.put("x", tube="mail", key="a")
        other.put("x", tube="mail")
        other.reserve_many(2, timeout=0)
        second = await sampler.take()
        assert second.rates is not None
        assert (second.rates.put, second.rates.reserve) == (1.0, 0.5)

    with beanpole_server() as server:
        sampled(server, test)


def test_how_long_jobs_wait() -> None:
    async def test(sampler: TopSampler, other: "library.Client[str]") -> None:
        other.put("x", tube="mail")
        other.watch("mail")
        first = await sampler.take()
        assert (first.timed, first.waits, first.rows["mail"].waits) == (True, None, None)
        held = other.reserve(timeout=0)
        other.put("x", tube="mail")
        second = await sampler.take(["mail"])
        mail = second.rows["mail"]
        assert mail.waits is not None
        assert second.waits == mail.waits
        assert mail.runs is None, "it is held still"
        assert 0 < mail.waits.half_s <= mail.waits.most_s
        assert mail.oldest_s is not None
        assert mail.next_job is None, "nobody has to look at it"
        other.delete(held)
        third = await sampler.take()
        assert third.runs is not None
        assert third.runs == third.rows["mail"].runs
        assert (third.waits, third.rows["mail"].waits) == (None, None), "nothing was reserved since"
        assert second.rows["default"].oldest_s is None

    with beanpole_server() as server:
        sampled(server, test)


def test_of_many_tubes_the_server_says_how_long_jobs_wait() -> None:
    async def test(sampler: TopSampler, other: "library.Client[str]") -> None:
        for tube in ("a", "b", "c"):
            other.put("x", tube=tube)
        await sampler.take()
        other.watch("a")
        other.reserve(timeout=0)
        sample = await sampler.take(["b"])
        assert sample.waits is not None
        assert sample.rows["b"].waits is None
        assert sample.rows["b"].next_job is not None, "asked alone, it does not say how old the oldest is"

    with beanpole_server() as server:
        sampled(server, test, tubes_max=2)


def test_pages_of_tubes_are_read_to_the_end() -> None:
    async def test(sampler: TopSampler, other: "library.Client[str]") -> None:
        names = {f"t{number:04}" for number in range(1100)}
        for name in names:
            other.put("x", tube=name)
        sample = await sampler.take(["t0007"])
        assert set(sample.rows) == {"default", *names}
        assert (await sampler.take([], "T109")).rows.keys() == {f"t109{number}" for number in range(10)}

    with beanpole_server() as server:
        sampled(server, test, tubes_max=10_000)


def test_another_server_has_no_past(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"

    async def run() -> None:
        backoff = library.Backoff(attempts=1)
        async with library.AsyncClient(address, None, backoff=backoff, patience=0) as client:
            sampler = TopSampler(client, lambda: 0)
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
