"""The commands about schedules, and the frames in which they are shown.

A frame is a schedule with its state, on one line, and its document behind it::

    SCHEDULE <name> <bytes> state=active next=<s> last=<s> fires=<n> skips=<n> misses=<n> size=<bytes> ...

What fires them is in ``policies/firing.py``.
"""

import cython
from cython.cimports.beanpole.engine.commands.list_jobs import add_seconds
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.commands.rights import refuse_late
from cython.cimports.beanpole.engine.commands.serve import offer, offer_all
from cython.cimports.beanpole.engine.commands.tubes import bad_text
from cython.cimports.beanpole.engine.policies.firing import (
    fired_bytes,
    has_no_place,
    miss_overdue,
    put_fired,
    record,
    set_next,
    state_bytes,
    taken_key,
    wall_of,
)
from cython.cimports.beanpole.engine.state.job import Job
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.schedule import Schedule, ScheduleState, ScheduleTable
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.user import User
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import ReplyBuffer, Word
from cython.cimports.beanpole.protocol.rights import Right
from cython.cimports.libc.stdint import int64_t, uint64_t

from beanpole.engine import limits
from beanpole.limits import SCHEDULE_LEVEL

BODIES_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.BODIES_BYTES_MAX)
SCHEDULES_PER_PAGE = cython.declare(cython.Py_ssize_t, 1_000)  # where no limit is asked for
SCHEDULES_LOOKED_AT = cython.declare(cython.Py_ssize_t, 2_000)
"""Schedules, by their due times, of which a user sees those to which it has a right: a millisecond."""
SCHEDULES_PER_TURN = cython.declare(cython.Py_ssize_t, 200)  # that are written at a time: a fraction of a millisecond
MOVES_PER_FRAME = cython.declare(cython.Py_ssize_t, 3)  # jobs that are moved in the time in which one is written
MOVES_PER_SETTING = cython.declare(cython.Py_ssize_t, 150)  # the same of one that is read and checked
MOVES_PER_WEEKS = cython.declare(cython.Py_ssize_t, 3_000)  # the same of one with `weeks`, whose days are far between
MOVES_PER_LINES_BYTE = cython.declare(cython.Py_ssize_t, 3)  # and for each byte of its lines
MOVES_PER_PUT = cython.declare(cython.Py_ssize_t, 5)  # the same of a job that is put


@cython.cfunc
def name_of(command: Command) -> bytes:
    return command.args.tube_at[: command.args.tube_bytes]


@cython.cfunc
def named(queue: Queue, command: Command) -> Schedule:
    """Return the schedule that a command names, or None."""
    return None if queue.schedules is None else queue.schedules.named(name_of(command))


# --- what changes them ------------------------------------------------------------------------------------------------


def set_schedule(queue, now_ns, session, command):
    """set-schedule: a schedule, or another document for it. The same document again changes nothing.

    Where its times change, the next one is behind now and behind the last one, and what was overdue is missed. Else it
    stays, as the counts, a pause and the last job always do.
    """
    state: ScheduleState
    name: bytes = name_of(command)
    if queue.draining:
        return session.out.word(Word.DRAINING)
    # Who has no schedules loads none of it.
    from beanpole.schedules.document import HEADER_BYTES_MAX, ScheduleError, check, parse  # noqa: PLC0415

    session.moved_count += MOVES_PER_SETTING
    try:
        document = parse(command.body_at[: command.body_bytes])
        check(document)
    except ScheduleError as wrong:
        session.moved_count += MOVES_PER_LINES_BYTE * min(command.body_bytes, HEADER_BYTES_MAX)
        return bad_text(session, Word.BAD_SCHEDULE, wrong.line, wrong.why)
    user: User = session.user
    if user is not None and user.rights(document.tube, len(document.tube)) & Right.RULES == 0:
        return refuse_late(queue, session, command, Right.RULES, document.tube)
    if document.weeks > 1:
        session.moved_count += MOVES_PER_WEEKS
    session.moved_count += MOVES_PER_LINES_BYTE * (command.body_bytes - len(document.body))
    if len(document.body) > queue.body_bytes_max:
        return bad_text(session, Word.BAD_SCHEDULE, 0, f"a job has {queue.body_bytes_max} bytes at most here")
    text: bytes = document.text
    old: Schedule = named(queue, command)
    if old is not None and old.text == text:
        return scheduled(queue, session, old)
    if old is None and queue.schedules is not None and queue.schedules.count >= queue.schedules_max:
        return bad_text(session, Word.BAD_SCHEDULE, 0, f"there are {queue.schedules_max} schedules already")
    room: cython.int = queue.records.room_for_put(len(name) + len(text))
    if room != Room.OK:
        return queue.no_room(session, room)
    wall_ns: int64_t = wall_of(queue, now_ns)
    has_others: cython.bint = old is None or parse(old.text).times != document.times
    if old is not None:
        state = old.state
        if has_others:
            miss_overdue(queue, old, cython.address(state), wall_ns)
    schedule: Schedule = queue.schedule_table().add(name, text, now_ns, SCHEDULE_LEVEL)
    schedule.take(document)
    if old is None:
        state = schedule.state
    if has_others:
        set_next(schedule, cython.address(state), max(wall_ns, state.last_ns))
    elif state.due_ns:
        set_next(schedule, cython.address(state), state.next_ns - 1)  # its spread may be another
    queue.schedules.set_state(schedule, cython.address(state))
    queue.records.schedule_changed(schedule)
    queue.schedules_at_ns = now_ns
    return scheduled(queue, session, schedule)


