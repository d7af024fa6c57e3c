"""Turns of HTTP clients, with a clock by which each piece of work takes half of a turn."""

import asyncio
import itertools

from beanpole_ids import limits
from beanpole_ids.fair import Fair
from beanpole_ids.http.turns import Turns

READINGS = itertools.count(0, limits.TURN_US * 1_000 // 2)


def now_ns() -> int:
    return next(READINGS)


def test_loop_comes_back_after_a_turn_of_work() -> None:
    async def main() -> None:
        done: list[int] = []
        work = Turns(done.append, Fair(), now_ns)
        for number in range(10):
            work.add(b"a", number, number)
        for turn in range(1, 6):
            await asyncio.sleep(0)
            assert len(done) == 2 * turn
        assert done == list(range(10))
        work.add(b"a", 0, 10)
        await asyncio.sleep(0)
        assert done[-1] == 10, "it begins again"

    asyncio.run(main())


def test_work_that_takes_longer_than_it_seems_has_its_time() -> None:
    async def main() -> None:
        done: list[int] = []
        work = Turns(done.append, Fair(), now_ns, limits.TURN_US)
        work.add(b"a", 1, 1)
        work.add(b"a", 2, 2)
        await asyncio.sleep(0)
        assert done == [1]
        await asyncio.sleep(0)
        assert done == [1, 2]

    asyncio.run(main())


def test_sources_have_turns_however_much_others_have_to_do() -> None:
    async def main() -> None:
        done: list[bytes] = []
        work = Turns(done.append, Fair(), now_ns)
        for number in range(100):
            work.add(b"many", number, b"many")
        await asyncio.sleep(0)
        work.add(b"one", 1, b"one")
        await asyncio.sleep(0)
        assert b"one" in done
        assert len(done) == 4

    asyncio.run(main())


def test_what_fails_ends_nothing_else() -> None:
    async def main() -> None:
        done: list[int] = []
        errors: list[object] = []

        def do(number: int) -> None:
            done.append(number)
            if number == 0:
                raise ValueError

        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
        work = Turns(do, Fair(), now_ns)
        for number in range(3):
            work.add(b"a", number, number)
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == [0, 1, 2]
        assert len(errors) == 1

    asyncio.run(main())
