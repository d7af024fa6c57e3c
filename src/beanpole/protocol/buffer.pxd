# The header of buffer.py.

cdef struct Buffer:
    # Bytes between `start` and `size`, in order. All zero is an empty one; `free(data)` ends it.
    char *data
    Py_ssize_t start                     # bytes at the front that are consumed
    Py_ssize_t size                      # where the bytes end
    Py_ssize_t capacity                  # bytes allocated at data; 0: none

cdef char *reserve(Buffer *buffer, Py_ssize_t more) except? NULL
cdef int append(Buffer *buffer, const char *data, Py_ssize_t size) except -1
cdef void consume(Buffer *buffer, Py_ssize_t size, Py_ssize_t capacity_kept) noexcept
cdef void shrink(Buffer *buffer, Py_ssize_t capacity_kept) noexcept
