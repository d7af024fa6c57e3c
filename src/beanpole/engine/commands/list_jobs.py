"""JOB frames, which list-jobs and reserve-many answer with; and list-jobs.

A frame is a job with what a worker would ask ``stats-job`` for, on one line, and its body behind it::

    JOB <id> <bytes> tube=<tube> state=<state> pri=<pri> ttr=<s> age=<s> delay=<s> reserves=<n> ...

A line has at most 4 096 bytes. Clients ignore fields that they don't know, so
that there can be more of them.

list-jobs is a page of a tube's jobs, by id or as they would be handed out. By id, a page goes on behind the last id of
the page before, on any connection and at any time: a job that exists from the first page to the last is on exactly one
of them.
"""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin, group_given
from cython.cimports.beanpole.engine.commands.rights import may_see_all
from cython.cimports.beanpole.engine.policies.history import Ended, next_ended
from cython.cimports.beanpole.engine.state.groupjobs import first_jobs, first_of_group
from cython.cimports.beanpole.engine.state.job import Job, JobCount, State, body_of, deadline_of, holder_of, job_count
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tags import (
    Death,
    KeyBit,
    Scheduled,
    Tag,
    find_tag,
    get_number,
    read_death,
    read_scheduled,
)
from cython.cimports.beanpole.engine.state.tube import Group, Tube
from cython.cimports.beanpole.engine.state.walk import Walk
from cython.cimports.beanpole.protocol.extensions import Field, Kind, bit
from cython.cimports.beanpole.protocol.replies import ReplyBuffer, Word, put_number
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy, strlen

from beanpole.engine import limits
from beanpole.engine.policies.history import WORDS
from beanpole.engine.state.failures import WHY_WORDS

FIELD_TEXT_BYTES_MAX = cython.declare(cython.Py_ssize_t, 2_800)
"""Bytes of a text in a field: a line has at most 4 096, or 5 120 with headers. Few reasons have more."""

UNNAMED = cython.declare(cython.int, 1 << Field.FIELD_COUNT)  # beside a bit for each Field: who held a job is not said

LINE_BYTES = cython.declare(cython.Py_ssize_t, 4_080)
"""Bytes of a line in which a history has its place, with its name and the end of it."""

STATES = (b" state=ready pri=", b" state=reserved pri=", b" state=delayed pri=", b" state=buried pri=")
states = cython.declare("const char *[4]")  # what a frame says of each State, up to the priority


def fill_states():
    """Copy the names of the states into C memory."""
    i: cython.int
    for i in range(4):
        states[i] = STATES[i]


fill_states()