@cython.cfunc
def scheduled(queue: Queue, session: Session, schedule: Schedule) -> cython.int:
    """Reply when a schedule fires next."""
    session.read_index = queue.records.index
    session.out.begin(Word.SCHEDULED)
    add_seconds(session.out, schedule.state.next_ns)
    return session.out.end()


def drop_schedule(queue, now_ns, session, command):
    """drop-schedule: it is no more; its jobs stay."""
    schedule: Schedule = named(queue, command)
    if schedule is None:
        return queue.not_found(session)
    room: cython.int = queue.records.room_for_change(state_bytes(schedule))
    if room != Room.OK:
        return queue.no_room(session, room)
    queue.schedules.drop(schedule)
    queue.records.schedule_deleted(schedule)
    return session.out.word(Word.DROPPED)


def pause_schedule(queue, now_ns, session, command):
    """pause-schedule: nothing is fired; off: its times go on, and those that have passed are forgotten."""
    schedule: Schedule = named(queue, command)
    if schedule is None:
        return queue.not_found(session)
    if schedule.state.paused == command.args.on:
        session.read_index = queue.records.index
        return session.out.word(Word.PAUSED)
    room: cython.int = queue.records.room_for_change(state_bytes(schedule))
    if room != Room.OK:
        return queue.no_room(session, room)
    wall_ns: int64_t = wall_of(queue, now_ns)
    state: ScheduleState = schedule.state
    miss_overdue(queue, schedule, cython.address(state), wall_ns)
    if state.next_ns and not command.args.on:
        set_next(schedule, cython.address(state), max(wall_ns, state.last_ns))
    state.paused = command.args.on
    record(queue, schedule, cython.address(state), None)
    queue.schedules_at_ns = now_ns
    session.moved_count += MOVES_PER_PUT
    return session.out.word(Word.PAUSED)


def fire_schedule(queue, now_ns, session, command):
    """fire-schedule: put its job now, whatever its times, a pause and `overlap` say."""
    changed: list = []
    if queue.draining:
        return session.out.word(Word.DRAINING)
    schedule: Schedule = named(queue, command)
    if schedule is None:
        return queue.not_found(session)
    schedule.read()
    holder: Job = taken_key(queue, now_ns, schedule, changed)
    offer_all(queue, now_ns, changed)
    if holder is not None:
        session.read_index = queue.records.index
        return session.out.number(Word.EXISTS, holder.id)
    if has_no_place(queue, schedule):
        return session.out.word(Word.OUT_OF_MEMORY)
    room: cython.int = queue.records.room_for_put(fired_bytes(schedule))
    if room != Room.OK:
        return queue.no_room(session, room)
    at_ns: int64_t = command.args.at_ns if command.args.given & bit(Kind.AT) else wall_of(queue, now_ns)
    job: Job = put_fired(queue, now_ns, schedule, at_ns, 0)
    if job is None:
        return session.out.word(Word.OUT_OF_MEMORY)
    schedule.state.job = job.id
    queue.records.schedule_fired(schedule, job)
    session.moved_count += MOVES_PER_PUT
    session.out.number(Word.INSERTED, job.id)
    return offer(queue, now_ns, job.tube)


# --- what shows them --------------------------------------------------------------------------------------------------


@cython.cfunc
def add_schedule(out: ReplyBuffer, queue: Queue, schedule: Schedule, shown: cython.Py_ssize_t) -> cython.int:
    """Append a schedule with the first bytes of its document."""
    state: cython.pointer(ScheduleState) = cython.address(schedule.state)
    shown = min(shown, cython.cast(cython.Py_ssize_t, len(schedule.text)))
    out.begin(Word.SCHEDULE)
    out.add_bytes(schedule.name)
    out.add(b" ", 1)
    out.add_number(shown)
    out.add_bytes(b" state=paused" if state.paused else b" state=active" if state.next_ns else b" state=ended")
    add_moment(out, b" next=", state.next_ns)
    add_moment(out, b" last=", state.last_ns)
    add_count(out, b" fires=", state.fires)
    add_count(out, b" skips=", state.skips)
    add_count(out, b" misses=", state.misses)
    add_count(out, b" size=", len(schedule.text))
    if state.due_ns != state.next_ns:
        add_moment(out, b" due=", state.due_ns)
    if state.job:
        add_count(out, b" job=", state.job)
    if schedule.zoneless:
        out.add_bytes(b" blocked=zone")
    elif queue.schedules.is_full and schedule.heap_index >= 0 and state.due_ns <= wall_of(queue, queue.now_ns):
        out.add_bytes(b" blocked=disk")
    out.end()
    out.add(schedule.text, shown)
    return out.end()


