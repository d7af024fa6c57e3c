# The header of table.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport VERB_COUNT, Command

ctypedef int (*Run)(Queue queue, int64_t now_ns, Session session, Command command) except -1

cdef struct Row:
    # What there is to know of a command when it is to run.
    Run run                              # what runs it
    int64_t cost_ns                      # what it costs, apart from its output and the jobs that it moves
    bint reserves                        # jobs may be handed out or kept: it waits while the log's backlog is full
    bint adds                            # jobs or tubes may be added: it waits while spaces are counted
    bint looks                           # it costs more, the more tubes its session watches

cdef Row[VERB_COUNT] rows                # by Verb
cdef int list_extensions(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int quit_session(Queue queue, int64_t now_ns, Session session, Command command) except -1
