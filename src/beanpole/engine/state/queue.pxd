# The header of queue.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.state.failures cimport Failures
from beanpole.engine.state.heap cimport Heap, Timed
from beanpole.engine.state.job cimport Flag, Job, State
from beanpole.engine.state.jobtable cimport ExpiryQueue, JobTable
from beanpole.engine.state.keys cimport KeyIndex
from beanpole.engine.state.once cimport OnceTable
from beanpole.engine.state.records cimport Records
from beanpole.engine.state.schedule cimport ScheduleTable
from beanpole.engine.state.session cimport Session, SessionList
from beanpole.engine.state.times cimport Count, JobTime, ServerTimes, Tally, count_in, place_of
from beanpole.engine.state.tube cimport Buckets, RuleTable, SpaceTable, Tube, Watch
from beanpole.protocol.commands cimport VERB_COUNT

cdef enum Outcome:
    # What became of a command.
    DONE = 0
    AGAIN = 1                            # nothing: there may be space for its record in the next turn

cdef class Queue:
    cdef readonly Py_ssize_t body_bytes_max   # bytes of a body; what the decoder lets through, shown in stats
    cdef readonly Records records        # what must survive a restart goes here
    cdef readonly object facts           # `Callable[[], Mapping[str, str]]`: the stats that only the process knows
    cdef public object describe
    # `Callable[[object], str]`: what the process knows of the owner of a session, and with None of what its log waits
    # for, in words
    cdef public object via
    # `Callable[[object], str]`: by what way the owner of a session has come, where the process knows; empty: it is not said
    cdef public object notice            # `Callable[[str], None]`: says what belongs into the server's own log
    cdef public int extensions           # which are served, by a format of a cluster's log; 0: none
    cdef readonly int64_t started_at_ns  # engine clock
    cdef public int64_t wall_lead_ns     # how far the wall clock is ahead of the engine's; who runs the turns says it
    cdef public int64_t wall_look_ns     # how long that may go unread while there are schedules
    cdef readonly int64_t now_ns         # when the last command or tick was; 0: there was none
    cdef public bint draining            # puts are refused
    cdef public object promised          # `Session | None`: whose puts no limit refuses, as a transaction has committed them
    cdef public Py_ssize_t tubes_max     # tubes at which use and watch make no more

    cdef readonly JobTable jobs
    cdef readonly uint64_t next_job_id   # the id of the next job
    cdef readonly tuple shard            # `tuple[int, ...]`: its numbers as a shard, rising; (): it has none, and ids end nowhere
    cdef uint64_t ids_looked_at          # the next job's id at which the next tick looks where the range of ids ends
    cdef dict tubes                      # name -> Tube
    cdef readonly list tube_list         # `list[Tube]`: the same tubes in the order of list-tubes
    cdef Tube default_tube
    cdef uint64_t tubes_created_count
    cdef uint64_t buried_so_far_count    # the key of the next buried job
    cdef Heap timers                     # tubes and sessions, by a time at which or before which they must be looked at
    cdef readonly RuleTable rules        # `RuleTable | None`: the rules of tubes
    cdef readonly SpaceTable spaces      # `SpaceTable | None`: how much may lie in tubes
    cdef bint recounting                 # not every tube is counted in its space yet: nothing is put
    cdef readonly ScheduleTable schedules   # `ScheduleTable | None`; None: there never was one
    cdef public int64_t schedules_at_ns         # when these must be looked at, engine clock; -1: there are none
    cdef public Py_ssize_t schedules_max # schedules at which set-schedule makes no more
    cdef readonly OnceTable once         # `OnceTable | None`: the tokens of puts that are done once; None: there never was one
    cdef public Py_ssize_t once_max      # tokens at which no put may have another
    cdef public Buckets buckets          # of tubes and groups that were forgotten before they were full
    cdef readonly Heap group_pauses      # `Heap | None`: every GroupPause, by its end; None: there never was one
    cdef uint64_t group_pauses_count     # pauses of groups ever
    cdef list opened                     # tubes that a command or a tick has opened, and not offered yet; None: none
    cdef KeyIndex keys                   # the jobs that hold a key; None: none ever did
    cdef ExpiryQueue expiry              # the jobs whose time to wait is limited; None: there never was one
    cdef readonly Failures failures      # jobs that have failed, counted
    cdef dict holders                    # number of a session -> the address of its client, of some whose jobs failed
    cdef list unsettled                  # ids of jobs that the next tick deletes, if they are superseded; None: none
    cdef list uncounted                  # ids of held jobs whose attempt is not counted yet, for want of room; None: none
    cdef int64_t uncounted_until_ns      # when these are looked at again, engine clock
    cdef list unattended                 # `list[LongCommand]`: what the next ticks do for sessions that are closed; None: none
    cdef Py_ssize_t moves_left           # jobs that may still come back in this turn from sessions that are closed
    cdef list woken                      # sessions that got a reply without a command of their own

    cdef Py_ssize_t[4] state_counts      # jobs by State
    cdef Py_ssize_t urgent_count         # ready jobs of a pri below URGENT_PRI_BELOW
    cdef uint64_t[VERB_COUNT] command_counts   # commands ever, by Verb
    cdef uint64_t command_count          # the sum of these
    cdef uint64_t timeout_count          # reservations ever that ran out
    cdef uint64_t total_jobs_count       # jobs ever put
    cdef readonly ServerTimes server_times
    cdef Tally total                     # what extensions did, over all tubes
    cdef dict tallies                    # Tube -> Tally: the same of each tube to which they did anything
    cdef SessionList sessions            # every open session, and those that lost their connections and may return
    cdef dict kept                       # hash of a token -> its session; None: nobody has one
    cdef readonly Py_ssize_t lost_count  # sessions that lost their connections and may return
    cdef uint64_t resumed_count          # sessions ever that have returned
    cdef bint takes_clients              # while not, no session's time to return runs
    cdef uint64_t next_session_number    # of the next session, the server's own included
    cdef readonly Py_ssize_t session_count       # open sessions; here and below without the server's own
    cdef readonly uint64_t total_session_count   # sessions ever
    cdef Py_ssize_t producer_count       # open sessions that put
    cdef Py_ssize_t worker_count         # open sessions that reserved
    cdef Py_ssize_t waiting_count        # open sessions that wait
    cdef uint64_t waits_begun_count      # waits ever
    cdef Py_ssize_t wide_watches         # watched tubes above which a session is wide (session.py)

    cdef Heap heap_of(self, Job job)
    cdef int leave(self, Job job) except -1
    cdef int enter(self, Job job, State state, int64_t key) except -1
    cdef int enter_at(self, Job job, State state, int64_t key, int64_t since_ns) except -1
    cdef int leave_of_group(self, Job job) except -1
    cdef int enter_of_group(self, Job job, State state, int64_t key) except -1
    cdef int end_of_group(self, Job job) except -1
    cdef int settle_next(self, Tube tube, bint is_offered) except -1
    cdef int note_opened(self, Tube tube) except -1
    cdef int make_ready(self, Job job) except -1
    cdef int enter_after(self, int64_t now_ns, Job job, int64_t delay_ns) except -1
    cdef int discard(self, Job job) except -1
    cdef int count_producer(self, Session session) except -1
    cdef int count_worker(self, Session session) except -1
    cdef Tube tube_named(self, bytes name)
    cdef Tube open_tube(self, bytes name)
    cdef bint too_many_tubes(self, bytes name) except -1
    cdef bint unused(self, Tube tube) noexcept
    cdef int drop_if_unused(self, Tube tube) except -1
    cdef int add_watch(self, Session session, Tube tube) except -1
    cdef int drop_watch(self, Session session, Watch watch) except -1
    cdef int switch_used(self, Session session, Tube tube) except -1
    cdef int count_use(self, Session session, int number) except -1
    cdef int tally(self, Tube tube, Count count, uint64_t number) except -1
    cdef int wait(self, Session session, int64_t until_ns) except -1
    cdef int stop_waiting(self, Session session) except -1
    cdef int wake(self, Session session) except -1
    cdef int tell(self, Session session, Tube tube) except -1
    cdef int end_told(self, Session session) except -1
    cdef int note_told(self, Tube tube) except -1
    cdef void count_command(self, int verb, int64_t count) noexcept
    cdef bint deadline_soon(self, int64_t now_ns, Session session) noexcept
    cdef int arm(self, Timed timed, int64_t due_ns) except -1
    cdef int64_t deadline(self) noexcept
    cdef ScheduleTable schedule_table(self)
    cdef int no_room(self, Session session, int room) except -1
    cdef int not_found(self, Session session) except -1

    # What the policies have to do with it: an engine says so.
    cdef int on_enter(self, Job job) except -1      # a job that has flags is about to stand in the heap of its state
    cdef int on_discard(self, Job job) except -1    # a job that has flags is deleted
    cdef int on_free(self, Job job) except -1       # nobody holds a job any more, of a tube that is closed
    cdef int on_open(self, Tube tube) except -1     # a tube was made, and there are rules
    cdef int on_drop(self, Tube tube) except -1     # a tube that has rules is forgotten

