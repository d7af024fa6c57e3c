# The header of eventqueue.py.
cimport cython
from libc.errno cimport EAGAIN, EINTR
from libc.errno cimport errno as last_error
from libc.stdint cimport int64_t
from libc.string cimport memcmp

from beanpole cimport posix

cdef class Stranger:
    cdef int wake(self, int64_t now_ns) except -1

cdef class Greeter:
    cdef int meet(self, int64_t now_ns, int fd, int listener) except -1
    cdef bint make_room(self, int64_t now_ns) except -1

@cython.final
cdef class Welcome(Greeter):
    # One that is not compiled: see `EventQueue.greet`.
    cdef object call                     # `Callable[[int], object]`

cdef class EventQueue:
    cdef int epoll_fd
    cdef int timer_fd
    cdef public int64_t clock_offset_ns  # the engine's clock minus the monotonic one
    cdef object clock                    # `Callable[[], int]`, the monotonic clock; None: that of the system
    cdef int64_t armed_ns                # when timer_fd fires, engine clock; 0: not armed
    cdef public object observer          # what is reported to an operator; see server.app.Observer
    cdef dict listeners                  # descriptors that accept -> whether they are Unix sockets
    cdef dict greeters                   # listeners -> Greeter, of those whose clients are met by one
    cdef readonly dict strangers         # descriptors -> Stranger, of those that are no clients yet, in order
    cdef int64_t accept_retry_ns         # when accepting is tried again, engine clock; 0: it is not paused
    cdef int64_t accept_report_ns          # nothing is reported again before, engine clock
    # asyncio, if its loop waits here: beanpole.server.loop.
    cdef int loop_fd                     # behind which the loop's descriptors are; -1: it does not
    cdef bint loop_ready                 # one of them is ready
    cdef public bint interrupted         # the loop was asked for a call, or to look at its timers
    cdef dict readers                    # descriptors -> what is called when they are readable, after a turn
    cdef list readable                   # those of them that are, in this turn; None: none is
    cdef int run_turn(self, int wait_ms) except -1
    cdef bint is_busy(self) noexcept
    cdef int note_own(self, int fd) except -1
    cdef int call_readers(self) except -1
    cdef int64_t now(self) except? -1
    cdef int watch_fd(self, int fd, unsigned int events, int operation) except -1
    cdef int close_fd(self, int fd) except -1
    cdef int wake_by(self, int64_t now_ns, int64_t due_ns) except -1
    cdef int pause_accepting(self, int64_t now_ns, int reason) except -1
    cdef int resume_accepting(self) except -1
    cdef bint has_no_place(self) except -1
    cdef bint make_room(self, int64_t now_ns) except -1
    cdef int accept_from(self, int64_t now_ns, int listener) except -2     # the descriptor, or -1

cdef inline Py_ssize_t send_now(int fd, const char *data, Py_ssize_t size) noexcept nogil:
    # Send at once what the kernel takes, and return how much that is; -1: it refuses, errno says why.
    cdef Py_ssize_t sent
    while True:
        sent = posix.send(fd, data, size, posix.MSG_NOSIGNAL | posix.MSG_DONTWAIT)
        if sent >= 0:
            return sent
        if last_error != EINTR:
            return 0 if last_error == EAGAIN else -1

cdef enum:
    GREETING_BYTES = 9                   # of `beanpole-`, with which every first line between servers begins, and no command

cdef inline bint greets(const char *data, Py_ssize_t size) noexcept nogil:
    # Whether what a connection sends first begins so, as far as it has come.
    return memcmp(data, b"beanpole-", min(size, <Py_ssize_t>GREETING_BYTES)) == 0
