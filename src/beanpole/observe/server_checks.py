"""What can be wrong with a server as a whole. Each check is a function; `doctor` has the table of them."""

import ipaddress
import re
from collections.abc import Iterator

from beanpole.observe.findings import Finding, Severity, Visit, jobs_in
from beanpole.observe.sampling import hides_numbers
from beanpole.observe.units import count, duration, plural, rate, size
from beanpole.shard_ids import IDS_LEFT_WARNING

FILES_WARNING = 0.8  # share of the process's open-file limit that is worth a warning
FILES_ERROR = 0.95
TOKENS_WARNING = 0.8  # share of --once-max that is worth a warning
ENDS_WARNING_S = 14 * 86_400  # seconds until the end of a certificate or token that are worth a warning
ENDS_ERROR_S = 86_400
TIMEOUT_SHARE = 0.05  # jobs whose time ran out, as a share of all jobs, that is worth a warning
TIMEOUTS_MIN = 20  # time-outs below this say nothing about a share
EMPTY_RESERVES_PER_S = 10  # reserves per second and worker without a job that count as polling
BODY_BYTES = 256 * 1024  # the size of a body that is worth a note
BODY_LIMIT_BYTES = 16 * 1024 * 1024  # the limit of body sizes that is worth a note
TUBES_FOR_BEANSTALKD = 1000  # tubes that slow beanstalkd down, as it scans all of them again and again
BLOCKED_SHOWN = 5  # schedules that are named
CORE_FULL = 0.85  # share of a core at which a server counts as busy all the time: it has one thread
SOCKET_COMMAND_S = 3e-6  # processor seconds a command: above this, most of the time goes to system calls on sockets
OLDEST_VERSION = (1, 12)  # the beanstalkd release that brought `reserve-job`


def is_ours(visit: Visit) -> bool:
    return "beanpole-version" in visit.server


def restarted(visit: Visit) -> Iterator[Finding]:
    if visit.restarted:
        yield Finding(
            Severity.ERROR,
            "the server was restarted between the two samples",
            "Look into its log: a crash, or a supervisor that starts it again and again?",
            (f"it is up for {duration(visit.server.uptime)} now",),
        )


def draining(visit: Visit) -> Iterator[Finding]:
    if visit.server.draining:
        yield Finding(
            Severity.WARNING,
            "the server drains: every put is refused",
            "If nobody is replacing it, start it again: only that ends draining.",
            ()
            if hides_numbers(visit.server)
            else (
                f"{count(visit.server.current_jobs_ready)} jobs are ready, {count(visit.grown('cmd-put'))} puts came",
            ),
        )


def refused_puts(visit: Visit) -> Iterator[Finding]:
    # One that a rule unique merged into a job that is there was not refused.
    refused = visit.grown("cmd-put") - visit.grown("total-jobs") - visit.grown("puts-merged")
    # A put counts when its line has come and its job when its body has: one a producer may be on its way.
    if refused > visit.server.current_producers and not visit.server.draining:
        yield Finding(
            Severity.ERROR,
            "puts are refused",
            f"Look at the server's log and disk, the size of bodies ({size(visit.server.max_job_size)} at most), "
            "the rules jobs-max and bytes-max of its tubes, and limits of [space] in --access: beanpole explain TUBE "
            "says which is full.",
            (f"{count(refused)} of {count(visit.grown('cmd-put'))} puts in {visit.seconds:.1f} s became no job",),
        )


def log_stopped(visit: Visit) -> Iterator[Finding]:
    puts = visit.grown("total-jobs")
    if visit.server.binlog_current_index and puts > 0 and not visit.grown("binlog-records-written"):
        yield Finding(
            Severity.ERROR,
            "jobs are put, and nothing is written to the log: a restart would lose them",
            "Look at the disk. Drain the server, let workers empty it, and start it again.",
            (f"{plural(puts, 'job')} and no record in {visit.seconds:.1f} s",),
        )


