"""Firing: what becomes of a schedule when one of its times has come.

Each time becomes a job, or is skipped, for the job before is still there or its key is taken, or is missed, for it
passed while nothing could fire: the state of the schedule counts all three. The state and the job stand in one record,
so that a crash takes both or none, and it is written only where there is room. Where there is none, nothing happens,
and it is tried again in a second; where this machine has no data of the zone, in a minute.

The wall clock is the engine's clock and `Queue.wall_lead_ns`, which whoever runs the engine sets before each tick.
While there are schedules it is looked at each second at least. Set back by up to three hours, times wait for it: none
is at or before the last one. Set back further, it is wrong now, or was before: nothing fires for ten minutes, in which
it is put right where a machine has just started. Then all next times are computed again, as they are at each start,
when zones may have other data.
"""

import cython
from cython.cimports.beanpole.engine.policies.attempts import add_new, died_in, ends, rule_tags
from cython.cimports.beanpole.engine.policies.expiry import expiry_of, give_expiry
from cython.cimports.beanpole.engine.policies.throttle import lacks_room
from cython.cimports.beanpole.engine.policies.uniqueness import give_body_key, give_key, key_holder
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, new_job
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.schedule import Schedule, ScheduleState, ScheduleTable
from cython.cimports.beanpole.engine.state.tags import (
    EXPIRY_BYTES,
    SCHEDULED_FIXED,
    TAG_FRAME_BYTES,
    ExpireBit,
    put_scheduled,
)
from cython.cimports.beanpole.engine.state.tube import RULE_TAGS_BYTES, Space, Tube
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
ROOM_RETRY_NS = cython.declare(int64_t, limits.ROOM_RETRY_NS)

MOVES_PER_FIRE = cython.declare(cython.Py_ssize_t, 50)
"""Jobs that become ready in the time in which a schedule fires: a hundred fire in a tick at the most."""

MOVES_PER_READING = cython.declare(cython.Py_ssize_t, 100)  # the same for one whose document is to be read
MOVES_PER_LINES_BYTE = cython.declare(cython.Py_ssize_t, 1)  # and for each byte of its lines
MOVES_PER_MISS = cython.declare(cython.Py_ssize_t, 5)  # the same of a time that is missed: where it lies is computed
BYTES_PER_MOVE = cython.declare(int64_t, 200)  # that are recorded in the time in which a job becomes ready

MISSES_COUNTED = cython.declare(cython.Py_ssize_t, 100)
"""Times that are counted one by one when they are missed together: nothing goes through a year of minutes."""

COMPUTED_PER_TICK = cython.declare(cython.Py_ssize_t, 100)  # next times that are computed again in a tick
DOUBT_NS = cython.declare(int64_t, 600 * 1_000_000_000)
"""How long a wall clock that was set back by more than CLOCK_SET_NS is not believed."""

CLOCK_SET_NS = cython.declare(int64_t, 3 * 3600 * 1_000_000_000)
"""A wall clock that is set back further was wrong before (cron(8) of Debian has the same three hours)."""


def wall_of(queue, now_ns):
    """Return the wall clock, in nanoseconds of UTC."""
    return now_ns + queue.wall_lead_ns


def state_bytes(schedule):
    """Return the bytes for which there must be room when a schedule changes and puts no job."""
    return STATE_BYTES + len(schedule.name)


def fired_bytes(schedule):
    """Return the bytes for which there must be room when a schedule, which is read, puts a job, as for a put."""
    tags: cython.Py_ssize_t = RULE_TAGS_BYTES + tags_asked(schedule)
    return state_bytes(schedule) + len(schedule.tube) + tags + len(schedule.text) - schedule.body_at


@cython.cfunc
@cython.exceptval(check=False)
def tags_asked(schedule: Schedule) -> cython.Py_ssize_t:
    """Return the bytes of the tags that a schedule, which is read, gives its jobs."""
    tags: cython.Py_ssize_t = TAG_FRAME_BYTES + SCHEDULED_FIXED + len(schedule.name)
    if schedule.key:
        tags += TAG_FRAME_BYTES + 1 + len(schedule.key)
    if schedule.expire_ns:
        tags += TAG_FRAME_BYTES + EXPIRY_BYTES
    return tags


