"""The queue: commands and time go in, replies and records come out.

A command comes with the time and the session; the reply is in ``session.out`` when :meth:`Engine.apply` returns, unless
the session waits or a long kick is under way. Replies that somebody else's command or the time brings about are written
the same way, and the session is added to :meth:`Engine.take_woken`.

Same inputs, same outputs: no clock, no randomness, no iteration over sets. Deadlines are moments of the engine's clock
in nanoseconds; what clients say in seconds is turned into them here. The comment at a command says what it does, the
protocol's text (doc/protocol.txt of beanstalkd) says why.
"""

import cython
from cython.cimports.beanpole.engine.clockwork import Clockwork
from cython.cimports.beanpole.engine.heap import Heap, sooner
from cython.cimports.beanpole.engine.job import Job, State, new_job
from cython.cimports.beanpole.engine.tube import Tube, Watch
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.libc.stdint import int64_t, uint32_t

from beanpole import limits
from beanpole.engine import inspection, stats

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
NEVER = cython.declare(int64_t, -1)
KICKS_PER_TURN = cython.declare(uint32_t, limits.KICKS_PER_TURN)

MISTAKES = {
    Verb.UNKNOWN_COMMAND: b"UNKNOWN_COMMAND\r\n",
    Verb.BAD_FORMAT: b"BAD_FORMAT\r\n",
    Verb.JOB_TOO_BIG: b"JOB_TOO_BIG\r\n",
    Verb.EXPECTED_CRLF: b"EXPECTED_CRLF\r\n",
}
"""The replies to what is not a command."""


