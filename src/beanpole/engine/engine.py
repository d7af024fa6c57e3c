"""The queue: commands and time go in, replies and records come out.

A command comes with the time and the session; the reply is in ``session.out`` when :meth:`Engine.apply` returns, unless
the session waits, or the command takes more than one turn: ``session.work`` goes on with it. Replies that somebody
else's command or the time brings about are written the same way, and the session is added to
:meth:`Engine.take_woken`.

Same inputs, same outputs: no clock, no randomness, no iteration over sets. Deadlines are moments of the engine's clock
in nanoseconds; what clients say in seconds is turned into them here. The comment at a command says what it does, the
protocol's text (doc/protocol.txt of beanstalkd) says why.

What there is and its invariants stand in ``state/queue.py``, of which this is the top: when sessions come and go, what
time does, and that each command runs by its row (``commands/table.py``).

When time passes several moments at once, every job that is due becomes ready first, then the sessions that wait get the
best of them, and only then is any of them answered that there is none.
"""

import cython
from cython.cimports.beanpole.engine.commands.hiding import begin_renewal, begin_standing
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, abandon, attend, leave_to_ticks
from cython.cimports.beanpole.engine.commands.rights import Verdict, ask, may_at_once, subject_of
from cython.cimports.beanpole.engine.commands.serve import offer_all, offer_opened
from cython.cimports.beanpole.engine.commands.table import rows
from cython.cimports.beanpole.engine.commands.tubes import begin_recount
from cython.cimports.beanpole.engine.policies.attempts import (
    become_due,
    come_back,
    come_due,
    count_begun,
    take_back,
)
from cython.cimports.beanpole.engine.policies.breaker import free_probe, is_excused, note_failure
from cython.cimports.beanpole.engine.policies.expiry import follow_expiry
from cython.cimports.beanpole.engine.policies.firing import fire_due
from cython.cimports.beanpole.engine.policies.history import End
from cython.cimports.beanpole.engine.policies.keeping import (
    end_lost,
    forget_token,
    give_up,
    lose,
    may_be_lost,
    slim,
    stop_waiting_for,
    wait_again,
)
from cython.cimports.beanpole.engine.policies.once import forget_ended
from cython.cimports.beanpole.engine.policies.pausing import end_pauses
from cython.cimports.beanpole.engine.policies.throttle import and_opened, attach, keep_bucket, open_if_free
from cython.cimports.beanpole.engine.policies.uniqueness import forget_key, keep_key, settle
from cython.cimports.beanpole.engine.state.groups import open_timed
from cython.cimports.beanpole.engine.state.heap import Timed
from cython.cimports.beanpole.engine.state.job import Flag, Job, JobCount, State, count_one, deadline_of
from cython.cimports.beanpole.engine.state.queue import Outcome, Queue
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import Space, Tube, Watch
from cython.cimports.beanpole.engine.state.user import User
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import UINT64_MAX, int64_t, uint64_t

from beanpole.engine import limits
from beanpole.shard_ids import IDS_LEFT_WARNING, end_id, first_id, ids_left, text_of

MOVES_PER_AUDIT = cython.declare(cython.Py_ssize_t, limits.MOVES_PER_AUDIT)
MOVES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.MOVES_PER_TURN)
JOBS_PER_TICK = cython.declare(cython.Py_ssize_t, limits.JOBS_PER_TICK)
LEAST_PER_TICK = cython.declare(cython.Py_ssize_t, limits.LEAST_PER_TICK)
TOKENS_PER_TICK = cython.declare(cython.Py_ssize_t, limits.TOKENS_PER_TICK)
SECOND_NS = cython.declare(int64_t, 1_000_000_000)
KEPT_JOBS_MAX = cython.declare(cython.Py_ssize_t, limits.KEPT_JOBS_MAX)
FAILED_BYTES_PER_JOB = cython.declare(int64_t, limits.FAILED_BYTES_PER_JOB)


