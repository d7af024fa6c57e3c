"""The metrics: their names, types, help, labels, and which key of the server's statistics each value is.

docs/monitoring.md has the same table, and a test compares them. What a server does not say has no line: plain
beanstalkd does not count what became of jobs.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from beanpole.client import Rights, Stats
from beanpole.observe.sampling import role_of

Value = int | float


class Kind(enum.StrEnum):
    """The type of a metric, as both text formats call it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Rest(enum.Enum):
    """What the tubes without metrics of their own have together."""

    SUM = enum.auto()
    MOST = enum.auto()


@dataclass(frozen=True, slots=True)
class TubeFamily:
    """A metric of tubes."""

    name: str  # without the `_total` of a counter
    kind: Kind
    help: str
    labels: tuple[str, ...]  # besides `server`
    parts: tuple[tuple[str, str], ...]  # the value of the second label, if there is one, and the key in `stats-tubes`
    rest: Rest = Rest.SUM
    flag: bool = False  # whether any number above 0 is shown as 1


@dataclass(frozen=True, slots=True)
class ServerFamily:
    """A metric of a server."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    values: Callable[[Stats], Iterator[tuple[tuple[str, ...], Value]]]
    """The values of the labels, and the value, of each line."""
    of_jobs: bool = True  # whether it says something of jobs and clients, which a node that follows does not know


@dataclass(frozen=True, slots=True)
class RightsFamily:
    """A metric of users or of spaces."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    values: Callable[[Rights], Iterator[tuple[tuple[str, ...], Value]]]
    """The values of the labels, and the value, of each line."""


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """A histogram, of tubes or of a server."""

    name: str
    help: str
    labels: tuple[str, ...]  # besides `server`: `tube`, or none
    key: str  # in `stats-histograms`
    unit: str  # whose bounds it has
    per: int = 1_000_000  # how many of the server's units are one of ours: times come in microseconds
    kind: Kind = Kind.HISTOGRAM


# --- How values are read ----------------------------------------------------------------------------------------------

Lines = Iterator[tuple[tuple[str, ...], Value]]


def number(stats: Stats, key: str) -> Value | None:
    """The number of a key; None: the server does not say."""
    found = stats.raw.get(key)
    if isinstance(found, str):
        try:
            return float(found)
        except ValueError:
            return int(found == "true") if found in {"true", "false"} else None
    return found


def each(*parts: tuple[str, str]) -> Callable[[Stats], Lines]:
    """A metric with a line for each value of its label, or with one line and no label."""

    def values(stats: Stats) -> Lines:
        for label, key in parts:
            value = number(stats, key)
            if value is not None:
                yield ((label,) if label else ()), value

    return values


def commands(stats: Stats) -> Lines:
    """How often each command was given, by the keys that the server has."""
    for key, value in stats.raw.items():
        if key.startswith("cmd-") and isinstance(value, int):
            yield (key.removeprefix("cmd-"),), value


def build(stats: Stats) -> Lines:
    """What the server is; the version of one that is not Beanpole is beanstalkd's."""
    program = "beanpole" if "beanpole-version" in stats.raw else "beanstalkd"
    yield (program, str(stats.get("beanpole-version", stats.version))), 1


ROLES = ("leader", "follower", "reading")


def role(stats: Stats) -> Lines:
    """The role of a node in its cluster: 1 for the one that it has."""
    current = role_of(stats)
    if current:
        yield from (((name,), int(name == current)) for name in ROLES)


# --- The tables -------------------------------------------------------------------------------------------------------

UP = "beanpole_up"
UP_HELP = "1: the server answers. 0: it does not, and there is nothing else of it."

G, C = Kind.GAUGE, Kind.COUNTER


def tube(name: str, kind: Kind, about: str, key: str, **more: Any) -> TubeFamily:  # noqa: ANN401 - of any field
    """A metric of tubes with one value."""
    return TubeFamily(name, kind, about, ("tube",), (("", key),), **more)


def server(name: str, kind: Kind, about: str, key: str, *, of_jobs: bool = True) -> ServerFamily:
    """A metric of a server with one value."""
    return ServerFamily(name, kind, about, (), each(("", key)), of_jobs)


def user(name: str, kind: Kind, about: str, key: str) -> RightsFamily:
    """A metric of users with one value."""
    return RightsFamily(
        name, kind, about, ("user",), lambda rights: (((each,), row[key]) for each, row in rights.users.items())
    )


def space(name: str, about: str, end: str) -> RightsFamily:
    """A metric of spaces with a value for each of what is limited there; without one for what is not."""

    def values(rights: Rights) -> Lines:
        for each, row in rights.spaces.items():
            for kind in ("jobs", "bytes", "tubes"):
                if row[kind + "-max"]:
                    yield (each, kind), row[kind + end]

    return RightsFamily(name, Kind.GAUGE, about, ("space", "kind"), values)


def timed(name: str, about: str, key: str) -> HistogramFamily:
    """A histogram of the jobs of tubes."""
    return HistogramFamily(name, about, ("tube",), key, "job")