def durability(visit: Visit) -> Iterator[Finding]:
    jobs = jobs_in(visit.server)
    policy = str(visit.server.get("durability", ""))
    if visit.server.get("cluster-role"):
        if policy == "local":
            yield Finding(
                Severity.NOTE,
                "the cluster's log is on one machine: with that, all jobs are lost",
                "If that is not wanted, give PostgreSQL a synchronous standby, and the cluster durability quorum.",
                (f"{plural(jobs, 'job')} now",),
            )
    elif not visit.server.binlog_current_index:
        yield Finding(
            Severity.NOTE,
            "jobs are in memory only: a restart loses them",
            "If that is not wanted, start the server with -b DIR.",
            (f"{plural(jobs, 'job')} now",),
        )
    elif policy and policy != "always":
        yield Finding(
            Severity.NOTE,
            "a loss of power can take jobs that were answered with INSERTED",
            "If that is not wanted, start the server with -b DIR and without -f and -F.",
            (f"the log is synced {policy}",),
        )
    elif not is_ours(visit):
        yield Finding(
            Severity.NOTE,
            "beanstalkd answers before a job is on disk, and a loss of power can take it",
            "It syncs every 50 ms unless its -f says otherwise, which its statistics do not show.",
            (f"the log is at file {visit.server.binlog_current_index}",),
        )


def schedules_due(visit: Visit) -> Iterator[Finding]:
    due = int(visit.server.get("schedules-due", 0))
    stays = due and visit.before.stats.get("schedules-due") and not visit.grown("schedule-fires")
    if (stays or visit.blocked) and not visit.server.draining:
        yield Finding(
            Severity.ERROR,
            "schedules are due and put no job",
            "Free some space if the disk is full; where a time zone is missing, install tzdata on the machine.",
            (
                f"{plural(due, 'schedule')} due now",
                *(f"{name}: blocked, {why}" for name, why in list(visit.blocked.items())[:BLOCKED_SHOWN]),
            ),
        )


def missed_times(visit: Visit) -> Iterator[Finding]:
    grown, since = visit.grown("schedule-misses"), int(visit.server.get("schedule-misses", 0))
    if since:
        yield Finding(
            Severity.WARNING if grown > 0 else Severity.NOTE,
            "times of schedules passed, and their jobs were not put",
            "The server was down or could put nothing for longer than `late:` allows; `beanpole schedule list` says"
            " whose they are, `beanpole schedule fire --from --to` puts their jobs now.",
            (f"{count(grown)} missed in {visit.seconds:.1f} s", f"{count(since)} since the start"),
        )


def paused_schedules(visit: Visit) -> Iterator[Finding]:
    paused = int(visit.server.get("schedules-paused", 0))
    if paused:
        yield Finding(
            Severity.NOTE,
            "schedules are paused, and put no jobs until somebody resumes them",
            "`beanpole schedule list` shows them, `beanpole schedule resume NAME` lets one go on.",
            (f"{count(paused)} of {plural(int(visit.server['schedules']), 'schedule')}",),
        )


def clock_sets(visit: Visit) -> Iterator[Finding]:
    sets = int(visit.server.get("clock-sets", 0))
    if sets:
        yield Finding(
            Severity.NOTE,
            "the clock of the server's machine was set back by hours: next times were computed again",
            "Let NTP keep the clock: schedules fire by it.",
            (f"{plural(sets, 'time')} since the start",),
        )


def connections(visit: Visit) -> Iterator[Finding]:
    stats = visit.server
    has_fronts = "front-frames" in stats
    links, channels = (int(stats.get(key, 0)) for key in ("links", "link-channels"))
    # Each front has files of its own; who comes over a link from elsewhere has none here.
    now = stats.current_connections - (0 if has_fronts else channels)
    most = (visit.files_max or 0) * (links if has_fronts else 1)
    if most and now >= most * FILES_WARNING:
        yield Finding(
            Severity.ERROR if now >= most * FILES_ERROR else Severity.WARNING,
            "the server will soon have no file descriptor for another connection",
            "Raise LimitNOFILE in its unit (ulimit -n in a shell), or find out who opens so many connections.",
            (f"{plural(now, 'connection')} of {count(most)} open files",),
        )