@cython.cclass
class Leave(LongCommand):
    """The end of a session: the jobs that it holds come back, and it watches its tubes no more, a piece in each turn.

    Jobs come back in the order in which their times to run would have ended, and after each piece those who wait get
    the best of what is ready. Of one that may return, only those do that are too many to keep. Until its turn has come,
    a job is held by the session that is closed: its time to run does not end any more, and nobody else can take, touch
    or delete it.

    All sessions that end in a turn share what may be moved in it (``Engine.moves_left``), so that many that hold few
    jobs take no longer than one that holds many.
    """

    def go_on_alone(self, queue):
        """Let the next jobs come back, and when all have, drop the next tubes that the session watches."""
        session: Session = self.session
        kept_max: cython.Py_ssize_t = KEPT_JOBS_MAX if session.lost else 0
        changed: list = []
        while session.reserved.count > kept_max and queue.moves_left > 0:
            job: Job = cython.cast(Job, session.reserved.entries[0].item)
            written: int64_t = give_up(queue, queue.now_ns, job)
            queue.moves_left -= 1 + (written > 0) + written // FAILED_BYTES_PER_JOB
            changed.append(job.tube)
        while session.watches and queue.moves_left > 0:
            queue.drop_watch(session, cython.cast(Watch, session.watches[0], typecheck=True))
            queue.moves_left -= 1
        offer_all(queue, queue.now_ns, and_opened(queue, changed))
        if session.reserved.count > kept_max or session.watches:
            return True
        return slim(session) if session.lost else False


