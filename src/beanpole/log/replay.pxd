# The header of replay.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.restore cimport Restore
from beanpole.log.encoder cimport Encoder
from beanpole.log.reader cimport Record, Verdict

@cython.final
cdef class Replay:
    cdef readonly Restore restore        # what the records are applied to
    cdef readonly Encoder records        # counts what is alive in each segment
    cdef readonly uint64_t record_count
    cdef readonly uint64_t orphan_count  # changes and deletes of jobs that are not there: compaction leaves them
    cdef readonly int64_t lead_ns        # the wall clock minus the log's, as it was mentioned last
    cdef readonly uint64_t durable_segment   # how far the log was durable, as its last turn mentions
    cdef readonly uint64_t durable_bytes
    cdef readonly uint64_t first_segment # the oldest segment that must be there, as was recorded last; 0: not known
    # The segment that was read last.
    cdef readonly uint32_t salt          # what the checksums of its records begin with
    cdef readonly Py_ssize_t good_bytes  # bytes up to the last good record
    cdef readonly bint ended             # it ends with an END record
    cdef readonly uint64_t next_segment  # the segment that is known to follow it; 0: none is
    cdef Verdict verdict                 # what stands behind good_bytes, if it has no end
    cdef readonly str problem            # `str | None`: the same in words; None: nothing is wrong
    cdef int apply(self, Record *record, uint32_t segment) except -1
