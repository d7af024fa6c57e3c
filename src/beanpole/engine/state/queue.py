"""The state of the queue: jobs, tubes, sessions, waiting lines and timers, and the moves between them.

What becomes of a job beyond that is the policies' business: where they have something to do with a move, it calls one
of five methods (``on_enter`` and its sisters), which an engine overrides. The invariants:

- A job is in the job table and in exactly one heap, the one that its state names.
- ``timers`` names, for each tube and session that has something due, a moment that is not after it. It may be too
  early: a timer is armed when something becomes due sooner than it says, not when what was due goes away, so that
  reserve and delete don't touch it. A timer that fires early is armed again.
- Counts equal a recount.
"""

import cython
from cython.cimports.beanpole.engine.state.failures import Failures, enter_counts, leave_counts
from cython.cimports.beanpole.engine.state.groupjobs import group_of, is_next, ready_count
from cython.cimports.beanpole.engine.state.groups import (
    choose,
    close_groups,
    end_in_group,
    enter_group,
    leave_group,
    open_groups,
    recall,
)
from cython.cimports.beanpole.engine.state.heap import Heap, entry_of
from cython.cimports.beanpole.engine.state.job import Flag, State, holder_of
from cython.cimports.beanpole.engine.state.jobtable import JobTable
from cython.cimports.beanpole.engine.state.records import Records, Room
from cython.cimports.beanpole.engine.state.schedule import ScheduleTable
from cython.cimports.beanpole.engine.state.session import SessionList, add_wide, drop_wide, told_of
from cython.cimports.beanpole.engine.state.times import ServerTimes, Tally, add_age, is_newest, remove_age
from cython.cimports.beanpole.engine.state.tube import Buckets, Tube, Watch, note_bodies
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import UINT64_MAX, int64_t, uint8_t, uint32_t

from beanpole import limits
from beanpole.engine import limits as engine_limits
from beanpole.protocol.extensions import FORMAT_NEWEST

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
NEVER = cython.declare(int64_t, -1)
DEADLINE_MARGIN_NS = cython.declare(int64_t, engine_limits.DEADLINE_MARGIN_NS)
URGENT_PRI_BELOW = cython.declare(uint32_t, engine_limits.URGENT_PRI_BELOW)
TOLD_NS = cython.declare(int64_t, engine_limits.TOLD_NS)
MOVES_PER_TURN = cython.declare(cython.Py_ssize_t, engine_limits.MOVES_PER_TURN)


