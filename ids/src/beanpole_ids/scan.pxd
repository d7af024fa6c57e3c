# The header of scan.py.
from libc.stdint cimport int64_t

cdef enum Kind:
    TEXT                                 # a string
    WHOLE                                # an integer
    WORD                                 # true, false or null

cdef enum:
    FIELDS_MAX = 24                      # fields of an object; one with more is left to the parser of Python
    OWN_FIELDS = 3                       # what an answer has besides the request: code, data, message
    WHOLE_DIGITS_MAX = 18                # digits of an integer, so that 64 bits hold it

cdef struct Field:
    const char *key                      # without its quotes
    Py_ssize_t key_size
    const char *value                    # of a string: without its quotes
    Py_ssize_t value_size
    Kind kind

cdef struct Asked:
    Field[FIELDS_MAX + OWN_FIELDS] fields  # of the answer, in order; or only some of those that are named below
    Py_ssize_t field_count
    Py_ssize_t data_place                # which of them is `data`
    const char *head                     # the answer before the value of `data`; NULL: it is made of the fields
    Py_ssize_t head_size
    const char *tail                     # the answer after that
    Py_ssize_t tail_size
    Field *action
    Field *rule                          # rule_name
    Field *app                           # app_name
    Field *salt                          # NULL: none
    Field *salt_text                     # the same as it stands in JSON
    Field *id                            # request_id; NULL: none
    Field *cookie                        # NULL: none
    Field *count_field                   # count; NULL: none
    int64_t count
    bint is_list                         # whether there is a count: the answer is a list then

cdef void clear(Asked *asked) noexcept
cdef bint read(Asked *asked, const char *data, Py_ssize_t size) noexcept
cdef int scan(const char *data, Py_ssize_t size, Field *fields) noexcept
cdef bint sort(Field *fields, Py_ssize_t count) noexcept
