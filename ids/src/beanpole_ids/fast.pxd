# The header of fast.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole_ids.forms cimport Form, put
from beanpole_ids.hand cimport Hand
from beanpole_ids.origin cimport Origin
from beanpole_ids.scan cimport Asked, Field, Kind, clear, read

cdef enum:
    LOW_DIGITS = 4                       # digits that differ between most numbers of a request
    LOW = 10_000                         # ten to the power of these

@cython.final
cdef class Counts:
    cdef public int64_t requests         # all that came
    cdef public int64_t numbers          # that were given
    cdef public int64_t refused          # requests without a number
    cdef public int64_t repeated         # requests that got what their first sending got
    cdef public int64_t failed           # requests that failed by an error of ours

@cython.final
cdef class Fast:
    cdef Counts counts                   # those of the service
    cdef dict waiting                    # requests that wait, by key
    cdef object window                   # `Window`
    cdef object counters                 # `Counters`
    cdef object allowance                # returns what the limits say of a rule
    cdef object texts                    # `Texts`, which has another process make texts
    cdef dict forms                      # `dict[bytes, Form]` by rule
    cdef int64_t epoch                   # counts what was forgotten; a form of before is not used
    cdef dict loaded                     # `dict[Key, Counter]`: those of the service
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
