"""What must hold at the end of a run: of what clients were told, and of what the nodes and the log hold."""

import asyncio
from bisect import bisect_left
from itertools import accumulate, pairwise

from beanpole.engine.check import check
from beanpole.limits import SHARD_ID_BITS
from beanpole.log.reader import describe, read_header
from tests.simulation.cluster.database import Faults
from tests.simulation.cluster.world import World, state_of

STARTS = ("kill", "twin", "damage done", "drop table done", "misread done")
"""What lets a process start."""

SETTLE_S = 120.0
PAUSES_S = 6.0
"""When the last pause of a node has ended, and the commands that it was sent during the pause have run."""


async def heal(world: World) -> None:
    """Let everything work again."""
    database = world.database
    database.faults, database.down = Faults(), False
    database.cut_off.clear()
    await asyncio.sleep(PAUSES_S)


async def settle(world: World) -> dict[int, bytes]:
    """Let everything work again, and wait until one leads and all know the same; return the bodies of all jobs."""
    await heal(world)
    until_s = world.loop.time() + SETTLE_S
    place, replicas = None, []
    while place is None or not all(each.applied.place >= place for each in replicas):
        assert world.loop.time() < until_s, "the nodes do not settle"
        await asyncio.sleep(0.5)
        for node in world.nodes:
            if node.task is not None and node.task.done():
                node.task.result()
        leaders = [node.node.leading for node in world.nodes if node.node.leading is not None]
        followers = [node.node.following for node in world.nodes if node.node.following is not None]
        replicas = [each.replica for each in followers if each.replica is not None]
        if len(leaders) != 1 or len(replicas) < len(world.nodes) - 1:
            place = None
        elif place is None and not leaders[0].sent_ns and not leaders[0].records.unwritten_bytes:
            place = leaders[0].tip.next_place  # nobody writes any more, so the next row says that all is confirmed
    leader = leaders[0].replica
    check(leader.engine)
    state = state_of(leader.engine)
    for each in replicas:
        check(each.engine)
        assert each.epoch == leader.epoch
        found = state_of(each.engine)
        differ = [id for id in found.keys() | state.keys() if found.get(id) != state.get(id)]
        assert not differ, f"a follower at {each.applied.place} knows others than the leader: {differ}"
    return {id: text.split(b"\r\n")[1] for id, text in state.items()}


def check_history(world: World, bodies: dict[int, bytes]) -> None:
    """What clients were told is true in the end, and was when they were told."""
    puts: dict[int, bytes] = {}
    gone: dict[int, float] = {}
    history = sorted(world.history, key=lambda each: each.answered_s)
    for seen in history:
        words = seen.reply.split(b"\r\n")[0].split()
        if words[0] == b"INSERTED":
            assert int(words[1]) not in puts, f"job {int(words[1])} was given twice"
            puts[int(words[1])] = seen.command.split(b"\r\n")[1]
        elif words[0] == b"DELETED":
            id = int(seen.command.split()[1])
            assert gone.get(id, seen.answered_s) >= seen.sent_s, f"job {id} was deleted twice"
            gone.setdefault(id, seen.answered_s)
        elif words[0] in {b"RESERVED", b"FOUND"}:
            id = int(words[1])
            assert gone.get(id, seen.sent_s) >= seen.sent_s, f"job {id} was seen after its delete"
    maybe_gone = {int(command.split()[1]) for command in world.unknown if command.startswith(b"delete")}
    for id, body in puts.items():
        if id in gone:
            assert id not in bodies, f"job {id} is back"
        elif id not in maybe_gone:
            assert bodies.get(id) == body, f"job {id} is lost"
    shard = world.database.settings.shard or (0,)
    assert {id >> SHARD_ID_BITS for id in puts} <= set(shard), f"a job has an id that shard {shard} has not"
    answered_s = [each.answered_s for each in history]
    newest = list(accumulate((each.epoch for each in history), max))
    for seen in history:
        before = bisect_left(answered_s, seen.sent_s)
        assert before == 0 or newest[before - 1] <= seen.epoch, (
            f"two leaders: a reply of {seen.epoch}, {seen.command!r}"
        )


def check_times(world: World) -> None:
    """The log's time never goes back, and the wall clock moves it only when no node has counted it."""
    times: list[int] = []
    header = None
    for number in sorted(world.database.tables):
        for _, entry in sorted(world.database.tables[number].items()):
            (_, data), at = entry.row.unpack(), 0
            if data and entry.row.has_header:
                header = read_header(data)
                at = header.size
            while at < len(data):
                assert header is not None
                found = describe(data, at, header)
                assert found is not None
                at += found[0]
                times += [found[2]["time_ns"]] if "time_ns" in found[2] else []
    assert times == sorted(times), "the log's time goes back"
    if not any(world.counts[each] for each in STARTS):  # a new process has counted nothing
        assert all(later - before < 600e9 for before, later in pairwise(times)), "a wall clock moved the log's"
