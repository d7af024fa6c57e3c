# The header of tube.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from beanpole.engine.state.breaker cimport Breaker
from beanpole.engine.state.heap cimport Heap, Item, Timed
from beanpole.engine.state.times cimport Ages, TubeTimes

cdef enum:
    RULE_TAGS_BYTES = 32                 # of the tags that rules give a job: of its attempts, expiry and key

cdef struct Rate:
    # How fast a bucket of tokens fills; policies/throttle.py says what that is.
    int64_t interval_ns                  # from one token to the next; 0: there is no such rule
    int64_t burst                        # tokens that there can be at once

@cython.final
cdef class RuleSet:
    cdef readonly bytes pattern          # the tubes that it is for: a name, a prefix with `*` behind it, or `*`
    cdef readonly bytes text             # its lines, as get-rules shows them
    cdef readonly int64_t set_at_ns      # when they were set, engine clock
    cdef readonly uint64_t segment       # the log's segment with their record; 0: none
    # What they say, as numbers; 0 or None: there is no such rule.
    cdef public uint32_t attempts      # attempts after which a job is dead
    cdef public bytes dead             # the tube of the dead
    cdef public int64_t backoff_ns     # delay after the first attempt
    cdef public uint32_t backoff_factor_1000   # how much longer each next one is, in thousandths
    cdef public int64_t backoff_max_ns
    cdef public int64_t expire_ns      # how long a job may wait
    cdef public bint expire_dead       # who waited so long is dead, not deleted
    cdef public bint unique            # the body is the key
    cdef public bint unique_until_reserve
    cdef public bint unique_replace
    cdef public uint32_t jobs_max      # ready and delayed jobs beyond which puts are refused
    cdef public int64_t bytes_max      # bytes of all bodies beyond which puts are refused
    cdef Rate rate                     # how fast jobs are handed out
    cdef public uint32_t concurrency   # held jobs beyond which reserve takes none
    cdef public uint32_t breaker_percent   # the share of attempts whose failure closes the tube
    cdef public uint32_t breaker_count     # attempts that there must have been
    cdef public int64_t breaker_window_ns  # within which they have ended
    cdef public int64_t breaker_probe_ns   # from one probe to the next
    cdef public bint breaker_by_group      # each group has a breaker, and that of the tube counts nothing
    cdef public bint groups_fair       # the priority of jobs does not count between groups
    cdef public bint groups_split      # a put into a tube `a;b` is one into `a`, of group `b`
    cdef public uint32_t group_concurrency   # held jobs of a group beyond which reserve takes none of it
    cdef Rate group_rate               # the same of each group
    cdef public bint group_strict      # what was handed out of a group ends before the next begins
    cdef public bint group_hold_buried   # a buried job has not ended
    cdef public uint32_t group_jobs_max   # ready and delayed jobs of a group beyond which puts are refused
    cdef public dict group_weights     # `dict[bytes, int] | None`: the weights that are not 1

@cython.final
cdef class RuleTable:
    cdef dict sets                       # pattern -> RuleSet
    cdef list prefixes                   # what patterns with a `*` have before it, in order; None: it has changed
    cdef list above                      # of each of them the index of the longest other one that it begins with, or -1
    cdef RuleSet match(self, bytes name)
    cdef bytes home_of(self, bytes name)
    cdef int order(self) except -1
    cdef RuleSet named(self, bytes pattern)
    cdef int add(self, RuleSet rules) except -1
    cdef int drop(self, bytes pattern) except -1

@cython.final
cdef class Buckets:
    # Buckets of tubes, and of their groups, that were forgotten before they were full.
    cdef dict by_name                    # name -> (when it is full, interval, burst), the longest kept first
    cdef readonly Py_ssize_t count_max   # as many are kept
    cdef int keep(self, bytes name, Rate rate, int64_t full_at_ns, int64_t now_ns) except -1
    cdef int64_t take(self, bytes name, Rate rate) except -1

cpdef enum Closed:
    # Why nothing may be reserved from a tube, as bits.
    PAUSED = 1                           # by pause-tube, set while `paused_until_ns` is; of a group by pause-group
    RATE = 2                             # by its rule `rate`
    CONCURRENCY = 4                      # by its rule `concurrency`
    BREAKER = 8                          # by its rule `breaker`; not while it may hand out a probe
    ORDER = 64                           # of a group, by the rule `group-order`

@cython.final
cdef class GroupPause(Item):
    # That a group is paused. As an Item, it stands in Queue.group_pauses.
    cdef readonly bytes tube
    cdef readonly bytes group
    cdef readonly uint32_t pause_s       # seconds that it was asked for
    cdef readonly int64_t until_ns       # engine clock; 0: it is over

