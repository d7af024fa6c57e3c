"""The fake server: its clock moves only as it is told, and clients can't tell it from a server otherwise."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import greenstalk
import pytest

import beanpole
from beanpole.engine.limits import MOVES_PER_TURN
from beanpole.testing import FakeServer
from beanpole.worker.worker import RESERVE_S


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server with so much patience that a test would be seen to need it."""
    with FakeServer(patience=60) as running:
        yield running


@pytest.fixture
def client(server: FakeServer) -> Iterator[beanpole.Client[str]]:
    with beanpole.Client(server.url) as connected:
        yield connected


# --- The clock --------------------------------------------------------------------------------------------------------


def test_a_delay_ends_when_the_clock_says_so(server: FakeServer, client: beanpole.Client[str]) -> None:
    id = client.put("later", delay=3600)
    server.advance(3599.5)
    with pytest.raises(beanpole.TimedOutError):
        client.reserve(timeout=0)
    server.advance(0.5)
    assert client.reserve(timeout=0).id == id
    assert server.now == client.stats().uptime == 3600


def test_a_ttr_ends_when_the_clock_says_so(server: FakeServer, client: beanpole.Client[str]) -> None:
    job = client.reserve_job(client.put("x", ttr=10))
    server.advance(10)
    with pytest.raises(beanpole.NotFoundError):
        client.touch(job)
    assert server.jobs()[0].timeouts == 1


def test_a_client_that_waits_gets_what_becomes_ready(server: FakeServer) -> None:
    got: list[tuple[float, str]] = []

    def work() -> None:
        with beanpole.Client(server.url) as worker:
            got.extend((server.now, job.body) for job in worker.reserve_iter(timeout=1000))

    thread = threading.Thread(target=work)
    thread.start()
    wait_for_waiting(server, 1)
    server.put("late", delay=600, ttr=10_000)
    server.advance(600)
    wait_for_waiting(server, 1)
    server.advance(1000)
    thread.join()
    assert got == [(600, "late")]


def test_a_client_that_waits_for_a_job_does_not_take_it(server: FakeServer, client: beanpole.Client[str]) -> None:
    def work() -> None:
        with beanpole.Client(server.url) as worker:
            worker.wait_for_job(timeout=1000)
            assert client.stats_job(1).state == "ready"
            assert worker.reserve(timeout=0).body == "x"

    with ThreadPoolExecutor() as pool:
        done = pool.submit(work)
        wait_for_waiting(server, 1)
        client.put("x")
        done.result()


def wait_for_waiting(server: FakeServer, count: int) -> None:
    with beanpole.Client(server.url) as client:
        for _ in range(100_000):
            if client.stats().current_waiting == count:
                return
    raise AssertionError("nobody waits")


def test_the_clock_leaves_a_client_alone_that_does_not_come_back() -> None:
    with FakeServer(patience=0.01) as server:
        leave = threading.Event()

        def work() -> None:
            with beanpole.Client(server.url) as worker:
                worker.reserve()
                leave.wait()

        thread = threading.Thread(target=work)
        thread.start()
        wait_for_waiting(server, 1)
        server.put("x", delay=5, ttr=10)
        server.advance(60)
        assert [(job.state, job.timeouts) for job in server.jobs()] == [("ready", 1)]
        leave.set()
        thread.join()


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e20])
def test_what_is_no_time(server: FakeServer, seconds: float) -> None:
    with pytest.raises(beanpole.ArgumentError, match="seconds to advance by"):
        server.advance(seconds)


def test_a_long_time_is_no_problem(server: FakeServer, client: beanpole.Client[str]) -> None:
    client.put("in the last century", delay=2**32 - 1)
    server.advance(50 * 365 * 86_400)
    client.put("as late as can be", delay=2**32 - 1)
    assert server.jobs()[1].time_left == 2**32 - 1
    server.advance(0)


# --- The clock that goes on by itself ---------------------------------------------------------------------------------


