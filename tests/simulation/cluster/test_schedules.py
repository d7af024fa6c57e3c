"""Each time of a schedule puts one job at most, and none is lost, whichever node leads and whatever its clock says.

A failure prints its seed; ``CLUSTER_SEED=n`` runs that one again.
"""

import asyncio
import re
import shutil
import zoneinfo
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path

import pytest

from beanpole.engine.engine import Engine
from beanpole.log.postgres.digest import digest_of
from tests.simulation.cluster.history import heal, settle
from tests.simulation.cluster.test_seeds import SEEDS, Client, run_for
from tests.simulation.cluster.world import SimulatedNode, World, ask, leader_of, simulated
from tests.simulation.history import check_accounts, fire_of
from tests.simulation.said import Said, schedules_of

LOAD_S = 15.0
CLOCKS_S = (0.0, 0.5, 5.0)
"""By how many seconds the clocks of the nodes are wrong."""

KINDS = ("kill", "pause", "hand over", "promote", "lose", "stall", "damage", "drop table")
AFTER_ALL_NS = 2**62
NAMES = (b"often", b"seldom", b"spread", b"watched")
DOCUMENTS = {
    b"often": b"every: 0.25\noverlap: allow\n\n1",
    b"seldom": b"every: 2\noverlap: allow\nmisfire: skip\n\n2",
    b"spread": b"every: 1\nspread: 3\n\n3",
    b"watched": b"every: 1\noverlap: allow\n\n4",
}
FRAME = re.compile(rb"JOB (\d+) [^\r]* schedule=(\S+) scheduled=(\S+)(?: fire=(\d+))?")


class ClockedWorld(World):
    """A world of nodes whose clocks differ."""

    def begin(self) -> None:
        super().begin()
        for node, ahead_s in zip(self.nodes, CLOCKS_S, strict=True):
            node.clock.wall_s = 1e9 + ahead_s


class TimedClient(Client):
    """A client that sets schedules and does their jobs."""

    def next_command(self) -> bytes:
        """Return what it sends next."""
        rng, pick = self.rng, self.rng.random()
        name = rng.choice(NAMES)
        if pick < 0.15:
            return b"set-schedule %b %d\r\n%b\r\n" % (name, len(DOCUMENTS[name]), DOCUMENTS[name])
        if pick < 0.2:
            return b"pause-schedule %b %b\r\n" % (rng.choice(NAMES[:3]), rng.choice((b"on", b"off", b"off")))
        if pick < 0.25:
            return b"fire-schedule %b\r\n" % name
        if pick < 0.75 or not self.ids:
            return b"reserve-many 3 %d\r\n" % rng.choice((0, 0, 1))
        return b"delete-many %d\r\n" % self.ids.pop()

    def learn(self, _command: bytes, reply: bytes) -> None:
        self.ids += [int(id) for id, *_ in FRAME.findall(reply)]


def fires_of(world: World, jobs: dict[bytes, dict[int, set[tuple[int, float]]]]) -> None:
    """Add what clients saw: by schedule and number of the fire, the job and its time."""
    for seen in world.history:
        for id, name, scheduled, fire in FRAME.findall(seen.reply):
            if fire:
                jobs[name][int(fire)].add((int(id), float(scheduled)))


def check_fires(world: World, engine: Engine) -> int:
    """All jobs that there ever were are the fires 1, 2, 3 and so on of their schedules; return how many these were."""
    jobs: dict[bytes, dict[int, set[tuple[int, float]]]] = defaultdict(lambda: defaultdict(set))
    fires_of(world, jobs)
    for job in engine.jobs.jobs():
        name, scheduled_ns, fire = fire_of(job)
        if fire:
            jobs[name][fire].add((job.id, scheduled_ns / 1e9))
    count = 0
    for name, said in schedules_of(engine).items():
        fires = int(said.number(b"fires"))
        assert sorted(jobs[name]) == list(range(1, fires + 1)), f"{said.text!r}: {sorted(jobs[name])}"
        assert all(len(each) == 1 for each in jobs[name].values()), f"a fire of {name!r} was doubled"
        times = [min(jobs[name][fire])[1] for fire in range(1, fires + 1)]
        assert all(before < after for before, after in pairwise(times)), f"a time of {name!r} came twice"
        count += fires
    check_times(schedules_of(engine)[b"watched"], [min(each)[1] for each in jobs[b"watched"].values()])
    return count


