"""How ``beanpole cluster status`` shows a cluster: rows of a table, JSON, and what an operator should know."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from beanpole.log.postgres.rows import RowKind
from beanpole.observe.units import plural

if TYPE_CHECKING:
    from beanpole.log.postgres.admin import Status
    from beanpole.log.postgres.store import NodeState


def time_text(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds")


def lag_of(node: "NodeState", found: "Status") -> int | None:
    """Return how many rows a node is behind the last one; None: at least a segment, or it is gone."""
    tip = found.tip.place
    return tip.row - node.applied.row if node.is_alive and node.applied.segment == tip.segment else None


def row_of(node: "NodeState", found: "Status") -> dict[str, object]:
    lag = lag_of(node, found)
    return {
        "node": node.name,
        "role": role_of(node),
        "address": node.address,
        "epoch": node.epoch,
        "applied": f"{node.applied.segment}/{node.applied.row}",
        "lag": "?" if lag is None else plural(lag, "row"),
        "clock": "?" if node.ahead_s is None else f"{node.ahead_s:+.1f} s",
        "zones": node.zones or "?",
        "seen": f"{node.age_s:.1f} s ago",
    }


def role_of(node: "NodeState") -> str:
    return node.role if node.is_alive or node.role == "stopped" else "gone"


def record_of(found: "Status", warnings: list[str]) -> dict[str, object]:
    leader = found.leader if found.is_led else None
    return {
        "cluster": found.settings.cluster,
        "leader": leader.node if leader is not None else None,
        "address": leader.address if leader is not None else None,
        "since": time_text(leader.since_s) if leader is not None else None,
        "epoch": found.leader.epoch if found.leader is not None else 0,
        "durability": found.server.durability,
        "synchronous_standby_names": found.names,
        "timeline": found.server.timeline,
        "silence_ms": found.settings.silence_ms,
        "format": found.settings.format,
        "shard": list(found.settings.shard),
        "segments": found.segments,
        "missing_segments": found.missing,
        "unreadable": [
            {"node": each.node, "place": list(each.place), "reason": each.reason, "verdict": each.verdict}
            for each in found.complaints
        ],
        "oldest_segment_held_by": [
            {"name": name, "pid": pid, "seconds": round(seconds, 1)} for name, pid, seconds in found.readers
        ],
        "tip": list(found.tip.place),
        "nodes": [
            {
                "node": each.name,
                "role": role_of(each),
                "alive": each.is_alive,
                "address": each.address,
                "epoch": each.epoch,
                "applied": list(each.applied),
                "lag_rows": lag_of(each, found),
                "version": each.version,
                "format": each.format,
                "machine": each.machine,
                "reaches_leader": each.reaches_leader,
                "unreached": None if each.reaches_leader else found.unreached.get(each.name),
                "clock_ahead_s": None if each.ahead_s is None else round(each.ahead_s, 3),
                "zone_data": each.zones or None,
                "users_digest": found.users.get(each.name, "")[:12] or None,
                "seconds_ago": round(each.age_s, 3),
            }
            for each in found.nodes
        ],
        "inbox": None
        if found.inbox is None
        else {"rows": found.inbox.rows, "oldest_s": round(found.inbox.oldest_s, 3), "bytes": found.inbox.bytes},
        "standbys": [{"name": name, "state": state, "role": role} for name, state, role in found.standbys],
        "warnings": warnings,
    }


CLOCKS_S = 2.0  # by which clocks may differ: what a node says can be a while under way to the database
INBOX_S = 10.0  # after which status says that the inbox is not emptied
HELD_S = 10.0  # after which status names who holds the oldest segment: a node that starts reads it for a moment


def nodes_of(found: "Status") -> list[str]:
    if found.hidden:
        why = f"the table of nodes can't be read: {found.hidden}"
        return [f"{why}; grant this role its rights again, or run `beanpole cluster init` if it was dropped"]
    if found.tip.kind == RowKind.CLOSED:
        return ["the log was exported: no node leads any more"]
    alive = [each for each in found.nodes if each.is_alive]
    if not alive:
        return ["no node is alive: start them"]
    warnings = [] if found.is_led else ["no node that is alive leads; look at the nodes' logs"]
    if len(alive) == 1:
        warnings.append("no second node is alive: when the one that leads dies nobody leads; start another")
    return warnings


def clocks_of(alive: "list[NodeState]") -> list[str]:
    """Return what an operator should know of clocks and zone data, by which another node would fire schedules."""
    warnings = []
    told = [(each.ahead_s, each.name) for each in alive if each.ahead_s is not None]
    (least_s, behind), (most_s, ahead) = min(told, default=(0.0, "")), max(told, default=(0.0, ""))
    if most_s - least_s > CLOCKS_S:
        warnings.append(
            f"the clock of {ahead} is {most_s - least_s:.1f} s ahead of that of {behind}: schedules fire by the clock "
            "of the node that leads; let NTP set both"
        )
    zones: dict[str, list[str]] = {}
    for each in alive:
        if each.ahead_s is not None:
            zones.setdefault(each.zones, []).append(each.name)
    if len(zones) > 1:
        versions = "; ".join(f"{version or 'none'} on {', '.join(names)}" for version, names in sorted(zones.items()))
        warnings.append(
            f"the nodes have different zone data: {versions}; schedules may have other times when another node leads"
        )
    return warnings


def unreached_of(alive: "list[NodeState]", why: Mapping[str, str]) -> list[str]:
    """Say which nodes do not reach the leader, and why as far as they have said it."""
    return [
        f"{each.name} can't reach the leader, so its clients are not served: {why.get(each.name, 'its log says why')}"
        for each in alive
        if not each.reaches_leader
    ]


def users_of(found: "Status", alive: "list[NodeState]") -> list[str]:
    """Say that nodes know other users or tokens than others do."""
    known: dict[str, list[str]] = {}
    for each in alive:
        known.setdefault(found.users.get(each.name, ""), []).append(each.name)
    if len(known) < 2:
        return []
    names = " and ".join(", ".join(each) for each in known.values())
    return [f"the files of users or tokens of {names} differ: after a fail-over those of the new leader hold"]


def warnings_of(found: "Status") -> list[str]:
    """Return what an operator should know, and do."""
    warnings = []
    leader = found.leader
    alive = [each for each in found.nodes if each.is_alive]
    if found.loss:
        warnings.append(f"acknowledged jobs were lost: {found.loss}; look, then run `beanpole cluster accept-loss`")
    if found.unsafe:
        warnings.append(f"nothing is confirmed: {found.unsafe}")
    leads = (
        "the node that leads repairs that, if it can't read it either"
        if found.is_led or found.hidden
        else "no node leads"
    )
    warnings += [f"{each.node} can't read the log: {each.reason}; {each.verdict or leads}" for each in found.complaints]
    warnings += [
        f"the table of segment {each} is gone; `beanpole cluster repair URL {each}` lets the node that leads write its "
        "jobs again"
        for each in found.missing
    ]
    warnings += nodes_of(found)
    if found.server.durability == "local":
        warnings.append("durability is local: when PostgreSQL's machine dies, acknowledged jobs are lost")
    if found.is_led and leader is not None and 0 < leader.format < found.settings.format:
        warnings.append(
            f"{leader.node} has led since before `beanpole cluster upgrade`, and serves format {leader.format}; "
            "restart it, or run `beanpole cluster step-down`"
        )
    if found.is_led and found.shares_machine:
        elsewhere = any(leader is not None and each.machine != leader.machine for each in alive)
        advice = "`beanpole cluster step-down` moves it" if elsewhere else "start nodes on other machines"
        warnings.append(f"the leader runs on the machine of PostgreSQL's primary: one failure takes both; {advice}")
    warnings += unreached_of(alive, found.unreached)
    if found.inbox is not None and found.inbox.why:
        warnings.append(f"the inbox: {found.inbox.why}")
    elif found.inbox is not None and found.inbox.oldest_s > INBOX_S:
        why = "the log of the node that leads says why" if found.is_led else "no node leads"
        warnings.append(f"jobs have waited for {found.inbox.oldest_s:.0f} s in the inbox: {why}")
    warnings += clocks_of(alive)
    warnings += users_of(found, alive)
    warnings += [
        f"segment {found.segments[0]} is kept: {name or 'a session'} (process {pid}) has held it for {seconds:.0f} s"
        for name, pid, seconds in found.readers
        if seconds > HELD_S
    ]
    return warnings
