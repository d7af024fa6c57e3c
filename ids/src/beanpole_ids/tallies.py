"""What limits count by name: numbers a second (`Rate`) and of a cycle (`Quota`). `Allowance` has all that limit a rule.

A request is checked before its numbers are made and counted when they are, in one go, so that none is counted that is
refused. It is in C, as requests under a limit are many. Everything takes a bounded time and bounded memory, whatever
names clients choose. Pure: the time is an argument, in Unix seconds (`now_s`) and of a clock that nobody sets
(`monotonic_s`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import cython
from cython.cimports.libc.stdint import int64_t

from beanpole_ids import limits
from beanpole_ids.errors import LimitError

if TYPE_CHECKING:
    from beanpole_ids.rules.limit import Limit

NAMES_MAX = cython.declare(cython.Py_ssize_t, limits.LIMIT_NAMES_MAX)

TOLERANCE_S = cython.declare(cython.double, 1e-6)
"""Seconds by which a bucket may be fuller than it is: more than sums of a clock's readings are wrong by."""


@cython.cclass
class Tally:
    """Counts numbers by name: of a rule and an application, each empty where they are not told apart.

    This one has room for all; `Rate` and `Quota` say how much they have.
    """

    def has_room(self, name, count, now_s, monotonic_s):
        """Whether so many numbers may be given."""
        return True

    def spend(self, name, count, now_s, monotonic_s):
        """Count numbers that were given."""
        return 0

    def refusal(
        self, name: tuple[bytes, bytes], count: int64_t, now_s: cython.double, monotonic_s: cython.double
    ) -> LimitError:
        """Return why there is no room."""
        raise AssertionError("it has room for all")

    def check(
        self, name: tuple[bytes, bytes], count: int64_t, now_s: cython.double, monotonic_s: cython.double
    ) -> None:
        """Return if so many numbers may be given. Raises LimitError: they may not."""
        if not self.has_room(name, count, now_s, monotonic_s):
            raise self.refusal(name, count, now_s, monotonic_s)

    def give(self, name: tuple[bytes, bytes], count: int64_t, now_s: cython.double, monotonic_s: cython.double) -> None:
        """Count numbers that were given."""
        self.spend(name, count, now_s, monotonic_s)


@cython.cclass
class Rate(Tally):
    """Numbers a second: a bucket that holds `burst` of them, and is refilled at the rate.

    For each name there is the moment when its bucket is full again (the generic cell rate algorithm). A full bucket is
    as good as none: names are kept in two tables, and each time that a bucket needs to be filled the older is dropped.
    """

    def __init__(self, limit: "Limit") -> None:
        self.limit = limit
        self.rate = limit.rate
        self.burst = limit.burst
        self.fill_s = limit.burst / limit.rate
        self.full_at_s = {}
        self.older = {}

    def full(self, name, monotonic_s):
        """When the bucket of a name is full; now if it is."""
        if monotonic_s >= self.drop_at_s:
            self.older, self.full_at_s = self.full_at_s, {}
            self.drop_at_s = monotonic_s + self.fill_s
        return max(self.full_at_s.get(name, 0.0), self.older.get(name, 0.0), monotonic_s)

    def wait_s(self, name, count, monotonic_s):
        """Seconds until the bucket has so many numbers; not above 0 if it has."""
        return self.full(name, monotonic_s) + count / self.rate - monotonic_s - self.fill_s

    def has_room(self, name, count, now_s, monotonic_s):
        if count > self.burst or self.wait_s(name, count, monotonic_s) > TOLERANCE_S:
            return False
        return len(self.full_at_s) < NAMES_MAX or name in self.full_at_s

    def refusal(
        self, name: tuple[bytes, bytes], count: int64_t, now_s: cython.double, monotonic_s: cython.double
    ) -> LimitError:
        if count > self.burst:
            return LimitError(f"{self.limit}: at most {self.burst} numbers at once", None)
        retry_s: cython.double = self.wait_s(name, count, monotonic_s)
        if retry_s > TOLERANCE_S:
            return LimitError(f"{self.limit}: {self.rate:g} numbers a second", retry_s)
        return LimitError(f"{self.limit}: too many names at a time", self.drop_at_s - monotonic_s)

    def spend(self, name, count, now_s, monotonic_s):
        self.full_at_s[name] = self.full(name, monotonic_s) + count / self.rate
        return 0


