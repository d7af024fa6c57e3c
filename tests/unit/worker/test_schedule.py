"""Schedules that stand above functions: the server has them when the worker works, and their jobs say so."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from beanpole import ArgumentError, Client, Dead, JsonCodec, ScheduleError, Task, UnsupportedError, current_task
from beanpole import Worker as AnyWorker
from beanpole.testing import FakeServer
from tests.unit.worker.conftest import Shop

DAY_S = 86_400


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server that has schedules."""
    with FakeServer(patience=60) as running:
        yield running


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client[str]]:
    with Client(server.url) as made:
        yield made


def has(client: Client[str]) -> dict[str, bytes]:
    """The schedules of the server."""
    return {each.name: each.document for each in client.all_schedules(bodies=1_000)}


def test_a_function_is_called_when_it_is_time(server: FakeServer, client: Client[str]) -> None:
    worker = AnyWorker(concurrency=3)
    told: list[tuple[object, ...]] = []

    @worker.schedule(cron="0 3 * * *", zone="Europe/Berlin")
    @worker.schedule(name="weekly", cron="0 4 * * MON", args=["all"], kwargs={"since": 7}, key="k", ttr=300)
    @worker.function("reports")
    def report(what: str = "some", since: int = 1) -> None:
        task = current_task()
        assert task is not None
        told.append((what, since, task.schedule, task.scheduled_at, task.fire))

    assert callable(report.put)
    with server.running(worker):
        server.advance(DAY_S)
        server.join()
        client.fire_schedule("weekly")
        server.join()
        report.put("put")
        server.join()
    assert told == [
        ("some", 1, "reports", datetime(2026, 1, 1, 2, tzinfo=UTC), 1),
        ("all", 7, "weekly", datetime(2026, 1, 2, tzinfo=UTC), None),
        ("put", 1, None, None, None),
    ]
    assert has(client) == {
        "reports": b"cron: 0 3 * * *\nzone: Europe/Berlin\ntube: reports\n\n{}",
        "weekly": b'cron: 0 4 * * MON\ntube: reports\nttr: 300\nkey: k\n\n{"what":"all","since":7}',
    }


def test_a_handler_gets_the_body(server: FakeServer, client: Client[str]) -> None:
    worker = AnyWorker(codec=JsonCodec())
    told: list[object] = []

    @worker.schedule(every=3600, body={"kind": "hourly"})
    @worker.handler("t")
    async def handle(task: Task[Any]) -> None:
        told.append((task.body, task.schedule, task.fire))

    with server.running(worker):
        server.advance(2 * 3600)
        server.join()
    assert told == [({"kind": "hourly"}, "t", 1), ({"kind": "hourly"}, "t", 2)]
    assert has(client) == {"t": b'every: 3600\ntube: t\n\n{"kind":"hourly"}'}


def test_they_are_set_again_after_a_loss_and_nothing_else_is_dropped(
    server: FakeServer, client: Client[str], shop: Shop
) -> None:
    """What somebody has dropped meanwhile is there again; a slot that connects besides sets nothing."""
    client.set_schedule("other", every=60)
    worker = shop.worker()

    @worker.schedule(every=3600)
    @worker.function("t")
    def work() -> None:
        raise Dead("done")

    with server.running(worker):
        shop.wait_waiting(2)
        assert client.stats()["cmd-set-schedule"] == 2
        client.drop_schedule("t")
        for peer in list(server.peers.values()):
            if peer.session.waiting:
                peer.transport.abort()
        shop.wait_waiting(2)
        assert set(has(client)) == {"t", "other"}
        assert client.stats()["cmd-set-schedule"] == 3


def test_what_a_server_refuses_later_is_logged_and_the_worker_goes_on(
    server: FakeServer, client: Client[str], shop: Shop
) -> None:
    worker = shop.worker(1)

    @worker.schedule(every=3600)
    @worker.function("t")
    def work() -> None:
        pass

    with server.running(worker):
        shop.wait_waiting(1)
        client.drop_schedule("t")
        with server.event() as world:
            world.drain()
        next(each for each in server.peers.values() if each.session.waiting).transport.abort()
        shop.wait_waiting(1)
    [line] = shop.events("a schedule was not set")
    assert line["schedule"] == "t"
    assert "DRAINING" in line["error"]


def test_a_server_without_schedules_ends_the_worker() -> None:
    worker = AnyWorker()

    @worker.schedule(every=60)
    @worker.function("t")
    def work() -> None:
        pass

    sentence = "^the schedule t of .*work: the server does not support set-schedule"
    with (
        pytest.raises(UnsupportedError, match=sentence),
        FakeServer(old=True, patience=60) as server,
        server.running(worker),
    ):
        pass
    assert worker.counters.connections == 0


def test_what_the_server_finds_wrong_ends_the_worker(server: FakeServer) -> None:
    worker = AnyWorker()

    @worker.schedule(cron="@daily", zone="Europe/Atlantis")
    @worker.function("t")
    def work() -> None:
        pass

    sentence = r"^the schedule t of .*work: zone: there is no time zone"
    with pytest.raises(ScheduleError, match=sentence), server.running(worker):
        pass


def test_what_is_wrong_is_found_where_it_stands() -> None:
    worker = AnyWorker()

    @worker.function("t")
    def work(day: int = 1) -> None:
        pass

    @worker.handler("a", "b")
    def handle(_: object) -> None:
        pass

    with pytest.raises(ScheduleError, match=r"^the schedule t of .*<locals>.work: cron: "):
        worker.schedule(cron="61 * * * *")(work)
    with pytest.raises(ArgumentError, match=r"^the schedule t of .*work: start has no time zone"):
        worker.schedule(every=60, start=datetime(2026, 1, 1))(work)  # noqa: DTZ001 - see above
    with pytest.raises(TypeError, match="evry"):
        worker.schedule(evry=60)(work)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"work\(day: int = 1\): "):
        worker.schedule(every=60, args=[1, 2])(work)
    with pytest.raises(ArgumentError, match="args and kwargs"):
        worker.schedule(every=60, body="{}")(work)
    with pytest.raises(ArgumentError, match="stands above"):
        worker.schedule(every=60)(handle)
    with pytest.raises(ArgumentError, match="a handler is called with a job"):
        worker.schedule(every=60, args=[1])(handle)
    with pytest.raises(ArgumentError, match=r"^a schedule above .*work puts into its tube t, not into other$"):
        worker.schedule(every=60, tube="other")(work)
    worker.schedule(every=60, tube="t", name="said")(work)
    worker.schedule(every=60)(work)
    with pytest.raises(ArgumentError, match="a name of its own"):
        worker.schedule(every=61)(work)