@cython.final
cdef class Group(Item):
    # The jobs of a tube that have a group. As an Item, it stands in one of the heaps of Groups, or in none.
    cdef readonly bytes name             # empty: of those that have none
    cdef RuleSet rules                   # `RuleSet | None`: those that it goes by: the tube's, or those from before
    cdef Heap ready                      # its ready jobs by (pri, id), but for the one that is next in the tube
    cdef Py_ssize_t[4] counts            # its jobs by State
    cdef GroupPause pause                # `GroupPause | None`
    cdef Breaker breaker                 # `Breaker | None`: what the rule `breaker` has counted; None: not by group
    cdef uint64_t begun                  # the job that was handed out and has not ended, where the order is strict; 0: none
    cdef uint64_t served                 # how often a job of the tube was taken before one of this group was, last
    cdef int64_t full_at_ns              # when its bucket is full if nobody takes a token, engine clock
    cdef uint32_t place                  # in the list of all
    cdef uint32_t weight                 # how much of the tube it may have beside others, 1 to 1000
    cdef uint8_t closed                  # bits of Closed; 0: its jobs may be reserved
    cdef uint8_t is_new                  # it has no job, and is served after all others when it has one
    cdef uint8_t is_timed                # in which heap it stands: Groups.timed, not Groups.open
    cdef uint8_t begun_is_buried         # the job that has begun is buried, and has not ended for that

@cython.final
cdef class Groups:
    # The groups of a tube, if it has some.
    cdef dict by_name                    # name -> Group
    cdef list all                        # `list[Group]`: the same in no order
    cdef Py_ssize_t stale_count          # at the front of the list, those that may go by rules from before
    cdef int64_t rated_at_ns             # since when the rule `group-rate` is as it is, engine clock
    cdef Buckets buckets                 # the engine's, of tubes and groups that are gone
    cdef Heap open                       # those from which a job may be reserved, by share
    cdef Heap timed                      # those that are closed until a moment, by it
    cdef Group next                      # that of the job in Tube.ready; None: there is none
    cdef Py_ssize_t ready_count          # ready jobs of all
    cdef Py_ssize_t paused_count         # groups that are paused: while there is one, the tube is there
    cdef uint64_t served_count           # jobs ever taken, and groups ever made

@cython.final
cdef class Watch(Item):
    # As an Item, it stands in its session's heap of tubes, if that is wide.
    cdef Item session                    # the Session that watches
    cdef Tube tube                       # the tube that it watches
    cdef Py_ssize_t index                # its place in the session's list of watches
    cdef Watch earlier                   # the watch before it in the tube's waiting line; None: it is first
    cdef Watch later                     # the watch behind it; None: it is last

@cython.final
cdef class Space:
    # What lies in the tubes for which it is the space with the longest pattern, together, and how much may. 0: no limit
    cdef readonly bytes pattern          # a name, a prefix with `*` behind it, or `*`
    cdef readonly int64_t jobs_max       # jobs of any state at which no more are put
    cdef readonly int64_t bytes_max      # bytes of all bodies beyond which nothing is put
    cdef readonly int64_t tubes_max      # tubes at which no more are made
    cdef readonly int64_t job_count
    cdef readonly int64_t body_bytes
    cdef readonly int64_t tube_count

@cython.final
cdef class SpaceTable:
    cdef readonly dict spaces            # `dict[bytes, Space]`: by their patterns
    cdef tuple sizes                     # how long the prefixes of those with a `*` are, the longest first
    cdef Space of(self, bytes name)
    cdef bint is_full(self, bytes name) except -1
    cdef int enter(self, Tube tube, Py_ssize_t jobs) except -1

