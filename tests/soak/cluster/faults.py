"""What happens to a cluster in a soak: a table of kinds, each with who may stop because of it.

Each does its harm and mends it, with clients at work. What clients were told must stay true through all of them, but
where an operator accepts a loss.
"""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from beanpole.errors import ExitCode
from beanpole.log.postgres import admin
from beanpole.log.postgres.store import NoLeaderError, RefusedError
from tests.soak.cluster.cluster import WAIT_S, Cluster
from tests.soak.cluster.nodes import NodeProcess, leader_of
from tests.soak.cluster.patroni import PatroniServers
from tests.soak.cluster.postgres import NODES, Pair

HOUR_NS = 3_600_000_000_000
FILL_S = 300.0
"""How long clients may take to fill a segment on a busy machine."""

HOLD_S = 3.0
"""How long something is held up: twice the silence limit."""


@dataclass(frozen=True)
class Fault:
    """One kind."""

    name: str
    act: Callable[[Cluster[Any]], None]
    weight: int = 1
    """How often it happens beside the others."""

    stops: int = 0
    """How many nodes may stop by themselves with exit code 7, besides those that `act` has seen to."""

    code: ExitCode = ExitCode.LOG_CHANGED


def until(cluster: Cluster[Any], condition: Callable[[], object], what: str, wait_s: float = WAIT_S) -> None:
    give_up_at = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < give_up_at, f"waited in vain: {what}\n{cluster.said()}"
        time.sleep(0.02)


def expect_halt(cluster: Cluster[Any], nodes: list[NodeProcess]) -> None:
    """Wait until some nodes have ended by themselves, because of what the log says."""
    for node in nodes:
        until(cluster, node.has_ended, f"{node.name} ends")
        code = node.wait()
        assert code == ExitCode.LOG_CHANGED, f"{node.name} ended with {code}\n{cluster.said()}"


# --- nodes ------------------------------------------------------------------------------------------------------------


def leaders(cluster: Cluster[Any]) -> list[NodeProcess]:
    return [leader_of(cluster.nodes)]


def follower(cluster: Cluster[Any]) -> list[NodeProcess]:
    leader = leader_of(cluster.nodes)
    return [random.choice([each for each in cluster.nodes if each is not leader])]


def everyone(cluster: Cluster[Any]) -> list[NodeProcess]:
    return cluster.nodes


def killed(whom: Callable[[Cluster[Any]], list[NodeProcess]]) -> Callable[[Cluster[Any]], None]:
    """Return what kills some nodes and starts them again; later, if others go on beside."""

    def act(cluster: Cluster[Any]) -> None:
        nodes = whom(cluster)
        for node in nodes:
            node.kill()
        if len(nodes) < len(cluster.nodes):
            cluster.answered()
        for node in nodes:
            node.start()

    return act


def ended(whom: Callable[[Cluster[Any]], list[NodeProcess]]) -> Callable[[Cluster[Any]], None]:
    """Return what ends some nodes as for maintenance, and starts them again."""

    def act(cluster: Cluster[Any]) -> None:
        nodes = whom(cluster)
        for node in nodes:
            until(cluster, node.find_port, "the node listens")
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            assert node.wait() == ExitCode.OK, f"{node.name} did not end well\n{cluster.said()}"
            node.start()

    return act


def stopped(whom: Callable[[Cluster[Any]], list[NodeProcess]]) -> Callable[[Cluster[Any]], None]:
    """Return what lets some nodes stand still for a while, or until another leads."""

    def act(cluster: Cluster[Any]) -> None:
        nodes = whom(cluster)
        for node in nodes:
            node.signal(signal.SIGSTOP)
        try:
            if nodes == leaders_before(cluster, nodes):
                leader_of([each for each in cluster.nodes if each not in nodes], nodes[0])
            else:
                time.sleep(HOLD_S)
        finally:
            for node in nodes:
                node.signal(signal.SIGCONT)

    def leaders_before(cluster: Cluster[Any], nodes: list[NodeProcess]) -> list[NodeProcess]:
        """Return these nodes, if they are the one that led."""
        return nodes if whom is leaders and len(nodes) < len(cluster.nodes) else []

    return act