def full_core(visit: Visit) -> Iterator[Finding]:
    """A command that comes alone costs several times what it costs among others of its connection, or of a link."""
    after, used = visit.server, visit.cores_used
    commands = visit.grown(*(key for key in after if key.startswith("cmd-")))
    if not is_ours(visit) or int(after.get("links", 0)):
        return
    if used >= CORE_FULL and commands * SOCKET_COMMAND_S <= used * visit.seconds:
        yield Finding(
            Severity.WARNING,
            "the server's core is full, and most of it are the sockets of its clients",
            "If the machine has free cores, start it with --fronts 1; else let clients send several commands at once.",
            (
                f"{used:.0%} of a core, {rate(commands / visit.seconds)} commands a second",
                f"{plural(after.current_connections, 'connection')}",
            ),
        )


def shard_ids(visit: Visit) -> Iterator[Finding]:
    left = visit.server.get("shard-ids-left")
    if left is not None and int(left) <= IDS_LEFT_WARNING:
        yield Finding(
            Severity.WARNING if int(left) else Severity.ERROR,
            "the ids of this shard are nearly used up: behind the last one puts are refused",
            f"Give it a further number, which no shard ever had: --shard {visit.server['shard']},N at its next start;"
            " for a cluster `beanpole cluster init`.",
            (f"{count(int(left))} ids left",),
        )


def tokens(visit: Visit) -> Iterator[Finding]:
    kept, most = int(visit.server.get("once-tokens", 0)), int(visit.server.get("once-max", 0))
    if kept and kept >= most * TOKENS_WARNING:
        yield Finding(
            Severity.ERROR if kept >= most else Severity.WARNING,
            "there is no room for the token of a put with once=, or soon will be none: such puts are refused",
            "Let tokens count for a shorter time (for=), or start the server with a larger --once-max: 40 bytes each.",
            (f"{count(kept)} of {plural(most, 'token')}",),
        )


def access_ends(visit: Visit) -> Iterator[Finding]:
    for key, what, advice in (
        ("certificate-seconds-left", "a certificate of the server", "Renew it, and send the server SIGHUP."),
        ("token-seconds-left", "the token of a user", "`beanpole token list` says whose; add another, and remove it."),
    ):
        left = visit.server.get(key)
        if left is not None and int(left) <= ENDS_WARNING_S:
            yield Finding(
                Severity.ERROR if int(left) <= ENDS_ERROR_S else Severity.WARNING,
                f"{what} ends soon",
                f"{advice} Who has nothing else to show can't connect then.",
                (f"{duration(max(int(left), 0))} left",),
            )


def is_remote(peer: str) -> bool:
    """Whether the address of a client, with its port, is that of another machine."""
    try:
        address = ipaddress.ip_address(peer.rpartition(":")[0])
    except ValueError:  # a Unix socket, or a client of whom nothing is known
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return not (mapped or address).is_loopback


def open_to_all(visit: Visit) -> Iterator[Finding]:
    if visit.peers:
        yield Finding(
            Severity.NOTE,
            "whoever reaches the server over the network may do everything",
            "Let it listen on 127.0.0.1 or a Unix socket alone, or give it users: --access, with -l tls:HOST.",
            (f"{min(visit.peers)} is connected, and nobody has asked who that is",),
        )


def lost_users(visit: Visit) -> Iterator[Finding]:
    number = int(visit.server.get("users-unreachable", 0))
    if number:
        yield Finding(
            Severity.WARNING,
            "nobody can log in as a user of the file of --access",
            "`beanpole access check` says who: give it a certificate, a token or a user of the system, or take it out.",
            (f"{plural(number, 'user')}",),
        )