@cython.cfunc
def cost_of(schedule: Schedule) -> cython.Py_ssize_t:
    """Read a schedule. Return in which time it fires, or is computed again, in jobs that become ready."""
    if schedule.is_read:
        return MOVES_PER_FIRE
    schedule.read()
    return MOVES_PER_FIRE + MOVES_PER_READING + MOVES_PER_LINES_BYTE * schedule.body_at


# --- times ------------------------------------------------------------------------------------------------------------


def set_next(schedule, state, behind_ns):
    """Let the next time be the first one behind a moment; without data of the zone that is left for later."""
    times = schedule.times()
    if times is None:
        state.next_ns = behind_ns
        state.due_ns = 0
        return 0
    found = times.after(behind_ns)
    state.next_ns = 0 if found is None else found
    state.due_ns = 0 if found is None else found + schedule.spread_ns
    return 0


@cython.cfunc
def find_missed(schedule: Schedule, state: cython.pointer(ScheduleState), until_ns: int64_t) -> cython.Py_ssize_t:
    """Count the times from the next one up to a moment, MISSES_COUNTED at the most, and note the last one.

    That is found backwards from the moment.
    """
    times = schedule.times()
    at = state.next_ns
    latest = None if times is None else times.until(until_ns)
    if latest is None or latest < at:
        latest = at  # the zone is missing, or has other data than when this time was computed
    state.last_ns = latest
    count: cython.Py_ssize_t = 1
    while at is not None and at < latest and count < MISSES_COUNTED:
        at = times.after(at)
        count += 1
    return count


def miss_overdue(queue, schedule, state, wall_ns):
    """Count the times as missed that have come and not fired, for the schedule is paused or gets others now."""
    if not state.paused and state.due_ns and state.next_ns <= wall_ns:
        misses: cython.Py_ssize_t = find_missed(schedule, state, wall_ns)
        state.misses += misses
        queue.schedules.miss_count += misses
    return 0


# --- a tick -----------------------------------------------------------------------------------------------------------


def fire_due(queue, now_ns, most, changed):
    """Let the schedules fire that are due, as far as that takes no longer than `most` jobs that become ready.

    Return how many jobs become ready in that time, and add the tubes that have new jobs to `changed`.
    """
    table: ScheduleTable = queue.schedules
    wall_ns: int64_t = wall_of(queue, now_ns)
    spent: cython.Py_ssize_t = 0
    queue.schedules_at_ns = -1 if not table.names else now_ns + queue.wall_look_ns
    if wall_ns < table.latest_wall_ns - CLOCK_SET_NS:
        if table.doubted_ns == 0:
            table.doubted_ns = now_ns
        if now_ns - table.doubted_ns < DOUBT_NS:
            queue.schedules_at_ns = min(queue.schedules_at_ns, table.doubted_ns + DOUBT_NS)
            return 0
        table.latest_wall_ns = wall_ns
        table.clock_set_count += 1
        table.computed = b""
        queue.notice("the wall clock was set back by more than three hours: the next times of schedules follow it")
    table.doubted_ns = 0
    table.latest_wall_ns = max(table.latest_wall_ns, wall_ns)
    if queue.draining or queue.recounting:
        return 0  # the next server, or the next tick, finds what is late, or missed
    cost: cython.Py_ssize_t = 1
    while cost and table.heap.count and table.heap.entries[0].key <= wall_ns and spent < most:
        cost = fire(queue, now_ns, wall_ns, table, cython.cast(Schedule, table.heap.entries[0].item), changed)
        spent += cost
    if cost == 0:
        queue.schedules_at_ns = now_ns + (SECOND_NS if table.is_full else ROOM_RETRY_NS)
    elif table.heap.count:
        root_ns: int64_t = max(table.heap.entries[0].key - queue.wall_lead_ns, 0)
        queue.schedules_at_ns = min(queue.schedules_at_ns, root_ns)
    if table.computed is not None:
        spent += compute_again(queue, table, wall_ns, most - spent)
        queue.schedules_at_ns = min(queue.schedules_at_ns, now_ns + ROOM_RETRY_NS)
    return spent