@cython.cclass
class Quota(Tally):
    """Numbers a cycle. A clock that goes back does not begin a cycle again."""

    def __init__(self, limit: "Limit") -> None:
        assert limit.cycle is not None, "a quota has a cycle"
        self.limit = limit
        self.quota = limit.quota
        self.given = {}

    def given_to(self, name, now_s):
        """How many numbers of this cycle a name has got."""
        second: int64_t = cython.cast(int64_t, now_s)
        if second >= self.end_s:
            self.given, self.end_s = {}, self.limit.cycle.end_s(second) or 0
        return self.given.get(name, 0)

    def has_room(self, name, count, now_s, monotonic_s):
        if self.given_to(name, now_s) > self.quota - count:
            return False
        return len(self.given) < NAMES_MAX or name in self.given

    def refusal(
        self, name: tuple[bytes, bytes], count: int64_t, now_s: cython.double, monotonic_s: cython.double
    ) -> LimitError:
        limit, given = self.limit, self.given_to(name, now_s)
        left_s = self.end_s - int(now_s)
        if given > self.quota - count:
            text = f"{limit}: {limit.quota} numbers a {limit.per.split()[0]}, {given} are given"
            return LimitError(text, None if count > self.quota else left_s)
        return LimitError(f"{limit}: too many names at a time", left_s)

    def spend(self, name, count, now_s, monotonic_s):
        self.given[name] = self.given_to(name, now_s) + count
        return 0


@cython.cclass
class Share:
    """What a tally counts of a rule, and under which name."""

    def __init__(self, tally: Tally, rule: bytes, *, is_each: bool) -> None:
        self.tally = tally
        self.rule = rule
        self.is_each = is_each


@cython.cclass
class Allowance:
    """How many numbers of a rule applications may have: all limits that are about it."""

    def __init__(self, shares: Iterable[tuple[bytes | None, Share]]) -> None:
        """`shares`: each with the application that it is about; None: all."""
        self.general = []
        self.by_app = {}
        share: Share
        for app, share in shares:
            self.is_each |= share.is_each
            (self.general if app is None else self.by_app.setdefault(app, [])).append(share)

    def shares(self, app):
        return self.general + self.by_app[app] if app in self.by_app else self.general

    def has_room(self, app, count, now_s, monotonic_s):
        """Whether an application may have so many numbers."""
        share: Share
        for share in self.shares(app):
            if not share.tally.has_room((share.rule, app if share.is_each else b""), count, now_s, monotonic_s):
                return False
        return True

    def spend(self, app, count, now_s, monotonic_s):
        """Count the numbers that an application has got."""
        share: Share
        for share in self.shares(app):
            share.tally.spend((share.rule, app if share.is_each else b""), count, now_s, monotonic_s)
        return 0

    def check(self, app: bytes, count: int64_t, now_s: cython.double, monotonic_s: cython.double) -> None:
        """Return if an application may have so many numbers. Raises LimitError: it may not."""
        share: Share
        for share in self.shares(app):
            share.tally.check((share.rule, app if share.is_each else b""), count, now_s, monotonic_s)


def needs_proof(allowance: Allowance | None, *, is_shared: bool) -> bool:
    """Return whether an address that may be forged gets no number of a rule, `is_shared` by all applications.

    Elsewhere a name that nobody has used needs a proof to get a counter. Here it would get a place in a limit, of which
    there are `LIMIT_NAMES_MAX`.
    """
    return is_shared and allowance is not None and allowance.is_each