def check_times(said: Said, scheduled: list[float]) -> None:
    """Each time of a schedule that was never paused, but for the first that came too late, was a fire or a miss."""
    counted = said.number(b"fires") + said.number(b"skips") + said.number(b"misses")
    assert counted == said.number(b"last") - min(scheduled) + 1, said.text


async def pause_all(world: World) -> None:
    """Let nothing fire any more."""
    await heal(world)
    left = list(DOCUMENTS)
    while left:
        leader = await leader_of(world)
        client = leader.connect()
        if await ask(leader, client, b"pause-schedule %b on" % left[-1]):
            left.pop()


async def run(world: World, *kinds: str) -> None:
    """Run one seed, and look at what schedules have put."""
    await run_for(world, LOAD_S, *(kinds or KINDS), client=TimedClient)
    await pause_all(world)
    await settle(world)
    [leader] = [node.node.leading for node in world.nodes if node.node.leading is not None]
    followers = [node.node.following for node in world.nodes if node.node.following is not None]
    replicas = [leader.replica, *[each.replica for each in followers if each.replica is not None]]
    assert len(replicas) == len(world.nodes)
    for replica in replicas:
        check_accounts(replica.engine, replica.records, replica.tip.place.segment)
    world.counts["fires"] += check_fires(world, leader.replica.engine)
    assert len({digest_of(replica.engine, AFTER_ALL_NS) for replica in replicas}) == 1, "the nodes differ"


@pytest.mark.parametrize("seed", SEEDS[: max(1, len(SEEDS) // 3)])
def test_each_time_is_put_once(seed: int) -> None:
    world = ClockedWorld(seed)
    world.run(run(world))
    assert world.counts["fires"], "nothing was fired"


def test_seeds_meet_what_they_are_for() -> None:
    """Otherwise they would show nothing."""
    counts: Counter[str] = Counter()
    for seed, kinds in enumerate([("kill", "hand over"), ("damage", "drop table")] * 2):
        world = ClockedWorld(1_000_000 + seed)
        world.run(run(world, *kinds))
        counts += world.counts
    assert counts["fires"] > 100, "the schedules hardly fired"
    assert counts["leads"] > 8, "hardly another node led"
    assert counts["repaired"], "no segment was written again"


# --- a leader without a zone ---


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Path]:
    """A folder that is all zone data there is, with one zone."""
    (tmp_path / "Test").mkdir()
    with as_file(files("tzdata.zoneinfo") / "Europe" / "Berlin") as berlin:
        shutil.copy(berlin, tmp_path / "Test" / "Here")
    zoneinfo.reset_tzpath([tmp_path])
    yield tmp_path
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


async def frame_of(node: SimulatedNode) -> bytes:
    """The line of the schedule."""
    return (await ask(node, node.connect(), b"get-schedule here")).partition(b"\r\n")[0]


@simulated()
async def test_leader_without_a_zone_fires_the_time_that_is_known_and_then_no_more(
    world: World, leader: SimulatedNode, zones: Path
) -> None:
    minute = 1_000_000_020
    for node in world.nodes:
        node.clock.wall_s = minute - world.loop.time() - 1
    document = b"cron: * * * * *\nzone: Test/Here\noverlap: allow\n\nx"
    reply = await ask(leader, leader.connect(), b"set-schedule here %d" % len(document), document)
    assert reply == b"SCHEDULED %d\r\n" % minute
    await leader.kill()
    (zones / "Test" / "Here").rename(zones / "hidden")
    zoneinfo.ZoneInfo.clear_cache()
    second = await leader_of(world, leader)
    await asyncio.sleep(2.0)
    assert b" fires=1 " in await frame_of(second)
    assert (await frame_of(second)).endswith(b" blocked=zone")
    for node in world.nodes:
        node.clock.wall_s += 75
    await asyncio.sleep(2.0)
    assert b" fires=1 " in await frame_of(second)
    await second.kill()
    (zones / "hidden").rename(zones / "Test" / "Here")
    third = await leader_of(world, second)
    await asyncio.sleep(2.0)
    line = await frame_of(third)
    assert b" state=active next=%d last=%d fires=2 skips=0 misses=0 " % (minute + 120, minute + 60) in line
    assert b"blocked" not in line
    reply = await ask(third, third.connect(), b"reserve-many 3 0")
    assert [(int(at), int(fire)) for _, _, at, fire in FRAME.findall(reply)] == [(minute, 1), (minute + 60, 2)]
