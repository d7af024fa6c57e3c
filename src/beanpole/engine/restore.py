"""What a log does to an engine when it is read back, record by record. The last record of a job wins.

An engine that is being restored has no session, runs no timer and writes no record. Its records object only counts what
is alive (``job_restored`` and its sisters). Timers are armed as jobs come, so that the work of :meth:`Restore.finish`
grows with the attempts alone that were under way, not with the jobs: a server that follows a log can lead at once.

Times are moments of the log's clock, which is the engine's as well: none is converted. Whatever a record says, no job
waits longer than it was asked to: the record was written before the next moment that the log mentions, so a deadline
that is further from that moment than the delay is moved to it (:meth:`Restore.advance`). Only the whole seconds of a
delay are kept, so that a deadline is too far where it is further than one more. A delay that ended while no server ran
ends at the first tick.

A pause can be read before the first job of its tube, and a tube that sessions alone kept in being is not there at all.
Such pauses are kept aside until a job makes the tube.
"""

import cython
from cython.cimports.beanpole.engine.commands.tubes import attach_all
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.policies.attempts import defer, has_count, is_under_way
from cython.cimports.beanpole.engine.policies.keeping import keep, lose
from cython.cimports.beanpole.engine.policies.once import forget, forget_ended, note
from cython.cimports.beanpole.engine.policies.pausing import end_pause, first_over, set_pause
from cython.cimports.beanpole.engine.policies.throttle import close_if_taken, replace_rules
from cython.cimports.beanpole.engine.policies.uniqueness import forget_key
from cython.cimports.beanpole.engine.state.groupjobs import group_name
from cython.cimports.beanpole.engine.state.groups import choose, order, place, recall
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.beanpole.engine.state.job import (
    Flag,
    Job,
    JobCount,
    State,
    deadline_of,
    job_count,
    new_job,
    set_count,
    set_tags,
)
from cython.cimports.beanpole.engine.state.once import OnceTable, Token
from cython.cimports.beanpole.engine.state.schedule import Schedule, ScheduleTable
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tags import put_attempt, read_flags
from cython.cimports.beanpole.engine.state.tube import Group, GroupPause, RuleSet, Tube, note_bodies
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy

from beanpole.protocol.rules import parse
from beanpole.shard_ids import NO_NUMBER

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
TOKENS_PER_TURN = cython.declare(
    cython.Py_ssize_t, 64
)  # of which is looked whether they have ended, as the log is read


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def most_ns(seconds: uint32_t) -> int64_t:
    """Return the longest duration of which this many whole seconds are kept."""
    return cython.cast(int64_t, seconds) * SECOND_NS + SECOND_NS - 1