@cython.final
cdef class Tube(Timed):
    cdef readonly bytes name
    cdef readonly bytes tags             # tagged fields, as they stand in the log; None: none
    cdef readonly RuleSet rules          # `RuleSet | None`: its rules
    cdef readonly Space space            # `Space | None`: in which its jobs are counted
    cdef int64_t full_at_ns              # when the bucket of its rule `rate` is full if nobody takes a token, engine clock
    cdef readonly Breaker breaker        # `Breaker | None`: what its rule `breaker` has counted; None: no such rule
    cdef readonly TubeTimes times        # `TubeTimes | None`: how long its jobs took; None: nothing is timed yet
    cdef Heap ready                      # jobs by (pri, id); where there are groups, the next one alone
    cdef Groups groups                   # `Groups | None`: whose jobs they are; None: none has a group
    cdef Heap delayed                    # jobs by (deadline, id)
    cdef Heap buried                     # jobs by the order of burying
    cdef Watch first_waiting             # the session that has waited longest; None: nobody waits
    cdef Watch last_waiting
    cdef dict wide                       # the watches of wide sessions, as keys; None: no such session watches it
    cdef readonly int64_t body_bytes          # bytes of the bodies of all its jobs
    cdef readonly uint32_t reserved_count     # jobs that sessions hold
    cdef readonly uint32_t using_count        # sessions that use it
    cdef readonly uint32_t watching_count     # sessions that watch it
    cdef readonly uint32_t waiting_count      # sessions in its waiting line, where wide ones don't stand
    cdef readonly uint32_t urgent_count       # ready jobs of a pri below URGENT_PRI_BELOW
    cdef readonly uint32_t pause_count        # successful pause-tube commands
    cdef readonly uint32_t pause_s            # seconds that the current pause was asked for; 0: not paused
    cdef uint32_t total_lost_count            # reservations that ended with the session
    cdef readonly uint64_t total_jobs_count   # jobs ever put into it
    cdef readonly uint64_t delete_count       # jobs ever deleted from it
    cdef uint64_t total_reserve_count    # how often its jobs were reserved, and below what else became of them
    cdef uint64_t total_release_count    # by release, snooze-job or fail-job
    cdef uint64_t total_bury_count       # also as they died
    cdef uint64_t total_kick_count
    cdef uint64_t total_timeout_count    # reservations that ran out
    cdef Ages ages                       # since when its ready jobs are ready
    cdef uint8_t hidden                       # one session's own, in the place of one to which it has no right: in no list, never with a job
    cdef readonly uint8_t closed              # bits of Closed; 0: its jobs may be reserved
    cdef readonly uint32_t told_count         # sessions that were told of it: a ready job is left to each
    cdef readonly int64_t paused_until_ns     # engine clock; 0: not paused
    cdef void pause(self, uint32_t seconds, int64_t until_ns) noexcept
    cdef void join_waiting(self, Watch watch) noexcept
    cdef void leave_waiting(self, Watch watch) noexcept

cdef inline void note_bodies(Tube tube, int jobs, int64_t size) noexcept:
    # So many more jobs are in a tube, or fewer, with so many more bytes of bodies.
    tube.body_bytes += size
    if tube.space is not None:
        tube.space.job_count += jobs
        tube.space.body_bytes += size

cdef inline int64_t filled_ns(Rate rate, int64_t since_ns) noexcept:
    # When a bucket is full that is empty at a moment.
    return since_ns + rate.burst * rate.interval_ns

cdef inline int64_t token_ns(Rate rate, int64_t full_at_ns) noexcept:
    # When the next token can be taken from a bucket: it lacks all but one.
    return full_at_ns - (rate.burst - 1) * rate.interval_ns

cdef inline int64_t taken_ns(Rate rate, int64_t full_at_ns, int64_t now_ns) noexcept:
    # When a bucket is full of which a token is taken now.
    return max(full_at_ns, now_ns) + rate.interval_ns

cdef inline bint has_token(Rate rate, int64_t *full_at_ns, int64_t now_ns, int64_t started_at_ns) noexcept:
    # Whether a token can be taken by now from a bucket for which somebody waited; after a start it is empty.
    full_at_ns[0] = max(full_at_ns[0], filled_ns(rate, started_at_ns))
    return token_ns(rate, full_at_ns[0]) <= now_ns

cdef inline bint is_same_rate(Rate a, Rate b) noexcept:
    return a.interval_ns == b.interval_ns and a.burst == b.burst

cdef inline int64_t token_at_ns(Tube tube) noexcept:
    # When the next token can be taken from a tube with the rule `rate`.
    return token_ns(tube.rules.rate, tube.full_at_ns)

cdef inline bint is_broken(Tube tube) noexcept:
    # Whether its breaker has closed a tube, also while it may hand out a probe.
    return tube.breaker is not None and tube.breaker.probe_at_ns != 0

cdef inline bint awaits_probe(Tube tube) noexcept:
    # Whether a tube with a breaker waits for the time of a probe.
    return tube.closed & Closed.BREAKER and tube.breaker.probe_id == 0

cdef inline bint can_serve(Tube tube) noexcept:
    # Whether a job may be reserved from a tube.
    return tube.ready.count != 0 and tube.closed == 0

cdef inline bint may_close(Tube tube) noexcept:
    # Whether a tube may have nothing to give when one of its jobs has been handed out, though others are ready.
    if tube.groups is not None or tube.rules is None:
        return tube.groups is not None
    return tube.rules.concurrency != 0 or tube.rules.rate.interval_ns != 0 or tube.rules.breaker_percent != 0

cdef inline bint can_offer(Tube tube) noexcept:
    # Whether a tube has a job for one more session that waits, besides those that are left to sessions that were told.
    if not can_serve(tube):
        return False
    return tube.told_count == 0 or (not may_close(tube) and tube.ready.count > tube.told_count)

cdef inline bint is_awaited(Tube tube) noexcept:
    # Whether sessions may wait for a job of a tube; of wide ones it knows only when it asks them.
    return tube.waiting_count != 0 or tube.wide is not None
