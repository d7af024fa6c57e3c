"""Fail-overs of nodes and of PostgreSQL, for as long as is asked for; prints what became of what clients were told.

python -m tests.soak.cluster [SECONDS] [--with patroni]
"""

import argparse
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.soak.cluster.cluster import Cluster, Servers, new_cluster
from tests.soak.cluster.nodes import leader_of
from tests.soak.cluster.patroni import PatroniServers
from tests.soak.cluster.postgres import Pair

SECONDS_DEFAULT = 600.0


def kill_leader(cluster: Cluster[Any]) -> float:
    """Kill the node that leads; return the seconds until a put was answered."""
    leader = leader_of(cluster.nodes)
    leader.kill()
    took_s = cluster.answered()
    leader.start()
    return took_s


def freeze_leader(cluster: Cluster[Any]) -> float:
    """Let the node that leads stand still, and go on when another leads."""
    leader = leader_of(cluster.nodes)
    leader.signal(signal.SIGSTOP)
    began_s = time.monotonic()
    leader_of([each for each in cluster.nodes if each is not leader], leader)
    took_s = time.monotonic() - began_s
    leader.signal(signal.SIGCONT)
    return took_s


def end_leader(cluster: Cluster[Any]) -> float:
    """End the node that leads, as for maintenance."""
    leader = leader_of(cluster.nodes)
    leader.signal(signal.SIGTERM)
    took_s = cluster.answered()
    leader.wait()
    leader.start()
    return took_s


def kill_follower(cluster: Cluster[Any]) -> float:
    """Kill a node that follows."""
    leader = leader_of(cluster.nodes)
    follower = random.choice([each for each in cluster.nodes if each is not leader])
    follower.kill()
    took_s = cluster.answered()
    follower.start()
    return took_s


def kill_primary(cluster: Cluster[Any]) -> float:
    """Kill the primary."""
    cluster.servers.lose_primary()
    took_s = cluster.answered()
    cluster.servers.repair()
    return took_s


def kill_both(cluster: Cluster[Any]) -> float:
    """Kill the primary and the node that leads."""
    leader = leader_of(cluster.nodes)
    leader.kill()
    cluster.servers.lose_primary()
    took_s = cluster.answered()
    leader.start()
    cluster.servers.repair()
    return took_s


def freeze_manager(cluster: Cluster[PatroniServers]) -> float:
    """Let the primary's Patroni stand still, which goes on when another server is promoted."""
    began_s = time.monotonic()
    cluster.servers.freeze_manager()
    cluster.answered()
    took_s = cluster.longest_wait_s(began_s)
    cluster.servers.thaw_manager()
    return took_s


Kinds = dict[str, tuple[Callable[[Cluster[Any]], float], int]]

KINDS: Kinds = {
    "leader killed": (kill_leader, 6),
    "leader stands still": (freeze_leader, 2),
    "leader ended": (end_leader, 3),
    "follower killed": (kill_follower, 2),
    "primary killed": (kill_primary, 2),
    "primary and leader killed": (kill_both, 1),
}
"""What happens, and how often beside the others."""

PATRONI_KINDS: Kinds = {
    **KINDS,
    "leader killed": (kill_leader, 18),  # a fail-over of PostgreSQL takes ten times as long
    "Patroni alone stands still": (freeze_manager, 1),
}


def report(cluster: Cluster[Any], took: dict[str, list[float]], seconds: float) -> str:
    """Return what happened, and how long it took until clients were answered."""
    history = cluster.history
    lines = [f"{seconds:.0f} s, {len(history.puts)} puts and {len(history.deleted)} deletes answered"]
    for kind, each in took.items():
        if each:
            lines.append(f"{kind:28} {len(each):3}   p50 {statistics.median(each):6.2f} s   max {max(each):6.2f} s")
    return "\n".join(lines)


def main() -> int:
    """Run, and return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS_DEFAULT)
    parser.add_argument("--with", dest="manager", choices=["patroni"], help="what promotes standbys, if not this does")
    arguments = parser.parse_args()
    kinds = PATRONI_KINDS if arguments.manager else KINDS
    seed = random.randrange(1 << 30)
    random.seed(seed)
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        servers: Servers = PatroniServers(Path(name)) if arguments.manager else Pair(Path(name))
        try:
            with new_cluster(servers, Path(name)) as cluster:
                began_s = time.monotonic()
                while time.monotonic() < began_s + arguments.seconds:
                    kind = random.choices(list(kinds), [weight for _, weight in kinds.values()])[0]
                    took[kind].append(kinds[kind][0](cluster))
                    cluster.answered()
                verdict = cluster.finish()
                text = report(cluster, took, time.monotonic() - began_s)
        finally:
            servers.stop()
    wrong = "\n".join((verdict.two_leaders + verdict.wrong)[:10])
    sys.stdout.write(
        f"{text}\nacknowledged and lost {len(verdict.lost)}, deleted and back {len(verdict.back)}, "
        f"two leaders at once {len(verdict.two_leaders)}, other wrong answers {len(verdict.wrong)}\n{wrong}\n"
    )
    return not verdict.is_clean


if __name__ == "__main__":
    sys.exit(main())
