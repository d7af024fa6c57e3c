"""Schedules of a second in a cluster that fails, and a client that sees every job that they ever put."""

import contextlib
import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from beanpole import Client
from beanpole.errors import BatchError, BeanpoleError, TimedOutError
from tests.soak.cluster.nodes import NodeProcess

COUNT = 200
"""Schedules that are at work at a time."""

TUBE = "timed"
JOBS_AT_ONCE = 1_000
PAUSE_S = 0.02
QUIET_S = 15.0
"""Seconds without a job after which others are set: a clock that was wrong by an hour lets those wait for an hour."""

DRAIN_S = 60.0
"""How long it may take until the last jobs are there, which a connection had that was lost."""


@dataclass
class Fires:
    """Which jobs each schedule has put, as far as anybody saw them."""

    jobs: dict[str, dict[int, set[tuple[int, float]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """By schedule and the number of the fire: the ids, and for which time."""

    generation: int = 0
    """Of the schedules that are at work: their names begin with it."""

    first: int = 0
    """The first generation of which nothing was lost that an operator has accepted."""

    def begin_again(self) -> None:
        """Forget those that there were: an operator has accepted that rows are lost."""
        self.generation += 1
        self.first = self.generation
        self.jobs.clear()

    def take(self, client: Client[bytes], wait_s: float) -> int:
        """Reserve jobs, take note of them, and delete them; return how many there were."""
        try:
            jobs = client.reserve_many(JOBS_AT_ONCE, wait_s)
        except TimedOutError:
            return 0
        for job in jobs:
            assert job.info is not None
            if job.info.schedule is not None and job.info.fire is not None:
                self.jobs[job.info.schedule][job.info.fire].add((job.id, job.info.scheduled or 0.0))
        with contextlib.suppress(BatchError):  # some are not ours any more, after a long wait
            client.delete_many(jobs)
        return len(jobs)

    def wrong(self, client: Client[bytes]) -> list[str]:
        """Return what is not as it should be: the fires of each schedule are 1, 2, 3 and so on, each with one job."""
        found = []
        fires = {each.name: each.fires for each in client.all_schedules()}
        for name in sorted(fires.keys() | self.jobs.keys()):
            if int(name.partition("-")[0]) < self.first:
                continue
            jobs, count = self.jobs.get(name, {}), fires.get(name, 0)
            lost = [fire for fire in range(1, count + 1) if fire not in jobs]
            more = [fire for fire in jobs if fire > count]
            twice = {fire: seen for fire, seen in jobs.items() if len(seen) > 1}
            times = [at for fire in sorted(jobs) for _, at in jobs[fire]]
            back = [pair for pair in pairwise(times) if pair[0] >= pair[1]]
            if lost or more or twice or back:
                found.append(f"schedule {name}: {count} fires, lost {lost}, added {more}, doubled {twice}, back {back}")
        return found


def connected(node: NodeProcess) -> Client[bytes]:
    """Return a client of a node, which is given up when its connection is lost."""
    return Client(f"beanstalk://{node.host}:{node.find_port()}", encoding=None, watch=TUBE, patience=0)


class Timers(threading.Thread):
    """Sets schedules, and does their jobs."""

    def __init__(self, nodes: list[NodeProcess], fires: Fires) -> None:
        super().__init__(daemon=True)
        self.nodes = nodes
        self.fires = fires
        self.stopping = threading.Event()

    def run(self) -> None:
        """Work until stopped, on one node after the other."""
        while not self.stopping.wait(PAUSE_S):
            node = random.choice(self.nodes)
            if node.find_port():
                with contextlib.suppress(BeanpoleError), connected(node) as client:
                    self.work(client)

    def work(self, client: Client[bytes]) -> None:
        """Work until stopped. Raises BeanpoleError: the connection is lost."""
        fires = self.fires
        self.set_all(client)
        last_s = time.monotonic()
        while not self.stopping.is_set():
            if fires.take(client, 1.0):
                last_s = time.monotonic()
            elif time.monotonic() > last_s + QUIET_S:
                fires.generation += 1
                self.set_all(client)
                last_s = time.monotonic()

    def set_all(self, client: Client[bytes]) -> None:
        """Set the schedules of this generation, unless they are there."""
        with client.pipeline() as pipeline:
            for number in range(COUNT):
                name = f"{self.fires.generation}-{number}"
                pipeline.set_schedule(name, b"x", every=1, tube=TUBE, overlap="allow")


def judge_fires(node: NodeProcess, fires: Fires) -> list[str]:
    """Let nothing fire any more, see the jobs that are left, and return what is wrong."""
    give_up_at = time.monotonic() + DRAIN_S
    with connected(node) as client:
        with client.pipeline() as pipeline:
            for each in client.all_schedules():
                pipeline.pause_schedule(each.name)
        while fires.take(client, 1.0) or (wrong := fires.wrong(client)):
            if time.monotonic() > give_up_at:
                return wrong
    return []