@cython.cclass
class Engine(Queue):
    """One server's queue, which runs commands. The fields stand in ``state/queue.pxd``."""

    # --- sessions -----------------------------------------------------------------------------------------------------

    def open_session(
        self, now_ns: int64_t, owner: object = None, own: cython.bint = False, user: User = None, served: cython.int = 0
    ) -> Session:
        """Open a session that uses and watches ``default``; the server's own watch nothing, and are not counted.

        Where connections have users, it has the rights of `user`, and `served` says which of ACCESS_FORMATS it knows.
        """
        session: Session = Session(self.next_session_number, owner)
        self.next_session_number += 1
        session.opened_at_ns = session.heard_at_ns = now_ns
        session.own = own
        session.used = self.default_tube
        self.sessions.add(session)
        if not own:
            self.total_session_count += 1
            self.session_count += 1
            self.add_watch(session, self.default_tube)
        self.count_use(session, 1)
        if user is not None:
            begin_standing(self, session, user, served)
        return session

    def assign(self, session: Session, user: User) -> None:
        """Let a session of a user that has run no command yet be another user's. Raise ValueError if it is nobody's."""
        if session is None or user is None or session.standing is None:
            raise ValueError("only a user's session can be another user's")
        begin_standing(self, session, user, session.standing.served)

    def close_session(self, now_ns: int64_t, session: Session, by_server: cython.bint = False) -> None:
        """Forget a session; the jobs that it holds become ready. Closing it again does nothing.

        If there are many, the ticks that follow go on with them. One that has a token may return if its end came
        `by_server`: until then its jobs wait for it.
        """
        if session.used is None:
            return
        self.now_ns = now_ns
        self.stop_waiting(session)
        if session.told_at:
            self.end_told(session)
        is_lost: cython.bint = may_be_lost(self, session, by_server)
        if is_lost:
            lose(self, now_ns, session)
        else:
            forget_token(self, session)
        leave: Leave = Leave()
        leave.session = session
        leave_to_ticks(self, leave)
        tube: Tube = session.used
        if session.work is not None:
            abandon(self, session)
        self.count_use(session, -1)
        session.used = None
        self.drop_if_unused(tube)
        if not is_lost:
            if session.heap_index >= 0:
                self.timers.remove(session)
            self.sessions.remove(session)
        if not session.own:
            self.session_count -= 1
            self.producer_count -= session.producer
            self.worker_count -= session.worker
        session.owner = None

    def half_close(self, now_ns, session):
        """Record that no more input can come: the session can't wait any more."""
        session.half_closed = True
        if session.waiting:
            self.answer_waiting(now_ns, session)
        return 0

    def give_back(self) -> None:
        """Take back the attempts that are under way: the server stops or hands over, and nothing is wrong with them."""
        take_back(self)

    def stop_taking_clients(self) -> None:
        """Let no session's time to return run out from here on, nor the times to run of its jobs: none can."""
        stop_waiting_for(self)

    def take_clients(self, now_ns: int64_t) -> None:
        """Let the times start over in which sessions that lost their connections may return."""
        wait_again(self, now_ns)

    def take_woken(self) -> list[Session]:
        """Return the sessions that got a reply without a command since the last call, in order."""
        woken = self.woken
        self.woken = []
        return woken

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
        row = cython.address(rows[cython.cast(cython.int, command.verb)])
        if row.reserves and self.records.backlog_full():
            # Even if no job is ready: a session that waits gets the next job without sending another command.
            return Outcome.AGAIN
        if self.recounting and row.adds:
            return Outcome.AGAIN
        subject: bytes = None  # of what belongs into the audit; found before a job is gone
        refused_count: uint64_t = 0
        if session.user is not None and not may_at_once(self, session, command):
            verdict: cython.int = ask(self, session, command)
            if verdict != Verdict.ALLOWED:
                return self.end_refused(now_ns, session, command, verdict)
            if self.audit is not None:
                subject = subject_of(self, session, command, False)
                refused_count = session.user.refused_count
        self.count_command(cython.cast(cython.int, command.counted), 1)
        if session.told_at:
            self.end_told(session)  # what it does not take now is offered behind its command
        outcome: cython.int = row.run(self, now_ns, session, command)
        if outcome == Outcome.AGAIN:
            self.count_command(cython.cast(cython.int, command.counted), -1)
            if session.user is not None:
                session.user.command_count -= 1
        elif subject is not None:
            session.moved_count += MOVES_PER_AUDIT
            is_allowed: cython.bint = session.user.refused_count == refused_count
            self.audit(session.owner, session.user.name, cython.cast(cython.int, command.verb), subject, is_allowed)
        if self.opened is not None:
            offer_opened(self, now_ns)
        return outcome

    def end_refused(self, now_ns, session, command, verdict):
        """End a command that is answered by the want of a right, or runs in a later turn."""
        if self.audit is not None and verdict == Verdict.REFUSED:
            session.moved_count += MOVES_PER_AUDIT
            subject: bytes = subject_of(self, session, command, True) or b""
            self.audit(session.owner, session.user.name, cython.cast(cython.int, command.verb), subject, False)
        if session.told_at:
            self.end_told(session)
        if self.opened is not None:
            offer_opened(self, now_ns)
        return Outcome.AGAIN if verdict == Verdict.LATER else Outcome.DONE

    def rights_changed(self) -> None:
        """Let all sessions find again what they may watch, as rights of their users have changed, in the next ticks."""
        begin_renewal(self)

    def set_spaces(self, limits: Mapping[bytes, tuple[int, int, int]]) -> None:
        """Set how much may lie in the tubes of patterns, together: jobs, bytes of bodies and tubes; 0: no limit.

        If the patterns have changed, the next ticks count all tubes again, and puts wait until that is done.
        """
        if limits.keys() != (self.spaces.spaces.keys() if self.spaces is not None else set()):
            begin_recount(self, limits)
        for pattern, (jobs, size, tubes) in limits.items():
            cython.cast(Space, self.spaces.spaces[pattern], typecheck=True).limit(jobs, size, tubes)

    def go_on(self, now_ns, session):
        """Do the next piece of the command of a session; return AGAIN as :meth:`LongCommand.step` does."""
        self.now_ns = now_ns
        # A reference of our own: the last step takes the session's away.
        work: LongCommand = cython.cast(LongCommand, session.work, typecheck=True)
        outcome: cython.int = work.step(self, now_ns, session)
        if self.opened is not None:
            offer_opened(self, now_ns)
        return outcome

    # --- time ---------------------------------------------------------------------------------------------------------

    @property
    def next_deadline_ns(self) -> int:
        """The engine-clock moment by which :meth:`tick` should be called again; -1: nothing is due."""
        return self.deadline()

    def tick(self, now_ns):
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
        if self.opened is not None:
            offer_opened(self, now_ns)
        moved: cython.Py_ssize_t = MOVES_PER_TURN - self.moves_left
        if self.next_job_id >= self.ids_looked_at:
            self.look_at_ids()
        if self.once is not None and self.once.look_at_ns <= now_ns:
            forget_ended(self, now_ns, TOKENS_PER_TICK)
            self.once.look_at_ns = now_ns + SECOND_NS
        if 0 <= self.schedules_at_ns <= now_ns:
            moved += self.run_schedules(now_ns, JOBS_PER_TICK - moved)
            self.moves_left = max(min(self.moves_left, JOBS_PER_TICK - moved), 0)
        if self.group_pauses is not None and self.group_pauses.count and self.group_pauses.entries[0].key <= now_ns:
            moved += end_pauses(self, now_ns, max(JOBS_PER_TICK - moved, LEAST_PER_TICK))
            offer_opened(self, now_ns)
        if self.timers.count and self.timers.entries[0].key <= now_ns:
            moved += self.run_timers(now_ns, max(JOBS_PER_TICK - moved, LEAST_PER_TICK))
            self.moves_left = max(min(self.moves_left, JOBS_PER_TICK - moved), 0)
        return moved

    def run_schedules(self, now_ns, most):
        """Let the schedules fire that are due, for as long as `most` jobs take to become ready; return how many do."""
        changed: list = []
        moved: cython.Py_ssize_t = fire_due(self, now_ns, most, changed)
        if changed:
            offer_all(self, now_ns, and_opened(self, changed))
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
            elif isinstance(timed, Session) and cython.cast(Session, timed, typecheck=True).lost:
                end_lost(self, cython.cast(Session, timed, typecheck=True))
            if timed.waiting:
                waiting.append(timed)
        offer_all(self, now_ns, and_opened(self, changed))
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
        if timed.open_when_due(now_ns, self.started_at_ns):
            changed.append(timed)
        if isinstance(timed, Tube) and cython.cast(Tube, timed, typecheck=True).groups is not None:
            left: cython.Py_ssize_t = most - len(changed)
            changed += [timed] * open_timed(cython.cast(Tube, timed, typecheck=True), now_ns, self.started_at_ns, left)
        elif isinstance(timed, Session):
            session: Session = cython.cast(Session, timed, typecheck=True)
            if session.told_at and session.wait_until_ns <= now_ns:
                self.end_told(session)
        while len(changed) < most:
            job = timed.due_job(now_ns)
            if job is None:
                return 0
            changed.append(job.tube)
            if job.state == State.RESERVED and deadline_of(job) > now_ns:  # its holder may not return any more
                changed += [job.tube] * (give_up(self, now_ns, job) // FAILED_BYTES_PER_JOB)
            elif job.state == State.RESERVED:
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
        count_one(job, JobCount.TIMEOUTS)
        job.tube.total_timeout_count += 1
        if job.tube.rules is not None or job.tag_bytes:
            end: End = End.EXCUSED if is_excused(job, now_ns) else End.TIMED_OUT
            note_failure(self, now_ns, job)
            written: int64_t = come_back(self, now_ns, job, end, 0, False)
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

    # --- ids ----------------------------------------------------------------------------------------------------------

    def set_shard(self, numbers: tuple[int, ...]) -> None:
        """Give ids of these numbers of a shard, which rise, from here on: behind the last id that was given."""
        self.shard = numbers
        if numbers:
            self.next_job_id = max(self.next_job_id, first_id(numbers[0]))
            self.next_session_number = max(self.next_session_number, first_id(numbers[0]))
            self.ids_looked_at = 0

    def look_at_ids(self):
        """Go on in the range of the next number where one is used up, and drain behind the last; warn before that."""
        left: int = ids_left(self.shard, self.next_job_id)
        advice: str = f"give it a further number, as in --shard {text_of(self.shard)},N"
        self.ids_looked_at = UINT64_MAX
        if left == 0:
            self.draining = True
            self.notice(f"all ids of this shard are used, and puts are answered with DRAINING: {advice}")
            return 0
        number: int = next(each for each in self.shard if self.next_job_id < end_id(each))
        self.next_job_id = max(self.next_job_id, first_id(number))
        if number != self.shard[-1]:
            self.ids_looked_at = end_id(number)
        elif left > IDS_LEFT_WARNING:
            self.ids_looked_at = end_id(number) - IDS_LEFT_WARNING
        else:
            self.ids_looked_at = end_id(number)
            self.notice(f"this shard has {left} ids left, less than a tenth of a number's: {advice}")
        return 0

    # --- policies -----------------------------------------------------------------------------------------------------

    def on_enter(self, job):
        keep_key(self, job)
        if job.flags & Flag.EXPIRES and (job.state == State.READY or job.state == State.DELAYED):
            return follow_expiry(self, job)
        return 0

    def on_discard(self, job):
        return forget_key(self, job)

    def on_free(self, job):
        free_probe(self, job)
        return open_if_free(self, job.tube)

    def on_open(self, tube):
        attach(self, tube)
        return 0

    def on_drop(self, tube):
        return keep_bucket(self, tube)