def second_process(cluster: Cluster[Any]) -> None:
    """Let a second process of a node's name run for a while."""
    node = random.choice(cluster.nodes)
    twin = cluster.make_node(node.name)
    twin.ready, twin.messages = twin.ready.with_suffix(".twin"), twin.messages.with_suffix(".twin")
    twin.command[twin.command.index("--ready-file") + 1] = str(twin.ready)
    twin.start()
    try:
        time.sleep(random.random() * HOLD_S)
    finally:
        twin.stop()


def clock_set(cluster: Cluster[Any]) -> None:
    """Set a node's wall clock by an hour, or back."""
    node = random.choice(cluster.nodes)
    assert node.wall is not None
    node.wall.now_ns += random.choice((-HOUR_NS, HOUR_NS))


def computing_wrongly(cluster: Cluster[Any]) -> None:
    """Let a follower begin again on a machine that computes wrongly: it stops, and nobody else."""
    [node] = follower(cluster)
    node.kill()
    right, at = node.command, node.command.index("beanpole")
    node.command = [*right[:at], "tests.soak.cluster.faulty", *right[at + 1 :]]
    node.start()
    expect_halt(cluster, [node])
    node.command = right
    node.start()


def step_downs(cluster: Cluster[Any]) -> None:
    for _ in range(5):
        try:
            asyncio.run(admin.step_down(cluster.servers.url, "", WAIT_S))
        except RefusedError:  # nobody follows yet
            cluster.answered(5)
        except NoLeaderError:
            leader_of(cluster.nodes)


def upgraded(cluster: Cluster[Any]) -> None:
    """Raise the format while a node is started again."""
    [node] = follower(cluster)
    node.kill()
    node.start()
    try:
        asyncio.run(admin.upgrade(cluster.servers.url))
    except RefusedError:  # one is not there
        cluster.answered(5)


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def primary_killed(cluster: Cluster[Any]) -> None:
    cluster.servers.lose_primary()
    cluster.answered()
    cluster.servers.repair()


def both_killed(cluster: Cluster[Any]) -> None:
    leader = leader_of(cluster.nodes)
    leader.kill()
    cluster.servers.lose_primary()
    cluster.answered()
    leader.start()
    cluster.servers.repair()


def all_killed(cluster: Cluster[Pair]) -> None:
    servers = (cluster.servers.standby, cluster.servers.primary)
    for node in cluster.nodes:
        node.kill()
    for server in servers:
        server.kill()
    for server in servers:
        server.start()
    for node in cluster.nodes:
        node.start()


def standby_killed(cluster: Cluster[Pair]) -> None:
    """Kill the standby, so that replies wait, and start it again."""
    cluster.servers.standby.kill()
    time.sleep(random.random() * HOLD_S)
    cluster.servers.standby.start()


def standby_stopped(cluster: Cluster[Pair]) -> None:
    with cluster.servers.standby.frozen():
        time.sleep(HOLD_S)


def primary_stopped(cluster: Cluster[Pair]) -> None:
    old = cluster.servers.primary
    old.signal(signal.SIGSTOP)
    cluster.servers.promote()
    old.kill()
    cluster.servers.join()


def commit_lost(how: str) -> Callable[[Cluster[Pair]], None]:
    """Return what ends commits that wait for the standby, which has not got them."""

    def act(cluster: Cluster[Pair]) -> None:
        pair = cluster.servers
        with pair.standby.frozen():
            until(cluster, pair.waiting, "a commit waits")
            count = cluster.standing_still()
            for pid in pair.waiting():
                pair.primary.run(f"select {how}({pid})")
            until(cluster, pair.waiting, "a commit waits again")
            assert len(cluster.history.answered_s) == count, "a commit was acknowledged that no standby has"

    return act