@cython.cfunc
def compute_again(queue: Queue, table: ScheduleTable, wall_ns: int64_t, most: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Compute more of the next times that lie ahead once more; record those that have moved, if there is room."""
    state: ScheduleState
    schedule: Schedule
    spent: cython.Py_ssize_t = 0
    names: list = table.names_after(table.computed, COMPUTED_PER_TICK)
    for name in names:
        if spent >= most:
            return spent
        schedule = table.named(name)
        state = schedule.state
        was_wrong: cython.bint = state.last_ns > wall_ns + CLOCK_SET_NS
        table.computed = name
        spent += 1
        if not was_wrong and (state.due_ns <= wall_ns or state.paused):
            continue
        unread: cython.bint = not schedule.is_read
        spent += cost_of(schedule)
        if was_wrong:
            state.last_ns = 0
            set_next(schedule, cython.address(state), wall_ns)
        elif schedule.times() is not None:
            # A time that has passed and lies before the next one was over when the schedule was set, or went on.
            set_next(schedule, cython.address(state), max(min(wall_ns, state.next_ns - 1), state.last_ns))
        if was_wrong or state.next_ns != schedule.state.next_ns or state.due_ns != schedule.state.due_ns:
            table.set_state(schedule, cython.address(state))
            if queue.records.room_for_change(state_bytes(schedule)) == Room.OK:  # else its next record says it
                queue.records.schedule_fired(schedule, None)
        if unread:
            schedule.forget()  # for many fire seldom
    if len(names) < COMPUTED_PER_TICK:
        table.computed = None
    return spent


@cython.cfunc
def fire(
    queue: Queue, now_ns: int64_t, wall_ns: int64_t, table: ScheduleTable, schedule: Schedule, changed: list
) -> cython.Py_ssize_t:
    """Do what is due with a schedule, in this order: times that are missed, one that is skipped, a job.

    Return in which time that is done, as :func:`fire_due` does; 0: there is no room to record it.
    """
    state: ScheduleState = schedule.state
    cost: cython.Py_ssize_t = cost_of(schedule)
    size: int64_t = fired_bytes(schedule)
    room: cython.int = queue.records.room_for_put(size)  # a record without a job is smaller
    table.is_full = room == Room.FULL
    if room != Room.OK:
        return 0
    if state.due_ns == 0:
        if schedule.times() is None:
            table.place(schedule)
            return cost
        set_next(schedule, cython.address(state), state.next_ns)
        if state.due_ns == 0 or state.due_ns > wall_ns:
            record(queue, schedule, cython.address(state), None)
            return cost
    due_ns: int64_t = state.due_ns
    fires: cython.bint = True
    misses: cython.Py_ssize_t = 0
    state.last_ns = state.next_ns
    if wall_ns - due_ns > schedule.late_ns:
        fires = schedule.catch_up
        missed_ns: int64_t = wall_ns if fires else wall_ns - schedule.late_ns - 1
        misses = find_missed(schedule, cython.address(state), missed_ns - schedule.spread_ns)
        cost += MOVES_PER_MISS * misses
        misses -= fires
    skips: cython.bint = fires and is_held_back(queue, now_ns, schedule, changed)
    job: Job = None
    if fires and not skips:
        job = put_fired(queue, now_ns, schedule, state.last_ns, state.fires + 1)
        if job is None:
            table.is_full = True
            return 0
        changed.append(job.tube)
        state.fires += 1
        state.job = job.id
        table.fire_count += 1
        queue.server_times.schedule_late.add((wall_ns - due_ns) // 1_000)
        cost += size // BYTES_PER_MOVE
    state.skips += skips
    state.misses += misses
    table.skip_count += skips
    table.miss_count += misses
    set_next(schedule, cython.address(state), state.last_ns)
    record(queue, schedule, cython.address(state), job)
    return cost


# --- what becomes of it -----------------------------------------------------------------------------------------------


def record(queue, schedule, state, job):
    """Let a schedule have another state, and record it with the job that it has put."""
    queue.schedules.set_state(schedule, state)
    return queue.records.schedule_fired(schedule, job)


@cython.cfunc
def is_held_back(queue: Queue, now_ns: int64_t, schedule: Schedule, changed: list) -> cython.bint:
    """Whether a time is skipped: the last job of the schedule is not done, its space is full, or the key is taken."""
    if not schedule.overlap and schedule.state.job:
        job: Job = queue.jobs.find(schedule.state.job)
        if job is not None and job.tube.name == schedule.tube and not is_past(now_ns, job):
            return True
    return has_no_place(queue, schedule) or taken_key(queue, now_ns, schedule, changed) is not None


def has_no_place(queue, schedule):
    """Whether the space of the tube of a schedule, which is read, takes no more, or no such tube."""
    if queue.spaces is None:
        return False
    tube: Tube = queue.tube_named(schedule.tube)
    space: Space = queue.spaces.of(schedule.tube)
    if tube is None and queue.spaces.is_full(schedule.tube):
        return True
    return space is not None and lacks_room(space, 1, len(schedule.text) - schedule.body_at)


@cython.cfunc
def is_past(now_ns: int64_t, job: Job) -> cython.bint:
    """Whether nobody will do a job any more by itself: it is buried, dead, or its time to wait is over."""
    if job.state == State.BURIED or died_in(job) is not None:
        return True
    return job.flags & Flag.COUNTING != 0 and expiry_of(job) <= now_ns


def taken_key(queue, now_ns, schedule, changed):
    """Return the job that holds the key which the next job of a schedule, which is read, wants; or None."""
    if not schedule.key and queue.rules is None:
        return None
    tube: Tube = queue.tube_named(schedule.tube)
    holder: Job = None
    if schedule.key:
        holder = key_holder(queue, tube, schedule.key, len(schedule.key), False)
    elif tube is not None and tube.rules is not None and tube.rules.unique:
        holder = key_holder(queue, tube, body_of(schedule), len(schedule.text) - schedule.body_at, True)
    if holder is not None and holder.flags & Flag.COUNTING and ends(queue, now_ns, holder):
        changed.append(holder.tube)  # its time was over: it is gone, or dead there
        return None
    return holder


@cython.cfunc
@cython.exceptval(check=False)
def body_of(schedule: Schedule) -> cython.p_const_char:
    """Return where the body of the jobs of a schedule lies, which is read."""
    return cython.cast(cython.p_const_char, schedule.text) + schedule.body_at


def put_fired(queue, now_ns, schedule, at_ns, fire):
    """Put the job of a schedule, which is read; the caller records it. None: there is no memory for it."""
    tube: Tube = queue.open_tube(schedule.tube)
    body_bytes: cython.Py_ssize_t = len(schedule.text) - schedule.body_at
    tag_room: cython.Py_ssize_t = tags_asked(schedule) + rule_tags(tube.rules)
    job: Job = new_job(queue.next_job_id, tube, body_of(schedule), body_bytes, tag_room)
    if job is None:
        queue.drop_if_unused(tube)
        return None
    if schedule.key:
        give_key(job, schedule.key, len(schedule.key), schedule.until_reserve)
    elif tube.rules is not None and tube.rules.unique:
        give_body_key(job, tube.rules.unique_until_reserve)
    if schedule.expire_ns:
        give_expiry(job, schedule.expire_ns, ExpireBit.OWN)
    put_scheduled(job, at_ns, fire, schedule.name)
    job.pri = schedule.pri
    job.ttr_s = schedule.ttr_s
    add_new(queue, now_ns, job, schedule.delay_ns)
    return job