def timeouts(visit: Visit) -> Iterator[Finding]:
    server, grown = visit.server, visit.grown("job-timeouts")
    share = server.job_timeouts / max(server.total_jobs, 1)
    often = server.job_timeouts >= TIMEOUTS_MIN and share >= TIMEOUT_SHARE
    if grown > 0 or often:
        yield Finding(
            Severity.WARNING,
            "jobs come back because the time to run ended: they are worked on twice",
            "Put jobs with a longer ttr, touch them while the work goes on, or find out what the workers wait for.",
            (
                f"{plural(grown, 'time-out')} in {visit.seconds:.1f} s",
                f"{count(server.job_timeouts)} for {plural(server.total_jobs, 'job')} since the start",
            ),
        )


def empty_reserves(visit: Visit) -> Iterator[Finding]:
    """Workers ask again and again and get no job: DEADLINE_SOON storms, or a timeout of 0.

    A `reserve` ends with a job or with DEADLINE_SOON, a `reserve-with-timeout` of a second or more with neither once a
    second at most. How many jobs were given out follows from how many came back in one way or another.
    """
    reserves = visit.grown("cmd-reserve", "cmd-reserve-with-timeout")
    ended = visit.grown("cmd-delete", "cmd-release", "cmd-bury", "job-timeouts")
    given = ended + max(visit.grown("current-jobs-reserved"), 0)
    empty = (reserves - given - max(visit.grown("current-waiting"), 0)) / max(visit.seconds, 1e-9)
    workers = max(visit.server.current_workers, 1)
    if empty < EMPTY_RESERVES_PER_S * workers:
        return
    held = visit.server.current_jobs_reserved
    evidence = (
        f"about {rate(empty)} reserves a second without a job, by {plural(workers, 'worker')}",
        f"{plural(held, 'job')} reserved, {rate(visit.grown('cmd-touch') / visit.seconds)} touches a second",
    )
    if held:
        yield Finding(
            Severity.WARNING,
            "workers that hold jobs ask for more and are turned away: DEADLINE_SOON, or a timeout of 0",
            "After DEADLINE_SOON finish or touch the job that is held, then reserve; else reserve with a timeout.",
            evidence,
        )
    else:
        yield Finding(
            Severity.NOTE,
            "workers ask without waiting",
            "Reserve without a timeout, or with a longer one: the server replies as soon as a job comes.",
            evidence,
        )


def bodies(visit: Visit) -> Iterator[Finding]:
    large = sorted(
        ((length, tube) for jobs in (visit.ready, visit.buried) for tube, (length, _) in jobs.items()), reverse=True
    )
    large = [(length, tube) for length, tube in large if length >= BODY_BYTES]
    if large:
        yield Finding(
            Severity.WARNING,
            "jobs have very large bodies: all of them are in the server's memory",
            "Put what is large elsewhere, and its address into the job.",
            tuple(f"{tube}: a body of {size(length)}" for length, tube in large),
            tuple(dict.fromkeys(tube for _, tube in large)),
        )
    elif visit.server.max_job_size >= BODY_LIMIT_BYTES:
        yield Finding(
            Severity.NOTE,
            "one put may fill a lot of memory",
            "Start the server with a smaller -z.",
            (f"bodies may have {size(visit.server.max_job_size)}",),
        )


def version(visit: Visit) -> Iterator[Finding]:
    found = re.match(r"v?(\d+)\.(\d+)", visit.server.version)
    if found and (int(found[1]), int(found[2])) < OLDEST_VERSION:
        yield Finding(
            Severity.WARNING,
            "the server is old, and lacks commands that clients may use",
            "Install beanstalkd 1.12 or newer, or Beanpole.",
            (f"version {visit.server.version}",),
        )


def many_tubes(visit: Visit) -> Iterator[Finding]:
    if visit.server.current_tubes >= TUBES_FOR_BEANSTALKD and not is_ours(visit):
        yield Finding(
            Severity.NOTE,
            "each of the many tubes makes beanstalkd slower",
            "Use fewer tubes, or a server for which they do not matter.",
            (f"{count(visit.server.current_tubes)} tubes",),
        )
