"""The commands that only report: peeks, stats and lists; and what is not a command.

Statistics are pairs of key and value, keys and order as beanstalkd 1.13, and as the YAML that clients read.

What only the process knows (its pid, its processor time, its log) comes from ``facts()``, a dict by key; a key that it
leaves out shows what beanstalkd shows without a log. Strings are quoted as docs/compatibility.md says: version,
hostname, os and platform always, the name of a tube never, for clients compare it as it is.
"""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.commands.rights import may_see_all
from cython.cimports.beanpole.engine.state.groupjobs import first_ready, ready_count
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.beanpole.engine.state.job import Job, JobCount, body_of, deadline_of, job_count
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.schedule import ScheduleTable
from cython.cimports.beanpole.engine.state.session import Session, waiting_in
from cython.cimports.beanpole.engine.state.times import oldest_s
from cython.cimports.beanpole.engine.state.tube import Tube, Watch, is_broken
from cython.cimports.beanpole.engine.state.user import User
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.beanpole.protocol.replies import ReplyBuffer, Word
from cython.cimports.beanpole.protocol.rights import Right
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits
from beanpole.protocol.commands import COMMAND_KEYS, EXTENSION_KEYS
from beanpole.shard_ids import ids_left, text_of

SECOND_NS = cython.declare(int64_t, 1_000_000_000)

PROTOCOL_VERSION = "1.13"
"""The beanstalkd release that we answer as. Clients parse it: dotted numbers and nothing else."""

PROCESS: dict[str, object] = {
    "pid": "0",
    "version": PROTOCOL_VERSION,
    "rusage-utime": "0.000000",
    "rusage-stime": "0.000000",
    "uptime": "0",
    "binlog-oldest-index": "0",
    "binlog-current-index": "0",
    "binlog-records-migrated": "0",
    "binlog-records-written": "0",
    "binlog-max-size": "10485760",
    "draining": "false",
    "id": "0000000000000000",
    "hostname": "",
    "os": "",
    "platform": "",
}
"""The keys of stats that follow the counts, in their order, with what they show when ``facts`` does not say."""

QUOTED = {"version", "hostname", "os", "platform", "beanpole-version"}
"""Keys whose values stand in quotes: clients read them with YAML."""

HEADS = cython.declare(dict, {})  # what stands before a value, by its key: there are as many as keys in this program

NO_SCHEDULES = cython.declare(ScheduleTable, ScheduleTable())

OF_EVERYBODY = cython.declare(
    set,
    {
        *("max-job-size", "pid", "version", "uptime", "binlog-max-size", "draining", "id", "hostname", "os"),
        *("platform", "beanpole-version", "once-max", "shard"),
    },
)  # keys of stats that say nothing of what anybody does

STATE_NAMES = ("ready", "reserved", "delayed", "buried")
STATE_KEYS = [f"current-jobs-{name}" for name in STATE_NAMES]


COMMANDS = [(f"\n{key}: ".encode(), int(verb)) for verb, key in COMMAND_KEYS]
EXTENSIONS = [(f"\n{key}: ".encode(), int(verb)) for verb, key in EXTENSION_KEYS]


def yaml(pairs: list[tuple[str, object]]) -> bytes:
    """Return a YAML mapping as the protocol wants it."""
    out: ReplyBuffer = ReplyBuffer()
    out.add(b"---", 3)
    write(out, pairs)
    out.add(b"\n", 1)
    return out.take()


@cython.cfunc
def write(out: ReplyBuffer, pairs: list, user: User = None) -> cython.int:
    """Append pairs, each behind the end of the line before; for a user 0 for what others have."""
    pair: tuple
    size: cython.Py_ssize_t
    for pair in pairs:
        key: str = pair[0]
        value: object = pair[1]
        if user is not None and key not in OF_EVERYBODY:
            value = user.connection_count if key == "current-connections" else 0
        head: bytes = HEADS.get(key)
        if head is None:
            head = HEADS[key] = f"\n{key}: ".encode()
        out.add_bytes(head)
        if type(value) is int and value >= 0:
            out.add_number(value)
            continue
        said: str = f'"{value}"' if key in QUOTED else str(value)
        text: cython.p_const_char = PyUnicode_AsUTF8AndSize(said, cython.address(size))
        out.add(text, size)
    return 0


@cython.cfunc
def write_counts(out: ReplyBuffer, queue: Queue, rows: list, shown: cython.bint) -> cython.int:
    """Append how often commands came, or 0 for each."""
    row: tuple
    verb: cython.int
    for row in rows:
        verb = row[1]
        out.add_bytes(row[0])
        out.add_number(queue.command_counts[verb] if shown else 0)
    return 0


def process_pairs(uptime_s: int, draining: bool, facts: Mapping[str, str]) -> list[tuple[str, object]]:
    """Return what stats says of the process; what nobody else has stands at the end."""
    return list({**PROCESS, "uptime": uptime_s, "draining": "true" if draining else "false", **facts}.items())


