"""list-jobs: a page of a tube's jobs, by id or as they would be handed out.

By id, a page goes on behind the last id of the page before, on any connection and at any time: a job that exists from
the first page to the last is on exactly one of them.
"""

import cython
from cython.cimports.beanpole.engine.commands.job_frame import add_short_frame
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.state.job import Job, State
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.beanpole.engine.state.walk import Walk
from cython.cimports.beanpole.protocol.extensions import Field, Kind, bit
from cython.cimports.beanpole.protocol.replies import ReplyBuffer, Word
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t

from beanpole.engine import limits

BODIES_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.BODIES_BYTES_MAX)


@cython.final
@cython.cclass
class Page(LongCommand):
    """A page that is being written: its first line says how many jobs there are, so it is collected first."""

    walk = cython.declare(Walk)
    """Where the jobs come from; None: they come in another order than by id."""
    frames = cython.declare(ReplyBuffer)
    count = cython.declare(uint32_t)
    """Jobs in it."""
    limit = cython.declare(uint32_t)
    """Jobs that it may have."""
    bodies = cython.declare(cython.Py_ssize_t)
    """Bytes that are shown of each body at the most."""
    bytes_left = cython.declare(cython.Py_ssize_t)
    """Bytes of bodies that still have room, and of the reasons that are asked for."""
    fields = cython.declare(cython.int)
    """What else is said of each: a bit for each Field."""
    last_id = cython.declare(uint64_t)
    """The id of its last job."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, queue: Queue, job: Job, now_ns: int64_t) -> cython.bint:
        """Add a job, unless its body has no room any more; the first one always has."""
        shown: cython.Py_ssize_t = min(self.bodies, cython.cast(cython.Py_ssize_t, job.body_bytes))
        size: cython.Py_ssize_t = shown
        if self.fields >> Field.REASON & 1:
            size += job.tag_bytes
        if self.count and size > self.bytes_left:
            return False
        add_short_frame(self.frames, queue, job, now_ns, shown, self.fields)
        self.bytes_left -= size
        self.count += 1
        self.last_id = job.id
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
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
    @cython.exceptval(-1, check=False)
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
    if in_turn and (states == 1 << State.RESERVED or command.args.given & bit(Kind.AFTER)):
        return session.out.word(Word.BAD_FORMAT)
    page: Page = Page()
    page.frames = ReplyBuffer()
    page.limit = command.args.count
    page.bodies = command.args.bodies
    page.fields = command.args.fields
    page.bytes_left = BODIES_BYTES_MAX
    tube: Tube = queue.tube_named(command.args.tube_at[: command.args.tube_bytes])
    if tube is None:
        return page.reply(queue, session, False)
    if in_turn:
        for each in heap_in(tube, states).first(page.limit):
            if not page.add(queue, cython.cast(Job, each, typecheck=True), now_ns):
                break
        session.moved_count += page.count
        return page.reply(queue, session, False)
    page.walk = Walk(queue.jobs, tube, states, command.args.after, queue.next_job_id - 1)
    return begin(queue, now_ns, session, page)


def heap_in(tube, states):
    """Return the heap of a tube's jobs in one state in which nobody holds them."""
    if states == 1 << State.READY:
        return tube.ready
    return tube.delayed if states == 1 << State.DELAYED else tube.buried
