"""What answers the console of a node that does not lead: an engine that never has a job.

The node's clients are passed on to the leader, but the console asks about this very node. So its connections end here,
with an engine of their own whose ``stats`` say what the node is and how far it has come. Counts of jobs mean nothing,
and a put is refused with DRAINING.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from beanpole import limits
from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.log.postgres.leader import facts_of_place
from beanpole.server.epoll import EpollTransport
from beanpole.server.eventqueue import now_ns
from beanpole.server.storage import Facts
from beanpole.server.turn import Turn

if TYPE_CHECKING:
    from beanpole.log.postgres.node import Node
    from beanpole.server.clusterroles import Roles
    from beanpole.server.observer import Observer


def idle_transport(loop: asyncio.AbstractEventLoop, observer: "Observer", facts: Facts) -> EpollTransport:
    """Return what serves connections with an engine without jobs, from the loop's next turn on."""
    log = Log()
    engine = Engine(limits.BODY_BYTES_MAX_DEFAULT, now_ns(), lambda: {**facts(), "draining": "false"}, log.records)
    engine.draining = True
    transport = EpollTransport(Turn(engine, log), loop, observer)
    loop.add_reader(transport.fileno(), transport.run)
    return transport


def facts_of(node: "Node", roles: "Roles") -> Mapping[str, str]:
    """Return what a node that does not lead says of itself."""
    state, following = node.state(), node.following
    unapplied = following.replica.unapplied if following is not None and following.replica is not None else ()
    heard_ns = following.heard_ns if following is not None else 0
    return {
        "cluster-role": state.role,
        "cluster-epoch": str(state.epoch),
        "cluster-lag": str(sum(len(row.data) for row, _, _ in unapplied)),
        **facts_of_place(following.unreadable if following is not None else None),
        "cluster-silence": f"{(node.clock.now_ns() - heard_ns) / 1e9:.3f}" if heard_ns else "0.000",
        "cluster-leader": roles.leader if roles.reaches_leader else "",
    } | roles.says_away()