HANDSHAKES = (
    *("ok", "timeout", "pushed-out", "gone", "plain", "alpn", "version", "cipher", "certificate"),
    *("refused", "protocol", "full", "closed"),
)
"""What can become of a handshake."""

# Each is said in the order of its table.
# fmt: off
RIGHTS_FAMILIES = (
    user("beanpole_user_connections", G, "Connections of a user, of the hundred with the most commands.",
        "connections"),
    user("beanpole_user_commands", C, "Commands of a user.", "commands"),
    user("beanpole_user_refused", C, "Commands of a user that were refused for want of a right.", "refused"),
    space("beanpole_space_used", "What lies in the tubes of a space, of what is limited there.", ""),
    space("beanpole_space_limit", "How much may lie in the tubes of a space.", "-max"),
)

TUBE_FAMILIES = (
    TubeFamily(
        "beanpole_jobs", G, "Jobs of a tube by state.", ("tube", "state"),
        tuple((state, f"current-jobs-{state}") for state in ("ready", "reserved", "delayed", "buried")),
    ),
    tube("beanpole_oldest_ready_seconds", G,
        "For how long the oldest ready job of a tube has been ready; 0: there is none.",
        "oldest-ready", rest=Rest.MOST),
    tube("beanpole_jobs_put", C, "Jobs put into a tube.", "total-jobs"),
    TubeFamily(
        "beanpole_job_ends", C,
        "What became of jobs of a tube: deleted by a client, released, buried, timed out in the hands of a worker,"
        " lost as the worker's connection ended, dead by the rules, expired, cancelled.",
        ("tube", "outcome"),
        (
            ("deleted", "cmd-delete"), ("released", "jobs-released"), ("buried", "jobs-buried"),
            ("timed_out", "jobs-timed-out"), ("lost", "jobs-lost"), ("dead", "jobs-dead"), ("expired", "jobs-expired"),
            ("cancelled", "jobs-cancelled"),
        ),
    ),
    tube("beanpole_puts_refused", C, "Puts that a tube's limits refused.", "puts-refused"),
    tube("beanpole_puts_merged", C, "Puts of a job that the tube had already, by its key or its body.", "puts-merged"),
    tube("beanpole_tube_paused", G, "1: the tube is paused.", "pause", flag=True),
    tube("beanpole_tube_breaker_closed", G, "1: the breaker has closed the tube, as too many attempts failed.",
        "breaker-closed", flag=True),
    tube("beanpole_tube_waiting", G, "Connections that wait for a job of a tube.", "current-waiting"),
    tube("beanpole_tube_watching", G, "Connections that watch a tube.", "current-watching"),
)

TAKES_DEAD = TubeFamily(
    "beanpole_tube_takes_dead", G, "1: rules send the dead of other tubes into a tube, so that it needs no workers.",
    ("tube",), (),
)

