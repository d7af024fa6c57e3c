"""What a server holds, and the moves between: jobs by id and state, tubes, waiting lines, timers and counts.

:class:`~beanpole.engine.engine.Engine` adds what commands and time mean. Here stands what keeps the invariants:

- A job is in the job table and in exactly one heap, the one that its state names.
- No session waits while a tube that it watches, and that is not paused, has a ready job.
- ``timers`` names, for each tube and session that has something due, a moment that is not after it. It may be too
  early: a timer is armed when something becomes due sooner than it says, not when what was due goes away, so that
  reserve and delete don't touch it. A timer that fires early is armed again.
- Counts equal a recount.

:mod:`beanpole.engine.inspection` asserts them.
"""

import heapq

import cython
from cython.cimports.beanpole.engine.heap import Heap
from cython.cimports.beanpole.engine.job import Job, State
from cython.cimports.beanpole.engine.jobtable import JobTable
from cython.cimports.beanpole.engine.records import Records
from cython.cimports.beanpole.engine.session import Session
from cython.cimports.beanpole.engine.tube import Tube, Watch
from cython.cimports.libc.stdint import int64_t, uint32_t

from beanpole import limits

NEVER = cython.declare(int64_t, -1)
SECOND_NS = cython.declare(int64_t, 1_000_000_000)
DEADLINE_MARGIN_NS = cython.declare(int64_t, limits.DEADLINE_MARGIN_NS)
URGENT_PRI_BELOW = cython.declare(uint32_t, limits.URGENT_PRI_BELOW)


