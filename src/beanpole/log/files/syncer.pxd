# The header of syncer.py.
cimport cython
from libc.stdint cimport int64_t

cdef enum:
    TARGETS_MAX = 64

cdef extern from "<sys/eventfd.h>" nogil:
    int eventfd(unsigned int initial, int flags)
    enum:
        EFD_CLOEXEC
        EFD_NONBLOCK

cdef extern from "<unistd.h>" nogil:
    ssize_t read(int fd, void *data, size_t size)
    ssize_t write(int fd, const void *data, size_t size)
    ssize_t pwrite(int fd, const void *data, size_t size, int64_t offset)
    int fdatasync(int fd)
    int fsync(int fd)
    int close(int fd)

@cython.final
cdef class Syncer:
    cdef int start_fd                    # an event: targets are set, or stop
    cdef int done_fd                     # an event: they are synced
    cdef int[TARGETS_MAX] targets        # descriptors to sync, in order
    cdef bint[TARGETS_MAX] whole         # fsync instead of fdatasync
    cdef int target_count
    cdef int failure                     # errno of the sync that failed; 0: none did
    cdef int64_t took_ns                 # how long the last sync took; while one is under way, minus when it began
    cdef bint stopping
    cdef object thread
    cdef void loop(self) noexcept nogil

cdef int fill(int fd, int64_t start, int64_t end) noexcept nogil
cdef int write_at(int fd, const char *data, Py_ssize_t size, int64_t at) noexcept nogil
cdef int sync_fd(int fd, bint whole) noexcept nogil
