# The header of once.py.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.state.once cimport Token
from beanpole.engine.state.queue cimport Queue
from beanpole.protocol.commands cimport Command

cdef enum:
    TEXT_WORDS = 48                      # three blocks of a hash: in them there is room for a tube's name and a token

cdef uint64_t *hash_of(bytes tube, Command command, uint64_t *token) except NULL
cdef uint64_t done_before(Queue queue, int64_t now_ns, const uint64_t *token) except? 0
cdef bint has_room(Queue queue, int64_t now_ns) except -1
cdef Token *note(Queue queue, const uint64_t *token, uint64_t id, uint32_t end_s) except NULL
cdef Token *note_put(Queue queue, int64_t now_ns, Command command, const uint64_t *token, uint64_t id) except NULL
cdef bint has_ended(Token *token, int64_t now_ns) noexcept
cdef int forget(Queue queue, Py_ssize_t number) except -1
cdef int forget_ended(Queue queue, int64_t now_ns, Py_ssize_t most) except -1
