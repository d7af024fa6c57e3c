# The few functions of the system that Cython does not declare: for the socket of datagrams.
from libc.stdint cimport int64_t

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *now)
    enum:
        CLOCK_MONOTONIC
        CLOCK_REALTIME

cdef extern from "<sys/socket.h>" nogil:
    struct sockaddr:
        pass
    ctypedef unsigned int socklen_t
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL
        AF_INET
        AF_INET6
        SOL_SOCKET
        SO_RCVBUFFORCE
        SO_SNDBUFFORCE
        SO_TIMESTAMPNS
        SCM_TIMESTAMPNS
    struct sockaddr_storage:
        unsigned short ss_family
    struct msghdr:
        void *msg_name
        socklen_t msg_namelen
        iovec *msg_iov
        size_t msg_iovlen
        void *msg_control
        size_t msg_controllen
        int msg_flags
    struct mmsghdr:
        msghdr msg_hdr
        unsigned int msg_len
    struct cmsghdr:
        int cmsg_level
        int cmsg_type
    cmsghdr *CMSG_FIRSTHDR(msghdr *header)
    unsigned char *CMSG_DATA(cmsghdr *header)
    int recvmmsg(int fd, mmsghdr *headers, unsigned int count, int flags, timespec *timeout)
    int sendmmsg(int fd, mmsghdr *headers, unsigned int count, int flags)
    ssize_t sendto(int fd, const void *buf, size_t n, int flags, const sockaddr *address, socklen_t size)

cdef inline int64_t monotonic_ns() noexcept nogil:
    # Read the monotonic clock, in nanoseconds.
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * <int64_t> 1_000_000_000 + now.tv_nsec

cdef inline int64_t wall_ns() noexcept nogil:
    # Read the clock by which the kernel stamps datagrams, in nanoseconds since 1970.
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * <int64_t> 1_000_000_000 + now.tv_nsec