# A line is written into memory of a known size and added as a whole: a frame is most of what a job costs in
# reserve-many.


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_text(at: cython.p_char, text: cython.p_const_char, size: cython.Py_ssize_t) -> cython.p_char:
    """Write some bytes; return where they end."""
    memcpy(at, text, size)
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_seconds(at: cython.p_char, ns: uint64_t) -> cython.p_char:
    """Write a duration as :func:`add_seconds` adds it; return where it ends."""
    ms: uint64_t = ns // 1_000_000
    decimals: cython.uint = ms % 1_000
    at = put_number(at, ms // 1_000)
    if decimals == 0:
        return at
    at[0] = 46
    at[1] = cython.cast(cython.char, 48 + decimals // 100)
    at[2] = cython.cast(cython.char, 48 + decimals // 10 % 10)
    at[3] = cython.cast(cython.char, 48 + decimals % 10)
    at += 4
    while at[-1] == 48:
        at -= 1
    return at


def add_frame(out, queue, job, now_ns):
    """Append a job with its whole body."""
    add_line(out, queue, job, now_ns, job.body_bytes)
    out.end()
    return out.add(body_of(job), job.body_bytes + 2)


def add_short_frame(out, queue, job, now_ns, body_bytes, fields):
    """Append a job with the first `body_bytes` of its body at the most, the size of the whole, and what else is asked.

    `fields` has a bit for each Field.
    """
    shown: cython.Py_ssize_t = min(body_bytes, job.body_bytes)
    begin: cython.Py_ssize_t = out.buffer.size
    add_line(out, queue, job, now_ns, shown)
    out.add(b" size=", 6)
    out.add_number(job.body_bytes)
    if fields:
        add_fields(out, queue, job, now_ns, fields)
        if fields >> Field.HISTORY & 1 and job.tag_bytes:
            add_history(out, queue, job, begin + LINE_BYTES - out.buffer.size, fields & UNNAMED == 0)
    out.end()
    out.add(body_of(job), shown)
    return out.end()


def add_line(out, queue, job, now_ns, shown):
    """Append what the line of every frame says of a job, of whose body a part is shown."""
    line: cython.char[512]  # a tube of 200 bytes, 12 numbers of 20, and 100 bytes of names
    name: bytes = job.tube.name
    state: cython.p_const_char = states[job.state]
    age_ns: int64_t = now_ns - job.created_at_ns
    at: cython.p_char = put_text(line, b"JOB ", 4)
    at = put_number(at, job.id)
    at = put_text(at, b" ", 1)
    at = put_number(at, shown)
    at = put_text(at, b" tube=", 6)
    at = put_text(at, name, len(name))
    at = put_text(at, state, strlen(state))
    at = put_number(at, job.pri)
    at = put_text(at, b" ttr=", 5)
    at = put_number(at, job.ttr_s)
    at = put_text(at, b" age=", 5)
    at = put_seconds(at, max(age_ns, 0))
    at = put_text(at, b" delay=", 7)
    at = put_number(at, job.delay_s)
    at = put_text(at, b" reserves=", 10)
    at = put_number(at, job_count(job, JobCount.RESERVES))
    at = put_text(at, b" timeouts=", 10)
    at = put_number(at, job_count(job, JobCount.TIMEOUTS))
    at = put_text(at, b" releases=", 10)
    at = put_number(at, job_count(job, JobCount.RELEASES))
    at = put_text(at, b" buries=", 8)
    at = put_number(at, job_count(job, JobCount.BURIES))
    at = put_text(at, b" kicks=", 7)
    at = put_number(at, job_count(job, JobCount.KICKS))
    out.add(line, at - cython.cast(cython.p_char, line))
    return 0 if job.tag_bytes == 0 and job.tube.rules is None else add_more(out, queue, job)


def add_more(out, queue, job):
    """Append what few jobs have: which attempt it is and of how many, a key, its schedule, when and where it died."""
    size: cython.Py_ssize_t = 0
    said: cython.p_const_char = find_tag(job, Tag.ATTEMPTS, cython.address(size))
    if said is not cython.NULL:
        out.add(b" attempt=", 9)
        out.add_number(get_number(said, 4))
    if job.tube.rules is not None and job.tube.rules.attempts:
        out.add(b" attempts=", 10)
        out.add_number(job.tube.rules.attempts)
    add_key(out, job)
    said = find_tag(job, Tag.GROUP, cython.address(size))
    if said is not cython.NULL:
        out.add(b" group=", 7)
        out.add(said, size)
    said = find_tag(job, Tag.META, cython.address(size))
    if said is not cython.NULL:
        out.add(b" meta=", 6)
        out.add(said, size)
    scheduled: Scheduled
    if read_scheduled(job, cython.address(scheduled)):
        out.add(b" schedule=", 10)
        out.add(scheduled.name, scheduled.name_bytes)
        out.add(b" scheduled=", 11)
        add_seconds(out, max(scheduled.at_ns, 0))
        if scheduled.fire:
            out.add(b" fire=", 6)
            out.add_number(scheduled.fire)
    death: Death
    if not read_death(job, cython.address(death)):
        return 0
    if death.tube[: death.tube_bytes] != job.tube.name:
        out.add(b" from=", 6)
        out.add(death.tube, death.tube_bytes)
    out.add(b" died=", 6)
    return add_seconds(out, max(death.at_ns + queue.wall_lead_ns, 0))


@cython.cfunc
def add_fields(out: ReplyBuffer, queue: Queue, job: Job, now_ns: int64_t, fields: cython.int) -> cython.int:
    """Append the fields that are asked for, of those that the job has."""
    size: cython.Py_ssize_t = 0
    holder: Session = holder_of(job)
    if holder is not None and (holder.used is not None or holder.lost):  # else it is closed, and gives the job back
        if fields >> Field.SESSION & 1:
            out.add(b" session=", 9)
            out.add_number(holder.number)
        if fields >> Field.PEER & 1 and not holder.lost:
            peer: bytes = queue.describe(holder.owner).encode()
            if peer:
                out.add(b" peer=", 6)
                add_text(out, peer, len(peer), FIELD_TEXT_BYTES_MAX)
    if fields >> Field.LEFT & 1 and (job.state == State.RESERVED or job.state == State.DELAYED):
        out.add(b" left=", 6)
        add_seconds(out, max(deadline_of(job) - now_ns, 0))
    if not fields >> Field.REASON & 1 or job.tag_bytes == 0:
        return 0
    death: Death
    if read_death(job, cython.address(death)):
        why: bytes = WHY_WORDS.get(death.why, b"")
        if why:
            out.add(b" why=", 5)
            out.add(why, len(why))
        out.add(b" tried=", 7)
        out.add_number(death.attempts)
    said: cython.p_const_char = find_tag(job, Tag.FAILURE_TEXT, cython.address(size))
    if said is not cython.NULL:
        out.add(b" reason=", 8)
        add_text(out, said, size, FIELD_TEXT_BYTES_MAX)
    return 0


@cython.cfunc
def add_history(out: ReplyBuffer, queue: Queue, job: Job, left: cython.Py_ssize_t, named: cython.bint) -> cython.int:
    """Append how the last attempts failed, if it is known: a line for each, with tabs, as many as `left` bytes have.

    Who held the job is `named`, or not.
    """
    size: cython.Py_ssize_t = 0
    ended: Ended
    at: cython.p_const_char = find_tag(job, Tag.HISTORY, cython.address(size))
    if at is cython.NULL:
        return 0
    stop: cython.p_const_char = at + size
    lines: list = []
    while next_ended(cython.address(at), stop, cython.address(ended)):
        at_ns: int64_t = max(ended.at_ns + queue.wall_lead_ns, 0)
        moment = b"%d.%03d" % (at_ns // 1_000_000_000, at_ns // 1_000_000 % 1_000)
        holder = ended.holder[: ended.holder_bytes] if named else b""
        error = ended.error[: ended.error_bytes]
        line: bytes = b"\t".join([moment, WORDS.get(ended.how, b""), holder, error])
        left -= 3
        for byte in line:
            left -= 1 if is_plain(byte) else 3
        if left < 0:
            break
        lines.append(line)
    text: bytes = b"\n".join(lines)
    if text:
        out.add(b" history=", 9)
    return add_text(out, text, len(text), LINE_BYTES)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_plain(byte: cython.int) -> cython.bint:
    """Whether a byte stands in a field as it is."""
    return byte > 32 and byte != 127 and byte != 37


@cython.cfunc
def add_text(
    out: ReplyBuffer, text: cython.p_const_char, size: cython.Py_ssize_t, left: cython.Py_ssize_t
) -> cython.int:
    """Append a text as a field has it, in `left` bytes: spaces, control characters and ``%`` as ``%`` and digits."""
    digits: cython.p_const_char = b"0123456789ABCDEF"
    escaped: cython.char[3]
    begin: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    while at < size:
        byte: cython.int = cython.cast(cython.uchar, text[at])
        plain: cython.bint = is_plain(byte)
        left -= 1 if plain else 3
        if left < 0:
            break
        if not plain:
            out.add(text + begin, at - begin)
            begin = at + 1
            escaped[0] = 37
            escaped[1] = digits[byte >> 4]
            escaped[2] = digits[byte & 15]
            out.add(escaped, 3)
        at += 1
    return out.add(text + begin, at - begin)


def add_key(out, job):
    """Append the key of a job that has one, whether it holds it or not."""
    size: cython.Py_ssize_t = 0
    key: cython.p_const_char = find_tag(job, Tag.KEY, cython.address(size))
    if key is cython.NULL or key[0] & KeyBit.BODY:
        return 0
    out.add(b" key=", 5)
    return out.add(key + 1, size - 1)


def add_seconds(out, ns):
    """Append a duration: seconds with up to three decimals, cut off, without zeros at the end."""
    text: cython.char[24]
    end: cython.p_char = put_seconds(text, ns)
    return out.add(text, end - cython.cast(cython.p_char, text))


# --- list-jobs --------------------------------------------------------------------------------------------------------


BODIES_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.BODIES_BYTES_MAX)


@cython.final
@cython.cclass
class Page(LongCommand):
    """A page that is being written: its first line says how many jobs there are, so it is collected first."""

    walk = cython.declare(Walk)  # where the jobs come from; None: they come in another order than by id
    frames = cython.declare(ReplyBuffer)
    count = cython.declare(uint32_t)  # jobs in it
    limit = cython.declare(uint32_t)  # jobs that it may have
    bodies = cython.declare(cython.Py_ssize_t)  # bytes that are shown of each body at the most
    bytes_left = cython.declare(cython.Py_ssize_t)
    """Bytes of bodies that still have room, and of the reasons and histories that are asked for."""
    fields = cython.declare(cython.int)  # what else is said of each: a bit for each Field
    last_id = cython.declare(uint64_t)  # the id of its last job

    @cython.cfunc
    def add(self, queue: Queue, job: Job, now_ns: int64_t) -> cython.bint:
        """Add a job, unless its body has no room any more; the first one always has."""
        shown: cython.Py_ssize_t = min(self.bodies, cython.cast(cython.Py_ssize_t, job.body_bytes))
        size: cython.Py_ssize_t = shown
        if self.fields >> Field.REASON & 1 or self.fields >> Field.HISTORY & 1:
            size += job.tag_bytes
        if self.count and size > self.bytes_left:
            return False
        add_short_frame(self.frames, queue, job, now_ns, shown, self.fields)
        self.bytes_left -= size
        self.count += 1
        self.last_id = job.id
        return True

    @cython.cfunc
    def reply(self, queue: Queue, session: Session, more: cython.bint) -> cython.int:
        """Send the page; `more`: there may be another one."""
        session.read_index = queue.records.index
        session.out.begin(Word.JOBS)
        session.out.add_number(self.count)
        if more:
            session.out.add(b" next=", 6)
            session.out.add_number(self.last_id)
        session.out.end()
        return session.out.add(self.frames.buffer.data, self.frames.buffer.size)

    @cython.cfunc
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Look for more jobs."""
        job: Job
        count_before: uint32_t = self.count
        full: cython.bint = False
        self.walk.begin_piece()
        while not full:
            job = self.walk.next()
            if job is None:
                break
            full = not self.add(queue, job, now_ns) or self.count == self.limit
        session.moved_count += self.count - count_before + self.walk.piece_cost()
        if full or self.walk.done:
            session.work = None
            return self.reply(queue, session, full)
        return 0


def list_jobs(queue, now_ns, session, command):
    """list-jobs: a page of the jobs that a tube has in a state."""
    states: cython.int = command.args.states
    in_turn: cython.bint = command.args.given & bit(Kind.ORDER) != 0
    group: bytes = group_given(command)
    in_order: cython.int = 1 << State.READY if group is not None else ~(1 << State.RESERVED)
    if in_turn and (not states & in_order or command.args.given & bit(Kind.AFTER)):
        return session.out.word(Word.BAD_FORMAT)
    page: Page = Page()
    page.frames = ReplyBuffer()
    page.limit = command.args.count
    page.bodies = command.args.bodies
    page.fields = command.args.fields
    if not may_see_all(session):
        page.fields = page.fields & ~(1 << Field.SESSION | 1 << Field.PEER) | UNNAMED
    page.bytes_left = BODIES_BYTES_MAX
    tube: Tube = queue.tube_named(command.args.tube_at[: command.args.tube_bytes])
    if tube is None:
        return page.reply(queue, session, False)
    if in_turn:
        first: list = next_in(tube, states, page.limit) if group is None else first_jobs(tube, group, page.limit)
        for each in first:
            if not page.add(queue, cython.cast(Job, each, typecheck=True), now_ns):
                break
        session.moved_count += page.count
        return page.reply(queue, session, False)
    page.walk = Walk(queue.jobs, tube, states, command.args.after, queue.next_job_id - 1, group=group)
    return begin(queue, now_ns, session, page)


@cython.cfunc
def next_in(tube: Tube, states: cython.int, limit: cython.Py_ssize_t) -> list:
    """Return the first jobs of a tube in one state in which nobody holds them; of groups, the next one of each."""
    if states != 1 << State.READY:
        return (tube.delayed if states == 1 << State.DELAYED else tube.buried).first(limit)
    if tube.groups is None:
        return tube.ready.first(limit)
    return [first_of_group(tube, cython.cast(Group, each, typecheck=True)) for each in tube.groups.open.first(limit)]
