# The header of engine.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.state.expiryqueue cimport ExpiryQueue
from beanpole.engine.state.heap cimport Heap, Timed
from beanpole.engine.state.job cimport Job, State
from beanpole.engine.state.jobtable cimport JobTable
from beanpole.engine.state.keys cimport KeyIndex
from beanpole.engine.state.records cimport Records
from beanpole.engine.state.ruletable cimport RuleTable
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.sessionlist cimport SessionList
from beanpole.engine.state.tally cimport Count, Tally
from beanpole.engine.state.times cimport ServerTimes
from beanpole.engine.state.tube cimport Tube, Watch
from beanpole.engine.state.tubelist cimport TubeList
from beanpole.protocol.commands cimport Command, Verb

cdef enum Outcome:
    # What became of a command.
    DONE = 0
    AGAIN = 1                            # nothing: there may be space for its record in the next turn

@cython.final
cdef class Engine:
    cdef readonly Py_ssize_t body_bytes_max   # bytes of a body; what the decoder lets through, shown in stats
    cdef readonly Records records        # what must survive a restart goes here
    cdef readonly object facts           # `Callable[[], Mapping[str, str]]`: the stats that only the process knows
    cdef public object describe
    # `Callable[[object], str]`: what the process knows of the owner of a session, and with None of what its log waits
    # for, in words
    cdef public bint extensions          # commands that beanstalkd does not know are served
    cdef readonly int64_t started_at_ns  # engine clock
    cdef public int64_t wall_lead_ns     # how far the wall clock is ahead of the engine's: for what clients are shown
    cdef readonly int64_t now_ns         # when the last command or tick was; 0: there was none
    cdef public bint draining            # puts are refused
    cdef public Py_ssize_t tubes_max     # tubes at which use and watch make no more

    cdef readonly JobTable jobs
    cdef readonly uint64_t next_job_id   # the id of the next job
    cdef dict tubes                      # name -> Tube
    cdef readonly list tube_list         # `list[Tube]`: the same tubes in the order of list-tubes
    cdef TubeList listed                 # them with the text of list-tubes
    cdef Tube default_tube
    cdef uint64_t tubes_created_count
    cdef uint64_t buried_so_far_count    # the key of the next buried job
    cdef Heap timers                     # tubes and sessions, by a time at which or before which they must be looked at
    cdef readonly RuleTable rules        # `RuleTable | None`: the rules of tubes
    cdef dict buckets                    # name -> when its bucket is full: of tubes that were forgotten before it was
    cdef list opened                     # tubes that a command or a tick has opened, and not offered yet; None: none
    cdef KeyIndex keys                   # the jobs that hold a key; None: none ever did
    cdef ExpiryQueue expiry              # the jobs whose time to wait is limited; None: there never was one
    cdef list unsettled                  # ids of jobs that the next tick deletes, if they are superseded; None: none
    cdef list uncounted                  # ids of held jobs whose attempt is not counted yet, for want of room; None: none
    cdef int64_t uncounted_until_ns      # when these are looked at again, engine clock
    cdef list unattended                 # `list[Work]`: what the next ticks do for sessions that are closed; None: none
    cdef Py_ssize_t moves_left           # jobs that may still come back in this turn from sessions that are closed
    cdef list woken                      # sessions that got a reply without a command of their own

    cdef Py_ssize_t[4] state_counts      # jobs by State
    cdef Py_ssize_t urgent_count         # ready jobs of a pri below URGENT_PRI_BELOW
    cdef uint64_t[64] command_counts     # commands ever, by Verb
    cdef uint64_t timeout_count          # reservations ever that ran out
    cdef uint64_t total_jobs_count       # jobs ever put
    cdef readonly ServerTimes server_times
    cdef Tally total                     # what extensions did, over all tubes
    cdef dict tallies                    # Tube -> Tally: the same of each tube to which they did anything
    cdef SessionList sessions            # every open session
    cdef uint64_t sessions_opened_count  # sessions ever, the server's own included: the number of the next one
    cdef readonly Py_ssize_t session_count       # open sessions; here and below without the server's own
    cdef readonly uint64_t total_session_count   # sessions ever
    cdef Py_ssize_t producer_count       # open sessions that put
    cdef Py_ssize_t worker_count         # open sessions that reserved
    cdef Py_ssize_t waiting_count        # open sessions that wait
    cdef uint64_t waits_begun_count      # waits ever
    cdef Py_ssize_t wide_watches         # watched tubes above which a session is wide (wide.py)

    cdef Heap heap_of(self, Job job)
    cdef int leave(self, Job job) except -1
    cdef int enter(self, Job job, State state, int64_t key) except -1
    cdef int enter_at(self, Job job, State state, int64_t key, int64_t since_ns) except -1
    cdef int make_ready(self, Job job) except -1
    cdef int enter_after(self, int64_t now_ns, Job job, int64_t delay_ns) except -1
    cdef int bury_job(self, Job job) except -1
    cdef int discard(self, Job job) except -1
    cdef int hold(self, int64_t now_ns, Session session, Job job) except -1
    cdef int take(self, int64_t now_ns, Session session, Job job) except -1
    cdef int reserve_for(self, int64_t now_ns, Session session, Job job) except -1
    cdef int arm(self, Timed timed, int64_t due_ns) except -1
    cdef Tube tube_named(self, bytes name)
    cdef Tube open_tube(self, bytes name)
    cdef bint too_many_tubes(self, bytes name) except -1
    cdef bint unused(self, Tube tube) noexcept
    cdef int drop_if_unused(self, Tube tube) except -1
    cdef int add_watch(self, Session session, Tube tube) except -1
    cdef int drop_watch(self, Session session, Watch watch) except -1
    cdef int count_use(self, Session session, int number) except -1
    cdef int switch_used(self, Session session, Tube tube) except -1
    cdef int offer(self, int64_t now_ns, Tube tube) except -1
    cdef bint serve(self, int64_t now_ns, Tube tube, Session session) except -1
    cdef int offer_all(self, int64_t now_ns, list tubes) except -1
    cdef int wait(self, Session session, int64_t until_ns) except -1
    cdef int stop_waiting(self, Session session) except -1
    cdef int wake(self, Session session) except -1
    cdef bint deadline_soon(self, int64_t now_ns, Session session) noexcept
    cdef int64_t deadline(self) noexcept
    cdef int count_worker(self, Session session) except -1
    cdef int count_producer(self, Session session) except -1
    cdef int half_close(self, int64_t now_ns, Session session) except -1
    cdef Py_ssize_t run_timers(self, int64_t now_ns, Py_ssize_t most) except -1
    cdef int run_timer(self, int64_t now_ns, Timed timed, list changed, Py_ssize_t most) except -1
    cdef int end_time_to_run(self, int64_t now_ns, Job job, list changed) except -1
    cdef int answer_waiting(self, int64_t now_ns, Session session) except -1
    cpdef int apply(self, int64_t now_ns, Session session, Command command) except -1
    cdef int run(self, int64_t now_ns, Session session, Command command) except -1
    cdef int reserve(self, int64_t now_ns, Session session, int64_t until_ns) except -1
    cdef int reserve_job(self, int64_t now_ns, Session session, uint64_t id) except -1
    cdef int no_room(self, Session session, Verb verb, int64_t size) except -1
    cdef int not_found(self, Session session) except -1
    cdef int delete(self, Session session, uint64_t id) except -1
    cdef bint delete_job(self, Session session, uint64_t id) except -1
    cdef int tally(self, Tube tube, Count count, uint64_t number) except -1
    cdef int release(self, int64_t now_ns, Session session, Command command) except -1
    cdef int bury(self, int64_t now_ns, Session session, Command command) except -1
    cdef bint touch_job(self, int64_t now_ns, Session session, uint64_t id) except -1
    cdef int touch(self, int64_t now_ns, Session session, uint64_t id) except -1