def server_text(queue: Queue, now_ns: int64_t, user: User = None) -> bytes:
    """Return stats; for a user that may not see everybody's numbers all keys, with 0 for what others have."""
    out: ReplyBuffer = ReplyBuffer()
    out.add(b"---", 3)
    write(out, job_count_pairs(queue), user)
    write_counts(out, queue, COMMANDS, user is None)
    write(out, server_pairs(queue, now_ns), user)
    if queue.extensions:
        write_counts(out, queue, EXTENSIONS, user is None)
    out.add(b"\n", 1)
    return out.take()


@cython.cfunc
def job_count_pairs(queue: Queue) -> list:
    """Return what stats says before the counts of commands."""
    states = [(key, queue.state_counts[state]) for state, key in enumerate(STATE_KEYS)]
    return [("current-jobs-urgent", queue.urgent_count), *states]


@cython.cfunc
def server_pairs(queue: Queue, now_ns: int64_t) -> list:
    """Return what it says between those and the counts of extensions."""
    uptime_s: int64_t = (now_ns - queue.started_at_ns) // SECOND_NS
    pairs: list = [
        ("job-timeouts", queue.timeout_count),
        ("total-jobs", queue.total_jobs_count),
        ("max-job-size", queue.body_bytes_max),
        ("current-tubes", len(queue.tube_list)),
        ("current-connections", queue.session_count),
        ("current-producers", queue.producer_count),
        ("current-workers", queue.worker_count),
        ("current-waiting", queue.waiting_count),
        ("total-connections", queue.total_session_count),
    ]
    pairs += process_pairs(uptime_s, queue.draining, queue.facts())
    if queue.extensions:
        pairs += queue.total.pairs()
        pairs += session_pairs(queue) + once_pairs(queue) + schedule_pairs(queue, now_ns) + shard_pairs(queue)
    return pairs


def session_pairs(queue: Queue) -> list[tuple[str, object]]:
    """Return what stats says of sessions that lost their connections: those that may return, and that have."""
    return [("sessions-lost", queue.lost_count), ("sessions-resumed", queue.resumed_count)]


def once_pairs(queue: Queue) -> list[tuple[str, object]]:
    """Return what stats says of the tokens of puts that are done once: those that are kept, and that may be."""
    return [("once-tokens", 0 if queue.once is None else queue.once.count), ("once-max", queue.once_max)]


def schedule_pairs(queue: Queue, now_ns: int64_t) -> list[tuple[str, object]]:
    """Return what stats says of schedules; what they did counts from the server's start."""
    table: ScheduleTable = NO_SCHEDULES if queue.schedules is None else queue.schedules
    return [
        ("schedules", table.count),
        ("schedules-paused", table.paused_count),
        ("schedules-due", table.due_count(now_ns + queue.wall_lead_ns)),
        ("schedule-fires", table.fire_count),
        ("schedule-skips", table.skip_count),
        ("schedule-misses", table.miss_count),
        ("clock-sets", table.clock_set_count),
    ]


def shard_pairs(queue: Queue) -> list[tuple[str, object]]:
    """Return what stats says of the numbers of a shard: 0 alone, if it was given none; then its ids end nowhere."""
    if not queue.shard:
        return [("shard", 0)]
    return [("shard", text_of(queue.shard)), ("shard-ids-left", ids_left(queue.shard, queue.next_job_id))]


def tube_pairs(tube: Tube, now_ns: int64_t) -> list[tuple[str, object]]:
    """Return stats-tube as pairs."""
    left_ns: int64_t = tube.paused_until_ns - now_ns if tube.paused_until_ns else 0
    return [
        ("name", tube.name.decode()),
        ("current-jobs-urgent", tube.urgent_count),
        ("current-jobs-ready", ready_count(tube)),
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


def sum_pairs(tube: Tube, now_ns: int64_t, started_at_ns: int64_t) -> list[tuple[str, object]]:
    """Return what stats-tubes alone says: the sums of what stats-job counts of each job, and the oldest ready one."""
    return [
        ("jobs-reserved", tube.total_reserve_count),
        ("jobs-released", tube.total_release_count),
        ("jobs-buried", tube.total_bury_count),
        ("jobs-kicked", tube.total_kick_count),
        ("jobs-timed-out", tube.total_timeout_count),
        ("jobs-lost", tube.total_lost_count),
        ("oldest-ready", oldest_s(cython.address(tube.ages), ready_count(tube), now_ns, started_at_ns)),
        ("breaker-closed", cython.cast(cython.int, is_broken(tube))),
    ]


def job_pairs(job: Job, now_ns: int64_t) -> list[tuple[str, object]]:
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
        ("reserves", job_count(job, JobCount.RESERVES)),
        ("timeouts", job_count(job, JobCount.TIMEOUTS)),
        ("releases", job_count(job, JobCount.RELEASES)),
        ("buries", job_count(job, JobCount.BURIES)),
        ("kicks", job_count(job, JobCount.KICKS)),
    ]


NAMES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.NAMES_PER_TURN)
NAMES_PER_MOVE = cython.declare(cython.Py_ssize_t, 3)  # names that are collected in the time in which a job is moved
REPLY_BYTES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.REPLY_BYTES_PER_TURN)

