"""Counts latencies in buckets of which each is at most 1.6 % wide, so that any percentile can be read afterwards.

Values below 128 have a bucket each. From there on every power of two is cut into 64 equal steps: the bucket of a
value is its seven leading bits and their position. One addition records a value, whatever its size; nothing is
allocated, so the load generator records millions a second without disturbing what it measures.

The unit is the caller's; the load generator uses nanoseconds.
"""

import cython
from cython.cimports.beanpole.posix import count_leading_zeros

BUCKET_COUNT = cython.declare(cython.int, 3776)


@cython.cfunc
@cython.exceptval(check=False)
def bucket_of(value: cython.longlong) -> cython.int:
    """The index of the bucket that counts `value` (which is not negative)."""
    shift: cython.int = 0
    if value >= 128:
        shift = 57 - count_leading_zeros(cython.cast(cython.ulonglong, value))
    return (shift << 6) + cython.cast(cython.int, value >> shift)


@cython.cfunc
@cython.exceptval(check=False)
def bucket_end(bucket: cython.int) -> cython.longlong:
    """The largest value that the bucket counts."""
    if bucket < 128:
        return bucket
    shift: cython.int = (bucket >> 6) - 1
    lead: cython.longlong = bucket - (shift << 6)
    return ((lead + 1) << shift) - 1


@cython.cclass
class Histogram:
    """How often each value was seen, to within 1.6 % of the value; `count`, `total` and `largest` are exact."""

    def add(self, value, times):
        """Counts `value` (negative counts as 0) `times` times."""
        if value < 0:
            value = 0
        self.counts[bucket_of(value)] += times
        self.count += times
        self.total += value * times
        if value > self.largest:
            self.largest = value
        return 0

    def record(self, value: cython.longlong, times: cython.longlong = 1):
        """The same for callers in Python."""
        self.add(value, times)

    def clear(self):
        """Forgets everything."""
        bucket: cython.int
        for bucket in range(BUCKET_COUNT):
            self.counts[bucket] = 0
        self.count = self.total = self.largest = 0

    def percentile(self, share: cython.double) -> int:
        """The value that `share` (0 to 1) of all values do not exceed, rounded up to its bucket's end; 0 when empty."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"a percentile is asked as a share between 0 and 1, not {share}")
        if self.count == 0:
            return 0
        wanted: cython.longlong = cython.cast(cython.longlong, share * self.count)
        if wanted < share * self.count or wanted == 0:
            wanted += 1
        seen: cython.longlong = 0
        bucket: cython.int
        for bucket in range(BUCKET_COUNT):
            seen += self.counts[bucket]
            if seen >= wanted:
                return min(bucket_end(bucket), self.largest)
        raise AssertionError("the buckets hold fewer values than were counted")
