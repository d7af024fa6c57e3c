# The header of replay.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.job cimport Job

@cython.final
cdef class Replay:
    cdef readonly Engine engine          # what the records are applied to
    cdef readonly uint64_t next_job_id   # the highest that a header or an end mentions
    cdef readonly uint64_t record_count
    cdef readonly uint64_t orphan_count  # changes and deletes of jobs that are not there: compaction leaves them
    cdef readonly int64_t last_ns        # the latest time that the log mentions, by its own clock
    cdef readonly int64_t lead_ns        # the wall clock minus the log's, as it was mentioned last
    cdef readonly uint64_t durable_segment   # how far the log was durable, as its last turn mentions
    cdef readonly uint64_t durable_bytes
    # The segment that was read last.
    cdef readonly uint32_t salt          # what the checksums of its records begin with
    cdef readonly Py_ssize_t good_bytes  # bytes up to the last good record
    cdef readonly bint ended             # it ends with an END record
    cdef readonly str problem            # `str | None`: what is wrong behind good_bytes
    cdef readonly bint nonsense          # ... although its checksum is good: no crash leaves that
    cdef dict pauses                     # name -> (pause in seconds, until, by the log's clock, in ns)
    cdef int apply(self, const unsigned char *at, Py_ssize_t size, uint64_t segment) except -1
    cdef int whole(self, const unsigned char *at, Py_ssize_t size, uint64_t segment) except -1
    cdef int changed(self, const unsigned char *at) except -1
    cdef int deleted(self, uint64_t id) except -1
    cdef int take_out(self, Job job) except -1