@cython.cclass
class Restore:
    """Brings jobs and pauses back into an engine. The fields stand in ``restore.pxd``."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.pauses = {}
        self.superseded = {}
        self.under_way = {}
        self.kept = {}
        self.unconfirmed = []

    def put(self, numbers, name, body, body_bytes, tags, tag_bytes, segment):
        """Put a job into the engine, in place of what is known of it. Raise MemoryError when there is no room."""
        engine: Engine = self.engine
        tube: Tube = engine.open_tube(name)
        if self.pauses and name in self.pauses:
            pause_s, until_ns, pause_segment = self.pauses.pop(name)
            self.set_tube(tube, pause_s, until_ns, None, pause_segment)
        old: Job = engine.jobs.find(numbers.id)
        if old is not None:
            self.take_out(old)
            if old.tube is not tube:
                self.drop_tube(old.tube)
        job: Job = new_job(numbers.id, tube, body, body_bytes, tag_bytes)
        if job is None:
            raise MemoryError
        if tag_bytes:
            set_tags(job, tags, tag_bytes)
            read_flags(job)
        job.segment = segment
        engine.jobs.add(job)
        note_bodies(tube, 1, job.body_bytes)
        self.place(job, numbers)
        engine.records.job_restored(job)
        engine.next_job_id = max(engine.next_job_id, job.id + 1)
        return job

    def change(self, numbers, tags, tag_bytes):
        """Give a job other numbers and tags; False: it is not there."""
        job: Job = self.engine.jobs.find(numbers.id)
        if job is None:
            return False
        self.engine.leave(job)
        if tag_bytes or job.tag_bytes:
            segment: uint32_t = job.segment
            self.engine.records.job_dropped(job)
            forget_key(self.engine, job)
            set_tags(job, tags, tag_bytes)
            read_flags(job)
            job.segment = segment
            self.engine.records.job_restored(job)
        self.place(job, numbers)
        return True

    def delete(self, id):
        """Take a job out; False: it is not there."""
        engine: Engine = self.engine
        engine.next_job_id = max(engine.next_job_id, id + 1)
        job: Job = engine.jobs.find(id)
        if job is None:
            return False
        self.take_out(job)
        self.drop_tube(job.tube)
        return True

    def count_reserve(self, id, reserve_count):
        """Note how often a job was reserved. Nobody has it: whoever had it is no client of this engine.

        If it was reserved as often before, it was touched, and waits for whom it did.
        """
        job: Job = self.engine.jobs.find(id)
        if job is not None and job_count(job, JobCount.RESERVES) != reserve_count:
            self.kept.pop(id, None)
            set_count(job, JobCount.RESERVES, reserve_count)
        return 0

    def count_attempt(self, id, attempt, reserve_count):
        """Note that an attempt at a job has begun; its tag has room for that, or there is no attempt to count."""
        job: Job = self.engine.jobs.find(id)
        if job is None:
            return 0
        set_count(job, JobCount.RESERVES, reserve_count)
        if has_count(job):
            put_attempt(job, attempt, True)
            self.under_way[id] = None
        return 0

    def wait_for(self, id, reserve_count, seconds, token):
        """Note for how long a job waits for who has a token, by its hash; an empty one: for nobody any more."""
        self.kept.pop(id, None)
        job: Job = self.engine.jobs.find(id)
        if job is not None and token:
            set_count(job, JobCount.RESERVES, reserve_count)
            self.kept[id] = (token, seconds)
        return 0

    def tube(self, name, pause_s, until_ns, tags, segment):
        """Pause a tube until a moment and give it tags, also one that is not there yet; 0 seconds end a pause."""
        tube: Tube = self.engine.tube_named(name) if tags is None else self.engine.open_tube(name)
        if tube is not None:
            self.pauses.pop(name, None)
            self.set_tube(tube, pause_s, until_ns, tags, segment)
            return self.drop_tube(tube)
        if until_ns:
            self.pauses[name] = (pause_s, until_ns, segment)
        else:
            self.pauses.pop(name, None)
        return 0

    def set_tube(self, tube, pause_s, until_ns, tags, segment):
        """Give a tube that is there a pause and tags."""
        self.engine.records.tube_dropped(tube)
        tube.tags = tags
        tube.pause(pause_s, until_ns)
        if until_ns or tags is not None:
            tube.segment = segment
            self.engine.records.tube_restored(tube)
        if until_ns:
            self.engine.arm(tube, until_ns)
            if until_ns > self.clock_ns + most_ns(pause_s):
                self.unconfirmed.append(tube.name)
        return 0

    def group(self, tube, name, pause_s, until_ns, segment):
        """Pause a group until a moment, also one that is not there yet; a moment that has passed ends a pause."""
        engine: Engine = self.engine
        found: Tube = engine.tube_named(tube)
        group: Group = None if found is None or found.groups is None else found.groups.by_name.get(name)
        pause: GroupPause = None if group is None else group.pause
        if pause is not None:
            engine.records.group_dropped(pause)
        if until_ns <= self.clock_ns:
            return 0 if pause is None else self.drop_tube(end_pause(engine, pause))
        pause = set_pause(engine, tube, name, pause_s, until_ns)
        pause.segment = segment
        engine.records.group_restored(pause)
        if until_ns > self.clock_ns + most_ns(pause_s):
            self.unconfirmed.append(pause)
        return 0

    def once(self, token, id, until_ns, segment):
        """Note what the put of a token was answered with, or forget that: it has ended."""
        hashed: uint64_t[2]
        memcpy(hashed, cython.cast(cython.p_const_char, token), 16)
        known: cython.Py_ssize_t = -1 if self.engine.once is None else self.engine.once.find(hashed[0], hashed[1])
        if known >= 0:
            forget(self.engine, known)
        noted: cython.pointer(Token) = note(self.engine, hashed, id, until_ns // SECOND_NS)
        noted.segment = cython.cast(uint32_t, segment)
        return self.engine.records.once_restored(noted)

    def drop_tokens(self, first_segment: uint64_t) -> None:
        """Forget the tokens that have ended in segments before one: who wrote the log has not moved them."""
        table: OnceTable = self.engine.once
        number: cython.Py_ssize_t = 0 if table is None else table.count
        while number:
            number -= 1
            if table.at(number).segment < first_segment:
                forget(self.engine, number)

    def rules(self, set_at_ns, text, segment):
        """Set the rules of a pattern: its text is followed by LF and theirs; without LF it has none any more."""
        engine: Engine = self.engine
        pattern, has_rules, lines = text.partition(b"\n")
        old: RuleSet = None if engine.rules is None else engine.rules.named(pattern)
        rules: RuleSet = RuleSet(pattern, parse(lines), set_at_ns) if has_rules else None
        if old is not None and rules is not None and old.text == rules.text and old.set_at_ns == set_at_ns:
            engine.records.rules_dropped(old)  # compaction has moved it: no tube need look for its rules
            rules = old
        else:
            replace_rules(engine, pattern, rules)
            attach_all(engine, pattern)
        if rules is not None:
            rules.segment = segment
            engine.records.rules_restored(rules)
        return 0

    def schedule(self, name, text, state, set_at_ns, level, segment):
        """Make a schedule, or replace its document and state; without a document it is dropped."""
        engine: Engine = self.engine
        old: Schedule = None if engine.schedules is None else engine.schedules.named(name)
        if old is not None:
            engine.records.schedule_dropped(old)
        if not text:
            return 0 if old is None else engine.schedules.drop(old)
        schedule: Schedule = engine.schedule_table().add(name, text, set_at_ns, level)
        schedule.segment = segment
        engine.records.schedule_restored(schedule)
        return self.set_state(schedule, state)

    def fired(self, name, state):
        """Give a schedule another state; False: it is not there."""
        schedule: Schedule = None if self.engine.schedules is None else self.engine.schedules.named(name)
        return schedule is not None and self.set_state(schedule, state) == 0

    def set_state(self, schedule, state):
        """Give a schedule a state, and let it wait as that says."""
        table: ScheduleTable = self.engine.schedules
        if schedule.state.last_ns and not state.last_ns:
            table.latest_wall_ns = 0  # a wrong clock was put right here
        table.latest_wall_ns = max(table.latest_wall_ns, state.last_ns)
        return table.set_state(schedule, state)

    def place(self, job, numbers):
        """Give a job its numbers and put it into its state."""
        engine: Engine = self.engine
        job.created_at_ns = numbers.created_at_ns
        job.pri = numbers.pri
        job.delay_s = numbers.delay_s
        job.ttr_s = numbers.ttr_s
        set_count(job, JobCount.RESERVES, numbers.reserve_count)
        set_count(job, JobCount.TIMEOUTS, numbers.timeout_count)
        set_count(job, JobCount.RELEASES, numbers.release_count)
        set_count(job, JobCount.BURIES, numbers.bury_count)
        set_count(job, JobCount.KICKS, numbers.kick_count)
        if job.flags & Flag.SUPERSEDED:
            self.superseded[job.id] = None
        if job.tag_bytes and is_under_way(job):
            self.under_way[job.id] = None
        elif self.under_way:
            self.under_way.pop(job.id, None)
        if self.kept:
            self.kept.pop(job.id, None)
        if numbers.state == State.DELAYED:
            engine.enter(job, State.DELAYED, numbers.deadline_at_ns)
            if numbers.deadline_at_ns > self.clock_ns + most_ns(job.delay_s):
                self.unconfirmed.append(job.id)
            return engine.arm(job.tube, numbers.deadline_at_ns)
        if numbers.state == State.BURIED:
            engine.buried_so_far_count = max(engine.buried_so_far_count, numbers.bury_order)
            return engine.enter(job, State.BURIED, cython.cast(int64_t, numbers.bury_order))
        assert numbers.state == State.READY, "a log holds a job in a state that is none of its states"
        since_ns: int64_t = 0
        if (
            job_count(job, JobCount.RESERVES) == 0
            and job_count(job, JobCount.BURIES) == 0
            and job_count(job, JobCount.KICKS) == 0
        ):
            since_ns = job.created_at_ns + job.delay_s * SECOND_NS
        return engine.enter_at(job, State.READY, job.pri, since_ns)

    def take_out(self, job):
        """Take a job out of the engine."""
        self.engine.leave(job)
        if job.tube.groups is not None:
            self.engine.end_of_group(job)
        if self.under_way:
            self.under_way.pop(job.id, None)
        if self.kept:
            self.kept.pop(job.id, None)
        if job.flags:
            forget_key(self.engine, job)
            self.superseded.pop(job.id, None)
        self.engine.records.job_dropped(job)
        note_bodies(job.tube, -1, -cython.cast(int64_t, job.body_bytes))
        return self.engine.jobs.remove(job)

    def drop_tube(self, tube):
        """Drop a tube if it is unused; sessions may have kept it when the log was written, so its pause is kept.

        A pause is not ended by time before the engine serves, so that it may be over.
        """
        if tube.paused_until_ns and self.engine.unused(tube):
            if tube.paused_until_ns > self.clock_ns:
                self.pauses[tube.name] = (tube.pause_s, tube.paused_until_ns, tube.segment)
            self.engine.records.tube_dropped(tube)
            tube.pause(0, 0)
        return self.engine.drop_if_unused(tube)

    def reach_job_id(self, next_job_id: uint64_t) -> None:
        """Let the next job's id be at least this: the ids before it were used."""
        self.engine.next_job_id = max(self.engine.next_job_id, next_job_id)

    def shard(self, *numbers: int) -> None:
        """Set the numbers of the shard; where there are fewer, NO_NUMBER stands behind them."""
        self.engine.set_shard(tuple([each for each in numbers if each != NO_NUMBER]))

    def advance(self, clock_ns):
        """Note a moment that the log mentions: whatever came before it was written before it."""
        self.clock_ns = max(self.clock_ns, clock_ns)
        if self.unconfirmed:
            for each in self.unconfirmed:
                if isinstance(each, bytes):
                    self.confirm_pause(self.engine.tube_named(each))
                elif isinstance(each, GroupPause):
                    self.confirm_group(each)
                else:
                    self.confirm_delay(self.engine.jobs.find(each))
            self.unconfirmed = []
        if self.engine.once is not None:
            forget_ended(self.engine, self.clock_ns, TOKENS_PER_TURN)
        pause: GroupPause = first_over(self.engine, self.clock_ns)
        while pause is not None:
            self.engine.records.group_dropped(pause)
            self.drop_tube(end_pause(self.engine, pause))
            pause = first_over(self.engine, self.clock_ns)
        self.engine.opened = None  # nobody waits
        return 0

    def confirm_delay(self, job):
        """Let a job be delayed for no longer than it was asked to be, from the last moment that the log mentions."""
        if job is None or job.state != State.DELAYED:
            return 0
        if deadline_of(job) <= self.clock_ns + most_ns(job.delay_s):
            return 0
        latest_ns: int64_t = self.clock_ns + job.delay_s * SECOND_NS
        self.engine.leave(job)
        self.engine.enter(job, State.DELAYED, latest_ns)
        return self.engine.arm(job.tube, latest_ns)

    def confirm_pause(self, tube):
        """Let a tube be paused for no longer than it was asked to be, as a job be delayed."""
        if tube is None or not tube.paused_until_ns:
            return 0
        if tube.paused_until_ns > self.clock_ns + most_ns(tube.pause_s):
            tube.pause(tube.pause_s, self.clock_ns + tube.pause_s * SECOND_NS)
            self.engine.arm(tube, tube.paused_until_ns)
        return 0

    def confirm_group(self, pause):
        """Let a group be paused for no longer than it was asked to be."""
        latest_ns: int64_t = self.clock_ns + pause.pause_s * SECOND_NS
        if pause.heap_index >= 0 and pause.until_ns > latest_ns + SECOND_NS - 1:
            set_pause(self.engine, pause.tube, pause.group, pause.pause_s, latest_ns)
        return 0

    def hold(self, job, token, seconds):
        """Let a job be held by a session that may return as soon as clients are taken."""
        engine: Engine = self.engine
        session: Session = None if engine.kept is None else engine.kept.get(token)
        if session is None:
            session = Session(engine.next_session_number, None)
            engine.next_session_number += 1
            engine.sessions.add(session)
            session.opened_at_ns = session.heard_at_ns = engine.started_at_ns
            keep(engine, session, token, seconds, False)
            lose(engine, engine.started_at_ns, session)
        engine.leave(job)
        job.place.holder = cython.cast(cython.p_void, session)
        due_ns: int64_t = engine.started_at_ns + max(job.ttr_s, session.keep.seconds) * SECOND_NS
        engine.enter_at(job, State.RESERVED, due_ns, engine.started_at_ns)
        if job.tube.rules is not None:
            close_if_taken(job.tube)
        return engine.arm(session, session.next_due_ns())

    def finish(self, now_ns: int64_t) -> set:
        """Let the engine begin to serve at a moment of the log's clock.

        Return the tubes whose pause is not over but that are not there: a tube of that name that is made later must not
        be paused.
        """
        self.advance(now_ns)
        self.engine.started_at_ns = now_ns
        if self.superseded:
            self.engine.unsettled = list(self.superseded)
        for each in self.engine.tube_list:
            begin_order(cython.cast(Tube, each, typecheck=True), self.engine.now_ns, now_ns)
        for id in self.under_way:
            job: Job = self.engine.jobs.find(id)
            if job.state != State.BURIED and id not in self.kept:
                defer(self.engine, now_ns, job)  # whoever had it is gone: the first tick lets the attempt fail
        for id, (token, seconds) in self.kept.items():
            self.hold(self.engine.jobs.find(id), token, seconds)
        table: ScheduleTable = self.engine.schedules
        if table is not None and table.names:
            table.computed = b""  # new zone data may say other times than those that lie ahead
            self.engine.schedules_at_ns = now_ns
        return {name for name, (_, until_ns, _) in self.pauses.items() if until_ns > now_ns}