def test_auto_advance_ends_a_reserve_at_once(server: FakeServer, client: beanpole.Client[str]) -> None:
    server.auto_advance = True
    with pytest.raises(beanpole.TimedOutError):
        client.reserve(timeout=3600)
    assert server.now == 3600
    client.put("x", delay=100)
    job = client.reserve()
    assert server.now == 3700
    with pytest.raises(beanpole.DeadlineSoonError):
        client.reserve()
    client.delete(job)


def test_auto_advance_stands_still_while_somebody_works(server: FakeServer, client: beanpole.Client[str]) -> None:
    server.auto_advance = True
    client.reserve_job(client.put("work"))
    answers: list[str] = []

    def wait() -> None:
        with beanpole.Client(server.url) as other:
            answers.append(other.reserve(timeout=5).body)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for_waiting(server, 1)
    assert server.now == 0
    client.put("more")
    thread.join()
    assert answers == ["more"]


def test_auto_advance_can_begin_while_a_client_waits(server: FakeServer) -> None:
    errors: list[Exception] = []

    def wait() -> None:
        with beanpole.Client(server.url) as waiting:
            try:
                waiting.reserve(timeout=60)
            except beanpole.TimedOutError as error:
                errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for_waiting(server, 1)
    assert (server.now, server.auto_advance) == (0, False)
    server.auto_advance = True
    thread.join()
    assert len(errors) == 1
    assert server.now == 60


# --- Looking ----------------------------------------------------------------------------------------------------------


def test_jobs_tell_everything(server: FakeServer, client: beanpole.Client[str]) -> None:
    id = server.put("to: you", priority=7, delay=30, ttr=90, tube="emails")
    client.watch("emails")
    client.put(b"\xff")  # type: ignore[arg-type]  # as greenstalk allows it
    server.advance(10)
    delayed, ready = server.jobs()
    assert (delayed.id, delayed.tube, delayed.state, delayed.body, delayed.text) == (
        id,
        "emails",
        "delayed",
        b"to: you",
        "to: you",
    )
    assert (delayed.pri, delayed.delay, delayed.ttr, delayed.age, delayed.time_left) == (7, 30, 90, 10, 20)
    assert (ready.tube, ready.state, ready.body) == ("default", "ready", b"\xff")
    assert server.jobs("emails") == server.jobs(state="delayed") == [delayed]
    assert server.jobs("emails", "ready") == server.jobs("nowhere") == []
    assert sorted(server.tubes()) == ["default", "emails"]


def test_put_refuses_what_a_client_would_refuse(server: FakeServer) -> None:
    with pytest.raises(beanpole.ArgumentError):
        server.put("x", tube="no tube")
    assert server.jobs() == []


@pytest.mark.parametrize("body", [{"to": 1}, 5, None, bytearray(b"x")])
def test_put_takes_str_or_bytes(server: FakeServer, body: str) -> None:
    with pytest.raises(TypeError, match=f"a body is str or bytes, not {type(body).__name__}"):
        server.put(body)
    assert server.put("x") == 1
    assert server.put(b"x") == 2


def test_body_bytes_max() -> None:
    with FakeServer(body_bytes_max=3) as server:
        assert server.put("abc") == 1
        with pytest.raises(beanpole.JobTooBigError):
            server.put("abcd")


def test_join_names_what_is_left(server: FakeServer) -> None:
    server.put("nobody takes this", tube="left")
    server.put("not now", delay=1)
    server.join("other", "default")
    with pytest.raises(TimeoutError, match="nobody takes this"):
        server.join(timeout=0.01)


# --- Clients ----------------------------------------------------------------------------------------------------------


def test_greenstalk_knows_no_difference(server: FakeServer) -> None:
    with greenstalk.Client(server.address) as other:
        id = other.put("x" * 60_000, delay=60)
        server.advance(60)
        job = other.reserve(timeout=0)
        assert (job.id, len(job.body)) == (id, 60_000)
        other.delete(job)
    assert server.jobs() == []