def tail_lost(cluster: Cluster[Pair]) -> None:
    """Promote the standby without rows that were not confirmed."""
    pair = cluster.servers
    with pair.standby.frozen():
        until(cluster, pair.waiting, "a commit waits")
        pair.primary.kill()
    pair.promote()
    pair.join()


def names_emptied(cluster: Cluster[Pair]) -> None:
    """Empty the names of the standbys while a commit waits for one."""
    pair = cluster.servers
    with pair.standby.frozen():
        until(cluster, pair.waiting, "a commit waits")
        count = cluster.standing_still()
        pair.primary.set_names("")
        until(cluster, lambda: not pair.waiting(), "no commit waits")
        assert cluster.standing_still() == count, "a commit was acknowledged that no standby has"
    pair.primary.set_names(pair.standby.application)


def unsynced(cluster: Cluster[Pair]) -> None:
    """Let PostgreSQL sync nothing for a while."""
    pair = cluster.servers
    pair.primary.run("alter system set fsync = off", "select pg_reload_conf()")
    time.sleep(HOLD_S)
    count = cluster.standing_still()
    pair.primary.run("alter system reset fsync", "select pg_reload_conf()")
    until(cluster, lambda: len(cluster.history.answered_s) > count, "clients are answered again")


def rights_revoked(cluster: Cluster[Pair]) -> None:
    """Let nodes not say what they do, which is only for display."""
    rights = "insert, update, delete on beanpole.node"
    cluster.servers.primary.run(f"revoke {rights} from {NODES}", database="log")
    time.sleep(HOLD_S)
    cluster.answered()
    cluster.servers.primary.run(f"grant {rights} to {NODES}", database="log")


def oldest_held(cluster: Cluster[Pair]) -> None:
    """Let somebody read the oldest table for a while."""
    table = cluster.servers.tables()[0]
    reading = f"begin; select count(*) from {table}; select pg_sleep({HOLD_S}); end"  # noqa: S608
    cluster.servers.primary.run(reading, database="log")


# --- the log ----------------------------------------------------------------------------------------------------------


def harm_old_table(cluster: Cluster[Pair], harm: str) -> None:
    """Wait until rows are written to a segment behind the oldest, and run a statement on the table of that one."""
    pair = cluster.servers

    def is_done() -> bool:
        tables = pair.tables()
        if len(tables) < 2 or pair.primary.run(f"select count(*) from {tables[1]}", database="log") == [(0,)]:  # noqa: S608
            return False
        with contextlib.suppress(psycopg.errors.UndefinedTable):  # the node that leads needed it no more
            pair.primary.run(harm.replace("TABLE", tables[0]), database="log")
            return True
        return False

    until(cluster, is_done, "rows are written to a second segment", FILL_S)
    restart(cluster)


def bit_flipped(cluster: Cluster[Pair]) -> None:
    """Damage an old row, and start a follower again, which reads it."""
    row = "(select min(row) from TABLE where length(data) > 0)"
    harm_old_table(cluster, f"update TABLE set data = set_byte(data, 0, get_byte(data, 0) # 1) where row = {row}")  # noqa: S608


def table_dropped(cluster: Cluster[Pair]) -> None:
    harm_old_table(cluster, "drop table TABLE")


def restart(cluster: Cluster[Any]) -> None:
    """Start a follower again; it must come to listen, and nobody may stop."""
    [node] = follower(cluster)
    node.kill()
    node.start()
    until(cluster, node.find_port, "the node that was started again listens")


def schema_dropped(cluster: Cluster[Pair]) -> None:
    """Drop everything and make another cluster: all nodes stop, and a new history begins."""
    cluster.stop_clients()
    cluster.servers.empty()
    cluster.init()
    expect_halt(cluster, cluster.nodes)
    for node in cluster.nodes:
        node.start()
    cluster.history.begin_again()
    cluster.start_clients()