MISTAKES = {
    Verb.UNKNOWN_COMMAND: Word.UNKNOWN_COMMAND,
    Verb.BAD_FORMAT: Word.BAD_FORMAT,
    Verb.JOB_TOO_BIG: Word.JOB_TOO_BIG,
    Verb.EXPECTED_CRLF: Word.EXPECTED_CRLF,
}
"""The replies to what is not a command."""


def mistake(queue, now_ns, session, command):
    """Reply to what is no command, or none that can be read."""
    if command.counted == Verb.PUT and command.verb == Verb.EXPECTED_CRLF:
        queue.count_producer(session)
    session.quitting = command.closes
    return session.out.word(MISTAKES[command.verb])


def stats(queue, now_ns, session, command):
    """stats: the counts over all tubes, and what only the process knows."""
    return session.out.text(server_text(queue, now_ns, None if may_see_all(session) else session.user))


def stats_tube(queue, now_ns, session, command):
    """stats-tube: the counts of a tube."""
    tube: Tube = queue.tube_named(command.tube)
    return queue.not_found(session) if tube is None else session.out.text(yaml(tube_pairs(tube, now_ns)))


def stats_job(queue, now_ns, session, command):
    """stats-job: the numbers of a job."""
    job: Job = queue.jobs.find(command.id)
    session.read_index = queue.records.index
    return queue.not_found(session) if job is None else session.out.text(yaml(job_pairs(job, now_ns)))


def peek(queue, now_ns, session, command):
    """peek: a job in any state."""
    return reply_found(queue, session, queue.jobs.find(command.id))


def peek_first(queue, now_ns, session, command):
    """peek-ready, peek-delayed, peek-buried: the first job of the used tube in that state."""
    heap: Heap = session.used.buried
    if command.verb == Verb.PEEK_READY:
        heap = first_ready(session.used)
    elif command.verb == Verb.PEEK_DELAYED:
        heap = session.used.delayed
    return reply_found(queue, session, cython.cast(Job, heap.entries[0].item) if heap.count else None)


def reply_found(queue, session, job):
    """Reply with a job, or that there is none."""
    if job is None:
        return queue.not_found(session)
    session.read_index = queue.records.index
    return session.out.body(Word.FOUND, job.id, body_of(job), job.body_bytes)


def list_tubes(queue, now_ns, session, command):
    """list-tubes: the names of all tubes as they are now, though it may take a few turns to write them."""
    return begin_names(queue, now_ns, session, queue.tube_list, session.user)


def list_tubes_watched(queue, now_ns, session, command):
    """list-tubes-watched: the names of the tubes that the session watches."""
    return begin_names(queue, now_ns, session, session.watches)


@cython.cfunc
def begin_names(queue: Queue, now_ns: int64_t, session: Session, listed: list, user: User = None) -> cython.int:
    """Begin to list the names of tubes, those of a user if there is one, or of tubes that are watched."""
    work: Names = Names()
    work.user = user
    work.listed = listed.copy()
    work.names = []
    return begin(queue, now_ns, session, work)


@cython.final
@cython.cclass
class Names(LongCommand):
    """A list of names. It begins with how many bytes it has, so they are collected, and then written.

    There is no text of what is not written yet: clients that don't read their lists could fill the memory with it.
    """

    user = cython.declare(User)  # `User | None`: there are only those to which it has a right
    listed = cython.declare(list)  # tubes, or watches of them, whose names are not collected yet; None: they all are
    names = cython.declare(list)  # names that are not written yet, the last first
    bytes = cython.declare(cython.Py_ssize_t)  # that all names have in the reply

    @cython.cfunc
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Collect the next names, from the end; when all are there, write REPLY_BYTES_PER_TURN of them."""
        if self.listed is not None and not self.collect(session):
            return 0
        end: cython.Py_ssize_t = session.out.buffer.size + REPLY_BYTES_PER_TURN
        while self.names and session.out.buffer.size < end:
            session.out.add(b"- ", 2)
            session.out.add_bytes(self.names.pop())
            session.out.add(b"\n", 1)
        if not self.names:
            session.out.end()
            session.work = None
        return 0

    @cython.cfunc
    def collect(self, session: Session) -> cython.bint:
        """Collect the next NAMES_PER_TURN names; when all are there, begin the reply and return True."""
        names: list = [name_of(each) for each in reversed(self.listed[-NAMES_PER_TURN:])]
        del self.listed[-NAMES_PER_TURN:]
        session.moved_count += len(names) // NAMES_PER_MOVE
        if self.user is not None:
            names = [name for name in names if self.user.rights(name, len(name)) & Right.ANY]
        self.names += names
        self.bytes += sum(map(len, names)) + 3 * len(names)
        if self.listed:
            return False
        self.listed = None
        session.out.number(Word.OK, 4 + self.bytes)
        session.out.add_bytes(b"---\n")
        return True


@cython.cfunc
def name_of(listed: object) -> bytes:
    tube: Tube = cython.cast(Watch, listed, typecheck=True).tube if isinstance(listed, Watch) else listed
    return tube.name