SERVER_FAMILIES = (
    ServerFamily(
        "beanpole_build_info", G, "What the server is: always 1.", ("program", "version"), build, of_jobs=False,
    ),
    server("beanpole_uptime_seconds", G, "For how long the server has been running.", "uptime", of_jobs=False),
    ServerFamily(
        "beanpole_cpu_seconds", C, "Processor time of the server.", ("mode",),
        each(("user", "rusage-utime"), ("system", "rusage-stime")), of_jobs=False,
    ),
    server("beanpole_draining", G, "1: the server takes no more jobs.", "draining"),
    server("beanpole_tubes", G, "Tubes.", "current-tubes"),
    ServerFamily("beanpole_commands", C, "Commands that clients gave.", ("command",), commands),
    ServerFamily(
        "beanpole_connections", G,
        "Connections: open; of these, producers have put a job, workers have reserved one, and some wait for a job.",
        ("kind",),
        each(
            ("open", "current-connections"), ("producer", "current-producers"), ("worker", "current-workers"),
            ("waiting", "current-waiting"),
        ),
    ),
    server("beanpole_connections_opened", C, "Connections that were opened.", "total-connections"),
    server("beanpole_sessions_lost", G, "Sessions without a connection, whose jobs wait for their return.",
        "sessions-lost"),
    server("beanpole_sessions_resumed", C, "Sessions that have returned to their jobs.", "sessions-resumed"),
    ServerFamily(
        "beanpole_once_tokens", G,
        "Tokens of puts that are done once: kept, and how many there may be; then one more is refused.", ("kind",),
        each(("kept", "once-tokens"), ("most", "once-max")),
    ),
    server("beanpole_shard_ids_left", G, "Ids that a shard has left for jobs, in the ranges of all its numbers.",
        "shard-ids-left"),
    server("beanpole_users", G, "Users in the file of --access.", "users"),
    ServerFamily(
        "beanpole_access_clients", C,
        "Clients that were refused, pushed out or too slow before they were somebody, or ended with what they showed.",
        ("outcome",),
        each(
            ("refused", "access-refused"), ("pushed-out", "access-pushed-out"), ("too-slow", "access-too-slow"),
            ("ended", "access-ended"),
        ),
    ),
    ServerFamily(
        "beanpole_handshakes", C, "TLS handshakes, by what became of them.", ("outcome",),
        each(*((outcome, f"handshakes-{outcome}") for outcome in HANDSHAKES)),
    ),
    server("beanpole_certificate_left_seconds", G, "Seconds until a certificate of the server ends.",
        "certificate-seconds-left"),
    server("beanpole_token_left_seconds", G, "Seconds until a user's token ends, of those that do so next.",
        "token-seconds-left"),
    server("beanpole_links", G, "Links, over each of which a front carries clients.", "links"),
    server("beanpole_link_channels", G, "Clients that are carried over links.", "link-channels"),
    server("beanpole_front_frames", C, "Frames that fronts have passed on.", "front-frames"),
    server("beanpole_front_wait_seconds", C, "How long these have waited in a front, all together.", "front-wait"),
    ServerFamily(
        "beanpole_link_bytes", C, "Bytes that were received and sent over links.", ("direction",),
        each(("received", "link-bytes-received"), ("sent", "link-bytes-sent")),
    ),
    ServerFamily(
        "beanpole_log_bytes", G,
        "Bytes of the log: in its files, of these in records of jobs that there are, and free on its disk.", ("kind",),
        each(("files", "log-bytes"), ("live", "log-live-bytes"), ("free", "log-free-bytes")),
    ),
    server("beanpole_log_full", G, "1: the disk is full, and puts are refused.", "log-full", of_jobs=False),
    server("beanpole_log_records", C, "Records written to the log.", "binlog-records-written"),
    server("beanpole_log_moved", C, "Jobs that compaction moved.", "binlog-records-migrated"),
    ServerFamily(
        "beanpole_schedules", G,
        "Schedules: all of them; of these, some are paused, and some are due, so should have put their job by now.",
        ("kind",),
        each(("all", "schedules"), ("paused", "schedules-paused"), ("due", "schedules-due")),
    ),
    ServerFamily(
        "beanpole_schedule_times", C,
        "Times of schedules: fired into a job, skipped as the last job or one with its key was still there,"
        " missed as nothing could be put.", ("outcome",),
        each(("fired", "schedule-fires"), ("skipped", "schedule-skips"), ("missed", "schedule-misses")),
    ),
    server("beanpole_clock_sets", C, "How often the wall clock was set back by more than three hours.", "clock-sets"),
    ServerFamily(
        "beanpole_cluster_role", G, "1: the role that the node has in its cluster.", ("role",), role, of_jobs=False,
    ),
    server("beanpole_cluster_epoch", G,
        "The number of the leadership that the node knows: each new leader raises it.", "cluster-epoch", of_jobs=False),
    server("beanpole_cluster_lag_bytes", G,
        "Of a leader: bytes that the database has not confirmed. Of a follower: bytes that it has not applied.",
        "cluster-lag", of_jobs=False),
    server("beanpole_cluster_unreadable_segment", G,
        "The segment of the log in which a node can't verify a row; 0: there is none.",
        "cluster-unreadable-segment", of_jobs=False),
    server("beanpole_cluster_unreadable_row", G,
        "The row that it can't verify, if there is such a segment.", "cluster-unreadable-row", of_jobs=False),
    server("beanpole_inbox_age_seconds", G,
        "How long the oldest job that a transaction has put waits in the inbox of a cluster; 0: none does.",
        "inbox-age"),
    server("beanpole_inbox_taken", C, "Jobs that were taken out of the inbox since this node leads.", "inbox-taken"),
    server("beanpole_inbox_rests", G, "1: nothing can be taken out of the inbox.", "inbox-rests"),
)

HISTOGRAM_FAMILIES = (
    timed("beanpole_job_ready_seconds", "How long jobs of a tube were ready until they were reserved.", "job-ready"),
    timed("beanpole_job_held_seconds", "How long jobs of a tube were held by a worker.", "job-held"),
    timed("beanpole_job_late_seconds",
        "How long delayed jobs of a tube waited beyond their delay until they were reserved.", "job-late"),
    HistogramFamily("beanpole_reserve_wait_seconds",
        "How long workers waited for a job, where one came; 0 where there was one.", (), "reserve-wait", "job"),
    HistogramFamily("beanpole_schedule_late_seconds",
        "How long after they were due schedules put their jobs.", (), "schedule-late", "job"),
    HistogramFamily("beanpole_turn_seconds",
        "How long turns of the server took: what all clients wait for.", (), "turn", "turn"),
    HistogramFamily("beanpole_turn_commands",
        "Commands of each turn that ran any.", (), "turn-commands", "commands", per=1),
    HistogramFamily("beanpole_sync_seconds", "How long it took to make records durable.", (), "sync", "turn"),
)
# fmt: on

JOB_TIMES = tuple(each.key for each in HISTOGRAM_FAMILIES if each.labels)
"""Those of tubes."""