def restored(*, sleeps: bool) -> Callable[[Cluster[Pair]], None]:
    """Return what sets PostgreSQL back to a copy of its files, and accepts the loss, perhaps while a node sleeps."""

    def act(cluster: Cluster[Pair]) -> None:
        pair = cluster.servers
        pair.back_up()
        cluster.answered()
        cluster.stop_clients()
        sleeper = follower(cluster) if sleeps else []
        for node in sleeper:
            node.signal(signal.SIGSTOP)
        pair.restore()
        awake = [node for node in cluster.nodes if node not in sleeper]
        expect_halt(cluster, awake)
        asyncio.run(admin.accept_loss(pair.url))
        for node in awake:
            node.start()
        with leader_of(awake).connect(WAIT_S) as connection:
            cluster.history.accept_loss(connection)
        for node in sleeper:
            node.signal(signal.SIGCONT)
        cluster.start_clients()

    return act


KINDS = [
    Fault("leader killed", killed(leaders), 6),
    Fault("leader stands still", stopped(leaders), 2),
    Fault("leader ended", ended(leaders), 3),
    Fault("follower killed", killed(follower), 2),
    Fault("follower stands still", stopped(follower)),
    Fault("follower ended", ended(follower)),
    Fault("all nodes killed", killed(everyone)),
    Fault("all nodes stand still", stopped(everyone)),
    Fault("all nodes ended", ended(everyone)),
    Fault("a second process of a name", second_process, 2),
    Fault("a node's wall clock is set by an hour", clock_set, 2),
    Fault("a follower computes wrongly", computing_wrongly),
    Fault("leader steps down, five times", step_downs, 2),
    Fault("upgraded while a node starts", upgraded),
    Fault("primary killed", primary_killed, 2),
    Fault("primary and leader killed", both_killed),
]
"""Whatever promotes standbys."""

PAIR_KINDS = [
    *KINDS,
    Fault("everything killed", all_killed),
    Fault("standby killed", standby_killed),
    Fault("standby stands still", standby_stopped),
    Fault("primary stands still, another is promoted", primary_stopped),
    Fault("waiting commits cancelled", commit_lost("pg_cancel_backend")),
    Fault("waiting commits ended", commit_lost("pg_terminate_backend")),
    Fault("standby promoted without the tail", tail_lost),
    Fault("names emptied during a wait", names_emptied),
    Fault("fsync off for a while", unsynced),
    Fault("nodes may not say what they do", rights_revoked),
    Fault("the oldest table is read for long", oldest_held),
    Fault("a bit of an old row flips", bit_flipped),
    Fault("an old table is dropped", table_dropped),
    Fault("schema dropped, another cluster made", schema_dropped),
    Fault("backup restored, loss accepted", restored(sleeps=False)),
    Fault("the same while a node sleeps", restored(sleeps=True), stops=1),
]
"""By hand, with a primary and its standby."""


def freeze_manager(cluster: Cluster[PatroniServers]) -> None:
    cluster.servers.freeze_manager()
    cluster.answered()
    cluster.servers.thaw_manager()


PATRONI_KINDS = [
    Fault("leader killed", killed(leaders), 12),  # a fail-over of PostgreSQL takes ten times as long
    *KINDS,
    Fault("Patroni alone stands still", freeze_manager),
]


def try_out(cluster: Cluster[Any], fault: Fault) -> float:
    """Let it happen; return for how long clients waited at most. Raises AssertionError: a node stops that must not."""
    began_s = time.monotonic()
    fault.act(cluster)
    cluster.answered()
    took_s = cluster.longest_wait_s(began_s)
    gone = [node for node in cluster.nodes if node.has_ended()]
    codes = [node.wait() for node in gone]
    is_allowed = len(gone) <= fault.stops and set(codes) <= {fault.code}
    assert is_allowed, f"{fault.name}: {codes}\n{cluster.said()}"
    for node in gone:
        node.start()
    return took_s