@cython.cclass
class Store:
    """All jobs, tubes and sessions of one server. The fields stand in ``store.pxd``."""

    def __init__(
        self,
        body_bytes_max: cython.Py_ssize_t = limits.BODY_BYTES_MAX_DEFAULT,
        now_ns: int64_t = 0,
        facts: Callable[[], Mapping[str, str]] = dict,
        records: Records = None,
    ):
        self.body_bytes_max = body_bytes_max
        self.started_at_ns = now_ns
        self.facts = facts
        self.records = Records() if records is None else records
        self.jobs = JobTable()
        self.next_job_id = 1
        self.tubes = {}
        self.tube_list = []
        self.timers = Heap()
        self.woken = []
        self.default_tube = self.open_tube(b"default")

    # --- sessions -----------------------------------------------------------------------------------------------------

    def open_session(self, now_ns: int64_t, owner: object = None) -> Session:
        """Open a session that uses and watches ``default``."""
        session: Session = Session(self.total_session_count, owner)
        self.total_session_count += 1
        self.session_count += 1
        session.used = self.default_tube
        self.default_tube.using_count += 1
        self.add_watch(session, self.default_tube)
        return session

    def close_session(self, now_ns: int64_t, session: Session) -> None:
        """Forget a session; the jobs that it holds become ready. Closing it again does nothing."""
        if session.used is None:
            return
        job: Job
        self.stop_waiting(session)
        changed = []
        while session.reserved.count:
            job = cython.cast(Job, session.reserved.entries[0].item)
            self.make_ready(job)
            changed.append(job.tube)
        while session.watches:
            self.drop_watch(session, session.watches[0])
        tube: Tube = session.used
        session.used = None
        tube.using_count -= 1
        self.let_go(tube)
        if session.heap_index >= 0:
            self.timers.remove(session)
        self.session_count -= 1
        self.producer_count -= session.producer
        self.worker_count -= session.worker
        session.owner = None
        self.offer_all(now_ns, changed)

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
        self.heap_of(job).remove(job)
        self.state_counts[job.state] -= 1
        if job.state == State.RESERVED:
            job.tube.reserved_count -= 1
            job.holder = None
        elif job.state == State.READY and job.pri < URGENT_PRI_BELOW:
            self.urgent_count -= 1
            job.tube.urgent_count -= 1
        return 0

    def enter(self, job, state, key):
        """Put a job that left its state into another one; RESERVED wants `job.holder` set before."""
        job.state = state
        job.deadline_at_ns = key if state == State.DELAYED or state == State.RESERVED else 0
        self.heap_of(job).push(job, key, job.id)
        self.state_counts[job.state] += 1
        if state == State.RESERVED:
            job.tube.reserved_count += 1
        elif state == State.READY and job.pri < URGENT_PRI_BELOW:
            self.urgent_count += 1
            job.tube.urgent_count += 1
        return 0

    def make_ready(self, job):
        """Make a job ready, whatever state it is in."""
        self.leave(job)
        return self.enter(job, State.READY, job.pri)

    def delay(self, now_ns, job, delay_s):
        """Make a job that left its state delayed for a number of seconds."""
        due_ns: int64_t = now_ns + delay_s * SECOND_NS
        self.enter(job, State.DELAYED, due_ns)
        return self.arm(job.tube, job.tube.number, due_ns)

    def bury_job(self, job):
        """Make a job that left its state the last of the buried ones."""
        self.buried_so_far_count += 1
        return self.enter(job, State.BURIED, self.buried_so_far_count)

    def hold(self, now_ns, session, job):
        """Reserve a job for a session."""
        due_ns: int64_t = now_ns + job.ttr_s * SECOND_NS
        self.leave(job)
        job.holder = session
        job.reserve_count += 1
        self.enter(job, State.RESERVED, due_ns)
        self.arm(session, session.number, due_ns)
        return self.count_worker(session)

    def count_worker(self, session):
        """Count a session that reserves, once."""
        if not session.worker:
            session.worker = True
            self.worker_count += 1
        return 0

    def count_producer(self, session):
        """Count a session that puts, once."""
        if not session.producer:
            session.producer = True
            self.producer_count += 1
        return 0

    def hand_out(self, now_ns, session, job):
        """Reserve a job for a session and tell it."""
        self.hold(now_ns, session, job)
        session.told_index = self.records.index
        return session.out.body(b"RESERVED ", 9, job.id, job.body, job.body_bytes)

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
            tube.list_index = len(self.tube_list)
            self.tubes[name] = tube
            self.tube_list.append(tube)
        return tube

    def let_go(self, tube):
        """Forget a tube that nobody uses or watches and that has no job; the last one takes its place in the list."""
        if tube.using_count or tube.watching_count or tube.reserved_count or tube is self.default_tube:
            return 0
        if tube.ready.count or tube.delayed.count or tube.buried.count:
            return 0
        if tube.heap_index >= 0:
            self.timers.remove(tube)
        if tube.paused_until_ns:
            tube.paused_until_ns = 0
            tube.pause_s = 0
            self.records.tube(tube)
        del self.tubes[tube.name]
        last: Tube = self.tube_list.pop()
        if last is not tube:
            last.list_index = tube.list_index
            self.tube_list[tube.list_index] = last
        return 0

    def add_watch(self, session, tube):
        """Watch a tube that the session does not watch."""
        watch: Watch = Watch(session, tube)
        watch.index = len(session.watches)
        session.watches.append(watch)
        session.watch_of[tube] = watch
        tube.watching_count += 1
        return 0

    def drop_watch(self, session, watch):
        """Stop watching a tube; the session's last watch takes its place in the list."""
        last: Watch = session.watches.pop()
        if last is not watch:
            last.index = watch.index
            session.watches[watch.index] = last
        del session.watch_of[watch.tube]
        watch.tube.watching_count -= 1
        return self.let_go(watch.tube)

    def switch_used(self, session, tube):
        """Use another tube."""
        before: Tube = session.used
        tube.using_count += 1
        session.used = tube
        before.using_count -= 1
        return self.let_go(before)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def wait(self, session, until_ns):
        """Let a session wait for a job, or go on waiting; until -1 is for ever."""
        if not session.waiting:
            session.waiting = True
            self.waiting_count += 1
            for watch in session.watches:
                cython.cast(Watch, watch).tube.line_up(watch)
        session.wait_until_ns = until_ns
        if until_ns >= 0:
            self.arm(session, session.number, until_ns)
        if session.reserved.count:
            self.arm(session, session.number, session.reserved.entries[0].key - DEADLINE_MARGIN_NS)
        return 0

    def stop_waiting(self, session):
        """Take a session out of the waiting lines."""
        if session.waiting:
            session.waiting = False
            self.waiting_count -= 1
            for watch in session.watches:
                cython.cast(Watch, watch).tube.step_out(watch)
        return 0

    def wake(self, session, reply):
        """Answer a waiting session."""
        self.stop_waiting(session)
        self.woken.append(session)
        return session.out.add_bytes(reply)

    def offer(self, now_ns, tube):
        """Hand a tube's ready jobs to the sessions that wait for them, the longest waiting first."""
        while tube.waiting_count and tube.ready.count and not tube.paused_until_ns:
            session: Session = cython.cast(Session, tube.first_waiting.session)
            self.wake(session, b"")
            self.hand_out(now_ns, session, cython.cast(Job, tube.ready.entries[0].item))
        return 0

    def offer_all(self, now_ns, tubes):
        """Hand out the ready jobs of several tubes, over all of them the smallest (pri, id) first."""
        tube: Tube
        heads = []
        for tube in dict.fromkeys(tubes):
            if tube.waiting_count and tube.ready.count and not tube.paused_until_ns:
                heads.append((tube.ready.entries[0].key, tube.ready.entries[0].tie, tube.number, tube))
        heapq.heapify(heads)
        while heads:
            tube = heapq.heappop(heads)[3]
            if tube.waiting_count and tube.ready.count and not tube.paused_until_ns:
                session: Session = cython.cast(Session, tube.first_waiting.session)
                self.wake(session, b"")
                self.hand_out(now_ns, session, cython.cast(Job, tube.ready.entries[0].item))
                if tube.ready.count:
                    heapq.heappush(heads, (tube.ready.entries[0].key, tube.ready.entries[0].tie, tube.number, tube))
        return 0

    # --- timers -------------------------------------------------------------------------------------------------------

    def arm(self, item, number, due_ns):
        """See to it that a tube or a session is looked at by `due_ns`."""
        if item.heap_index < 0:
            self.timers.push(item, due_ns, number)
        elif self.timers.entries[item.heap_index].key > due_ns:
            self.timers.move(item, due_ns)
        return 0

    def deadline(self):
        """Return the moment of the next tick that has something to do, or -1."""
        return self.timers.entries[0].key if self.timers.count else NEVER

    @property
    def next_deadline_ns(self) -> int:
        """The engine-clock moment by which :meth:`tick` should be called again; -1: nothing is due."""
        return self.deadline()

    def deadline_soon(self, now_ns, session):
        """Whether a job that the session holds is in its last second."""
        return session.reserved.count and now_ns >= session.reserved.entries[0].key - DEADLINE_MARGIN_NS
