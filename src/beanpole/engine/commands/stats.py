"""The statistics as pairs of key and value, keys and order as beanstalkd 1.13, and as the YAML that clients read.

What only the process knows (its pid, its processor time, its log) comes from ``facts()``, a dict by key; a key that it
leaves out shows what beanstalkd shows without a log. Strings are quoted as docs/compatibility.md says: version,
hostname, os and platform always, the name of a tube never, for clients compare it as it is.
"""

import cython
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.state.ages import oldest_s
from cython.cimports.beanpole.engine.state.job import Job, deadline_of
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.beanpole.engine.state.wide import waiting_in
from cython.cimports.libc.stdint import int64_t

from beanpole.protocol.commands import COMMAND_KEYS, EXTENSION_KEYS

SECOND_NS = cython.declare(int64_t, 1_000_000_000)

PROTOCOL_VERSION = "1.13"
"""The beanstalkd release that we answer as. Clients parse it: dotted numbers and nothing else."""

PROCESS_KEYS = (
    ("pid", "0"),
    ("version", PROTOCOL_VERSION),
    ("rusage-utime", "0.000000"),
    ("rusage-stime", "0.000000"),
    ("uptime", "0"),
    ("binlog-oldest-index", "0"),
    ("binlog-current-index", "0"),
    ("binlog-records-migrated", "0"),
    ("binlog-records-written", "0"),
    ("binlog-max-size", "10485760"),
    ("draining", "false"),
    ("id", "0000000000000000"),
    ("hostname", ""),
    ("os", ""),
    ("platform", ""),
)
"""The keys of stats that follow the counts, with what they show when ``facts`` does not say."""

QUOTED = {"version", "hostname", "os", "platform", "beanpole-version"}
"""Keys whose values stand in quotes: clients read them with YAML."""

STATE_NAMES = ("ready", "reserved", "delayed", "buried")


def yaml(pairs: list[tuple[str, object]]) -> bytes:
    """Return a YAML mapping as the protocol wants it."""
    lines = [f'{key}: "{value}"\n' if key in QUOTED else f"{key}: {value}\n" for key, value in pairs]
    return ("---\n" + "".join(lines)).encode()


def names(tubes: Iterable[Tube]) -> bytes:
    """Return the items of a YAML list of tube names."""
    return b"".join([b"- %b\n" % cython.cast(Tube, tube, typecheck=True).name for tube in tubes])


def process(uptime_s: int, draining: bool, facts: Mapping[str, str]) -> list[tuple[str, object]]:
    """Return what stats says of the process; what nobody else has stands at the end."""
    said = {"uptime": uptime_s, "draining": "true" if draining else "false", **facts}
    known = [(key, said.pop(key, value)) for key, value in PROCESS_KEYS]
    return known + list(said.items())


def engine(engine: Engine, now_ns: int64_t) -> list[tuple[str, object]]:
    """Return stats as pairs."""
    uptime_s: int64_t = (now_ns - engine.started_at_ns) // SECOND_NS
    return [
        ("current-jobs-urgent", engine.urgent_count),
        *[(f"current-jobs-{name}", engine.state_counts[state]) for state, name in enumerate(STATE_NAMES)],
        *[(key, engine.command_counts[verb]) for verb, key in COMMAND_KEYS],
        ("job-timeouts", engine.timeout_count),
        ("total-jobs", engine.total_jobs_count),
        ("max-job-size", engine.body_bytes_max),
        ("current-tubes", len(engine.tube_list)),
        ("current-connections", engine.session_count),
        ("current-producers", engine.producer_count),
        ("current-workers", engine.worker_count),
        ("current-waiting", engine.waiting_count),
        ("total-connections", engine.total_session_count),
        *process(uptime_s, engine.draining, engine.facts()),
        *(engine.total.pairs() if engine.extensions else []),
        *[(key, engine.command_counts[verb]) for verb, key in EXTENSION_KEYS if engine.extensions],
    ]


def tube(tube: Tube, now_ns: int64_t) -> list[tuple[str, object]]:
    """Return stats-tube as pairs."""
    left_ns: int64_t = tube.paused_until_ns - now_ns if tube.paused_until_ns else 0
    return [
        ("name", tube.name.decode()),
        ("current-jobs-urgent", tube.urgent_count),
        ("current-jobs-ready", tube.ready.count),
        ("current-jobs-reserved", tube.reserved_count),
        ("current-jobs-delayed", tube.delayed.count),
        ("current-jobs-buried", tube.buried.count),
        ("total-jobs", tube.total_jobs_count),
        ("current-using", tube.using_count),
        ("current-watching", tube.watching_count),
        ("current-waiting", waiting_in(tube)),
        ("cmd-delete", tube.delete_count),
        ("cmd-pause-tube", tube.pause_count),
        ("pause", tube.pause_s),
        ("pause-time-left", max(left_ns, 0) // SECOND_NS),
    ]


def more_of(tube: Tube, now_ns: int64_t, started_at_ns: int64_t) -> list[tuple[str, object]]:
    """Return what stats-tubes alone says: the sums of what stats-job counts of each job, and the oldest ready one."""
    return [
        ("jobs-reserved", tube.total_reserve_count),
        ("jobs-released", tube.total_release_count),
        ("jobs-buried", tube.total_bury_count),
        ("jobs-kicked", tube.total_kick_count),
        ("jobs-timed-out", tube.total_timeout_count),
        ("jobs-lost", tube.total_lost_count),
        ("oldest-ready", oldest_s(cython.address(tube.ages), tube.ready.count, now_ns, started_at_ns)),
    ]


def job(job: Job, now_ns: int64_t) -> list[tuple[str, object]]:
    """Return stats-job as pairs."""
    due_ns: int64_t = deadline_of(job)
    left_ns: int64_t = due_ns - now_ns if due_ns else 0
    return [
        ("id", job.id),
        ("tube", job.tube.name.decode()),
        ("state", STATE_NAMES[job.state]),
        ("pri", job.pri),
        ("age", max(now_ns - job.created_at_ns, 0) // SECOND_NS),
        ("delay", job.delay_s),
        ("ttr", job.ttr_s),
        ("time-left", max(left_ns, 0) // SECOND_NS),
        ("file", job.segment),
        ("reserves", job.reserve_count),
        ("timeouts", job.timeout_count),
        ("releases", job.release_count),
        ("buries", job.bury_count),
        ("kicks", job.kick_count),
    ]
