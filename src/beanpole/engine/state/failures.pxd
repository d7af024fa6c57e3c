# The header of failures.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.state.job cimport Job, State
from beanpole.engine.state.tags cimport Death

cpdef enum Why:
    # Why a job died; the numbers stand in the log.
    ATTEMPTS = 1                         # its last attempt failed
    EXPIRED = 2                          # it waited for too long
    FAILED = 3                           # its worker gave it up

@cython.final
cdef class Group:
    cdef readonly bytes tube             # in which they failed; None: in any that has no groups of its own
    cdef readonly str error              # what they have in common; empty: no worker said anything; None: nothing
    cdef readonly str line               # the first line of what one of them says
    cdef readonly uint64_t count
    cdef uint64_t[4] whys                # how many died for each Why, and at 0 how many were buried without
    cdef readonly uint64_t last_id       # the one that failed last
    cdef readonly int64_t first_ns       # when the first died, engine clock; 0: none did
    cdef readonly int64_t last_ns

@cython.final
cdef class Failures:
    cdef dict tubes                      # name -> what they have in common -> Group; None is what is beyond these
    cdef readonly uint64_t total         # jobs that have failed
    cdef readonly Py_ssize_t group_count
    cdef bytes last_text                 # a text, and what was made of it
    cdef str last_line
    cdef str last_error
    cdef Py_ssize_t unpaid               # what reading texts has cost, in jobs, since somebody asked
    cdef int add(self, Job job) except -1
    cdef int remove(self, Job job) except -1
    cdef Group group_of(self, Job job, Death *death, bint make)
    cdef Py_ssize_t cost(self)

cdef inline int enter_counts(Failures failures, Job job) except -1:
    # Count a job that has come into a state, if it has failed; most have neither tags nor are they buried.
    return failures.add(job) if job.tag_bytes != 0 or job.state == State.BURIED else 0

cdef inline int leave_counts(Failures failures, Job job) except -1:
    # Count a job that is about to leave its state no more, if it has failed.
    return failures.remove(job) if job.tag_bytes != 0 or job.state == State.BURIED else 0