# What is timed of jobs and of sessions that wait for them. It stands in the header because it is part of every command:
# a call would cost more than the counting. No clock is read: the times are those of the turns.

cdef inline uint64_t microseconds(int64_t ns) noexcept:
    # A duration. After a start, a moment that a log says can still lie ahead: that makes none.
    return <uint64_t> ns // 1000 if ns > 0 else 0

cdef inline int note_time(Queue queue, Job job, JobTime what, uint64_t us) except -1:
    # Count how long a job took, which is not looked at through its tube: that would cost a reference.
    cdef Py_ssize_t place = place_of(&queue.server_times.scale, us)
    count_in(&queue.server_times.jobs[<int> what], place, us)
    if job.tube.times is None:
        job.tube.times = queue.server_times.times_of_a_tube()
        if job.tube.times is None:
            return 0
    count_in(&job.tube.times.jobs[<int> what], place, us)
    return 0

cdef inline int note_reserved(Queue queue, Job job) except -1:
    # A ready job is reserved.
    cdef int64_t since_ns = job.since_ns if job.since_ns else queue.started_at_ns
    note_time(queue, job, JobTime.TIME_READY, microseconds(queue.now_ns - since_ns))
    if job.flags & Flag.DUE:
        note_time(queue, job, JobTime.TIME_LATE, microseconds(queue.now_ns - since_ns))
    return 0

cdef inline int note_held(Queue queue, Job job) except -1:
    # A job leaves the hands of its holder.
    return note_time(queue, job, JobTime.TIME_HELD, microseconds(queue.now_ns - job.since_ns))

cdef inline void note_wait(Queue queue, Session session) noexcept:
    # A reserve gets its job. A session sends nothing while it waits: what it was heard of with last is the reserve.
    cdef uint64_t us = 0
    cdef Py_ssize_t place = 0
    if session.heard_at_ns != queue.now_ns:
        us = microseconds(queue.now_ns - session.heard_at_ns)
        place = place_of(&queue.server_times.scale, us)
    count_in(&queue.server_times.reserve_wait.bins, place, us)
