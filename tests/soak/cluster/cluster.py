"""A whole cluster: PostgreSQL servers, three nodes, and clients that remember what they are told."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from beanpole.errors import BeanpoleError
from beanpole.log.postgres import admin
from beanpole.log.postgres.admin import CLUSTER_SEGMENT_BYTES
from tests.soak.cluster.clients import Client, History, Verdict, judge
from tests.soak.cluster.nodes import NodeProcess, leader_of
from tests.soak.cluster.timers import Timers, judge_fires

CLIENTS = 4
WAIT_S = 60.0
STILL_LOOKS = 50
"""Looks at the answers, with a hundredth of a second between them, that must all see the same."""

MakeNode = Callable[[Path, str, str], NodeProcess]


class Servers(Protocol):
    """PostgreSQL servers, and what promotes one of them."""

    @property
    def url(self) -> str:
        """What the nodes are given."""

    @property
    def logs(self) -> list[Path]:
        """What the servers said."""

    def empty(self) -> None:
        """Make room for a new cluster."""

    def lose_primary(self) -> None:
        """Kill the primary; another is promoted."""

    def repair(self) -> None:
        """Start again what was lost."""

    def stop(self) -> None:
        """End them."""


S = TypeVar("S", bound=Servers)


class Cluster(Generic[S]):
    """An empty log, its nodes and its clients."""

    def __init__(self, servers: S, folder: Path, make_node: MakeNode, segment_bytes: int) -> None:
        self.servers = servers
        self.segment_bytes = segment_bytes
        self.make_node: Callable[[str], NodeProcess] = partial(make_node, folder, servers.url)
        self.nodes = [self.make_node(name) for name in "abc"]
        self.history = History()
        self.clients: list[Client | Timers] = []
        self.client_count = 0

    def init(self) -> None:
        asyncio.run(admin.init(self.servers.url, segment_bytes=self.segment_bytes))

    def start(self) -> None:
        for each in self.nodes:
            each.start()
        leader_of(self.nodes)
        give_up_at = time.monotonic() + WAIT_S
        while not all(each.find_port() for each in self.nodes):  # or all clients would be those of the leader
            assert time.monotonic() < give_up_at, "a node does not listen"
            time.sleep(0.02)
        self.start_clients()

    def start_clients(self) -> None:
        """Let new clients begin."""
        self.clients = [Client(self.nodes, self.history, self.client_count + each) for each in range(CLIENTS)]
        self.clients.append(Timers(self.nodes, self.history.fires))
        self.client_count += CLIENTS
        for client in self.clients:
            client.start()

    def stop_clients(self) -> None:
        """Wait until clients have done what they were at."""
        for client in self.clients:
            client.stopping.set()
        for client in self.clients:
            client.join(WAIT_S)

    def answered(self, count: int = 50) -> float:
        """Wait until clients have got so many more answers to puts; return the longest that clients waited."""
        began_s, before = time.monotonic(), len(self.history.answered_s)
        while len(self.history.answered_s) < before + count:
            assert time.monotonic() < began_s + WAIT_S, f"clients are not answered:\n{self.said()}"
            time.sleep(0.005)
        return self.longest_wait_s(began_s)

    def standing_still(self) -> int:
        """Wait until no client is answered any more; return how many puts were answered.

        What was confirmed before everything stood still is answered a moment later, or much later on a busy machine.
        """
        counts: list[int] = []
        give_up_at = time.monotonic() + WAIT_S
        while len(counts) < STILL_LOOKS or counts[-1] != counts[-STILL_LOOKS]:
            assert time.monotonic() < give_up_at, "clients are still answered"
            time.sleep(0.01)
            counts.append(len(self.history.answered_s))
        return counts[-1]

    def longest_wait_s(self, began_s: float) -> float:
        """Return the longest time without an answer to a put since a moment."""
        times = [each for each in self.history.answered_s if each > began_s]
        return max((after - before for before, after in pairwise([began_s, *times])), default=0.0)

    def said(self) -> str:
        """Return the last lines of what nodes and servers said."""
        files = [node.messages for node in self.nodes]
        files += self.servers.logs
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-1500:]}" for file in files)

    def finish(self) -> Verdict:
        """Stop the clients, and compare what they were told with what there is, whoever leads by then."""
        self.stop_clients()
        give_up_at = time.monotonic() + WAIT_S
        while True:
            try:
                leader = leader_of(self.nodes)
                with leader.connect(WAIT_S) as connection:
                    verdict = judge(self.history, connection)
                return replace(verdict, wrong=[*verdict.wrong, *judge_fires(leader, self.history.fires)])
            except (OSError, BeanpoleError):  # another leads since
                if time.monotonic() > give_up_at:
                    raise


@contextmanager
def new_cluster(
    servers: S, folder: Path, make_node: MakeNode = NodeProcess, segment_bytes: int = CLUSTER_SEGMENT_BYTES
) -> Iterator[Cluster[S]]:
    """A cluster that works."""
    servers.empty()
    cluster = Cluster(servers, folder, make_node, segment_bytes)
    cluster.init()
    try:
        cluster.start()
        cluster.answered()
        yield cluster
    finally:
        for client in cluster.clients:
            client.stopping.set()
        for each in cluster.nodes:
            each.stop()
