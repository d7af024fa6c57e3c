"""Orders with their jobs, while applications, leaders and PostgreSQL die; prints whether the two still fit.

python -m tests.soak.cluster.inbox [SECONDS] [--seed N]

Applications die at each statement of a transaction, leaders between reading rows of the inbox, appending and confirming
them, and the primary is killed and its synchronous standby promoted. Each order must have its jobs, once each.
"""

import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from beanpole.log.postgres import admin
from tests.soak.cluster.deadly import POINTS
from tests.soak.cluster.nodes import WAIT_S, NodeProcess, leader_of
from tests.soak.cluster.postgres import NODES, Pair
from tests.soak.cluster.shop import LOST, MAKE, WRONG, Outcome, Shop, look
from tests.soak.seeds import arguments, first_seed, say

SHOPS = 2
SILENCE_MS = 1000
SEGMENT_BYTES = 1 << 18
PASSES_MAX = 8
"""A leader dies when it passes its point for the first to so manieth time."""

FAIL_OVER_S = 20.0
"""Between the beginnings of two of PostgreSQL."""


class DeadlyNode(NodeProcess):
    """A node that dies at a point when it leads."""

    point = ""

    def aim(self, point: str, count: int) -> None:
        """Let the next process die at a point; at none if that is empty."""
        self.point = point
        at = self.command.index("serve")
        start = ["-m", "tests.soak.cluster.deadly", point, str(count)] if point else ["-m", "beanpole"]
        self.command = [sys.executable, *start, *self.command[at:]]


class Street:
    """A shop, and the cluster that does its jobs."""

    def __init__(self, pair: Pair, folder: Path, seed: int) -> None:
        self.pair = pair
        self.rng = random.Random(seed)
        pair.empty()
        asyncio.run(admin.init(pair.url, silence_ms=SILENCE_MS, segment_bytes=SEGMENT_BYTES, inbox=True))
        pair.primary.run("drop table if exists public.shop_order", MAKE, database="log")
        self.points = cycle(POINTS)
        self.nodes = [DeadlyNode(folder, pair.url, name) for name in "abc"]
        url = pair.url.replace(f"{NODES}@", "shop@") + "&target_session_attrs=read-write"
        self.shops = [Shop(url, folder, number) for number in range(SHOPS)]
        self.leaders_died: Counter[str] = Counter()
        self.fail_overs = 0

    def start(self, node: DeadlyNode) -> None:
        """Start a node that will die."""
        node.aim(next(self.points), self.rng.randint(1, PASSES_MAX))
        node.start()

    def bury(self) -> None:
        """Count the nodes that have died, and start them again."""
        for node in self.nodes:
            if node.has_ended():
                code = node.wait()
                assert code == -signal.SIGKILL, f"{node.name} ended with {code}: {node.messages.read_text()[-1500:]}"
                self.leaders_died[node.point] += 1
                self.start(node)

    def fail_over(self) -> None:
        """Kill PostgreSQL's primary, and promote its standby."""
        self.pair.lose_primary()
        self.fail_overs += 1

    def work(self, goes_on: Callable[[], bool]) -> Outcome:
        """Let them die while it goes on; see what there is then."""
        try:
            for node in self.nodes:
                self.start(node)
            for shop in self.shops:
                shop.start()
            while goes_on():
                self.bury()
                time.sleep(0.01)
            return self.settle()
        finally:
            self.close_shops()
            for node in self.nodes:
                node.stop()

    def close_shops(self) -> None:
        """Let nobody order any more."""
        for shop in self.shops:
            shop.close()

    def applications_died(self) -> Counter[str]:
        """Return how many have, and when."""
        found = sum((shop.ends() for shop in self.shops), Counter())
        del found[LOST]
        assert not found[WRONG], "an application failed for another reason than a lost connection"
        return found

    def settle(self) -> Outcome:
        """Let nodes lead that live, until the inbox is empty, and look."""
        self.close_shops()
        for node in self.nodes:
            node.kill()
            node.aim("", 0)
            node.start()
        leader = leader_of(list(self.nodes))
        give_up_at = time.monotonic() + WAIT_S
        while self.pair.primary.run("select count(*) from beanpole.inbox", database="log") != [(0,)]:
            assert time.monotonic() < give_up_at, f"the inbox is not emptied: {leader.messages.read_text()[-1500:]}"
            time.sleep(0.02)
        return look(self.pair, leader)


def main() -> int:
    """Run, and return the exit code."""
    options = arguments(__doc__).parse_args()
    seed = first_seed(options)
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        pair = Pair(Path(name))
        try:
            street = Street(pair, Path(name), seed)
            began_s = time.monotonic()

            def goes_on() -> bool:
                if time.monotonic() - began_s > (street.fail_overs + 1) * FAIL_OVER_S:
                    street.fail_over()
                return time.monotonic() - began_s < float(options.seconds)

            outcome = street.work(goes_on)
            for what, died in (("applications", street.applications_died()), ("leaders", street.leaders_died)):
                say(f"{died.total()} {what} died:")
                for moment, count in sorted(died.items()):
                    say(f"    {moment:30} {count:5}")
        finally:
            pair.stop()
    say(
        f"{street.fail_overs} fail-overs of PostgreSQL, {outcome.orders} orders with {outcome.jobs} jobs; without job "
        f"{len(outcome.without_job)}, jobs without order {len(outcome.without_order)}, twice {len(outcome.twice)}"
    )
    if not outcome.is_clean:
        say(f"{outcome.without_job[:9]} {outcome.without_order[:9]} {outcome.twice[:9]}")
    return not outcome.is_clean


if __name__ == "__main__":
    sys.exit(main())