@cython.cclass
class Engine(Clockwork):
    """One server's queue. The fields stand in ``store.pxd``."""

    # --- commands -----------------------------------------------------------------------------------------------------

    def apply(self, now_ns, session, command):
        """Run one command of a session that does not wait."""
        verb: Verb = command.verb
        self.command_counts[cython.cast(cython.int, command.counted)] += 1
        if verb == Verb.PUT:
            return self.put(now_ns, session, command)
        if verb == Verb.RESERVE:
            return self.reserve(now_ns, session, NEVER)
        if verb == Verb.DELETE:
            return self.delete(now_ns, session, command.id)
        if verb == Verb.RESERVE_WITH_TIMEOUT:
            return self.reserve(now_ns, session, now_ns + command.timeout_s * SECOND_NS)
        if verb == Verb.RELEASE:
            return self.release(now_ns, session, command)
        if verb == Verb.BURY:
            return self.bury(now_ns, session, command)
        if verb == Verb.TOUCH:
            return self.touch(now_ns, session, command.id)
        if verb == Verb.USE:
            return self.use(session, command.tube)
        if verb == Verb.WATCH:
            return self.watch(session, command.tube)
        if verb == Verb.IGNORE:
            return self.ignore(session, command.tube)
        if verb == Verb.PEEK:
            return self.peek(session, self.jobs.find(command.id))
        if verb == Verb.PEEK_READY:
            return self.peek_first(session, session.used.ready)
        if verb == Verb.PEEK_DELAYED:
            return self.peek_first(session, session.used.delayed)
        if verb == Verb.PEEK_BURIED:
            return self.peek_first(session, session.used.buried)
        if verb == Verb.KICK:
            return self.kick(now_ns, session, command.bound)
        if verb == Verb.KICK_JOB:
            return self.kick_job(now_ns, session, command.id)
        if verb == Verb.RESERVE_JOB:
            return self.reserve_job(now_ns, session, command.id)
        if verb == Verb.PAUSE_TUBE:
            return self.pause(now_ns, session, command)
        if verb == Verb.QUIT:
            session.quitting = True
            return 0
        return self.tell(now_ns, session, command)

    def put(self, now_ns, session, command):
        """put: a new job, offered to whoever waits. It gets no id when it is refused."""
        job: Job
        self.count_producer(session)
        if self.draining:
            return session.out.add(b"DRAINING\r\n", 10)
        if not self.records.room_for_put(len(session.used.name) + command.body_bytes):
            return session.out.add(b"OUT_OF_MEMORY\r\n", 15)
        job = new_job(self.next_job_id, session.used, command.body_at, command.body_bytes)
        if job is None:
            return session.out.add(b"OUT_OF_MEMORY\r\n", 15)
        job.pri = command.pri
        job.delay_s = command.delay_s
        job.ttr_s = command.ttr_s
        job.created_at_ns = now_ns
        self.jobs.add(job)
        self.next_job_id += 1
        self.total_jobs_count += 1
        job.tube.total_jobs_count += 1
        if job.delay_s:
            self.delay(now_ns, job, job.delay_s)
        else:
            self.enter(job, State.READY, job.pri)
        self.records.whole(job)
        session.out.inserted(job.id)
        if job.tube.waiting_count:
            self.offer(now_ns, job.tube)
        return 0

    def reserve(self, now_ns, session, until_ns):
        """reserve: the ready job of the smallest (pri, id) in the watched tubes that are not paused, or wait."""
        watch: Watch
        heap: Heap
        best: Heap = None
        self.count_worker(session)
        for watch in session.watches:
            heap = watch.tube.ready
            if heap.count == 0 or watch.tube.paused_until_ns:
                continue
            if best is None or sooner(heap, best):
                best = heap
        if best is not None:
            return self.hand_out(now_ns, session, cython.cast(Job, best.entries[0].item))
        if self.deadline_soon(now_ns, session):
            return session.out.add(b"DEADLINE_SOON\r\n", 15)
        if session.half_closed or until_ns == now_ns:
            return session.out.add(b"TIMED_OUT\r\n", 11)
        return self.wait(session, until_ns)

    def reserve_job(self, now_ns, session, id):
        """reserve-job: a job by its id, unless somebody holds it."""
        job: Job = self.jobs.find(id)
        if job is None or job.state == State.RESERVED:
            return self.not_found(session)
        changes: cython.bint = job.state != State.READY
        if changes and not self.records.room_for_change():
            return session.out.add(b"OUT_OF_MEMORY\r\n", 15)
        self.hand_out(now_ns, session, job)
        if changes:
            # When it comes back it is ready, whatever it was: now or, should the server end here, at the next start.
            self.records.changed(job)
            session.told_index = self.records.index
        return 0

    def not_found(self, session):
        """NOT_FOUND: nobody may read it before what took the job away is durable."""
        session.told_index = self.records.index
        return session.out.add(b"NOT_FOUND\r\n", 11)

    def delete(self, now_ns, session, id):
        """delete: a job in any state, unless another session holds it."""
        job: Job = self.jobs.find(id)
        if job is None or (job.state == State.RESERVED and job.holder is not session):
            return self.not_found(session)
        self.leave(job)
        self.records.deleted(job)
        self.jobs.remove(job)
        job.tube.delete_count += 1
        self.let_go(job.tube)
        return session.out.add(b"DELETED\r\n", 9)

    def release(self, now_ns, session, command):
        """release: a held job becomes ready or delayed."""
        job: Job = self.jobs.find(command.id)
        if job is None or job.holder is not session:
            return self.not_found(session)
        if not self.records.room_for_change():
            return session.out.add(b"OUT_OF_MEMORY\r\n", 15)
        self.leave(job)
        job.pri = command.pri
        job.delay_s = command.delay_s
        job.release_count += 1
        if job.delay_s:
            self.delay(now_ns, job, job.delay_s)
        else:
            self.enter(job, State.READY, job.pri)
        self.records.changed(job)
        session.out.add(b"RELEASED\r\n", 10)
        return self.offer(now_ns, job.tube)

    def bury(self, now_ns, session, command):
        """bury: a held job is put aside."""
        job: Job = self.jobs.find(command.id)
        if job is None or job.holder is not session:
            return self.not_found(session)
        if not self.records.room_for_change():
            return session.out.add(b"OUT_OF_MEMORY\r\n", 15)
        self.leave(job)
        job.pri = command.pri
        job.bury_count += 1
        self.bury_job(job)
        self.records.changed(job)
        return session.out.add(b"BURIED\r\n", 8)

    def touch(self, now_ns, session, id):
        """touch: the TTR of a held job starts anew."""
        job: Job = self.jobs.find(id)
        if job is None or job.holder is not session:
            return self.not_found(session)
        job.deadline_at_ns = now_ns + job.ttr_s * SECOND_NS
        session.reserved.move(job, job.deadline_at_ns)
        return session.out.add(b"TOUCHED\r\n", 9)

    def kick(self, now_ns, session, bound):
        """kick: buried jobs of the used tube become ready, or where there are none delayed ones."""
        session.kick_left = bound
        session.kicked_count = 0
        session.kick_buried = session.used.buried.count > 0
        return self.go_on(now_ns, session)

    def go_on(self, now_ns, session):
        """Kick the next KICKS_PER_TURN jobs; the reply comes when all are kicked and `kick_left` is 0 again."""
        heap: Heap = session.used.buried if session.kick_buried else session.used.delayed
        room: uint32_t = KICKS_PER_TURN
        while session.kick_left and heap.count:
            if room == 0:
                return 0
            if not self.records.room_for_change():
                break
            self.kick_one(now_ns, cython.cast(Job, heap.entries[0].item))
            session.kicked_count += 1
            session.kick_left -= 1
            room -= 1
        session.kick_left = 0
        return session.out.counted(b"KICKED ", 7, session.kicked_count)

    def kick_one(self, now_ns, job):
        """Make a buried or delayed job ready."""
        job.kick_count += 1
        self.make_ready(job)
        self.records.changed(job)
        return self.offer(now_ns, job.tube)

    def kick_job(self, now_ns, session, id):
        """kick-job: the same for one job of any tube."""
        job: Job = self.jobs.find(id)
        if job is None or (job.state != State.BURIED and job.state != State.DELAYED):
            return self.not_found(session)
        if not self.records.room_for_change():
            return session.out.add(b"OUT_OF_MEMORY\r\n", 15)
        session.out.add(b"KICKED\r\n", 8)
        return self.kick_one(now_ns, job)

    def peek(self, session, job):
        """peek: a job in any state."""
        if job is None:
            return self.not_found(session)
        session.told_index = self.records.index
        return session.out.body(b"FOUND ", 6, job.id, job.body, job.body_bytes)

    def peek_first(self, session, heap):
        """peek-ready, peek-delayed, peek-buried: the first job of the used tube in that state."""
        return self.peek(session, cython.cast(Job, heap.entries[0].item) if heap.count else None)

    def use(self, session, name):
        """use: where put and its like work from now on."""
        self.switch_used(session, self.open_tube(name))
        return self.tell_used(session)

    def tell_used(self, session):
        """list-tube-used: where put and its like work."""
        session.out.add(b"USING ", 6)
        session.out.add_bytes(session.used.name)
        return session.out.add(b"\r\n", 2)

    def watch(self, session, name):
        """watch: one more tube to reserve from."""
        tube: Tube = self.open_tube(name)
        if tube not in session.watch_of:
            self.add_watch(session, tube)
        return session.out.counted(b"WATCHING ", 9, len(session.watches))

    def ignore(self, session, name):
        """ignore: one tube less to reserve from, but never none."""
        watch: Watch = session.watch_of.get(self.tube_named(name))
        if watch is not None:
            if len(session.watches) == 1:
                return session.out.add(b"NOT_IGNORED\r\n", 13)
            self.drop_watch(session, watch)
        return session.out.counted(b"WATCHING ", 9, len(session.watches))

    def pause(self, now_ns, session, command):
        """pause-tube: nothing is reserved from the tube for some seconds; 0 ends a pause."""
        tube: Tube = self.tube_named(command.tube)
        if tube is None:
            return self.not_found(session)
        if not self.records.room_for_change():
            return session.out.add(b"OUT_OF_MEMORY\r\n", 15)
        tube.pause_count += 1
        tube.pause_s = command.delay_s
        tube.paused_until_ns = now_ns + command.delay_s * SECOND_NS if command.delay_s else 0
        self.records.tube(tube)
        session.out.add(b"PAUSED\r\n", 8)
        if tube.paused_until_ns:
            return self.arm(tube, tube.number, tube.paused_until_ns)
        return self.offer(now_ns, tube)

    def tell(self, now_ns, session, command):
        """The commands that only tell something: stats and lists; and what is not a command."""
        verb: Verb = command.verb
        text: bytes = None
        if verb == Verb.STATS:
            text = stats.server(self, now_ns)
        elif verb == Verb.STATS_TUBE:
            tube: Tube = self.tube_named(command.tube)
            text = stats.tube(tube, now_ns) if tube is not None else None
        elif verb == Verb.STATS_JOB:
            job: Job = self.jobs.find(command.id)
            text = stats.job(job, now_ns) if job is not None else None
            session.told_index = self.records.index
        elif verb == Verb.LIST_TUBES:
            text = stats.names(self.tube_list)
        elif verb == Verb.LIST_TUBES_WATCHED:
            text = stats.names([cython.cast(Watch, watch).tube for watch in session.watches])
        elif verb == Verb.LIST_TUBE_USED:
            return self.tell_used(session)
        else:
            if verb == Verb.EXPECTED_CRLF:
                self.count_producer(session)
            return session.out.add_bytes(MISTAKES[verb])
        if text is None:
            return self.not_found(session)
        return session.out.text(text)

    def check(self, now_ns: int64_t = -1) -> None:
        """Raise AssertionError with a sentence when an invariant is broken."""
        inspection.check(self)