@cython.cclass
class Queue:
    """One server's queue, of which an engine is made. The fields stand in ``queue.pxd``."""

    def __init__(
        self,
        body_bytes_max: cython.Py_ssize_t = limits.BODY_BYTES_MAX_DEFAULT,
        now_ns: int64_t = 0,
        facts: Callable[[], Mapping[str, str]] = dict,
        records: Records = None,
        extensions: cython.bint = True,
        wide_watches: cython.Py_ssize_t = engine_limits.WIDE_WATCHES,
    ):
        self.body_bytes_max = body_bytes_max
        self.extensions = FORMAT_NEWEST if extensions else 0
        self.wide_watches = wide_watches
        self.started_at_ns = now_ns
        self.facts = facts
        self.describe = lambda _owner: ""
        self.via = lambda _owner: ""
        self.notice = lambda _text: None
        self.records = Records() if records is None else records
        self.jobs = JobTable()
        self.failures = Failures()
        self.holders = {}
        self.next_job_id = 1
        self.shard = ()
        self.ids_looked_at = UINT64_MAX
        self.tubes = {}
        self.tubes_max = limits.TUBES_MAX
        self.tube_list = []
        self.schedules_at_ns = NEVER
        self.wall_look_ns = engine_limits.WALL_LOOK_NS
        self.schedules_max = limits.SCHEDULES_MAX
        self.once_max = limits.ONCE_MAX
        self.buckets = Buckets()
        self.timers = Heap()
        self.moves_left = MOVES_PER_TURN
        self.server_times = ServerTimes()
        self.total = Tally()
        self.tallies = {}
        self.woken = []
        self.sessions = SessionList()
        self.takes_clients = True
        self.default_tube = self.open_tube(b"default")

    # --- jobs ---------------------------------------------------------------------------------------------------------

    @cython.final
    def heap_of(self, job):
        """Return the heap that a job's state puts it in."""
        if job.state == State.READY:
            if job.tube.groups is None or is_next(job):
                return job.tube.ready
            return group_of(job).ready
        if job.state == State.RESERVED:
            return holder_of(job).reserved
        if job.state == State.DELAYED:
            return job.tube.delayed
        return job.tube.buried

    @cython.final
    def leave(self, job):
        """Take a job out of its state."""
        leave_counts(self.failures, job)
        if job.flags & Flag.COUNTING:
            self.expiry.remove(job)
        if job.tube.groups is None:
            self.heap_of(job).remove(job)
        else:
            self.leave_of_group(job)
        self.state_counts[job.state] -= 1
        if job.state == State.RESERVED:
            note_held(self, job)
            job.tube.reserved_count -= 1
            job.place.holder = cython.NULL
            if job.tube.closed:
                self.on_free(job)
        elif job.state == State.READY:
            if not is_newest(cython.address(job.tube.ages), job.since_ns):
                remove_age(cython.address(job.tube.ages), job.since_ns)
            if job.pri < URGENT_PRI_BELOW:
                self.urgent_count -= 1
                job.tube.urgent_count -= 1
        return 0

    @cython.final
    def enter(self, job, state, key):
        """Put a job that left its state into another one now; RESERVED wants its holder set before."""
        return self.enter_at(job, state, key, self.now_ns)

    @cython.final
    def enter_at(self, job, state, key, since_ns):
        """Put a job that left its state into another one, in which it is since some moment."""
        job.state = state
        job.since_ns = since_ns
        if job.flags:
            job.flags &= ~cython.cast(uint8_t, Flag.DUE | Flag.FAILED)
            self.on_enter(job)
            if job.flags & Flag.GROUPED and job.tube.groups is None:
                open_groups(job.tube, self.buckets, self.now_ns, self.started_at_ns)
        if job.tube.groups is None:
            self.heap_of(job).push(job, key, job.id)
        else:
            self.enter_of_group(job, state, key)
        enter_counts(self.failures, job)
        self.state_counts[job.state] += 1
        if state == State.RESERVED:
            job.tube.reserved_count += 1
        elif state == State.READY:
            if not is_newest(cython.address(job.tube.ages), since_ns):
                add_age(cython.address(job.tube.ages), since_ns, ready_count(job.tube))
            if job.pri < URGENT_PRI_BELOW:
                self.urgent_count += 1
                job.tube.urgent_count += 1
        return 0

    @cython.final
    def leave_of_group(self, job):
        """Take a job of a tube with groups out of its state."""
        tube: Tube = job.tube
        had_next: cython.bint = tube.ready.count != 0
        recall(tube)
        if job.state != State.READY:
            self.heap_of(job).remove(job)
        leave_group(tube, job, self.now_ns, self.started_at_ns)
        return self.settle_next(tube, had_next)

    @cython.final
    def enter_of_group(self, job, state, key):
        """Put a job of a tube with groups into a state."""
        tube: Tube = job.tube
        had_next: cython.bint = tube.ready.count != 0
        recall(tube)
        if state != State.READY:
            self.heap_of(job).push(job, key, job.id)
        enter_group(tube, job, state, self.now_ns, self.started_at_ns)
        return self.settle_next(tube, had_next or state == State.READY)  # whoever makes a job ready offers its tube

    @cython.final
    def end_of_group(self, job):
        """Let a job that left its state, and leaves its tube, have ended in its group."""
        tube: Tube = job.tube
        had_next: cython.bint = tube.ready.count != 0
        recall(tube)
        end_in_group(tube, job, self.now_ns)
        self.settle_next(tube, had_next)
        if len(tube.groups.by_name) > 1:
            return 0
        close_groups(tube)
        return self.note_told(tube)

    @cython.final
    def settle_next(self, tube, is_offered):
        """Let a tube with groups have its next job; note that it is open if nobody offers that.

        Sessions that watch many tubes are told when another job is next: it may be a better one.
        """
        choose(tube, self.now_ns, self.started_at_ns)
        if tube.groups.timed.count:
            self.arm(tube, tube.next_due_ns())
        return self.note_opened(tube) if tube.ready.count and (tube.wide is not None or not is_offered) else 0

    @cython.final
    def note_opened(self, tube):
        """Note a tube that may give jobs again."""
        if self.opened is None:
            self.opened = []
        self.opened.append(tube)
        return 0

    @cython.final
    def make_ready(self, job):
        """Make a job ready, whatever state it is in."""
        self.leave(job)
        return self.enter(job, State.READY, job.pri)

    @cython.final
    def enter_after(self, now_ns, job, delay_ns):
        """Let a job that left its state be delayed, or ready where the delay is 0."""
        if delay_ns == 0:
            job.delay_s = 0
            return self.enter_at(job, State.READY, job.pri, now_ns)
        job.delay_s = delay_ns // SECOND_NS
        self.enter_at(job, State.DELAYED, now_ns + delay_ns, now_ns)
        return self.arm(job.tube, now_ns + delay_ns)

    @cython.final
    def discard(self, job):
        """Delete a job, and its tube if nothing needs it any more."""
        self.leave(job)
        if job.tube.groups is not None:
            self.end_of_group(job)
        if job.flags:
            self.on_discard(job)
        self.records.job_deleted(job)
        self.jobs.remove(job)
        note_bodies(job.tube, -1, -cython.cast(int64_t, job.body_bytes))
        return self.drop_if_unused(job.tube)

    @cython.final
    def count_producer(self, session):
        """Count a session that puts, once."""
        if not session.producer:
            session.producer = True
            self.producer_count += not session.own
        return 0

    @cython.final
    def count_worker(self, session):
        """Count a session that reserves, once."""
        if not session.worker:
            session.worker = True
            self.worker_count += not session.own
        return 0

    # --- tubes --------------------------------------------------------------------------------------------------------

    @cython.final
    def tube_named(self, name):
        return self.tubes.get(name)

    @cython.final
    def open_tube(self, name):
        """Return the tube of a name; make it where there is none."""
        tube: Tube = self.tubes.get(name)
        if tube is None:
            tube = Tube(name, self.tubes_created_count)
            self.tubes_created_count += 1
            self.tubes[name] = tube
            tube.list_index = len(self.tube_list)
            self.tube_list.append(tube)
            if self.rules is not None:
                self.on_open(tube)
            if self.spaces is not None:
                self.spaces.enter(tube, 0)
        return tube

    @cython.final
    def too_many_tubes(self, name):
        if name in self.tubes:
            return False
        return len(self.tube_list) >= self.tubes_max or (self.spaces is not None and self.spaces.is_full(name))

    @cython.final
    def unused(self, tube):
        """Whether nobody uses or watches a tube, it has no job, paused group or tags; ``default`` is never unused."""
        if tube.using_count or tube.watching_count or tube.reserved_count or tube is self.default_tube:
            return False
        if tube.tags is not None or ready_count(tube) or tube.delayed.count or tube.buried.count:
            return False
        return tube.groups is None or tube.groups.paused_count == 0

    @cython.final
    def drop_if_unused(self, tube):
        """Forget a tube that is unused."""
        if not self.unused(tube):
            return 0
        if tube.heap_index >= 0:
            self.timers.remove(tube)
        if tube.rules is not None:
            self.on_drop(tube)
        if tube.space is not None:
            tube.space.tube_count -= 1
        self.server_times.tube_count -= tube.times is not None
        if tube.paused_until_ns:
            tube.pause(0, 0)
            self.records.tube_changed(tube)
        if self.tallies:
            self.tallies.pop(tube, None)
        del self.tubes[tube.name]
        last: Tube = self.tube_list.pop()
        if last is not tube:  # which gives its place to the last one
            last.list_index = tube.list_index
            self.tube_list[tube.list_index] = last
        return 0

    @cython.final
    def add_watch(self, session, tube):
        """Watch a tube that the session does not watch."""
        watch: Watch = Watch(session, tube)
        watch.index = len(session.watches)
        session.watches.append(watch)
        session.watch_of[tube] = watch
        tube.watching_count += 1
        if tube.hidden:
            session.standing.hidden_count += 1
        if session.heads is not None or len(session.watches) > self.wide_watches:
            add_wide(session, watch)
        return 0

    @cython.final
    def drop_watch(self, session, watch):
        """Stop watching a tube; the session's last watch takes its place in the list."""
        last: Watch = session.watches.pop()
        if last is not watch:
            last.index = watch.index
            session.watches[watch.index] = last
        del session.watch_of[watch.tube]
        if session.heads is not None:
            drop_wide(session, watch)
        watch.tube.watching_count -= 1
        if watch.tube.hidden:
            session.standing.hidden_count -= 1
        return self.drop_if_unused(watch.tube)

    @cython.final
    def switch_used(self, session, tube):
        """Use another tube."""
        before: Tube = session.used
        self.count_use(session, -1)
        session.used = tube
        self.count_use(session, 1)
        return self.drop_if_unused(before)

    @cython.final
    def count_use(self, session, number):
        """Count that a session uses its tube, or does so no more; the server's own are not counted where they begin."""
        if not session.own or session.used is not self.default_tube:
            session.used.using_count += number
        return 0

    @cython.final
    def tally(self, tube, count, number):
        """Count something that an extension has done to jobs of a tube, which may have been forgotten by it."""
        self.total.add(count, number)
        if self.tubes.get(tube.name) is tube:
            tally: Tally = self.tallies.get(tube)
            if tally is None:
                tally = self.tallies[tube] = Tally()
            tally.add(count, number)
        return 0

    # --- waiting ------------------------------------------------------------------------------------------------------

    @cython.final
    def wait(self, session, until_ns):
        """Let a session wait for a job, or go on waiting; until -1 is for ever."""
        if not session.waiting:
            session.waiting = True
            session.wait_number = self.waits_begun_count
            self.waits_begun_count += 1
            self.waiting_count += not session.own
            if session.heads is None:
                for watch in session.watches:
                    cython.cast(Watch, watch, typecheck=True).tube.join_waiting(watch)
        session.wait_until_ns = until_ns
        if until_ns >= 0:
            self.arm(session, until_ns)
        if session.reserved.count:
            self.arm(session, session.reserved.entries[0].key - DEADLINE_MARGIN_NS)
        return 0

    @cython.final
    def stop_waiting(self, session):
        """Take a session out of the waiting lines."""
        if session.waiting:
            session.waiting = False
            self.waiting_count -= not session.own
            if session.heads is None:
                for watch in session.watches:
                    cython.cast(Watch, watch, typecheck=True).tube.leave_waiting(watch)
        return 0

    @cython.final
    def wake(self, session):
        """Let a session wait no more: a reply follows."""
        self.stop_waiting(session)
        self.woken.append(session)
        return 0

    @cython.final
    def tell(self, session, tube):
        """Tell a session of a tube: one of its jobs is left to it until it says something, or its time is over."""
        session.told_at = 1 + cython.cast(Watch, session.watch_of[tube], typecheck=True).index
        tube.told_count += 1
        session.wait_until_ns = self.now_ns + TOLD_NS
        self.arm(session, session.wait_until_ns)
        return session.out.number(Word.JOBS, 0)

    @cython.final
    def end_told(self, session):
        """Leave a job to a session no longer that was told of it; whoever runs this offers what was opened."""
        tube: Tube = told_of(session)
        session.told_at = 0
        tube.told_count -= 1
        return self.note_opened(tube)

    @cython.final
    def note_told(self, tube):
        """Note a tube that groups or limits may close no longer: more of its jobs can be offered than one at a time."""
        return self.note_opened(tube) if tube.told_count else 0

    @cython.final
    def deadline_soon(self, now_ns, session):
        """Whether a job that the session holds is in its last second."""
        return session.reserved.count and now_ns >= session.reserved.entries[0].key - DEADLINE_MARGIN_NS

    # --- timers -------------------------------------------------------------------------------------------------------

    @cython.final
    def arm(self, timed, due_ns):
        """Let the timer of a tube or a session fire at `due_ns`, or before."""
        if timed.heap_index < 0:
            self.timers.push(timed, due_ns, timed.number)
        elif entry_of(self.timers, timed).key > due_ns:
            self.timers.move(timed, due_ns)
        return 0

    @cython.final
    def count_command(self, verb, count):
        """Count a command, which has run `count` times."""
        self.command_counts[verb] += count
        self.command_count += count

    @cython.final
    def deadline(self):
        """Return the moment of the next tick that has something to do, or -1."""
        if self.unsettled is not None or self.unattended is not None or self.opened is not None:
            return self.started_at_ns
        due_ns: int64_t = self.timers.entries[0].key if self.timers.count else NEVER
        if self.schedules_at_ns >= 0 and (due_ns < 0 or self.schedules_at_ns < due_ns):
            due_ns = self.schedules_at_ns
        if self.group_pauses is not None and self.group_pauses.count:
            pause_ns: int64_t = self.group_pauses.entries[0].key
            due_ns = pause_ns if due_ns < 0 else min(due_ns, pause_ns)
        if self.once is not None and self.once.count:
            due_ns = self.once.look_at_ns if due_ns < 0 else min(due_ns, self.once.look_at_ns)
        if self.uncounted is not None and (due_ns < 0 or self.uncounted_until_ns < due_ns):
            return self.uncounted_until_ns
        return due_ns

    @cython.final
    def schedule_table(self):
        """Return the table of schedules; make it where there is none."""
        if self.schedules is None:
            self.schedules = ScheduleTable()
        return self.schedules

    # --- replies ------------------------------------------------------------------------------------------------------

    @cython.final
    def no_room(self, session, room):
        """Refuse a change that finds no room, or let it run again while compaction makes some."""
        if room == Room.FULL:
            return session.out.word(Word.OUT_OF_MEMORY)
        return Outcome.AGAIN

    @cython.final
    def not_found(self, session):
        """NOT_FOUND: nobody may read it before what took the job away is durable."""
        session.read_index = self.records.index
        return session.out.word(Word.NOT_FOUND)

    # --- what an engine adds ------------------------------------------------------------------------------------------

    def on_enter(self, job):
        return 0

    def on_discard(self, job):
        return 0

    def on_free(self, job):
        return 0

    def on_open(self, tube):
        return 0

    def on_drop(self, tube):
        return 0
