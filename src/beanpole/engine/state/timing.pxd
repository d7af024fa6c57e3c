# What is timed of jobs and of those who wait for them. It stands in a header because it is part of every command: a call
# would cost more than the counting. No clock is read: the times are those of the turns.
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.histogram cimport count_in, place_of
from beanpole.engine.state.job cimport Flag, Job
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.times cimport JobTime

cdef inline uint64_t microseconds(int64_t ns) noexcept:
    # A duration. After a start, a moment that a log says can still lie ahead: that makes none.
    return <uint64_t> ns // 1000 if ns > 0 else 0

cdef inline int note_time(Engine engine, Job job, JobTime what, uint64_t us) except -1:
    # Count how long a job took, which is not looked at through its tube: that would cost a reference.
    cdef Py_ssize_t place = place_of(&engine.server_times.scale, us)
    count_in(&engine.server_times.jobs[<int> what], place, us)
    if job.tube.times is None:
        job.tube.times = engine.server_times.times_of_a_tube()
        if job.tube.times is None:
            return 0
    count_in(&job.tube.times.jobs[<int> what], place, us)
    return 0

cdef inline int note_reserved(Engine engine, Job job) except -1:
    # A ready job is reserved.
    cdef int64_t since_ns = job.since_ns if job.since_ns else engine.started_at_ns
    note_time(engine, job, JobTime.TIME_READY, microseconds(engine.now_ns - since_ns))
    if job.flags & Flag.DUE:
        note_time(engine, job, JobTime.TIME_LATE, microseconds(engine.now_ns - since_ns))
    return 0

cdef inline int note_held(Engine engine, Job job) except -1:
    # A job leaves the hands of its holder.
    return note_time(engine, job, JobTime.TIME_HELD, microseconds(engine.now_ns - job.since_ns))

cdef inline void note_wait(Engine engine, Session session) noexcept:
    # A reserve gets its job. A session sends nothing while it waits: what it was heard of with last is the reserve.
    cdef uint64_t us = 0
    cdef Py_ssize_t place = 0
    if session.heard_at_ns != engine.now_ns:
        us = microseconds(engine.now_ns - session.heard_at_ns)
        place = place_of(&engine.server_times.scale, us)
    count_in(&engine.server_times.reserve_wait.bins, place, us)
