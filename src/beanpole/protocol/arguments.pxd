# The header of arguments.py.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.protocol.commands cimport Command, Shape

cdef const char *read_u64(const char *at, const char *end, uint64_t *number) noexcept
cdef const char *read_u32(const char *at, const char *end, uint32_t *number) noexcept
cdef const char *read_seconds(const char *at, const char *end, int64_t *ns) noexcept
cdef const char *read_moment(const char *at, const char *end, int64_t *ns) noexcept
cdef const char *read_decimals(const char *at, const char *end, int64_t *ns) noexcept
cdef bint is_name(const char *at, const char *end) noexcept
cdef bint read_bound(const char *at, const char *end, uint32_t *bound) noexcept
cdef bint read_tube(Command command, const char *at, const char *end) noexcept
cdef bint read_pause(Command command, const char *at, const char *end) noexcept
cdef bint read_ids(Command command, Shape shape, const char *at, const char *end) noexcept
cdef bint read_timeout(Command command, const char *at, const char *end) noexcept
cdef bint read_arguments(Command command, Shape shape, const char *at, const char *end) noexcept
