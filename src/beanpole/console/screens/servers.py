"""The servers: where each is, what it is in its cluster, its log, its version, and since when it is away."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from beanpole.client import Stats
from beanpole.console.screens import words
from beanpole.console.screens.screen import Screen, View, look, state_of
from beanpole.console.servers import Seen
from beanpole.observe.sampling import role_of

LOG_KEYS = ("log-bytes", "log-live-bytes", "log-free-bytes")  # the sizes of Beanpole's log


class Fact(NamedTuple):
    """Something that a server says, or why it does not."""

    name: str
    text: str
    kind: str = ""  # a class: `bad`, `warn`, `grey` for what is missing


def missing(name: str, reason: str) -> Fact:
    return Fact(name, reason, "grey")


def number(stats: Stats, key: str) -> float | None:
    """A number that a server may say; one with a fraction comes as text."""
    try:
        return float(stats[key])
    except (KeyError, ValueError):
        return None


def version_of(stats: Stats) -> str:
    ours = stats.get("beanpole-version")
    return f"Beanpole {ours}" if ours is not None else f"beanstalkd {stats.version}"


def process_of(stats: Stats) -> Iterator[Fact]:
    yield Fact("Version", version_of(stats))
    yield Fact("Up for", words.duration(stats.uptime))
    yield Fact("Host", f"{stats.hostname} ({stats.platform}), process {stats.pid}")
    if stats.rusage_utime:
        yield Fact("CPU", f"{words.duration(stats.rusage_utime + stats.rusage_stime)} since its start")
    yield Fact(
        "Connections",
        f"{words.count(stats.current_connections)} now: {words.count(stats.current_producers)} producers, "
        f"{words.count(stats.current_workers)} workers, {words.count(stats.current_waiting)} waiting; "
        f"{words.count(stats.total_connections)} since its start",
    )
    yield Fact("Tubes", words.count(stats.current_tubes))
    yield Fact("Largest body", words.size(stats.max_job_size))
    if not role_of(stats):
        yield missing("Cluster", "none: it stands alone")
    if stats.draining:
        yield Fact("Draining", "it takes no more jobs", "warn")


def cluster_of(stats: Stats) -> Iterator[Fact]:
    role = role_of(stats)
    yield Fact("Role", role)
    yield Fact("Epoch", str(stats.get("cluster-epoch", "?")))
    leader = stats.get("cluster-leader")
    if role != "leader":
        yield Fact("Leader", str(leader)) if leader else Fact("Leader", "not known", "bad")
    if (lag := number(stats, "cluster-lag")) is not None:
        what = "that is not confirmed yet" if role == "leader" else "that is read and not applied yet"
        yield Fact("Lag", f"{words.size(int(lag))} of the log {what}")
    if (silence := number(stats, "cluster-silence")) is not None:
        yield Fact("Last heard of the log", f"{words.duration(silence)} ago")
    if stats.get("cluster-sends-away") == "true":
        yield Fact("Clients", "are sent away: nothing is confirmed", "bad")


def log_of(stats: Stats) -> Iterator[Fact]:
    policy = stats.get("durability")
    if role_of(stats):
        yield Fact("Log", f"in PostgreSQL, durability {policy or '?'}")
        return
    if not stats.binlog_current_index:
        yield Fact("Log", "none: a restart loses all jobs", "warn")
        return
    yield Fact("Log", f"files {stats.binlog_oldest_index} to {stats.binlog_current_index}")
    if policy:
        yield Fact("Synced", str(policy))
    sizes = [number(stats, key) for key in LOG_KEYS]
    if None in sizes:
        yield missing("Size of the log", "this server does not say")
    else:
        whole, live, free = (words.size(int(each or 0)) for each in sizes)
        yield Fact("Size of the log", f"{whole}, of which {live} are of jobs that are there")
        yield Fact("Free on its disk", free, "bad" if stats.get("log-full") == "true" else "")
    yield Fact(
        "Records",
        f"{words.count(stats.binlog_records_written)} written, {words.count(stats.binlog_records_migrated)} moved",
    )


def facts_of(seen: Seen) -> list[tuple[str, list[Fact]]]:
    """What is known of a server, by heading; what is a single line has none of its own."""
    if seen.sample is None:
        return []
    stats = seen.sample.stats
    process, others = list(process_of(stats)), [("Log", list(log_of(stats)))]
    if role_of(stats):
        others.append(("Cluster", list(cluster_of(stats))))
    for _, facts in others:
        if len(facts) == 1:
            process += facts
    return [("Process", process), *((heading, facts) for heading, facts in others if len(facts) > 1)]


def nodes_of(seens: list[Seen]) -> list[tuple[Seen, Stats]]:
    return [(seen, seen.sample.stats) for seen in seens if seen.sample is not None and role_of(seen.sample.stats)]


async def show(view: View) -> dict[str, Any]:
    seens = await look(view)
    return {
        "servers": [(seen, *state_of(seen), facts_of(seen)) for seen in seens],
        "nodes": [(seen, *state_of(seen)[:2], stats) for seen, stats in nodes_of(seens)],
        "version_of": version_of,
        "number": number,
    }


SCREEN = Screen("/servers", "servers.html", show, live=("servers", "nodes"), title="Servers", key="n")
