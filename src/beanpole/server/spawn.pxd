# The header of spawn.py.
cdef char **strings(list of) noexcept
