"""The queue: commands and time go in, replies and records come out.

A command comes with the time and the session; the reply is in ``session.out`` when :meth:`Engine.apply` returns, unless
the session waits, or the command takes more than one turn: ``session.work`` goes on with it. Replies that somebody
else's command or the time brings about are written the same way, and the session is added to
:meth:`Engine.take_woken`.

Same inputs, same outputs: no clock, no randomness, no iteration over sets. Deadlines are moments of the engine's clock
in nanoseconds; what clients say in seconds is turned into them here. The comment at a command says what it does, the
protocol's text (doc/protocol.txt of beanstalkd) says why.

What keeps the invariants stands first: jobs, tubes, waiting lines and timers, and the moves between them. Then what
time does, then what commands do. The invariants:

- A job is in the job table and in exactly one heap, the one that its state names.
- No session waits while a tube that it watches, and that is not paused, has a ready job.
- ``timers`` names, for each tube and session that has something due, a moment that is not after it. It may be too
  early: a timer is armed when something becomes due sooner than it says, not when what was due goes away, so that
  reserve and delete don't touch it. A timer that fires early is armed again.
- Counts equal a recount.

When time passes several moments at once, every job that is due becomes ready first, then the sessions that wait get the
best of them, and only then is any of them answered that there is none.
"""

import heapq

import cython
from cython.cimports.beanpole.engine.commands import extension
from cython.cimports.beanpole.engine.commands.close_session import leave
from cython.cimports.beanpole.engine.commands.kick import kick, kick_job
from cython.cimports.beanpole.engine.commands.long_command import abandon, attend
from cython.cimports.beanpole.engine.commands.many import reply_one
from cython.cimports.beanpole.engine.commands.put import put
from cython.cimports.beanpole.engine.commands.report import report
from cython.cimports.beanpole.engine.commands.set_rules import attach
from cython.cimports.beanpole.engine.commands.tubes import ignore, pause, use, watch
from cython.cimports.beanpole.engine.policies import expiry, throttle
from cython.cimports.beanpole.engine.policies.attempts import (
    End,
    become_due,
    begin_attempt,
    come_back,
    come_due,
    count_begun,
    end_attempt,
    is_unsettled,
    take_back,
    waits_to_count,
)
from cython.cimports.beanpole.engine.policies.uniqueness import end_key, forget_key, keep_key, may_return, settle
from cython.cimports.beanpole.engine.state.ages import add_age, is_newest, remove_age
from cython.cimports.beanpole.engine.state.heap import Heap, Timed
from cython.cimports.beanpole.engine.state.job import Flag, Job, State
from cython.cimports.beanpole.engine.state.jobtable import JobTable
from cython.cimports.beanpole.engine.state.records import Records, Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.sessionlist import SessionList
from cython.cimports.beanpole.engine.state.tags import KeyBit
from cython.cimports.beanpole.engine.state.tally import Tally
from cython.cimports.beanpole.engine.state.times import ServerTimes
from cython.cimports.beanpole.engine.state.timing import note_held, note_reserved, note_wait
from cython.cimports.beanpole.engine.state.tube import Tube, Watch, can_serve, is_awaited
from cython.cimports.beanpole.engine.state.tubelist import TubeList
from cython.cimports.beanpole.engine.state.wide import add_wide, best_of, drop_wide, next_in_line, note_best
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t

from beanpole import limits
from beanpole.engine import limits as engine_limits

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
NEVER = cython.declare(int64_t, -1)
DEADLINE_MARGIN_NS = cython.declare(int64_t, engine_limits.DEADLINE_MARGIN_NS)
URGENT_PRI_BELOW = cython.declare(uint32_t, engine_limits.URGENT_PRI_BELOW)
MOVES_PER_TURN = cython.declare(cython.Py_ssize_t, engine_limits.MOVES_PER_TURN)
JOBS_PER_TICK = cython.declare(cython.Py_ssize_t, engine_limits.JOBS_PER_TICK)
FAILED_BYTES_PER_JOB = cython.declare(int64_t, engine_limits.FAILED_BYTES_PER_JOB)
ENDS_PER_TURN = cython.declare(cython.int, engine_limits.ENDS_PER_TURN)


