"""Serving the clients of a node: in each of its roles, and at its end."""

import asyncio
from types import SimpleNamespace

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server import limits
from beanpole.server.clusterlogs import ClusterObserver
from beanpole.server.clusterservice import ClusterService
from beanpole.server.logs import Logger
from beanpole.server.settings import Settings
from beanpole.server.slowturn import SlowTurn


class LeadersLog(Log):
    """A log with what a service asks of a leader's."""

    clock_offset_ns = 0
    epoch = 3
    format = 4
    store = SimpleNamespace(settings=SimpleNamespace(cluster="c"))


class Observer:
    """Remembers the slow turns."""

    def __init__(self) -> None:
        self.slow: list[SlowTurn] = []

    def turn_slow(self, slow: SlowTurn) -> None:
        """Remember it."""
        self.slow.append(slow)


def service_of(observer: Observer) -> ClusterService:
    """What serves the clients of a node that has no listener."""
    return ClusterService(
        Settings(),
        asyncio.get_running_loop(),
        observer,  # type: ignore[arg-type]
        listeners=[],
        connections_max=1,
        forwards_max=1,
        facts=dict,
    )


def test_slow_turns_of_a_node_that_leads_are_reported() -> None:
    log, observer = LeadersLog(), Observer()

    async def lead() -> None:
        service = service_of(observer)
        service.lead(Engine(now_ns=1, records=log.records), log)  # type: ignore[arg-type]
        log.on_pause("rolling", limits.SLOW_TURN_NS)
        assert service.clients is not None
        service.clients.run()
        service.stop_leading()

    asyncio.run(lead())
    [slow] = observer.slow
    assert slow.waited_ns == {"rolling": limits.SLOW_TURN_NS}


def test_a_node_that_stops_follows_no_leader() -> None:
    """A client that it took for the next leader would be cut a moment later."""

    async def stop() -> None:
        service = service_of(Observer())
        service.stop()
        service.follow("127.0.0.1:1", b"", ClusterObserver(Logger(str), lambda *_: None))
        assert service.reaching is None
        assert not service.leader

    asyncio.run(stop())
