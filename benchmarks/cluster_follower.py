"""A follower that notes when it has applied what: ``python -m benchmarks.cluster_follower URL FILE``.

It is the node as it is, with an engine whose next id is noted after each step. At SIGTERM it writes a line for each:
the moment, on the machine's monotonic clock, and the id.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path

from beanpole.engine.engine import Engine
from beanpole.log.encoder import Encoder
from beanpole.log.postgres.clock import MachineClock
from beanpole.log.postgres.leader import Leading
from beanpole.log.postgres.node import Node
from beanpole.log.postgres.pgstore import opener
from beanpole.log.postgres.replica import Replica
from beanpole.log.postgres.rows import Place, Row
from beanpole.log.postgres.store import Settings, Store

BODY_BYTES_MAX = 8_388_608


class NotingReplica(Replica):
    """A replica that notes when it has applied what."""

    noted: list[tuple[int, int]]

    def apply_to(self, confirmed: Place) -> None:
        """Apply, and note."""
        super().apply_to(confirmed)
        self.noted.append((time.monotonic_ns(), int(self.engine.next_job_id)))


class NotingNode(Node):
    """A node that makes such replicas."""

    noted: list[tuple[int, int]]

    def make_replica(self, store: Store, first: Row) -> Replica:
        """Return one."""
        NotingReplica.noted = self.noted
        return NotingReplica(store.settings, first, self.make_engine, self.clock.now_ns())


class Nobody:
    """Serves nobody, and is told everything in vain."""

    reaches_leader = True

    def lead(self, _engine: Engine, _log: Leading) -> None:
        """Fail: the benchmark's load is at another leader."""
        sys.exit("the follower that only looks was made the leader")

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def make_engine(records: Encoder, _settings: Settings) -> Engine:
    """Return an empty engine."""
    return Engine(BODY_BYTES_MAX, 0, dict, records)


async def follow(url: str, noted: list[tuple[int, int]]) -> None:
    """Follow until SIGTERM."""
    nobody = Nobody()
    node = NotingNode(
        opener(url, "looker"),
        note={"node": "looker", "address": "127.0.0.1:1"},
        clock=MachineClock(),
        observer=nobody,  # type: ignore[arg-type]
        roles=nobody,
        make_engine=make_engine,
    )
    node.noted = noted
    running = asyncio.create_task(node.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait([running])


def main() -> None:
    """Follow, then write what was noted."""
    noted: list[tuple[int, int]] = []
    asyncio.run(follow(sys.argv[1], noted))
    Path(sys.argv[2]).write_text("".join(f"{ns} {next_id}\n" for ns, next_id in noted))


if __name__ == "__main__":
    main()