@cython.cfunc
def add_count(out: ReplyBuffer, name: bytes, number: uint64_t) -> cython.int:
    out.add_bytes(name)
    return out.add_number(number)


@cython.cfunc
def add_moment(out: ReplyBuffer, name: bytes, ns: int64_t) -> cython.int:
    out.add_bytes(name)
    return add_seconds(out, max(ns, 0))


@cython.cfunc
def rights_to(session: Session, schedule: Schedule) -> cython.int:
    """Return the bits of the rights of a session to what concerns a schedule."""
    name: bytes = schedule.tube_name()
    return Right.EVERYTHING if session.user is None else session.user.rights(name, len(name))


def get_schedule(queue, now_ns, session, command):
    """get-schedule: a schedule with its document."""
    schedule: Schedule = named(queue, command)
    if schedule is None:
        return queue.not_found(session)
    session.read_index = queue.records.index
    return add_schedule(session.out, queue, schedule, len(schedule.text))


@cython.final
@cython.cclass
class SchedulePage(LongCommand):
    """A list-schedules that is under way."""

    frames = cython.declare(ReplyBuffer)
    names = cython.declare(list)  # names to look at, in order; None: those behind `after`
    at = cython.declare(bytes)  # the last name that was looked at
    after = cython.declare(bytes)  # the last that is in it
    count = cython.declare(cython.Py_ssize_t)  # schedules in it
    limit = cython.declare(cython.Py_ssize_t)  # schedules that it may have
    bodies = cython.declare(cython.Py_ssize_t)  # bytes that are shown of each document at the most
    bytes_left = cython.declare(cython.Py_ssize_t)  # bytes of documents that still have room; the first one always has

    @cython.cfunc
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Write the next schedules."""
        schedule: Schedule
        table: ScheduleTable = queue.schedules
        most: cython.Py_ssize_t = min(SCHEDULES_PER_TURN, self.limit - self.count)
        full: cython.bint = False
        names: list = []
        if table is not None:
            names = table.names_after(self.at, most + 1) if self.names is None else self.names[: most + 1]
        for name in names[:most]:
            schedule = table.named(name)
            rights: cython.int = 0 if schedule is None else rights_to(session, schedule)
            if rights & Right.EVERYTHING == 0:  # it was dropped since, or is not for this session
                self.at = name
                continue
            shown: cython.Py_ssize_t = self.bodies if rights & Right.LOOK else 0
            shown = min(shown, cython.cast(cython.Py_ssize_t, len(schedule.text)))
            full = self.count > 0 and shown > self.bytes_left
            if full:
                break
            add_schedule(self.frames, queue, schedule, shown)
            self.bytes_left -= shown
            self.count += 1
            self.at = self.after = name
        session.moved_count += MOVES_PER_FRAME * most
        if self.names is not None:
            self.names = self.names[most:]
        if not full and len(names) > most and self.count < self.limit:
            return 0
        session.work = None
        session.read_index = queue.records.index
        session.out.begin(Word.SCHEDULES)
        session.out.add_number(self.count)
        if self.names is None and (full or len(names) > most):
            session.out.add(b" next=", 6)
            session.out.add_bytes(self.after)
        session.out.end()
        return session.out.add(self.frames.buffer.data, self.frames.buffer.size)


def list_schedules(queue, now_ns, session, command):
    """list-schedules: a page of all schedules by name, or the first ones by their due times."""
    in_turn: cython.bint = command.args.given & bit(Kind.ORDER) != 0
    if in_turn and command.args.given & bit(Kind.AFTER_SCHEDULE):
        return session.out.word(Word.BAD_FORMAT)
    page: SchedulePage = SchedulePage()
    page.frames = ReplyBuffer()
    page.limit = command.args.count if command.args.given & bit(Kind.LIMIT) else SCHEDULES_PER_PAGE
    page.bodies = command.args.bodies
    page.bytes_left = BODIES_BYTES_MAX
    page.at = page.after = command.args.after_at[: command.args.after_bytes] if command.args.after_bytes else b""
    if in_turn and queue.schedules is not None:
        first: list = queue.schedules.heap.first(page.limit if session.user is None else SCHEDULES_LOOKED_AT)
        page.names = [cython.cast(Schedule, each, typecheck=True).name for each in first]
        session.moved_count += len(page.names)
    return begin(queue, now_ns, session, page)
