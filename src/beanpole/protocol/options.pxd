# The header of options.py.
from libc.stdint cimport int64_t, uint32_t

from beanpole.protocol.commands cimport Verb
from beanpole.protocol.extensions cimport Arguments, Kind

cdef struct ExtensionRow:
    const char *text                     # the verb
    int format                           # of a cluster's log, from which it is served; or a bit of ACCESS_FORMATS
    Py_ssize_t text_bytes
    Verb verb
    Kind[8] words                        # what must stand behind the verb, in this order
    int word_count
    Kind[16] options                     # what may stand behind them
    int[16] option_formats               # from which each is served
    int option_count
    int size_word                        # which word is the size of a body; -1: no body follows

cdef ExtensionRow *find_extension(const char *at, const char *end, int served) noexcept
cdef bint read_extension(
    ExtensionRow *row, const char *at, const char *end, Arguments *args, int served) noexcept
cdef bint read_size(ExtensionRow *row, const char *at, const char *end, uint32_t *size) noexcept
