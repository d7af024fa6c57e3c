"""Serving the clients of a node: in each of its roles, and at its end."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode
from beanpole.log.log import Log
from beanpole.server import limits
from beanpole.server.clusterlogs import ClusterObserver
from beanpole.server.clusterroles import Roles
from beanpole.server.logs import Logger
from beanpole.server.observer import SlowTurn
from beanpole.server.roles import AlwaysLeads
from beanpole.server.settings import Settings


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
        self.slow.append(slow)


def host_of(observer: Observer) -> Any:  # noqa: ANN401 - as much of one as is asked for
    """A process without listeners and console."""
    return SimpleNamespace(
        settings=Settings(),
        listeners=[],
        connections_max=1,
        descriptors_free=2,
        observer=observer,
        console=None,
        facts=dict,
        exit_code=ExitCode.OK,
        ready=lambda: None,
        equip=lambda _engine: None,
    )


def roles_of(observer: Observer) -> Roles:
    """What serves the clients of a node that has no listener."""
    return Roles(host_of(observer), ClusterObserver(Logger(str)), lambda _: None)


def test_slow_turns_of_a_node_that_leads_are_reported() -> None:
    log, observer = LeadersLog(), Observer()

    async def lead() -> None:
        roles = roles_of(observer)
        roles.lead(Engine(now_ns=1, records=log.records), log)  # type: ignore[arg-type]
        log.on_pause("rolling", limits.SLOW_TURN_NS)
        assert roles.clients is not None
        roles.clients.run()
        roles.stop_leading()

    asyncio.run(lead())
    [slow] = observer.slow
    assert slow.waited_ns == {"rolling": limits.SLOW_TURN_NS}


async def alone() -> Engine:
    """Begin as a server alone does, and end again."""
    server = AlwaysLeads(host_of(Observer()))
    server.start()
    await asyncio.sleep(0)
    await server.stop()
    return server.engine


async def leading() -> Engine:
    """Begin to lead as a node does, and end again."""
    log = LeadersLog()
    engine, roles = Engine(now_ns=1, records=log.records), roles_of(Observer())
    roles.lead(engine, log)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    roles.stop_leading()
    return engine


@pytest.mark.parametrize("serve", [alone, leading])
def test_what_is_due_at_a_start_does_not_wait_for_a_client(serve: Callable[[], Coroutine[Any, Any, Engine]]) -> None:
    assert asyncio.run(serve()).now_ns, "there was no turn"


def test_a_node_that_stops_follows_no_leader() -> None:
    """A client that it took for the next leader would be cut a moment later."""

    async def stop() -> None:
        roles = roles_of(Observer())
        roles.stop()
        roles.follow({"node": "b", "address": "127.0.0.1:1"}, 7, "c")
        assert roles.reaching is None
        assert not roles.leader

    asyncio.run(stop())