def test_asyncio_in_the_thread_of_the_test(server: FakeServer) -> None:
    async def main() -> None:
        async with beanpole.AsyncClient(server.url) as worker, beanpole.AsyncClient(server.url) as producer:
            waiting = asyncio.create_task(worker.reserve(timeout=100))
            await producer.put("x", delay=60)
            await asyncio.to_thread(server.advance, 60)
            job = await waiting
            await worker.release(job, delay=3600)
            server.advance(3600)
            await worker.delete(await worker.reserve(timeout=0))

    asyncio.run(main())
    assert (server.now, server.jobs()) == (3660, [])


def test_pipelines_larger_than_every_buffer() -> None:
    with FakeServer(old=True) as server, beanpole.Client(server.url, None) as client:
        ids = client.put_many([b"x" * 1000] * 4000)
        assert [job.id for job in client.reserve_many(4000, timeout=0)] == ids
        client.delete_many(ids)
        assert client.stats().current_jobs_ready == 0


def test_a_worker_retries_for_an_hour(server: FakeServer) -> None:
    worker = beanpole.Worker("beanstalk://nowhere.invalid", concurrency=2)
    tries: list[float] = []

    @worker.handler("mails", max_attempts=5, backoff=beanpole.exponential(120, 86_400, jitter=0))
    def send(_: object) -> None:
        tries.append(server.now)
        raise OSError("no network")

    with server.running(worker):
        server.put("to: you@example.org", tube="mails")
        server.join()
        server.advance(3600)
        server.join()
    assert tries == [0, 120, 360, 840, 1800]
    assert [job.state for job in server.jobs("mails")] == ["buried"]
    assert str(worker.address) == "beanstalk://nowhere.invalid:11300"


def test_a_handler_that_hangs_does_not_hold_up_the_end(server: FakeServer) -> None:
    worker, begun, go_on = beanpole.Worker(grace=1000), threading.Event(), threading.Event()

    @worker.handler("hang")
    def hang(_: beanpole.Task[str]) -> None:
        begun.set()
        go_on.wait(20)

    with server.running(worker, grace=0.01):
        server.put("x", tube="hang")
        assert begun.wait(20)
    assert not go_on.is_set()
    go_on.set()
    assert [job.state for job in server.jobs()] == ["ready"]
    assert (worker.counters.released, worker.grace_s, worker.reserve_s) == (1, 1000, RESERVE_S)


def test_a_worker_that_cannot_serve_is_told_of(server: FakeServer) -> None:
    with pytest.raises(beanpole.ArgumentError, match="no handler"), server.running(beanpole.Worker()):
        pass


# --- An old server ----------------------------------------------------------------------------------------------------


def test_an_old_server_has_none_of_our_commands() -> None:
    with FakeServer(old=True) as server, beanpole.Client(server.url) as client:
        with pytest.raises(beanpole.UnsupportedError, match=r"does not support set-schedule$"):
            client.set_schedule("a", every=60)
        assert client.features() == frozenset()


# --- Start and stop ---------------------------------------------------------------------------------------------------


def test_connections_are_lost_and_jobs_wait_for_who_keeps_them(server: FakeServer) -> None:
    with beanpole.Client(server.url) as keeper, beanpole.Client(server.url) as other:
        keeper.keep(10)
        for client in (keeper, other):
            client.put("x")
            client.reserve(0)
        server.drop_connections()
        assert [job.state for job in server.jobs()] == ["reserved", "ready"]
        keeper.touch(1)
        with pytest.raises(beanpole.JobLostError):
            other.touch(2)
        server.drop_connections(away=10)
        assert [job.state for job in server.jobs()] == ["ready", "ready"]


def test_stop_closes_connections_and_keeps_the_queue() -> None:
    server = FakeServer()
    server.start()
    with pytest.raises(RuntimeError, match="is running"):
        server.start()
    client = beanpole.Client(server.url, backoff=beanpole.Backoff(attempts=1), patience=0)
    client.put("x")
    server.stop()
    server.stop()
    with pytest.raises(ConnectionError):
        client.put("y")
    server.advance(60)
    assert [job.text for job in server.jobs()] == ["x"]
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.url


def test_it_can_start_again() -> None:
    server = FakeServer()
    for id in (1, 2):
        with server:
            assert server.put("x") == id


