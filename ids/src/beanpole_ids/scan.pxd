# The header of scan.py.

cdef enum Kind:
    TEXT                                 # a string
    WHOLE                                # an integer
    WORD                                 # true, false or null

cdef enum:
    FIELDS_MAX = 24                      # fields of an object; one with more is left to the parser of Python
    WHOLE_DIGITS_MAX = 18                # digits of an integer, so that 64 bits hold it

cdef struct Field:
    const char *key                      # without its quotes
    Py_ssize_t key_size
    const char *value                    # of a string: without its quotes
    Py_ssize_t value_size
    Kind kind

cdef int scan(const char *data, Py_ssize_t size, Field *fields) noexcept
cdef bint sort(Field *fields, Py_ssize_t count) noexcept
