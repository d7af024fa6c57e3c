"""Numbers that are handed out locally."""

import asyncio
import os
import threading

import pytest

from beanpole_ids.client import AsyncRange, IdClient, Range
from beanpole_ids.errors import IdServiceError, NoNodeError
from tests.processes import wait_until
from tests.unit.client.node import AnyRange, Asyncio, AsyncioRange, counting, node


class Source:
    """Where numbers come from; a test may hold it up or break it."""

    def __init__(self) -> None:
        self.given = 0
        self.fetches = 0
        self.error: Exception | None = None
        self.open = threading.Event()
        self.open.set()

    def fetch(self, count: int) -> list[str]:
        self.fetches += 1
        assert self.open.wait(30)
        if self.error:
            raise self.error
        self.given += count
        return [str(each) for each in range(self.given - count, self.given)]

    async def fetch_later(self, count: int) -> list[str]:
        await asyncio.sleep(0)
        return self.fetch(count)


@pytest.fixture
def source() -> Source:
    return Source()


def settle(found: AnyRange, size: int) -> None:
    """Waits until as many numbers are there."""

    def is_there() -> bool:
        if isinstance(found, AsyncioRange):
            found.turn()
        return len(found) == size

    wait_until(is_there, f"{size} numbers are there")


@pytest.mark.parametrize("kind", [IdClient, Asyncio])
def test_fetched_ahead_and_in_order(kind: "type[IdClient | Asyncio]") -> None:
    with node(counting) as one:
        client = kind(one.address, timeout=30)
        numbers = client.range("order", "shop", 8)
        assert len(numbers) == 0
        given = [numbers.next_id() for _ in range(5)]
        assert len(one.asked) == 1
        given.append(numbers.next_id())
        settle(numbers, 10)
        given += [numbers.next_id() for _ in range(4)]
        assert given == [f"0-{each}" for each in range(8)] + ["1-0", "1-1"]
        assert [each["count"] for each in one.asked] == [8, 8]
        client.close()


def test_size_of_one_fetches_each(source: Source) -> None:
    numbers = Range(source.fetch, 1)
    assert [next(numbers) for _ in range(3)] == ["0", "1", "2"]
    assert source.fetches == 3


def test_while_a_fetch_is_under_way_the_rest_is_given(source: Source) -> None:
    numbers = Range(source.fetch, 8)
    given = [numbers.next_id() for _ in range(5)]
    source.open.clear()
    given += [numbers.next_id() for _ in range(3)]
    source.open.set()
    given += [numbers.next_id() for _ in range(4)]
    assert given == [str(each) for each in range(12)]


def test_error_of_a_fetch_ahead_is_raised_when_numbers_are_gone(source: Source) -> None:
    numbers = Range(source.fetch, 4)
    given = [numbers.next_id()]
    source.error = IdServiceError("storage", -3)
    given += [numbers.next_id() for _ in range(3)]
    for _ in range(2):
        with pytest.raises(IdServiceError):
            numbers.next_id()
    source.error = None
    assert [*given, numbers.next_id()] == ["0", "1", "2", "3", "4"]


def test_threads_share_a_range(source: Source) -> None:
    numbers = Range(source.fetch, 50)
    given: list[list[str]] = [[] for _ in range(8)]

    def work(mine: list[str]) -> None:
        mine += [numbers.next_id() for _ in range(2_000)]

    threads = [threading.Thread(target=work, args=(each,)) for each in given]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    everything = [number for each in given for number in each]
    assert len(set(everything)) == len(everything) == 16_000
    assert all(each == sorted(each, key=int) for each in given)


def test_tasks_share_a_range(source: Source) -> None:
    async def main() -> None:
        numbers = AsyncRange(source.fetch_later, 50)

        async def work() -> list[str]:
            return [await numbers.next_id() for _ in range(500)]

        given = await asyncio.gather(*(work() for _ in range(8)))
        everything = [number for each in given for number in each]
        assert len(set(everything)) == len(everything) == 4_000
        async for number in numbers:
            assert number not in everything
            break

    asyncio.run(main())


def test_cancelled_task_does_not_cancel_the_fetch_of_others(source: Source) -> None:
    async def main() -> None:
        numbers = AsyncRange(source.fetch_later, 10)
        tasks = [asyncio.create_task(numbers.next_id()) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert await asyncio.gather(*tasks[1:]) == ["0", "1"]
        assert source.fetches == 1

    asyncio.run(main())


def test_error_in_asyncio(source: Source) -> None:
    async def main() -> None:
        numbers = AsyncRange(source.fetch_later, 4)
        source.error = NoNodeError("nobody")
        with pytest.raises(NoNodeError):
            await numbers.next_id()
        source.error = None
        assert await numbers.next_id() == "0"

    asyncio.run(main())


def test_forked_process_begins_with_nothing(source: Source) -> None:
    """What the parent has fetched is the parent's: else two processes would hand out the same."""
    numbers, later = Range(source.fetch, 100), AsyncRange(source.fetch_later, 100)
    numbers.next_id()
    later._numbers.append("x")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, f"{len(numbers)} {len(later)}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "0 0"
    os.waitpid(child, 0)
    assert len(numbers) == 99
