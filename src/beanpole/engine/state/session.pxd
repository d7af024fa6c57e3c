# The header of session.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from beanpole.engine.state.heap cimport Heap, Timed
from beanpole.engine.state.tube cimport Tube, Watch
from beanpole.engine.state.user cimport User
from beanpole.protocol.replies cimport ReplyBuffer

cdef enum Want:
    # What a session that waits is given when a job can be taken.
    JOB                                  # RESERVED and the job
    FRAME                                # the JOBS of reserve-many with the job
    NOTICE                               # JOBS 0: it is told that there is a job, and takes none

@cython.final
cdef class Keep:
    # How the jobs of a session wait for it when its connection is lost.
    cdef readonly bytes token            # by which it returns: a hash of what its client says
    cdef readonly uint32_t seconds       # for how long
    cdef readonly bint always            # whether that is so however its connection ends
    cdef readonly int64_t lost_at_ns     # when its connection was lost, engine clock
    cdef readonly int64_t until_ns       # until when it may return, engine clock

@cython.final
cdef class Standing:
    # What a session may do that has a user, as it last found that.
    cdef uint32_t version                # of the user, when all was found
    cdef uint32_t begun_version          # the same, when it was last begun to be found
    cdef Py_ssize_t found_count          # of the session's watches those of which it was found since then whether they may stay
    cdef dict hidden                     # name -> Tube: its own empty tubes, in the place of those to which it has no right
    cdef Py_ssize_t hidden_count         # of its watches those of such a tube
    cdef uint8_t rights                  # bits of the rights for the tube in use
    cdef uint8_t served                  # USERS_SERVED AUTH_SERVED HEARS_FORBIDDEN

@cython.final
cdef class Session(Timed):
    cdef public object owner             # who is served when a reply comes without a command; the engine never looks
    cdef readonly ReplyBuffer out        # replies that nobody took yet
    cdef readonly Tube used              # `Tube | None`: where put, peek-ready, kick and their like work; None: closed
    cdef list watches                    # Watch objects in the order of list-tubes-watched
    cdef dict watch_of                   # Tube -> Watch
    cdef Heap heads                      # its watches of tubes with jobs, by the best one, or before; None: it is not wide
    cdef Heap reserved                   # jobs that it holds, by (deadline, id)
    cdef readonly bytes name             # what it is called by itself, UTF-8; None: it has not said
    cdef readonly uint64_t read_index    # the last record when a reply last named a job, or said that there is none
    cdef uint64_t wait_number            # waiting: waits of all sessions that had begun before
    cdef readonly int64_t wait_until_ns  # waiting: when TIMED_OUT is due, engine clock; -1: never. Told: when that ends
    cdef int64_t opened_at_ns            # engine clock
    cdef int64_t heard_at_ns             # when its last command began, engine clock; before it: when it was opened
    cdef uint32_t told_at                # told: 1 + the place in `watches` of the tube that it was told of; 0: it was not
    cdef readonly uint8_t own            # the server's own: not counted where clients are
    cdef uint8_t last_verb               # Verb of its last command; 0: there was none
    cdef readonly uint8_t wants          # waiting: a Want
    cdef readonly uint8_t half_closed    # whether no more input can come, so that it can't wait
    cdef readonly uint8_t producer       # it got past the line of a put once
    cdef readonly uint8_t worker         # it reserved once
    cdef readonly uint8_t quitting       # none of its commands runs any more: it said quit, or what follows can't be meant
    cdef readonly uint8_t lost           # whether its connection is lost and it may return
    cdef readonly Keep keep              # `Keep | None`: how its jobs wait for it when its connection is lost
    cdef readonly User user              # `User | None`: whose it is; None: it may do everything, as connections have no users
    cdef Standing standing               # `Standing | None`: what it may do; there is one if it has a user
    cdef object work                     # `LongCommand | None`: the rest of a command that takes more than one turn
    cdef Py_ssize_t moved_count          # jobs that its command moved and that nobody has charged it for yet

@cython.final
cdef class SessionList:
    cdef list places                     # `list[Session | None]`, by number; None: that session is closed
    cdef readonly Py_ssize_t count       # sessions
    cdef int add(self, Session session) except -1
    cdef int remove(self, Session session) except -1
    cdef int squeeze(self) except -1
    cdef Py_ssize_t first_from(self, uint64_t number) except -1

cdef inline Tube told_of(Session session):
    # The tube that a session was told of.
    return (<Watch> session.watches[session.told_at - 1]).tube

cdef int add_wide(Session session, Watch watch) except -1
cdef int drop_wide(Session session, Watch watch) except -1
cdef int note_best(Tube tube) except -1
cdef Heap best_of(Session session, int *left)
cdef Tube best_tube(Heap heads, int *left)
cdef bint is_first_best(Heap heads) except -1
cdef Session next_in_line(Tube tube)
cdef list wide_waiting(Tube tube)
cdef Py_ssize_t waiting_in(Tube tube) except -1
