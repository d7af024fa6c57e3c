# The header of tags.py.
from libc.stdint cimport uint16_t

from beanpole.engine.job cimport Job

cpdef enum Tag:
    # The tags of a job that mean something here (docs/wal-format.md).
    FAILURE_TEXT = 131                   # why its last attempt failed, as its worker said

cdef const char *find_tag(Job job, Tag tag, Py_ssize_t *size) noexcept
cdef Py_ssize_t tags_after(Job job, Tag tag, Py_ssize_t size) noexcept
cdef int put_tag(Job job, Tag tag, const char *data, Py_ssize_t size) except -1
