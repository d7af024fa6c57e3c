# The header of cron.py.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    MINUTE_S = 60
    DAY_MINUTES = 1440
    DAY_S = 86400
    DAYS_MAX = 18263                     # days in which an expression must name one: 50 years

cdef struct Date:
    int year
    int month                            # from 1
    int day                              # from 1

cdef class Cron:
    cdef readonly str text               # the expression in its one form
    cdef uint64_t minutes                # a bit for each minute of an hour
    cdef uint32_t hours                  # a bit for each hour of a day
    cdef uint32_t days                   # bits 1 to 31: days of a month
    cdef bint last_day                   # `L`: the last day of a month
    cdef uint16_t months                 # bits 1 to 12
    cdef uint8_t weekdays                # bits 0 to 6, Sunday first
    cdef uint64_t nth_weekdays           # `FRI#2`: bit 8 * weekday + n; `5L`: bit 8 * weekday, the last of a month
    cdef bint needs_both                 # a day must be named by both fields of days; else by one of them
    cdef readonly bint by_clock          # minute and hour don't begin with `*`: see timing.py
    cdef readonly int weeks              # only each n-th week, of Monday to Sunday; 1: each
    cdef readonly int64_t first_week     # the Monday of one of them, as days since 1970-01-01
    cdef readonly object excepted        # `frozenset[int]`: days since 1970-01-01 on which there is nothing

    cdef bint names_day(self, int64_t day)
    cdef int64_t day_from(self, int64_t day, int step)
    cdef int64_t search(self, int64_t minute, int step) except? -2
    cpdef int64_t first_from(self, int64_t local_s) except? -2
    cpdef int64_t last_until(self, int64_t local_s) except? -2

cdef Date date_of(int64_t day) noexcept
cdef int days_in(int year, int month) noexcept
cdef int bit_from(uint64_t bits, int at, int step) noexcept
