# The header of breaker.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.breaker cimport Breaker
from beanpole.engine.state.groups cimport breaker_of
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.tube cimport Tube

cdef int note_failure(Queue queue, int64_t now_ns, Job job) except -1
cdef int note_success(Queue queue, Job job) except -1
cdef int begin_probe(Job job) except -1
cdef int free_probe(Queue queue, Job job) except -1

cdef inline bint is_excused(Job job, int64_t now_ns) except -1:
    # Whether an attempt at a held job that fails now is none: its tube was closed before, and the job is no probe. What
    # fails at the moment of the closing counts, so that it is all the same what a tick or a turn looks at first.
    cdef Breaker breaker = breaker_of(job)
    return (
        breaker is not None and breaker.probe_at_ns != 0 and breaker.closed_at_ns < now_ns and breaker.probe_id != job.id
    )
