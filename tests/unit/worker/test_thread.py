"""What users wrote is called, and what came of it is a value."""

import asyncio
import sys
import threading

from beanpole.worker.calls import HandlerThread, call, call_async


def fail(error: BaseException) -> None:
    raise error


async def forgotten() -> None:
    """Is never awaited."""


def test_call_returns_what_was_raised() -> None:
    error = ValueError("x")
    assert call(fail, error) is error
    assert call(len, "x") is None
    assert isinstance(call(sys.exit, 3), SystemExit)
    assert isinstance(call(fail, StopIteration()), StopIteration)


def test_a_coroutine_that_nobody_awaits_is_a_failure() -> None:
    assert isinstance(call(forgotten), TypeError)


def test_call_async_returns_what_was_raised() -> None:
    async def raise_it(error: BaseException) -> None:
        raise error

    async def main() -> None:
        for error in (ValueError("x"), SystemExit(3), asyncio.CancelledError()):
            assert await call_async(raise_it, error) is error
        assert await call_async(asyncio.sleep, 0) is None

    asyncio.run(main())


def test_a_thread_calls_one_function_after_the_other() -> None:
    names = []

    async def main() -> None:
        thread = HandlerThread("one")
        for _ in range(3):
            assert await thread.submit(lambda: names.append(threading.current_thread().name)) is None
        thread.end()

    asyncio.run(main())
    assert names == ["one"] * 3


def test_a_thread_outlives_the_loop_that_it_worked_for() -> None:
    begin, done = threading.Event(), threading.Event()

    def hang() -> None:
        begin.set()
        done.wait(20)

    async def main() -> HandlerThread:
        thread = HandlerThread("hanging")
        thread.submit(hang)
        thread.end()
        return thread

    thread = asyncio.run(main())
    assert begin.wait(20)
    done.set()
    thread._thread.join(20)
    assert not thread._thread.is_alive()
