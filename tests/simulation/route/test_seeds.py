"""Routers of a map whose links, shards and routers come and go; `ROUTE_WORLD_SEED=n` runs one seed again."""

from collections import Counter

import pytest

from tests.seeds import seeds
from tests.simulation.disk import SimDisk
from tests.simulation.route.clients import Client, Crowd
from tests.simulation.route.world import MS, Router, World
from tests.simulation.runner import NS_PER_S

FAULTS_NS = 2 * NS_PER_S
QUIET_NS = 2 * NS_PER_S  # in which jobs wait for no fault any more
END_NS = 20 * NS_PER_S
FAULT_SHARE = 0.004
SEEDS = seeds(16, "ROUTE_WORLD_SEED")
BLOCKS = 4


class Run:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        self.rng = world.rng
        self.crowd = Crowd(world)
        self.faults: Counter[str] = Counter()
        self.is_over = False
        self.numbers: Counter[Router] = Counter()
        self.routers = [Router(world, world.maps[0]) for _ in range(2)]
        for each in self.routers * 3:
            self.open(each)
        self.act()
        self.look()

    def open(self, router: Router) -> None:
        """A client comes."""
        self.numbers[router] += 1
        Client(self.crowd, router, self.numbers[router])

    def act(self) -> None:
        """A client does something, and others come in the place of those that are gone."""
        for router in self.routers:
            if len(router.clients) < 3:
                self.open(router)
        if not self.is_over:
            self.rng.choice(self.crowd.clients).act()
            self.world.later(self.rng.choice((0, MS, 5 * MS)), self.act)

    def look(self) -> None:
        self.crowd.look()
        self.world.later(20 * MS, self.look)

    def fail(self) -> None:
        """Something is lost, or changes."""
        faults = [
            self.cut,
            self.cut,
            self.freeze,
            self.slow,
            self.restart,
            self.kill,
            self.change,
        ]
        fault = self.rng.choice(faults)
        self.faults[fault.__name__] += 1
        fault()

    def cut(self) -> None:
        """A link is lost, and both ends hear of it soon."""
        if links := list(self.rng.choice(self.routers).links.values()):
            times = (0, MS, 100 * MS)
            self.rng.choice(links).lose(True, True, self.rng.choice(times), self.rng.choice(times))

    def freeze(self) -> None:
        """Nothing comes through any more, in one direction or both, until that is found out by the silence."""
        if links := list(self.rng.choice(self.routers).links.values()):
            up, down = self.rng.choice(((True, True), (True, False), (False, True)))
            self.rng.choice(links).lose(
                up, down, self.rng.choice((2, 3)) * NS_PER_S, self.rng.choice((2, 3)) * NS_PER_S
            )

    def slow(self) -> None:
        if links := list(self.rng.choice(self.routers).links.values()):
            self.rng.choice(links).delay_ns = self.rng.choice((20, 60)) * MS

    def restart(self) -> None:
        """A shard ends, and begins again; perhaps without what it had."""
        server = self.world.servers[self.rng.choice("abc")]
        if not server.is_up:
            return
        disk = server.disk if self.rng.random() < 0.7 else SimDisk(self.world.event_count)

        def start() -> None:
            if disk is not server.disk:
                server.fresh_ns = self.world.clock.now_ns
            server.start(disk)

        server.stop()
        self.world.later(self.rng.choice((MS, 500 * MS, 7 * NS_PER_S)), start)

    def kill(self) -> None:
        """A router ends, and another begins, by the newest map or an older one."""
        at = self.rng.randrange(len(self.routers))
        self.routers[at].die()
        self.routers[at] = Router(self.world, self.rng.choice(self.world.maps[-2:]))

    def change(self) -> None:
        """A router reads another map, perhaps before the other does."""
        if len(self.world.maps) < 5 and self.rng.random() < 0.5:
            self.world.maps.append(self.world.make_map("abc", *reversed(self.world.maps)))
        self.rng.choice(self.routers).use(self.world.maps[-1])

    def run(self) -> "Run":
        """Let there be faults, then only clients, then nothing new; check what is true in the end."""
        world = self.world
        ends_ns = world.clock.now_ns + FAULTS_NS
        while world.clock.now_ns < ends_ns:
            world.step()
            if self.rng.random() < FAULT_SHARE:
                self.fail()
        self.crowd.has_enough = True
        for router in self.routers:
            router.use(world.maps[-1])
        while world.clock.now_ns < ends_ns + QUIET_NS:
            world.step()
        self.is_over = True
        while world.clock.now_ns < ends_ns + QUIET_NS + END_NS:
            world.step()
        self.crowd.check()
        return self


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_job_is_lost_held_twice_or_left_beside_a_client_that_waits(block: int) -> None:
    runs = [Run(seed).run() for seed in SEEDS[block::BLOCKS]]
    if len(runs) > 2:
        assert min(sum(run.crowd.reply_count for run in runs), sum(run.crowd.reserve_count for run in runs)) > 100
