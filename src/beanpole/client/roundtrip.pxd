# The header of roundtrip.py: the calls into the system that it needs, on Linux and on macOS.
cimport cython

cdef extern from "<sys/socket.h>" nogil:
    """
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0  /* Python ignores SIGPIPE anyway */
    #endif
    """
    ssize_t recv(int fd, void *buf, size_t n, int flags)
    ssize_t send(int fd, const void *buf, size_t n, int flags)
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL
        MSG_PEEK
