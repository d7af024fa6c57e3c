"""Faults of nodes and of PostgreSQL, for as long as is asked for; prints what became of what clients were told.

python -m tests.soak.cluster [SECONDS] [--seed N] [--with patroni] [--only WORDS]

The kinds stand in `tests.soak.cluster.faults`. Each happens once, as far as there is time, and then at random.
"""

import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.soak.cluster.cluster import Cluster, Servers, new_cluster
from tests.soak.cluster.faults import PAIR_KINDS, PATRONI_KINDS, try_out
from tests.soak.cluster.nodes import node_with_a_clock
from tests.soak.cluster.patroni import PatroniServers
from tests.soak.cluster.postgres import Pair
from tests.soak.seeds import arguments, first_seed, say

SEGMENT_BYTES = 1 << 18
"""So that the clients fill one in some ten seconds."""


def report(cluster: Cluster[Any], took: dict[str, list[float]], seconds: float) -> str:
    """Return what happened, and how long clients waited."""
    history = cluster.history
    fires = sum(len(each) for each in history.fires.jobs.values())
    answered = f"{len(history.puts)} puts and {len(history.deleted)} deletes answered"
    lines = [f"{seconds:.0f} s, {answered}, {fires} fires of schedules"]
    for kind, each in took.items():
        lines.append(f"{kind:44} {len(each):3}   p50 {statistics.median(each):6.2f} s   max {max(each):6.2f} s")
    return "\n".join(lines)


def main() -> int:
    """Run, and return the exit code."""
    parser = arguments(__doc__)
    parser.add_argument("--with", dest="manager", choices=["patroni"], help="what promotes standbys, if not this does")
    parser.add_argument("--only", default="", help="only kinds of which the name has these words")
    options = parser.parse_args()
    random.seed(first_seed(options))
    kinds = [each for each in (PATRONI_KINDS if options.manager else PAIR_KINDS) if options.only in each.name]
    first = random.sample(kinds, len(kinds))
    took: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        servers: Servers = PatroniServers(Path(name)) if options.manager else Pair(Path(name))
        try:
            with new_cluster(servers, Path(name), node_with_a_clock, SEGMENT_BYTES) as cluster:
                began_s = time.monotonic()
                while time.monotonic() < began_s + options.seconds:
                    fault = first.pop() if first else random.choices(kinds, [each.weight for each in kinds])[0]
                    took[fault.name].append(try_out(cluster, fault))
                    say(f"{time.monotonic() - began_s:6.0f} s  {fault.name}: {took[fault.name][-1]:.2f} s")
                verdict = cluster.finish()
                say(report(cluster, took, time.monotonic() - began_s))
        finally:
            servers.stop()
    wrong = "\n".join((verdict.two_leaders + verdict.wrong)[:10])
    say(
        f"acknowledged and lost {len(verdict.lost)}, deleted and back {len(verdict.back)}, "
        f"two leaders at once {len(verdict.two_leaders)}, other wrong answers {len(verdict.wrong)}\n{wrong}"
    )
    return not verdict.is_clean


if __name__ == "__main__":
    sys.exit(main())