@cython.cclass
class Engine:
    """One server's queue. The fields stand in ``engine.pxd``."""

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
        self.extensions = extensions
        self.wide_watches = wide_watches
        self.started_at_ns = now_ns
        self.facts = facts
        self.describe = lambda _owner: ""
        self.records = Records() if records is None else records
        self.jobs = JobTable()
        self.next_job_id = 1
        self.tubes = {}
        self.tubes_max = limits.TUBES_MAX
        self.listed = TubeList()
        self.tube_list = self.listed.tubes
        self.buckets = {}
        self.timers = Heap()
        self.moves_left = MOVES_PER_TURN
        self.server_times = ServerTimes()
        self.total = Tally()
        self.tallies = {}
        self.woken = []
        self.sessions = SessionList()
        self.default_tube = self.open_tube(b"default")

    # --- sessions -----------------------------------------------------------------------------------------------------

    def open_session(self, now_ns: int64_t, owner: object = None, own: cython.bint = False) -> Session:
        """Open a session that uses and watches ``default``; the server's own watch nothing, and are not counted."""
        session: Session = Session(self.sessions_opened_count, owner)
        self.sessions_opened_count += 1
        session.opened_at_ns = session.heard_at_ns = now_ns
        session.own = own
        session.used = self.default_tube
        self.sessions.add(session)
        if not own:
            self.total_session_count += 1
            self.session_count += 1
            self.add_watch(session, self.default_tube)
        self.count_use(session, 1)
        return session

    def close_session(self, now_ns: int64_t, session: Session) -> None:
        """Forget a session; the jobs that it holds become ready. Closing it again does nothing.

        If there are many, the ticks that follow go on with them.
        """
        if session.used is None:
            return
        self.now_ns = now_ns
        self.stop_waiting(session)
        leave(self, session)
        tube: Tube = session.used
        if session.work is not None:
            abandon(self, session)
        self.count_use(session, -1)
        session.used = None
        self.drop_if_unused(tube)
        if session.heap_index >= 0:
            self.timers.remove(session)
        self.sessions.remove(session)
        if not session.own:
            self.session_count -= 1
            self.producer_count -= session.producer
            self.worker_count -= session.worker
        session.owner = None

    def give_back(self) -> None:
        """Take back the attempts that are under way: the server stops or hands over, and nothing is wrong with them."""
        take_back(self)

    def take_woken(self) -> list[Session]:
        """Return the sessions that got a reply without a command since the last call, in order."""
        woken = self.woken
        self.woken = []
        return woken

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def heap_of(self, job):
        """Return the heap that a job's state puts it in."""
        if job.state == State.READY:
            return job.tube.ready
        if job.state == State.RESERVED:
            return job.holder.reserved
        if job.state == State.DELAYED:
            return job.tube.delayed
        return job.tube.buried

    def leave(self, job):
        """Take a job out of its state."""
        if job.flags & Flag.COUNTING:
            self.expiry.remove(job)
        self.heap_of(job).remove(job)
        self.state_counts[job.state] -= 1
        if job.state == State.RESERVED:
            note_held(self, job)
            job.tube.reserved_count -= 1
            job.holder = None
            if job.tube.closed:
                throttle.note_free(self, job.tube)
        elif job.state == State.READY:
            if not is_newest(cython.address(job.tube.ages), job.since_ns):
                remove_age(cython.address(job.tube.ages), job.since_ns)
            if job.pri < URGENT_PRI_BELOW:
                self.urgent_count -= 1
                job.tube.urgent_count -= 1
        return 0

    def enter(self, job, state, key):
        """Put a job that left its state into another one now; RESERVED wants `job.holder` set before."""
        return self.enter_at(job, state, key, self.now_ns)

    def enter_at(self, job, state, key, since_ns):
        """Put a job that left its state into another one, in which it is since some moment."""
        job.state = state
        job.since_ns = since_ns
        if job.flags:
            job.flags &= ~cython.cast(uint8_t, Flag.DUE | Flag.FAILED)
            keep_key(self, job)
            if job.flags & Flag.EXPIRES and (state == State.READY or state == State.DELAYED):
                expiry.follow_expiry(self, job)
        self.heap_of(job).push(job, key, job.id)
        self.state_counts[job.state] += 1
        if state == State.RESERVED:
            job.tube.reserved_count += 1
        elif state == State.READY:
            if not is_newest(cython.address(job.tube.ages), since_ns):
                add_age(cython.address(job.tube.ages), since_ns, job.tube.ready.count)
            if job.pri < URGENT_PRI_BELOW:
                self.urgent_count += 1
                job.tube.urgent_count += 1
        return 0

    def make_ready(self, job):
        """Make a job ready, whatever state it is in."""
        self.leave(job)
        return self.enter(job, State.READY, job.pri)

    def enter_after(self, now_ns, job, delay_ns):
        """Let a job that left its state be delayed, or ready where the delay is 0."""
        if delay_ns == 0:
            job.delay_s = 0
            return self.enter_at(job, State.READY, job.pri, now_ns)
        job.delay_s = delay_ns // SECOND_NS
        self.enter_at(job, State.DELAYED, now_ns + delay_ns, now_ns)
        return self.arm(job.tube, now_ns + delay_ns)

    def bury_job(self, job):
        """Make a job that left its state the last of the buried ones."""
        self.buried_so_far_count += 1
        if job.flags & Flag.EXPIRES:
            expiry.stop_expiry(job)
        return self.enter(job, State.BURIED, self.buried_so_far_count)

    def discard(self, job):
        """Delete a job, and its tube if nothing needs it any more."""
        self.leave(job)
        if job.flags:
            forget_key(self, job)
        self.records.job_deleted(job)
        self.jobs.remove(job)
        job.tube.body_bytes -= job.body_bytes
        return self.drop_if_unused(job.tube)

    def hold(self, now_ns, session, job):
        """Reserve a job for a session."""
        due_ns: int64_t = now_ns + job.ttr_s * SECOND_NS
        frees_key: cython.bint = job.flags & Flag.UNTIL_RESERVE
        records_key: cython.bint = frees_key and job.state == State.READY  # of others reserve-job records all
        if job.state == State.READY:
            note_reserved(self, job)
        self.leave(job)
        if frees_key:
            end_key(self, job, KeyBit.FREED)
        job.holder = session
        job.reserve_count += 1
        job.tube.total_reserve_count += 1
        self.enter_at(job, State.RESERVED, due_ns, now_ns)
        self.arm(session, due_ns)
        if job.tube.rules is not None:
            throttle.note_held(job.tube)
            begin_attempt(self, job)
        if records_key and self.records.room_for_timeout(job.tag_bytes):
            self.records.job_changed(job)
        if self.records.wants_reservations:
            self.records.job_reserved(job)
        return self.count_worker(session)

    def count_worker(self, session):
        """Count a session that reserves, once."""
        if not session.worker:
            session.worker = True
            self.worker_count += not session.own
        return 0

    def count_producer(self, session):
        """Count a session that puts, once."""
        if not session.producer:
            session.producer = True
            self.producer_count += not session.own
        return 0

    def take(self, now_ns, session, job):
        """Reserve the job that is next in its tube for a session."""
        if job.tube.rules is not None:
            throttle.take_token(self, now_ns, job.tube)
        return self.hold(now_ns, session, job)

    def reserve_for(self, now_ns, session, job):
        """Reserve the job that is next in its tube for a session, and reply with it."""
        self.take(now_ns, session, job)
        note_wait(self, session)
        session.read_index = self.records.index
        return session.out.body(Word.RESERVED, job.id, job.body, job.body_bytes)

    # --- tubes --------------------------------------------------------------------------------------------------------

    def tube_named(self, name):
        """Return the tube of a name, or None."""
        return self.tubes.get(name)

    def open_tube(self, name):
        """Return the tube of a name; make it where there is none."""
        tube: Tube = self.tubes.get(name)
        if tube is None:
            tube = Tube(name, self.tubes_created_count)
            self.tubes_created_count += 1
            self.tubes[name] = tube
            self.listed.add(tube)
            if self.rules is not None:
                attach(self, tube)
        return tube

    def too_many_tubes(self, name):
        """Whether a tube of this name would be one more than there may be."""
        return len(self.tube_list) >= self.tubes_max and name not in self.tubes

    def unused(self, tube):
        """Whether nobody uses or watches a tube, it has no job and no tags; ``default`` is never unused."""
        if tube.using_count or tube.watching_count or tube.reserved_count or tube is self.default_tube:
            return False
        return tube.tags is None and not (tube.ready.count or tube.delayed.count or tube.buried.count)

    def drop_if_unused(self, tube):
        """Forget a tube that is unused."""
        if not self.unused(tube):
            return 0
        if tube.heap_index >= 0:
            self.timers.remove(tube)
        if tube.rules is not None:
            throttle.keep_bucket(self, tube)
        self.server_times.tube_count -= tube.times is not None
        if tube.paused_until_ns:
            tube.pause(0, 0)
            self.records.tube_changed(tube)
        if self.tallies:
            self.tallies.pop(tube, None)
        del self.tubes[tube.name]
        self.listed.remove(tube)
        return 0

    def add_watch(self, session, tube):
        """Watch a tube that the session does not watch."""
        watch: Watch = Watch(session, tube)
        watch.index = len(session.watches)
        session.watches.append(watch)
        session.watch_of[tube] = watch
        tube.watching_count += 1
        if session.heads is not None or len(session.watches) > self.wide_watches:
            add_wide(session, watch)
        return 0

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
        return self.drop_if_unused(watch.tube)

    def switch_used(self, session, tube):
        """Use another tube."""
        before: Tube = session.used
        self.count_use(session, -1)
        session.used = tube
        self.count_use(session, 1)
        return self.drop_if_unused(before)

    def count_use(self, session, number):
        """Count that a session uses its tube, or does so no more; the server's own are not counted where they begin."""
        if not session.own or session.used is not self.default_tube:
            session.used.using_count += number
        return 0

    # --- waiting ------------------------------------------------------------------------------------------------------

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

    def stop_waiting(self, session):
        """Take a session out of the waiting lines."""
        if session.waiting:
            session.waiting = False
            session.wants_frame = False
            self.waiting_count -= not session.own
            if session.heads is None:
                for watch in session.watches:
                    cython.cast(Watch, watch, typecheck=True).tube.leave_waiting(watch)
        return 0

    def wake(self, session):
        """Let a session wait no more: a reply follows."""
        self.stop_waiting(session)
        self.woken.append(session)
        return 0

    def offer(self, now_ns, tube):
        """Hand a tube's ready jobs to the sessions that wait for them, the longest waiting first."""
        if self.opened is not None:
            return self.offer_all(now_ns, throttle.and_opened(self, [tube]))
        if tube.wide is not None:
            note_best(tube)
        passed: cython.int = 0
        while is_awaited(tube) and can_serve(tube) and expiry.may_offer(now_ns, tube, passed):
            session: Session = next_in_line(tube)
            if session is None:
                break
            cost: cython.int = expiry.end_cost(cython.cast(Job, tube.ready.entries[0].item))
            passed += 0 if self.serve(now_ns, tube, session) else cost
        return 0

    def serve(self, now_ns, tube, session):
        """Hand a tube's best job to a session that waits for one; False: its time was over, it is gone.

        After ENDS_PER_TURN of those a tube is left to the next tick, in which more of them go.
        """
        job: Job = cython.cast(Job, tube.ready.entries[0].item)
        if job.flags & Flag.COUNTING and expiry.is_over(self, now_ns, job):
            return False
        wants_frame: cython.bint = session.wants_frame
        self.wake(session)
        if wants_frame:
            reply_one(self, now_ns, session, job)
        else:
            self.reserve_for(now_ns, session, job)
        return True

    def offer_all(self, now_ns, tubes):
        """Hand out the ready jobs of several tubes, over all of them the smallest (pri, id) first."""
        tube: Tube
        heads = []
        for tube in dict.fromkeys(tubes):
            if tube.wide is not None:
                note_best(tube)
            if is_awaited(tube) and can_serve(tube):
                heads.append((tube.ready.entries[0].key, tube.ready.entries[0].tie, tube.number, tube))
        heapq.heapify(heads)
        passed: cython.int = 0
        while heads:
            tube = heapq.heappop(heads)[3]
            session: Session = next_in_line(tube) if can_serve(tube) else None
            if session is not None:
                cost: cython.int = expiry.end_cost(cython.cast(Job, tube.ready.entries[0].item))
                passed += 0 if self.serve(now_ns, tube, session) else cost
                if can_serve(tube) and expiry.may_offer(now_ns, tube, passed):
                    heapq.heappush(heads, (tube.ready.entries[0].key, tube.ready.entries[0].tie, tube.number, tube))
        return 0

    # --- timers -------------------------------------------------------------------------------------------------------

    def arm(self, timed, due_ns):
        """Let the timer of a tube or a session fire at `due_ns`, or before."""
        if timed.heap_index < 0:
            self.timers.push(timed, due_ns, timed.number)
        elif self.timers.entries[timed.heap_index].key > due_ns:
            self.timers.move(timed, due_ns)
        return 0

    def deadline(self):
        """Return the moment of the next tick that has something to do, or -1."""
        if self.unsettled is not None or self.unattended is not None:
            return self.started_at_ns
        due_ns: int64_t = self.timers.entries[0].key if self.timers.count else NEVER
        if self.uncounted is not None and (due_ns < 0 or self.uncounted_until_ns < due_ns):
            return self.uncounted_until_ns
        return due_ns

    @property
    def next_deadline_ns(self) -> int:
        """The engine-clock moment by which :meth:`tick` should be called again; -1: nothing is due."""
        return self.deadline()

    def deadline_soon(self, now_ns, session):
        """Whether a job that the session holds is in its last second."""
        return session.reserved.count and now_ns >= session.reserved.entries[0].key - DEADLINE_MARGIN_NS

    def tick(self, now_ns: int64_t) -> int:
        """Do what is due: delayed jobs, reservations, pauses, sessions that wait, and what those left that are closed.

        Return how many jobs and pauses that were: at most JOBS_PER_TICK, MOVES_PER_TURN of them from closed sessions,
        which until the next tick share what is left. If more is due, `next_deadline_ns` stays in the past.
        """
        self.now_ns = now_ns
        self.moves_left = MOVES_PER_TURN
        if self.unsettled is not None:
            settle(self)
        if self.uncounted is not None and self.uncounted_until_ns <= now_ns:
            count_begun(self, now_ns)
        if self.unattended is not None:
            attend(self)
        moved: cython.Py_ssize_t = MOVES_PER_TURN - self.moves_left
        if self.timers.count and self.timers.entries[0].key <= now_ns:
            moved += self.run_timers(now_ns, JOBS_PER_TICK - moved)
            self.moves_left = min(self.moves_left, JOBS_PER_TICK - moved)
        return moved

    def run_timers(self, now_ns, most):
        """Run the timers that are due: first `most` jobs that become ready, then the sessions that wait for one.

        Return how many jobs and pauses that were; a job that is written whole counts as several.
        """
        timed: Timed
        changed = []
        waiting = []
        while self.timers.count and self.timers.entries[0].key <= now_ns and len(changed) < most:
            timed = cython.cast(Timed, self.timers.entries[0].item)
            self.timers.remove(timed)
            self.run_timer(now_ns, timed, changed, most)
            due_ns: int64_t = timed.next_due_ns()
            if due_ns >= 0:
                self.arm(timed, due_ns)
            if timed.waiting:
                waiting.append(timed)
        self.offer_all(now_ns, throttle.and_opened(self, changed))
        for session in waiting:
            if cython.cast(Session, session, typecheck=True).waiting:
                self.answer_waiting(now_ns, session)
        return len(changed)

    def run_timer(self, now_ns, timed, changed, most):
        """End a pause, delays and reservations as far as they are over; add the tubes that this changes."""
        job: Job
        if timed.end_pause(now_ns):
            self.records.pause_ended(cython.cast(Tube, timed, typecheck=True))
            changed.append(timed)
        if timed.take_in_tokens(now_ns, self.started_at_ns):
            changed.append(timed)
        while len(changed) < most:
            job = timed.due_job(now_ns)
            if job is None:
                return 0
            changed.append(job.tube)
            if job.state == State.RESERVED:
                self.end_time_to_run(now_ns, job, changed)
            elif job.tag_bytes or job.flags:
                written: int64_t = come_due(self, now_ns, job)
                changed += [job.tube] * ((written > 0) + written // FAILED_BYTES_PER_JOB)
            else:
                become_due(self, job)
            if job.tube is not changed[len(changed) - 1]:
                changed.append(job.tube)  # in which it died
        return 0

    def end_time_to_run(self, now_ns, job, changed):
        """Let a job come back whose time to run is over. One that dies counts as several, for it is written whole."""
        self.timeout_count += 1
        job.timeout_count += 1
        job.tube.total_timeout_count += 1
        if job.tube.rules is not None or job.tag_bytes:
            written: int64_t = come_back(self, now_ns, job, End.TIMED_OUT, 0, False)
            changed += [job.tube] * (written // FAILED_BYTES_PER_JOB)
            return 0
        self.make_ready(job)
        return self.records.job_changed(job) if self.records.room_for_timeout(0) else 0

    def answer_waiting(self, now_ns, session):
        """Answer a session that has waited for something other than a job; else arm its timer again."""
        if self.deadline_soon(now_ns, session):
            self.wake(session)
            return session.out.word(Word.DEADLINE_SOON)
        if session.half_closed or 0 <= session.wait_until_ns <= now_ns:
            self.wake(session)
            return session.out.word(Word.TIMED_OUT)
        return self.wait(session, session.wait_until_ns)

    def half_close(self, now_ns, session):
        """Record that no more input can come: the session can't wait any more."""
        session.half_closed = True
        if session.waiting:
            self.answer_waiting(now_ns, session)
        return 0

    # --- commands -----------------------------------------------------------------------------------------------------

    def apply(self, now_ns, session, command):
        """Run one command of a session that does not wait.

        Return AGAIN when nothing has happened, not even a count, and the same command is to run in the next turn. Raise
        ValueError when the session is closed or waits.
        """
        if command is None or session is None or session.used is None or session.waiting:
            # Python code may call this too, and what follows takes these for granted: it would read memory at random.
            raise ValueError("a command needs a session that is open and does not wait")
        session.heard_at_ns = now_ns
        session.last_verb = cython.cast(cython.int, command.verb)
        self.now_ns = now_ns
        outcome: cython.int = self.run(now_ns, session, command)
        if self.opened is not None:
            self.offer_all(now_ns, throttle.and_opened(self, []))
        return outcome

    def run(self, now_ns, session, command):
        """Run one command, as :meth:`apply` says."""
        verb: Verb = command.verb
        if verb == Verb.PUT:
            return put(self, now_ns, session, command)
        if (
            verb in (Verb.RESERVE, Verb.RESERVE_WITH_TIMEOUT, Verb.RESERVE_JOB, Verb.TOUCH)
            and self.records.backlog_full()
        ):  # even if no job is ready: a session that waits gets the next job without sending another command
            return Outcome.AGAIN
        self.command_counts[cython.cast(cython.int, command.counted)] += 1
        if verb == Verb.RESERVE:
            return self.reserve(now_ns, session, NEVER)
        if verb == Verb.DELETE:
            return self.delete(session, command.id)
        if verb == Verb.RESERVE_WITH_TIMEOUT:
            return self.reserve(now_ns, session, now_ns + command.timeout_s * SECOND_NS)
        if verb == Verb.RELEASE:
            return self.release(now_ns, session, command)
        if verb == Verb.BURY:
            return self.bury(now_ns, session, command)
        if verb == Verb.TOUCH:
            return self.touch(now_ns, session, command.id)
        if verb == Verb.USE:
            return use(self, session, command.tube)
        if verb == Verb.WATCH:
            return watch(self, session, command.tube)
        if verb == Verb.IGNORE:
            return ignore(self, session, command.tube)
        if verb == Verb.KICK:
            return kick(self, now_ns, session, command.bound)
        if verb == Verb.KICK_JOB:
            return kick_job(self, now_ns, session, command.id)
        if verb == Verb.RESERVE_JOB:
            return self.reserve_job(now_ns, session, command.id)
        if verb == Verb.PAUSE_TUBE:
            return pause(self, now_ns, session, command)
        if verb == Verb.QUIT:
            session.quitting = True
            return 0
        if verb > Verb.EXPECTED_CRLF:
            return extension.apply(self, now_ns, session, command)
        return report(self, now_ns, session, command)

    def reserve(self, now_ns, session, until_ns):
        """reserve: the ready job of the smallest (pri, id) in the watched tubes that are not paused, or wait."""
        self.count_worker(session)
        left: cython.int = ENDS_PER_TURN
        while left > 0:
            best: Heap = best_of(session, cython.address(left))
            if best is None:
                break
            job: Job = cython.cast(Job, best.entries[0].item)
            cost: cython.int = expiry.end_cost(job)
            if not (job.flags & Flag.COUNTING and expiry.is_over(self, now_ns, job)):
                return self.reserve_for(now_ns, session, job)
            left -= cost
        if left <= 0:
            verb: Verb = Verb.RESERVE if until_ns == NEVER else Verb.RESERVE_WITH_TIMEOUT
            self.command_counts[cython.cast(cython.int, verb)] -= 1
            return Outcome.AGAIN
        if self.deadline_soon(now_ns, session):
            return session.out.word(Word.DEADLINE_SOON)
        if session.half_closed or until_ns == now_ns:
            return session.out.word(Word.TIMED_OUT)
        return self.wait(session, until_ns)

    def reserve_job(self, now_ns, session, id):
        """reserve-job: a job by its id, unless somebody holds it."""
        job: Job = self.jobs.find(id)
        if (
            job is None
            or job.state == State.RESERVED
            or (job.state == State.DELAYED and is_unsettled(job))
            or (job.flags and (not may_return(self, job) or expiry.is_over(self, now_ns, job)))
        ):
            return self.not_found(session)
        changes: cython.bint = job.state != State.READY
        if changes and self.records.room_for_change(job.tag_bytes) != Room.OK:
            return self.no_room(session, Verb.RESERVE_JOB, job.tag_bytes)
        if job.flags & Flag.EXPIRES and job.state == State.BURIED:
            expiry.count_expiry(job, now_ns)
        self.hold(now_ns, session, job)
        session.read_index = self.records.index
        session.out.body(Word.RESERVED, job.id, job.body, job.body_bytes)
        if changes:
            # When it comes back it is ready, whatever it was: now or, should the server end here, at the next start.
            self.records.job_changed(job)
            session.read_index = self.records.index
        return 0

    def no_room(self, session, verb, size):
        """Refuse a change that finds no room, or let it run again, uncounted, while compaction makes some."""
        if self.records.room_for_change(size) == Room.FULL:
            return session.out.word(Word.OUT_OF_MEMORY)
        self.command_counts[cython.cast(cython.int, verb)] -= 1
        return Outcome.AGAIN

    def not_found(self, session):
        """NOT_FOUND: nobody may read it before what took the job away is durable."""
        session.read_index = self.records.index
        return session.out.word(Word.NOT_FOUND)

    def delete(self, session, id):
        """delete: a job in any state, unless another session holds it."""
        return session.out.word(Word.DELETED) if self.delete_job(session, id) else self.not_found(session)

    def delete_job(self, session, id):
        """Delete a job for a session; False: it has none of this id that it may delete."""
        job: Job = self.jobs.find(id)
        if job is None or (job.state == State.RESERVED and job.holder is not session):
            return False
        job.tube.delete_count += 1
        self.discard(job)
        return True

    def tally(self, tube, count, number):
        """Count something that an extension has done to jobs of a tube, which may have been forgotten by it."""
        self.total.add(count, number)
        if self.tubes.get(tube.name) is tube:
            tally: Tally = self.tallies.get(tube)
            if tally is None:
                tally = self.tallies[tube] = Tally()
            tally.add(count, number)
        return 0

    def release(self, now_ns, session, command):
        """release: a held job becomes ready or delayed."""
        job: Job = self.jobs.find(command.id)
        if job is None or job.holder is not session:
            return self.not_found(session)
        if job.flags and expiry.ends(self, now_ns, job):
            session.out.word(Word.RELEASED)
            return self.offer(now_ns, job.tube)
        if self.records.room_for_change(job.tag_bytes) != Room.OK or waits_to_count(self, job):
            return self.no_room(session, Verb.RELEASE, job.tag_bytes)
        job.pri = command.pri
        job.release_count += 1
        job.tube.total_release_count += 1
        written: int64_t = come_back(self, now_ns, job, End.RELEASED, command.delay_ns, False)
        session.moved_count += written // FAILED_BYTES_PER_JOB
        session.out.word(Word.RELEASED)
        return self.offer(now_ns, job.tube)

    def bury(self, now_ns, session, command):
        """bury: a held job is put aside."""
        job: Job = self.jobs.find(command.id)
        if job is None or job.holder is not session:
            return self.not_found(session)
        if self.records.room_for_change(job.tag_bytes) != Room.OK:
            return self.no_room(session, Verb.BURY, job.tag_bytes)
        self.leave(job)
        job.pri = command.pri
        job.bury_count += 1
        job.tube.total_bury_count += 1
        if job.tag_bytes:
            end_attempt(job)
        self.bury_job(job)
        self.records.job_changed(job)
        return session.out.word(Word.BURIED)

    def touch(self, now_ns, session, id):
        """touch: the TTR of a held job starts again."""
        return session.out.word(Word.TOUCHED) if self.touch_job(now_ns, session, id) else self.not_found(session)

    def touch_job(self, now_ns, session, id):
        """Touch a job for a session; False: it holds none of this id."""
        job: Job = self.jobs.find(id)
        if job is None or job.holder is not session:
            return False
        due_ns: int64_t = now_ns + job.ttr_s * SECOND_NS
        session.reserved.move(job, due_ns)
        self.arm(session, due_ns)  # change-job may have made the time shorter
        if self.records.wants_reservations:
            self.records.job_reserved(job)
        return True