def test_nothing_is_left_behind() -> None:
    with FakeServer() as server, beanpole.Client(server.url) as client:
        client.connect()
    assert not [thread for thread in threading.enumerate() if thread.name == "FakeServer"]


# --- The end of connections -------------------------------------------------------------------------------------------


def test_jobs_are_back_when_a_connection_has_ended_that_held_very_many(server: FakeServer) -> None:
    """A server needs several turns for them, and no time: the clock stands still."""
    count = 2 * MOVES_PER_TURN
    with socket.create_connection(server.address) as holder:
        holder.sendall(b"put 0 0 60 1\r\nx\r\nreserve\r\n" * count + b"quit\r\n")
        while holder.recv(1 << 16):
            pass
    assert {job.state for job in server.jobs()} == {"ready"}
    for _ in range(2):
        with beanpole.Client(server.url) as client:
            assert client.reserve(timeout=0).id == 1
    assert server.now == 0


# --- Schedules --------------------------------------------------------------------------------------------------------


def scheduled(client: beanpole.Client[str]) -> list[datetime | None]:
    """For which times the jobs were put that are ready."""
    jobs = client.list_jobs("t", "ready", order="next").jobs
    assert [each.fire for each in jobs] == list(range(1, len(jobs) + 1))
    return [each.scheduled_at for each in jobs]


def test_schedules_fire_as_time_passes(server: FakeServer) -> None:
    """Each at its time, also where a worker waits; a day takes no longer than what happens in it."""
    with beanpole.Client(server.url) as client:
        assert server.wall == datetime(2026, 1, 1, tzinfo=UTC)
        client.set_schedule("a", cron="0 6 * * *", zone="Europe/Berlin", tube="t", overlap="allow", delay=0)
        server.advance(3 * 86_400)
        assert scheduled(client) == [datetime(2026, 1, day, 5, tzinfo=UTC) for day in (1, 2, 3)]
        assert server.wall == datetime(2026, 1, 4, tzinfo=UTC)
        found = client.schedule("a")
        assert (found.fires, found.misses, found.last) == (3, 0, datetime(2026, 1, 3, 5, tzinfo=UTC))


def test_a_wall_clock_that_is_set_forward(server: FakeServer) -> None:
    """What it has passed over is missed, and made up for once; delays do not end by it."""
    with beanpole.Client(server.url) as client:
        client.put("later", delay=60)
        client.set_schedule("a", every=3600, tube="t")
        server.set_wall(datetime(2026, 1, 1, 6, 30, tzinfo=timezone(timedelta(hours=1))))
        assert scheduled(client) == [datetime(2026, 1, 1, 5, tzinfo=UTC)]
        assert client.schedule("a").misses == 4
        assert (server.now, server.jobs("default")[0].time_left) == (0, 60)


def test_a_wall_clock_that_is_set_back(server: FakeServer) -> None:
    with beanpole.Client(server.url) as client:
        client.set_schedule("a", every=3600, tube="t", overlap="allow")
        server.advance(3600)
        server.set_wall(server.wall.timestamp() - 1800)
        server.advance(5399)
        assert client.schedule("a").fires == 1
        server.advance(1)
        assert scheduled(client) == [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (1, 2)]


@pytest.mark.parametrize("wall", [-1, float("nan"), 1e12, datetime(2026, 1, 1)])  # noqa: DTZ001 - has no zone
def test_what_is_no_wall_clock(server: FakeServer, wall: datetime | float) -> None:
    with pytest.raises(beanpole.ArgumentError, match="the wall clock is set to a time"):
        server.set_wall(wall)


def test_a_schedule_that_ends_lets_auto_advance_end_a_reserve(server: FakeServer) -> None:
    server.auto_advance = True
    with beanpole.Client(server.url, watch="t") as client:
        client.set_schedule("a", "x", at="2026-01-01T01:00:00", tube="t")
        client.delete(client.reserve(timeout=7200))
        with pytest.raises(beanpole.TimedOutError):
            client.reserve(timeout=7200)
        assert server.now == 3600 + 7200
