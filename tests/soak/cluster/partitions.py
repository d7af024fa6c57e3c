"""A cluster whose network fails: what clients then see must be what docs/cluster.md says; prints how long they waited.

python -m tests.soak.cluster.partitions [WORDS]

Each fault of which the name has the words is tried once. It needs root, for network namespaces.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.soak.cluster.cluster import Cluster, new_cluster
from tests.soak.cluster.network import CLIENTS, HOSTS, ApartMachines, Network, alone, apart_node
from tests.soak.cluster.nodes import NodeProcess, leader_of
from tests.soak.cluster.patroni import PatroniServers

CLOSED_S = 12.0
"""Longer than a node keeps clients that it can't serve (--cluster-wait)."""

LEASE_S = 45.0
"""Longer than a primary leads which can't renew its lease (Patroni's ttl), and its successor takes to be promoted."""


@dataclass(frozen=True)
class Roles:
    """Which machine is what."""

    leader: str
    followers: list[str]
    primary: str
    sync: str
    other: str

    @property
    def members(self) -> list[str]:
        return [self.primary, self.sync, self.other]


Cut = Callable[[Network, Roles], None]


def both_ways(network: Network, some: list[str], others: list[str]) -> None:
    """Cut two sets of machines off from each other."""
    network.drop(some, others)
    network.drop(others, some)


@dataclass(frozen=True)
class Fault:
    """What is cut, and what must come of it."""

    name: str
    cut: Cut
    leads: str = ""
    """Who leads after it: ``same`` or ``another``; empty: either."""

    is_answered: bool = True
    """Whether clients are answered before the network is whole again."""

    holds_s: float = 0.0
    """How long the cut lasts at least."""


FAULTS = [
    Fault("leader | PostgreSQL", lambda n, r: both_ways(n, [r.leader], r.members), "another", holds_s=CLOSED_S),
    Fault("PostgreSQL's answers to the leader are lost", lambda n, r: n.drop(r.members, [r.leader]), "another"),
    Fault("what the leader sends to PostgreSQL is lost", lambda n, r: n.drop([r.leader], r.members), "another"),
    Fault("leader | nodes, clients", lambda n, r: both_ways(n, [r.leader], [*r.followers, CLIENTS]), "another"),
    Fault("leader | one follower", lambda n, r: both_ways(n, [r.leader], r.followers[:1]), "same", holds_s=CLOSED_S),
    Fault("primary | synchronous standby", lambda n, r: both_ways(n, [r.primary], [r.sync])),
    Fault("primary | everything", lambda n, r: both_ways(n, [r.primary], everything_but(r.primary))),
    Fault("primary | etcd", lambda n, r: both_ways(n, [r.primary], ["etcd"]), holds_s=LEASE_S),
    Fault(
        "primary, synchronous standby | etcd",
        lambda n, r: both_ways(n, [r.primary, r.sync], ["etcd"]),
        is_answered=False,
        holds_s=LEASE_S,
    ),
    Fault(
        "primary, other standby | etcd",
        lambda n, r: both_ways(n, [r.primary, r.other], ["etcd"]),
        is_answered=False,
        holds_s=LEASE_S,
    ),
]


def everything_but(name: str) -> list[str]:
    return [each for each in HOSTS if each != name]


def turns_away(node: NodeProcess) -> bool:
    try:
        with node.connect(CLOSED_S) as connection:
            return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def try_out(cluster: Cluster[PatroniServers], network: Network, fault: Fault) -> str:
    """Cut, wait for what must come, and heal; return what came."""
    primary, sync, other = cluster.servers.roles()
    leader = leader_of(cluster.nodes)
    followers = [each.name for each in cluster.nodes if each is not leader]
    began_s = time.monotonic()
    fault.cut(network, Roles(leader.name, followers, primary, sync, other))
    led = ""
    if fault.leads == "another":
        leader_of([each for each in cluster.nodes if each is not leader], leader)
        led = f", another leads after {time.monotonic() - began_s:.1f} s"
    time.sleep(max(0.0, began_s + fault.holds_s - time.monotonic()))
    if fault.is_answered:
        cluster.answered()
    else:
        silent_s = time.monotonic() - max(cluster.history.answered_s)
        assert silent_s > fault.holds_s / 5, f"{fault.name}: clients were answered"
    if fault.leads == "same":
        assert leader_of(cluster.nodes) is leader, f"{fault.name}: another leads"
        assert turns_away(next(each for each in cluster.nodes if each.name == followers[0])), "it keeps its clients"
    network.heal()
    healed_s = time.monotonic()
    cluster.answered()
    return (
        f"{fault.name:52} {healed_s - began_s:5.1f} s{led}, longest wait {cluster.longest_wait_s(began_s):.1f} s, "
        f"{'answered' if fault.is_answered else 'not answered'} before its end\n"
    )


def main() -> int:
    """Try all faults, and return the exit code."""
    if os.geteuid() != 0:
        sys.stdout.write("Skipped: only root may make the network namespaces that partitions are tried with.\n")
        return 0
    alone("tests.soak.cluster.partitions")
    words = " ".join(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        network = Network(HOSTS)
        servers = PatroniServers(Path(name), ApartMachines)
        try:
            with new_cluster(servers, Path(name), apart_node) as cluster:
                for fault in FAULTS:
                    if words in fault.name:
                        sys.stdout.write(try_out(cluster, network, fault))
                        sys.stdout.flush()
                verdict = cluster.finish()
        finally:
            servers.stop()
    wrong = "\n".join((verdict.two_leaders + verdict.wrong)[:10])
    sys.stdout.write(
        f"acknowledged and lost {len(verdict.lost)}, deleted and back {len(verdict.back)}, "
        f"two leaders at once {len(verdict.two_leaders)}, other wrong answers {len(verdict.wrong)}\n{wrong}\n"
    )
    return not verdict.is_clean


if __name__ == "__main__":
    sys.exit(main())
