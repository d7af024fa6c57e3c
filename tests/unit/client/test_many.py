"""What a client says of many jobs, and what becomes of a reserve that is cancelled."""

import asyncio
import threading
from typing import Any

import pytest

from beanpole import (
    AsyncClient,
    Backoff,
    BatchError,
    ConnectionLostError,
    DeadlineSoonError,
    NotFoundError,
    TimedOutError,
    UnexpectedReplyError,
    UnsupportedError,
)
from beanpole.client import extensions
from beanpole.protocol import limits
from tests.unit.client.peer import CLOSE, NONE, SILENCE, Maker, Peer, Steps, has

MANY = has("reserve-many", "delete-many", "touch-many")


def test_many_jobs_are_one_command_where_the_server_has_it(make: Maker) -> None:
    script = [
        MANY,
        (b"reserve-many 3 0.5\r\n", b"JOBS 2\r\nJOB 5 1 tube=t pri=3 attempts=2\r\nx\r\nJOB 6 0\r\n\r\n"),
        (b"touch-many 5 6\r\n", b"TOUCHED 2\r\n"),
        (b"delete-many 5 6\r\n", b"DELETED 2\r\n"),
        (b"reserve-many 1000 0\r\n", b"TIMED_OUT\r\n"),
        (b"reserve-many 1 2147483647\r\n", b"JOBS 1\r\nJOB 7 0\r\n\r\n"),
        (b"delete-many 7 8 7 9\r\n", b"DELETED 2 8 7\r\n"),
        (b"touch-many 1 2\r\n", b"TOUCHED 1 2\r\n"),
    ]
    with make.to_peer(script) as client:
        jobs = client.reserve_many(3, 0.5)
        assert [(job.id, job.body) for job in jobs] == [(5, "x"), (6, "")]
        assert (jobs[0].info.tube, jobs[0].info.pri, jobs[0].info.attempts) == ("t", 3, 2)
        assert not client.untouched
        client.touch_many(jobs)
        client.delete_many(jobs)
        assert client.untouched
        with pytest.raises(TimedOutError):
            client.reserve_many(2000, 0)
        assert client.reserve_many(1)[0].id == 7
        with pytest.raises(BatchError) as caught:
            client.delete_many([7, 8, 7, 9])
        assert [type(each).__name__ for each in caught.value.results] == [
            "NoneType",
            "NotFoundError",
            "NotFoundError",
            "NoneType",
        ]
        with pytest.raises(BatchError) as caught:
            client.touch_many([1, 2])
        assert caught.value.results[0] is None
        assert isinstance(caught.value.results[1], NotFoundError)
        client.delete_many([])


def test_who_waits_for_a_job_takes_none(make: Maker) -> None:
    script = [
        has("reserve-many", "reserve-many.0"),
        (b"reserve-many 0 0.5\r\n", b"JOBS 0\r\n"),
        (b"reserve-many 0 2147483647\r\n", b"DEADLINE_SOON\r\n"),
        (b"reserve-many 0 0\r\n", b"TIMED_OUT\r\n"),
    ]
    with make.to_peer(script) as client:
        client.wait_for_job(0.5)
        with pytest.raises(DeadlineSoonError):
            client.wait_for_job()
        with pytest.raises(TimedOutError):
            client.wait_for_job(timeout=0)
    with make.to_peer([has("reserve-many")]) as older, pytest.raises(UnsupportedError, match=r"reserve-many\.0"):
        older.wait_for_job()


def test_many_jobs_are_many_commands_where_it_has_not(make: Maker) -> None:
    script = [
        NONE,
        (b"reserve\r\nreserve-with-timeout 0\r\n", b"RESERVED 5 1\r\nx\r\nTIMED_OUT\r\n"),
        (b"touch 5\r\ntouch 6\r\n", b"TOUCHED\r\nNOT_FOUND\r\n"),
        (b"delete 5\r\n", b"DELETED\r\n"),
    ]
    with make.to_peer(script) as client:
        jobs = client.reserve_many(2)
        assert [(job.id, job.body, job.info) for job in jobs] == [(5, "x", None)]
        with pytest.raises(BatchError) as caught:
            client.touch_many([5, 6])
        assert caught.value.results[0] is None
        assert isinstance(caught.value.results[1], NotFoundError)
        client.delete_many(jobs)


def test_a_line_has_no_more_ids_than_fit() -> None:
    ids = [2**64 - 1 - i for i in range(1000)]
    lines = list(extensions.id_lines(b"delete-many", ids))
    assert [id for _, listed in lines for id in listed] == ids
    assert max(len(line) for line, _ in lines) <= limits.EXTENSION_LINE_BYTES_MAX
    assert min(len(line) for line, _ in lines[:-1]) > limits.EXTENSION_LINE_BYTES_MAX - 22
    assert list(extensions.id_lines(b"delete-many", [])) == []


