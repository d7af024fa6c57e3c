"""Routers and servers are killed, stand still and are cut off, while many clients work through the routers.

python -m tests.soak.route [SECONDS] [--seed N] [--clients N] [--way to|map] [--mistake no-log|no-before]

First the routers have one server (`--to`), then the shards of a map (`--map`), a cluster and two servers, and the map
changes; each for half of the time. Whoever is killed is started again where it was. What the clients were told stands
in `tests.soak.route.clients`, and is compared in the end with what is there. Packets are dropped where the user may
make network namespaces. A mistake is made on purpose: the soak has to find it.
"""

import argparse
import asyncio
import logging
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.soak.cluster.network import IS_ALONE, Network, alone
from tests.soak.route.clients import Client, empty
from tests.soak.route.installation import HOSTS, Installation, MappedInstallation
from tests.soak.route.programs import Mortal
from tests.soak.route.workers import KeptWorker
from tests.soak.seeds import arguments, first_seed, say

EMPTY_S = 120.0
SETTLE_S = 10.0
"""How long nothing fails before what is left is taken."""

BACKLOGS = (100, 1_000, 5_000)


def kill(*them: Mortal) -> Awaitable[Any]:
    return asyncio.gather(*(each.kill() for each in them))


Fault = Callable[[Any], Awaitable[object]]

FAULTS: dict[str, Fault] = {
    "a router is killed": lambda it: random.choice(it.routers).kill(),
    "a router stands still": lambda it: random.choice(it.routers).freeze(),
    "a router has a successor": lambda it: random.choice(it.routers).succeed(),
    "a server is killed": lambda it: random.choice(it.servers).kill(),
    "a server stands still": lambda it: random.choice(it.servers).freeze(),
    "all routers are killed": lambda it: kill(*it.routers),
    "all servers are killed": lambda it: kill(*it.servers),
    "a server stands still while a router is killed": lambda it: asyncio.gather(
        random.choice(it.servers).freeze(), random.choice(it.routers).kill()
    ),
    "a server and a router are killed": lambda it: kill(random.choice(it.servers), random.choice(it.routers)),
}
MAP_FAULTS: dict[str, Fault] = {
    "the map changes": lambda it: it.change_or_leave_out(),
    "the map changes while a router is killed": lambda it: asyncio.gather(
        it.change_or_leave_out(), random.choice(it.routers).kill()
    ),
    "the map changes while a server is killed": lambda it: asyncio.gather(
        it.change_or_leave_out(), random.choice(it.servers).kill()
    ),
}
CUTS: dict[str, Fault] = {
    "a router and a server are cut off": lambda it: it.cut(),
    "a router or a server is not heard": lambda it: it.cut(one_way=True),
}


WAYS: dict[str, tuple[type[Installation], dict[str, Fault]]] = {
    "to": (Installation, FAULTS),
    "map": (MappedInstallation, FAULTS | MAP_FAULTS),
}


async def run(it: Installation, faults: dict[str, Fault], seconds: float, clients: int) -> Counter[str]:
    """Let things fail for a while; return what has happened how often."""
    account, done = it.account, Counter[str]()
    try:
        await it.start()
        kept = KeptWorker(it.routers, account)
        crowd: list[Client | KeptWorker] = [kept, *(Client(it, f"c{n}") for n in range(clients))]
        tasks = [asyncio.create_task(each.run()) for each in crowd]
        ends_at, left = time.monotonic() + seconds, list[str]()
        while time.monotonic() < ends_at:
            await asyncio.sleep(random.random() * 2)
            account.backlog_max = random.choice(BACKLOGS)
            left = left or random.sample([*faults], len(faults))
            name = left.pop()
            await faults[name](it)
            it.check()
            done[name] += 1
        for each in crowd:
            each.is_stopping = True
        await asyncio.gather(*tasks)
        await asyncio.sleep(SETTLE_S)
        await empty(it.routers[0], account, EMPTY_S)
        account.wrong += kept.wrong()
        done["handler run"] = kept.begun.total()
        if isinstance(it, MappedInstallation):
            done["another map"], done["map left out of before"] = it.epoch - 1, it.left_out
    finally:
        await it.stop()
    return done


def try_out(way: str, network: Network | None, options: argparse.Namespace, seconds: float) -> bool:
    """Let things fail in one way to be linked; return whether something was wrong."""
    kind, faults = WAYS[way]
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        Path(name).chmod(0o755)  # PostgreSQL is not root's
        it = kind(Path(name), network, options.mistake)
        done = asyncio.run(run(it, faults | (CUTS if network else {}), seconds, options.clients))
    say("\n".join(f"{count:4} × {fault}" for fault, count in sorted(done.items())))
    say(", ".join(f"{count} {what}" for what, count in it.account.counts().items()))
    kinds = Counter(re.sub(r"b'[^']*'|\d+", "…", each) for each in it.account.wrong)
    say(f"{way}: wrong {kinds.total()}" + "".join(f"\n{count:4} × {kind}" for kind, count in kinds.most_common()))
    say("".join(f"  {each}\n" for each in it.account.wrong[:20]))
    return bool(it.account.wrong)


def main() -> int:
    """Run, and return the exit code."""
    parser = arguments(__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--way", choices=WAYS, help="only this one, all of the time")
    parser.add_argument("--mistake", choices=("no-log", "no-before"))
    options = parser.parse_args()
    if IS_ALONE in os.environ or subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode == 0:
        alone("tests.soak.route")
    random.seed(first_seed(options))
    logging.disable(logging.WARNING)  # of connections that break
    ways = [options.way] if options.way else [*WAYS]
    network = Network(HOSTS) if IS_ALONE in os.environ else None
    return max(try_out(way, network, options, options.seconds / len(ways)) for way in ways)


if __name__ == "__main__":
    sys.exit(main())
