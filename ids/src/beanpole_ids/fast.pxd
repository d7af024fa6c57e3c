# The header of fast.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole_ids.forms cimport Form, put
from beanpole_ids.hand cimport Hand
from beanpole_ids.origin cimport Origin
from beanpole_ids.scan cimport FIELDS_MAX, Field, Kind, scan, sort

cdef enum:
    LOW_DIGITS = 4                       # digits that differ between most numbers of a request
    LOW = 10_000                         # ten to the power of these
    OWN_FIELDS = 3                       # what an answer has besides the request: code, data, message

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

@cython.final
cdef class Fast:
    cdef dict counts                     # those of the service
    cdef dict waiting                    # requests that wait, by key
    cdef object window                   # `Window`
    cdef object counters                 # `Counters`
    cdef object allowance                # returns what the limits say of a rule
    cdef object texts                    # `Texts`, which has another process make texts
    cdef dict forms                      # `dict[bytes, Form]` by rule
    cdef int64_t epoch                   # counts what was forgotten; a form of before is not used
    cdef dict loaded                     # `dict[Key, Counter]`: those of the service
    cdef dict shared                     # `dict[bytes, dict[bytes, Hand]]` of rules whose applications share a counter
    cdef readonly Py_ssize_t shared_count  # applications in it
    cdef char *room                      # for an answer that becomes bytes, `limits.REPLY_BYTES_MAX` of them
    cdef Py_ssize_t serve(
        self, const char *data, Py_ssize_t size, char *out, double now_s, double monotonic_s, Origin origin
    ) except -1
    cdef Py_ssize_t serve_known(
        self, Asked *asked, Py_ssize_t size_max, char *out, double now_s, double monotonic_s, bytes source,
        bint is_proven
    ) except -1
    cdef Py_ssize_t repeat(self, Asked *asked, bytes name, Py_ssize_t size_max, char *out, double monotonic_s) except -1
    cdef Py_ssize_t give(
        self, Asked *asked, Hand hand, Form form, bytes name, Py_ssize_t size_max, char *out, double now_s,
        double monotonic_s
    ) except -1
