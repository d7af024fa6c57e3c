# The header of set_rules.py. Its class is not here: engine.py imports every class of a header that it reads, and the two
# modules need each other.
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube
from beanpole.engine.state.tuberules cimport RuleSet
from beanpole.protocol.commands cimport Command

cdef int set_rules(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int get_rules(Engine engine, Session session, Command command) except -1
cdef int list_rules(Engine engine, Session session, Command command) except -1
cdef int drop_rules(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int replace_rules(Engine engine, bytes pattern, RuleSet rules) except -1
cdef int attach(Engine engine, Tube tube) except -1
cdef int attach_all(Engine engine, bytes pattern) except -1
