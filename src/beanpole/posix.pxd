# The few functions of the system and the compiler that Cython does not declare: for the servers, the log and the load generator.
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from * nogil:
    int count_leading_zeros "__builtin_clzll"(unsigned long long value)

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        int fd
        uint32_t u32
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)
    int epoll_wait(int epfd, epoll_event *events, int maxevents, int timeout_ms)
    enum:
        EPOLLIN
        EPOLLOUT
        EPOLLPRI
        EPOLLRDHUP
        EPOLLHUP
        EPOLLERR
        EPOLLET
        EPOLL_CLOEXEC
        EPOLL_CTL_ADD
        EPOLL_CTL_MOD
        EPOLL_CTL_DEL

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec

cdef extern from "<sys/socket.h>" nogil:
    struct sockaddr:
        pass
    ctypedef unsigned int socklen_t
    int accept4(int fd, sockaddr *address, socklen_t *size, int flags)
    ssize_t recv(int fd, void *buf, size_t n, int flags)
    ssize_t send(int fd, const void *buf, size_t n, int flags)
    enum:
        SOCK_NONBLOCK
        SOCK_CLOEXEC
        MSG_DONTWAIT
        MSG_NOSIGNAL
        MSG_PEEK

cdef extern from "<time.h>" nogil:
    struct itimerspec:
        timespec it_interval
        timespec it_value
    int clock_gettime(int clock, timespec *now)
    enum:
        CLOCK_MONOTONIC
        CLOCK_REALTIME

cdef inline int64_t clock_ns(int clock) noexcept nogil:
    # Read a clock, in nanoseconds.
    cdef timespec now
    clock_gettime(clock, &now)
    return now.tv_sec * <int64_t> 1_000_000_000 + now.tv_nsec

cdef inline int64_t monotonic_ns() noexcept nogil:
    # Read the monotonic clock, in nanoseconds.
    return clock_ns(CLOCK_MONOTONIC)

cdef inline int64_t wall_ns() noexcept nogil:
    # Read the wall clock, in nanoseconds since 1970.
    return clock_ns(CLOCK_REALTIME)

cdef extern from "<sys/timerfd.h>" nogil:
    int timerfd_create(int clock, int flags)
    int timerfd_settime(int fd, int flags, const itimerspec *new, itimerspec *old)
    enum:
        TFD_NONBLOCK
        TFD_CLOEXEC
        TFD_TIMER_ABSTIME

cdef extern from "<unistd.h>" nogil:
    int close(int fd)

cdef extern from "<malloc.h>" nogil:
    int mallopt(int parameter, int value)
    enum:
        M_MMAP_THRESHOLD
        M_TRIM_THRESHOLD
