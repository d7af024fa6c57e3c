"""A whole cluster: two PostgreSQL servers, three nodes, and clients that remember what they are told."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beanpole.log.postgres import admin
from tests.soak.cluster.clients import Client, History, Verdict, judge
from tests.soak.cluster.nodes import NodeProcess, leader_of
from tests.soak.cluster.postgres import Pair

CLIENTS = 4
WAIT_S = 60.0


class Cluster:
    """An empty log, its nodes and its clients."""

    def __init__(self, pair: Pair, folder: Path) -> None:
        self.pair = pair
        self.nodes = [NodeProcess(folder, pair.url, name) for name in "abc"]
        self.history = History()
        self.clients = [Client(self.nodes, self.history, seed) for seed in range(CLIENTS)]

    def start(self) -> None:
        """Start everything."""
        for each in self.nodes:
            each.start()
        leader_of(self.nodes)
        for client in self.clients:
            client.start()

    def answered(self, count: int = 50) -> float:
        """Wait until clients have got so many more answers to puts; return how long the first of them took."""
        began_s, before = time.monotonic(), len(self.history.answered_s)
        while len(self.history.answered_s) < before + count:
            assert time.monotonic() < began_s + WAIT_S, f"clients are not answered:\n{self.said()}"
            time.sleep(0.005)
        return self.history.answered_s[before] - began_s

    def said(self) -> str:
        """Return the last lines of what nodes and servers said."""
        files = [node.messages for node in self.nodes]
        files += [each.folder / "messages" for each in (self.pair.primary, self.pair.standby)]
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-1500:]}" for file in files)

    def finish(self) -> Verdict:
        """Stop the clients, and compare what they were told with what there is."""
        leader = leader_of(self.nodes)
        for client in self.clients:
            client.stopping.set()
        for client in self.clients:
            client.join(WAIT_S)
        with leader.connect(WAIT_S) as connection:
            return judge(self.history, connection)


@contextmanager
def new_cluster(pair: Pair, folder: Path) -> Iterator[Cluster]:
    """A cluster that works."""
    pair.primary.run("drop schema if exists beanpole cascade", database="log")
    asyncio.run(admin.init(pair.url))
    cluster = Cluster(pair, folder)
    try:
        cluster.start()
        cluster.answered()
        yield cluster
    finally:
        for client in cluster.clients:
            client.stopping.set()
        for each in cluster.nodes:
            each.stop()
