# The state of the load generator's loop; see load.py.
cimport cython
from posix.types cimport clockid_t
from benchmarks.bench.connection cimport Connection
from beanpole.protocol.wire cimport Found

@cython.final
cdef class Load:
    cdef readonly list groups            # `list[GroupState]`
    cdef list connections
    cdef int epoll_fd
    cdef char *read_buffer
    cdef long long stall_ns
    # The run under way.
    cdef int active_count
    cdef bint filling
    cdef bint stopping
    cdef long long now_ns
    cdef long long stop_at_ns
    cdef long long commands_max
    cdef readonly long long commands
    # The server's CPU time, letter by letter, when asked.
    cdef clockid_t cpu_clock
    cdef bint by_letter
    cdef long long cpu_at_ns
    cdef long long cpu_ns[128]
    cdef long long letter_commands[128]

    cdef int turn(self) except -1
    cdef int begin(self, Connection connection) except -1
    cdef int count_letter(self, int letter, int commands) except -1
    cdef int flush(self, Connection connection) except -1
    cdef int want(self, Connection connection, bint write, int operation) except -1
    cdef int receive(self, Connection connection) except -1
    cdef int check(self, Connection connection, Found *found) except -1
