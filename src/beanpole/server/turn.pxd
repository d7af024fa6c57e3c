# The header of turn.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.log.turnlog cimport TurnLog
from beanpole.protocol.commands cimport VERB_COUNT
from beanpole.server.connection cimport Connection, Transport

@cython.final
cdef class Line:
    cdef list arrived                    # as those of Turn
    cdef list queue
    cdef int64_t left_ns                 # of its parts; below 0: it has taken so much more

@cython.final
cdef class Turn:
    cdef readonly Engine engine
    cdef TurnLog log                     # what makes records durable; see log.log.Log
    cdef public object run_soon          # `Callable[[], None]` asks for another turn, without an event
    cdef readonly bint one_reply_per_send
    cdef public bint by_user             # connections have users, who have equal parts of a turn
    cdef bint stopped                    # no more turns, and nothing more is sent
    cdef bint requested                  # another turn was asked for
    cdef readonly uint64_t number        # of this turn
    cdef int64_t cost_left_ns            # what may still run in this turn, in nanoseconds of the table of costs
    cdef int64_t share_ns                # what a connection may still run in it
    cdef list arrived                    # connections to serve first: something happened to them, and they use little
    cdef list queue                      # connections to serve that used more of their share when last served
    cdef dict lines                      # User -> Line, the next first: those who had something to run before this turn
    cdef int shared_turns_left           # turns whose parts are short yet, as there were lines of several users
    cdef list stalled                    # connections whose command waits for the log to have room
    cdef list sending                    # connections to send for in this turn
    cdef list leaving                    # closed connections whose sessions have not given back all jobs yet, in order
    cdef list held                       # connections whose output waits for the log
    cdef uint64_t appended_index         # records that the log was given
    cdef uint64_t durable_index          # records that are durable, as far as the log was asked
    # What is known of the turn when it ends.
    cdef int64_t began_ns                # when it began, engine clock; 0: none is under way
    cdef int64_t cost_before_ns          # cost_left_ns when it began
    cdef int64_t held_up_ns              # for how long the log has held up the loop since the last turn
    cdef int64_t due_count               # jobs and pauses that timers have moved in it
    cdef Connection heaviest             # whose commands cost most when it was served; None: nobody was served
    cdef int64_t heaviest_cost_ns        # what these cost
    cdef dict waited_ns                  # how long the log held up the loop, by what it did
    cdef uint64_t[VERB_COUNT] command_counts     # commands ever, by Verb, when the last turn ended
    cdef uint64_t command_count          # the sum of these
    cdef int begin(self, int64_t now_ns) except -1
    cdef int finish(self, int64_t now_ns) except -1
    cdef bint has_waiting(self) noexcept
    cdef int serve_users(self, int64_t now_ns) except -1
    cdef bint are_several_users(self) except -1
    cdef int line_up(self, list waiting, bint uses_little) except -1
    cdef int serve_waiting(self, int64_t now_ns) except -1
    cdef list serve_list(self, int64_t now_ns, list waiting, int64_t until_ns)
    cdef int serve(self, int64_t now_ns, Connection connection) except -1
    cdef int serve_woken(self, int64_t now_ns) except -1
    cdef int add_arrived(self, Connection connection) except -1
    cdef int add_sending(self, Connection connection) except -1
    cdef int add_queue(self, Connection connection) except -1
    cdef int commit(self, int64_t now_ns) except -1
    cdef int flush(self, int64_t now_ns, Connection connection) except -1
    cdef int drop(self, int64_t now_ns, Connection connection) except -1
    cdef int request(self) except -1
    cdef object note_end(self, int64_t ended_ns)
    cdef object slow_turn(self, int64_t took_ns)
