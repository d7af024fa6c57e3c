"""Serving the clients of a node: what an operator reads of its turns while it leads."""

import asyncio
from types import SimpleNamespace

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server import limits
from beanpole.server.clusterservice import ClusterService
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


def test_slow_turns_of_a_node_that_leads_are_reported() -> None:
    log, observer = LeadersLog(), Observer()

    async def lead() -> None:
        service = ClusterService(
            Settings(),
            asyncio.get_running_loop(),
            observer,  # type: ignore[arg-type]
            listeners=[],
            connections_max=1,
            forwards_max=1,
            facts=dict,
        )
        service.lead(Engine(now_ns=1, records=log.records), log)  # type: ignore[arg-type]
        log.on_pause("rolling", limits.SLOW_TURN_NS)
        assert service.clients is not None
        service.clients.run()
        service.stop_leading()

    asyncio.run(lead())
    [slow] = observer.slow
    assert slow.waited_ns == {"rolling": limits.SLOW_TURN_NS}
