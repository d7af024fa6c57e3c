# The header of tags.py.
from libc.stdint cimport uint16_t

from beanpole.engine.job cimport Job

cpdef enum Tag:
    # The tags of a job that mean something here (docs/wal-format.md).
    KEY = 1                              # bits of KeyBit, and the key
    FAILURE_TEXT = 131                   # why its last attempt failed, as its worker said

cpdef enum KeyBit:
    UNTIL_RESERVE = 1                    # the key is free when the job is handed out
    SUPERSEDED = 2                       # another job took the key while this one was held
    FREED = 8                            # the job doesn't hold the key again

cdef int read_flags(Job job) except -1
cdef const char *find_tag(Job job, Tag tag, Py_ssize_t *size) noexcept
cdef Py_ssize_t tags_after(Job job, Tag tag, Py_ssize_t size) noexcept
cdef int put_tag(Job job, Tag tag, const char *data, Py_ssize_t size) except -1
