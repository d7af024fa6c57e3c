# The header of replay.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.restore cimport Restore
from beanpole.log.encoder cimport Encoder

@cython.final
cdef class Replay:
    cdef readonly Restore restore        # what the records are applied to
    cdef readonly Encoder records        # counts what is alive in each segment
    cdef readonly uint64_t record_count
    cdef readonly uint64_t orphan_count  # changes and deletes of jobs that are not there: compaction leaves them
    cdef readonly int64_t lead_ns        # the wall clock minus the log's, as it was mentioned last
    cdef readonly uint64_t durable_segment   # how far the log was durable, as its last turn mentions
    cdef readonly uint64_t durable_bytes
    # The segment that was read last.
    cdef readonly uint32_t salt          # what the checksums of its records begin with
    cdef readonly Py_ssize_t good_bytes  # bytes up to the last good record
    cdef readonly bint ended             # it ends with an END record
    cdef readonly str problem            # `str | None`: what is wrong behind good_bytes
    cdef readonly bint nonsense          # ... although its checksum is good: no crash leaves that
    cdef int apply(self, const unsigned char *at, Py_ssize_t size, uint64_t segment) except -1
    cdef int whole(self, const unsigned char *at, Py_ssize_t size, uint64_t segment) except -1
    cdef int changed(self, const unsigned char *at) except -1
