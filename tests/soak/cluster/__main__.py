"""Fail-overs of nodes and of PostgreSQL, for as long as is asked for; prints what became of what clients were told.

python -m tests.soak.cluster [SECONDS]
"""

import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.soak.cluster.cluster import Cluster, new_cluster
from tests.soak.cluster.nodes import leader_of
from tests.soak.cluster.postgres import Pair

SECONDS_DEFAULT = 600.0


def kill_leader(cluster: Cluster) -> float:
    """Kill the node that leads; return the seconds until a put was answered."""
    leader = leader_of(cluster.nodes)
    leader.kill()
    took_s = cluster.answered()
    leader.start()
    return took_s


def freeze_leader(cluster: Cluster) -> float:
    """Let the node that leads stand still, and go on when another leads."""
    leader = leader_of(cluster.nodes)
    leader.signal(signal.SIGSTOP)
    began_s = time.monotonic()
    leader_of([each for each in cluster.nodes if each is not leader], leader)
    took_s = time.monotonic() - began_s
    leader.signal(signal.SIGCONT)
    return took_s


def end_leader(cluster: Cluster) -> float:
    """End the node that leads, as for maintenance."""
    leader = leader_of(cluster.nodes)
    leader.signal(signal.SIGTERM)
    took_s = cluster.answered()
    leader.wait()
    leader.start()
    return took_s


def kill_follower(cluster: Cluster) -> float:
    """Kill a node that follows."""
    leader = leader_of(cluster.nodes)
    follower = random.choice([each for each in cluster.nodes if each is not leader])
    follower.kill()
    took_s = cluster.answered()
    follower.start()
    return took_s


def kill_primary(cluster: Cluster) -> float:
    """Kill the primary and promote its standby, for which a standby is made; that takes most of the time."""
    cluster.pair.fail_over()
    cluster.pair.join()
    return cluster.answered()


def kill_both(cluster: Cluster) -> float:
    """Kill the primary and the node that leads."""
    leader = leader_of(cluster.nodes)
    leader.kill()
    cluster.pair.fail_over()
    cluster.pair.join()
    took_s = cluster.answered()
    leader.start()
    return took_s


KINDS: dict[str, tuple[Callable[[Cluster], float], int]] = {
    "leader killed": (kill_leader, 6),
    "leader stands still": (freeze_leader, 2),
    "leader ended": (end_leader, 3),
    "follower killed": (kill_follower, 2),
    "primary killed": (kill_primary, 2),
    "primary and leader killed": (kill_both, 1),
}
"""What happens, and how often beside the others."""


def report(cluster: Cluster, took: dict[str, list[float]], seconds: float) -> str:
    """Return what happened, and how long it took until clients were answered."""
    history = cluster.history
    lines = [f"{seconds:.0f} s, {len(history.puts)} puts and {len(history.deleted)} deletes answered"]
    for kind, each in took.items():
        if each:
            lines.append(f"{kind:28} {len(each):3}   p50 {statistics.median(each):6.2f} s   max {max(each):6.2f} s")
    return "\n".join(lines)


def main() -> int:
    """Run, and return the exit code."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS_DEFAULT
    seed = random.randrange(1 << 30)
    random.seed(seed)
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        pair = Pair(Path(name))
        try:
            with new_cluster(pair, Path(name)) as cluster:
                began_s = time.monotonic()
                while time.monotonic() < began_s + seconds:
                    kind = random.choices(list(KINDS), [weight for _, weight in KINDS.values()])[0]
                    took[kind].append(KINDS[kind][0](cluster))
                    cluster.answered()
                verdict = cluster.finish()
                text = report(cluster, took, time.monotonic() - began_s)
        finally:
            pair.stop()
    wrong = "\n".join((verdict.two_leaders + verdict.wrong)[:10])
    sys.stdout.write(
        f"{text}\nacknowledged and lost {len(verdict.lost)}, deleted and back {len(verdict.back)}, "
        f"two leaders at once {len(verdict.two_leaders)}, other wrong answers {len(verdict.wrong)}\n{wrong}\n"
    )
    return not verdict.is_clean


if __name__ == "__main__":
    sys.exit(main())