@pytest.mark.parametrize("answer", [b"DELETED 1 9\r\n", b"RELEASED\r\n", b"DELETED 0 1 1\r\n"])
def test_an_answer_that_does_not_fit_is_an_error(make: Maker, answer: bytes) -> None:
    with Peer([MANY, (b"delete-many 1\r\n", answer)]) as peer, pytest.raises(UnexpectedReplyError):
        make(peer.address).delete_many([1])


def test_a_batch_that_breaks_says_what_is_known(make: Maker) -> None:
    with Peer([MANY, (b"delete-many 1 2\r\n", CLOSE)]) as peer, pytest.raises(BatchError) as caught:
        make(peer.address).delete_many([1, 2])
    assert [type(each) for each in caught.value.results] == [ConnectionLostError] * 2


@pytest.mark.parametrize(
    "answer", [b"TIMED_OUT\r\nCANCELLED\r\n", b"RESERVED 5 0\r\n\r\nNOT_WAITING\r\n", CLOSE, SILENCE]
)
def test_a_cancelled_reserve_ends_with_cancel_reserve_where_the_server_has_it(answer: Any) -> None:
    sent = threading.Event()

    def waiting() -> bytes:
        sent.set()
        return b""

    script: Steps = [
        has("cancel-reserve", "snooze-job"),
        (b"reserve\r\n", waiting),
        (b"cancel-reserve\r\n", answer),
    ]
    lives = isinstance(answer, bytes)
    if lives and b"RESERVED" in answer:
        script += [(b"snooze-job 5 0\r\n", b"RELEASED\r\n")]
    script += [(b"delete 1\r\n", b"DELETED\r\n")] if lives else []

    async def scene(address: tuple[str, int]) -> None:
        async with AsyncClient(address, timeout=20 if lives else 1, backoff=Backoff(attempts=1)) as client:
            await client.features()
            task = asyncio.create_task(client.reserve())
            await asyncio.to_thread(sent.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            if lives:
                while client._link is None or client._link._owed or client._session.held:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0)
                await client.delete(1)
            else:
                while client._link is None or not client._link.is_over:  # noqa: ASYNC110 - the connection ends
                    await asyncio.sleep(0.001)

    with Peer(script) as peer:
        asyncio.run(asyncio.wait_for(scene(peer.address), 20))


def test_other_commands_that_take_long_end_with_the_connection() -> None:
    """A clear-tube goes on as long as somebody waits for its answer."""
    sent = threading.Event()

    def working() -> object:
        sent.set()
        return SILENCE

    async def scene(address: tuple[str, int]) -> None:
        async with AsyncClient(address) as client:
            await client.features()
            task = asyncio.create_task(client.clear_tube("t"))
            await asyncio.to_thread(sent.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client._link is not None
            assert client._link.is_over

    with Peer([has("cancel-reserve", "clear-tube"), (b"clear-tube t\r\n", working)]) as peer:
        asyncio.run(asyncio.wait_for(scene(peer.address), 20))


def test_cancelled_reserve_many_gives_the_jobs_back() -> None:
    """The jobs are faster than the end of the wait; another one that the client holds stays with it."""
    script = [
        (b"reserve-job 1\r\n", b"RESERVED 1 0\r\n\r\n"),
        has("reserve-many", "snooze-job", "list-jobs", "cancel-reserve"),
        (b"reserve-many 2 60\r\n", b""),
        (b"cancel-reserve\r\n", b"JOBS 2\r\nJOB 5 0\r\n\r\nJOB 6 0\r\n\r\nNOT_WAITING\r\n"),
        (b"snooze-job 5 0\r\nsnooze-job 6 0\r\n", b"RELEASED\r\nRELEASED\r\n"),
        (b"list-jobs t reserved 1000\r\n", b"JOBS 1\r\nJOB 1 0\r\n\r\n"),
        (b"delete 1\r\n", b"DELETED\r\n"),
    ]

    async def scene(address: tuple[str, int]) -> None:
        async with AsyncClient(address) as client:
            await client.reserve_job(1)
            task = asyncio.create_task(client.reserve_many(2, 60))
            while not (client._link and client._link._owed and client._link._owed[0].shipment.reserves):  # noqa: ASYNC110 - nobody says that it was sent
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len((await client.list_jobs("t", "reserved")).jobs) == 1
            assert client._session.held == {1}
            await client.delete(1)

    with Peer(script) as peer:
        asyncio.run(asyncio.wait_for(scene(peer.address), 20))
