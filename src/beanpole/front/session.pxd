# The header of session.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.front.lane cimport Lane
from beanpole.protocol.buffer cimport Buffer
from beanpole.protocol.commands cimport Command, Verb
from beanpole.protocol.decoder cimport Decoder

cpdef enum Where:
    # Which shards a command is for.
    OWN                                  # none: it is answered here
    HOME                                 # the home of the used tube
    PLACES                               # those where jobs of the used tube may be
    TUBE                                 # the home of the tube that it names, else of the used one
    TUBE_PLACES                          # those where jobs of the tube that it names may be
    ID                                   # the one that has given out its id
    IDS                                  # those that have given out its ids
    EVERY                                # all of the map
    WATCHED                              # those where jobs of the watched tubes may be
    MISTAKE                              # it is none

@cython.final
@cython.freelist(64)
cdef class Answering:
    # What is answered next: so many replies of a lane, or our own words, or what a gather makes.
    cdef Lane lane                       # None: of none
    cdef int64_t count                   # 1 of a gather: it has begun
    cdef bytes words                     # None: it is none of ours
    cdef object gather                   # `Gather`; None: there is none
    cdef bytes keeping                   # the keep-session that it is; None: it is none

cdef class Session:
    cdef readonly object places          # `Places`
    cdef object only                     # `Shard`: the map has no other; None: it has several
    cdef Decoder decoder
    cdef dict lanes                      # Lane by shard
    cdef Lane recent                     # one of them, which was used last; None: it is not known
    cdef readonly bytes used
    cdef object used_place               # `Place`
    cdef dict watched                    # Place by tube, in the order of watching
    cdef list moving                     # of these, those whose place under the map in use was not looked up yet; None: none
    cdef tuple waiting_places            # where jobs of these may be; None: it has to be found again
    cdef list turns                      # Answering, the first first
    cdef Answering last                  # the last of them; None: there is none
    cdef int64_t expected                # replies that the client waits for
    cdef Lane hold                       # on which a reserve may wait: no other lane is used until it is answered
    cdef int64_t hold_number             # the number of its reply
    cdef bytes hold_line                 # that reserve
    cdef int64_t hold_since_ns           # when it was sent
    cdef bytes keeping                   # the keep-session that is in force; None: there is none
    cdef bytes named                     # the line that has named it; None: none has
    cdef bytes line                      # of a put whose body has not all come
    cdef Buffer out                      # what is to be sent to the client
    cdef list asked                      # the lanes that the gather that runs has asked; None: none runs
    cdef list may_fail                   # whether each may have no answer
    cdef readonly bint waits             # the first answer of theirs counts
    cdef object clock                    # `Callable[[], int]`
    cdef object until_ns                 # `int | None`: when it waits no more, on the clock
    cdef object about                    # `Mapping[bytes, bytes]`
    cdef readonly object reserving       # `Reserving`
    cdef Py_ssize_t spread               # puts into spread tubes so far: each goes to the next home
    cdef readonly object away            # `Shard | None`: the next command waits for it; None: for none
    cdef bint ends                       # the client sends no more
    cdef readonly bint needs_input       # all that has come was run, but for the beginning of a command
    cdef bint may_hold                   # it has reserved: shards may have given it jobs
    cdef readonly bint finished          # nothing is run any more: the client is closed when `out` has gone
    cdef bint cut                        # that is so as a shard went away, and no doing of the client's
    cdef int take_input(self, const char *data, Py_ssize_t size) except -1
    cdef int take_replies(self, Lane lane, const char *data, Py_ssize_t size) except -1
    cpdef int run(self) except -1
    cdef int run_commands(self) except -1
    cdef int note_passed(self, Command command) except -1
    cdef int go_on(self) except -1
    cdef int serve(self, Command command) except -1
    cdef tuple shards_for(self, int where, Command command)
    cdef bytes tube_of(self, Command command)
    cdef int pass_on(self, Command command, object shard, int where) except -1
    cdef Lane lane_to(self, object shard)
    cdef int add_lane(self, Lane lane) except -1
    cdef int say(self, bytes words) except -1
    cdef int gather(self, Command command, int where, tuple shards) except -1
    cdef int answer(self, Command command) except -1
    cdef int watch(self, bytes tube) except -1
    cdef int ignore(self, bytes tube) except -1
    cdef bint deliver(self, Answering turn) except -1
    cdef bint go_on_gathering(self, Answering turn) except -1
