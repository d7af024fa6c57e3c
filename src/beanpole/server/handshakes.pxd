# The header of handshakes.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.server.eventqueue cimport EventQueue, Greeter, Stranger

@cython.final
cdef class Handshake(Stranger):
    cdef Handshakes all
    cdef int fd                          # -1: closed
    cdef readonly object source          # where it comes from: sources.source_of
    cdef object context                  # ServerContext of its listener
    cdef int64_t since_ns                # when it was accepted
    cdef int64_t asked_ns                # when the client was last sent to
    cdef bytes came                      # ciphertext that the handshake has not taken yet
    cdef Py_ssize_t came_bytes           # that ever came
    cdef bint readable                   # there may be more
    cdef bint waits_for_thread           # the thread has it, or will: nobody else touches what is below
    cdef object tls                      # ssl.SSLObject; None: it has not begun
    cdef object incoming                 # its ssl.MemoryBIOs
    cdef object outgoing
    cdef bytes said                      # what the thread wants to be sent
    cdef str outcome                     # of the last step, one of OUTCOMES; empty: it goes on
    cdef object certificate              # of the client, verified
    cdef int read(self, int64_t now_ns) except -1
    cdef int advance(self, int64_t now_ns) except -1
    cdef int step(self) except -1

@cython.final
cdef class Handshakes(Greeter):
    cdef EventQueue clients
    cdef object loop                     # asyncio's, which calls when time is over
    cdef object on_done
    cdef dict contexts                   # listeners -> ServerContext
    cdef dict strangers                  # all: that of `clients`
    cdef object by_source                # Sources of the same
    cdef dict ready                      # source -> dict of those whose ClientHello is there, and that have not begun
    cdef object asked                    # Sources: those that have begun, and wait for their client
    cdef Py_ssize_t begun_count          # those that have begun, in the thread's hands or not
    cdef Py_ssize_t in_thread_count
    cdef object inbox                    # SimpleQueue, to the thread; None in it: end
    cdef object outbox                   # deque, from it
    cdef int event_fd                    # readable when something is in `outbox`
    cdef object thread
    cdef object timer                    # of `expire`; None: there was no stranger when it ran last
    cdef readonly dict counts            # how many ended how, by OUTCOMES
    cdef int give(self, Handshake handshake) except -1
    cdef int begin(self, int64_t now_ns) except -1
    cdef Handshake next_ready(self, int64_t now_ns)
    cdef int finish(self, int64_t now_ns, Handshake handshake) except -1
    cdef int end(self, Handshake handshake, str outcome) except -1
    cdef int leave(self, Handshake handshake, str outcome) except -1
