# The header of replay.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.restore cimport Restore
from beanpole.log.encoder cimport Encoder
from beanpole.log.reader cimport Record, Verdict

@cython.final
cdef class Replay:
    cdef readonly Restore restore        # what the records are applied to; None: they are only counted
    cdef readonly Encoder records        # counts what is alive in each segment; None, if `restore` is
    cdef readonly uint64_t record_count
    cdef readonly set orphans            # `set[int]`: jobs that a record changed and none held whole or deleted so far
    cdef readonly set lost_schedules     # `set[bytes]`: names of schedules that have fired, and no record has a document
    cdef readonly int64_t lead_ns        # the wall clock minus the log's, as it was mentioned last
    cdef readonly uint64_t durable_segment   # how far the log was durable, as its last turn mentions
    cdef readonly uint64_t durable_bytes
    cdef readonly uint64_t first_segment # the oldest segment that must be there, as was recorded last; 0: not known
    # The segment that was read last.
    cdef readonly uint32_t salt          # what the checksums of its records begin with
    cdef long counts[256]                # its good records, by kind
    cdef readonly Py_ssize_t good_bytes  # bytes up to the end of the last good record
    cdef readonly bint ended             # it ends with an END record
    cdef readonly uint64_t next_segment  # the segment that is known to follow it; 0: none is
    cdef bytes name                      # of the tube whose job was read last; None: none was
    cdef Verdict verdict                 # what stands behind good_bytes, if it has no end
    cdef readonly str problem            # `str | None`: the same in words; None: nothing is wrong
    cdef int put(self, Record *record, uint32_t segment) except -1
    cdef int apply(self, Record *record, uint32_t segment) except -1