@cython.cfunc
def begin_order(tube: Tube, now_ns: int64_t, started_at_ns: int64_t) -> cython.int:
    """Let after a start of each group the first job have begun that was handed out and has not ended."""
    if tube.groups is None or tube.rules is None or not tube.rules.group_strict:
        return 0
    recall(tube)
    groups: list = list(tube.groups.by_name.values())
    for each in groups:
        cython.cast(Group, each, typecheck=True).begun = 0
    for each in groups:
        note_begun(tube, cython.cast(Group, each, typecheck=True).ready)
    note_begun(tube, tube.delayed)
    if tube.rules.group_hold_buried:
        note_begun(tube, tube.buried)
    for each in groups:
        order(cython.cast(Group, each, typecheck=True))
        place(tube, cython.cast(Group, each, typecheck=True))
    return choose(tube, now_ns, started_at_ns)


@cython.cfunc
def note_begun(tube: Tube, heap: Heap) -> cython.int:
    """Note which jobs of a heap are the first of their groups that were handed out."""
    at: cython.Py_ssize_t
    for at in range(heap.count):
        job: Job = cython.cast(Job, heap.entries[at].item)
        if job_count(job, JobCount.RESERVES):
            group: Group = tube.groups.by_name[group_name(job)]
            if group.begun == 0 or job.id < group.begun:
                group.begun = job.id
                group.begun_is_buried = job.state == State.BURIED
    return 0
