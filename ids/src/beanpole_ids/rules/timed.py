"""Numbers that begin with the time: 64-bit ones as Twitter's Snowflake made them, UUIDs of version 7, and ULIDs.

All three count *positions*: units of time since an epoch, and below them a sequence within the unit. The next position
is the one after the last, or that of the present moment if this is higher. So positions are numbers of a counter
(`sequence.Counter`) that also moves forward with the clock, and what keeps counters from repeating keeps these: a
window of positions, some seconds of time, is durably reserved before any of it is handed out, and a restart goes on
above it. A clock that goes back changes nothing but that numbers show the last time before, until it has caught up.
No position is reserved that lies further ahead than such a window of the latest time that was seen, which is durable
too: else each crash would lead numbers further ahead, as it leaves a part of a window behind.

A position is handed out once, so two numbers of a node differ; they also grow. Numbers of two nodes differ by the
number of the node in a Snowflake, and in the others by their random bits (62 and 80). All applications share a rule's
positions: such a number is unique by itself, not only within its application.
"""

import hashlib
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass

from beanpole_ids.errors import ClockBehindError, RuleError, RuleFailedError
from beanpole_ids.hand import Mark
from beanpole_ids.rules.sequence import Counter, Counting, Key

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # the alphabet of a ULID
UUID7_SEQUENCE_BITS = 12  # what `rand_a` holds: numbers of a millisecond, before they run ahead of the clock
ULID_SEQUENCE_BITS = 15  # what 63 bits leave beside the 48 of the time
CROCKFORD_PAIRS = [high + low for high in CROCKFORD for low in CROCKFORD]  # what ten bits are in it
GAINS = 8  # a range that no request waits for is worth a commit if it has at least this part of a window
RANDOM_COUNT = 1_000  # random numbers of 64 bits that are read from the system at a time


@dataclass(frozen=True, slots=True)
class Layout:
    """What a position is made of."""

    kind: str  # names it durably: positions of two layouts can't be compared
    epoch_ms: int  # when positions begin, in Unix milliseconds
    unit_ms: int  # milliseconds of a unit of time
    sequence_bits: int

    def position(self, now_s: float) -> int:
        """Return the first position of the unit of a moment. Raises ClockBehindError: it is before the epoch."""
        position = (int(now_s * 1000) - self.epoch_ms) // self.unit_ms << self.sequence_bits
        if position < 0:
            raise ClockBehindError("clock: it is before the rule's epoch")
        return position

    def moment_ms(self, position: int) -> int:
        """Return when the unit of a position begins, in Unix milliseconds."""
        return (position >> self.sequence_bits) * self.unit_ms + self.epoch_ms


@dataclass(frozen=True, slots=True)
class Timing(Counting):
    """How a rule counts positions. `batch` is how many of them are reserved at a time: a window of time."""

    layout: Layout = Layout("", 0, 1, 0)

    def __post_init__(self) -> None:
        """Nothing is left to check: `batch` was made of the layout."""

    @property
    def layout_kind(self) -> str:
        return self.layout.kind

    def counter(self, key: Key, mark: Mark | None, now_s: float) -> Counter:
        return TimedCounter(key, self, mark, now_s)

    def first(self, now_s: float) -> int:
        return self.layout.position(now_s)


class TimedCounter(Counter):
    """Positions of a rule on one node."""

    __slots__ = ("_now", "layout")

    def __init__(self, key: Key, timing: Timing, mark: Mark | None, now_s: float) -> None:
        """Go on from a mark. Raises RuleFailedError: the mark is of another kind of rule."""
        layout = timing.layout
        if mark is not None and mark.kind != layout.kind:
            raise RuleFailedError(
                f"system error: the rule was {mark.kind!r} and is {layout.kind!r}: numbers could repeat; "
                "give it another name"
            )
        super().__init__(key, timing, mark, int(now_s))
        self.layout = layout
        # The sequence starts again with each unit, as a ULID's random bits do when a process starts.
        self.last = self.reserved = self.reserved | (1 << layout.sequence_bits) - 1 if mark else -1
        self._now = layout.position(mark.time_s) if mark else -1  # the position of the latest moment that was seen

    def change(self, counting: Counting, now_s: float) -> None:
        """Take over a changed rule, which has the same layout."""
        assert isinstance(counting, Timing), "a reload that changes the kind of a rule is refused"
        assert counting.layout == self.layout, "a reload that changes the layout is refused"
        super().change(counting, now_s)

    def open(self, now_s: float) -> int:
        """Move forward with the clock; return the time. Raises: see `Layout.position`."""
        position = self.layout.position(now_s)
        self._now = max(self._now, position)
        self.last = max(self.last, min(position - 1, self.shape.maximum))
        self.cycle_s = 0
        self.time_s = max(self.time_s, int(now_s))
        return self.time_s

    @property
    def _bound(self) -> int:
        """The last position that may be reserved now."""
        return self._now + self.counting.batch - 1

    def need(self, count: int) -> None:
        """Say that callers wait for `count` numbers.

        Raises ClockBehindError: they would run further ahead of the clock than what is reserved at a time. Raises
        RuleFailedError: they always would; ExhaustedError: time ends before.
        """
        if count > (batch := self.counting.batch):
            raise RuleFailedError(f"count is too large: reserve_s has {batch} numbers of this rule")
        if self.last + count > self._bound:
            raise ClockBehindError("clock: numbers are too far ahead of it; it went back, or too many are asked for")
        super().need(count)

    def plan(self) -> Mark | None:
        """Return what to reserve now; None if nothing needs to be, or if it is too little to ask the store for."""
        mark = super().plan()
        if mark is None:
            return None
        upper = min(mark.reserved, self._bound)
        gain = upper - self.reserved
        if gain <= 0 or (gain < self.counting.batch // GAINS and self.available >= self.wanted):
            self.under_way = None
            return None
        tried = [each.reserved for each in (self.durable, self.attempted) if each]
        self.under_way = mark.at(max(upper, *tried) if tried else upper, mark.time_s)
        return self.under_way

    def check(self) -> None:
        """Assert the invariants. The last position may be past what is reserved, as it follows the clock."""
        self.check_range()


@dataclass(frozen=True, slots=True)
class Snowflake:
    """Makes numbers of 63 bits or less: the time, the node, the sequence."""

    layout: Layout
    node_bits: int
    node: int

    def make(self, first: int, left: int, count: int, time_s: int, salt: bytes) -> tuple[list[str], int]:  # noqa: ARG002
        """Return numbers in decimal; see `rule.Maker`."""
        bits = self.layout.sequence_bits
        mask, node, shift = (1 << bits) - 1, self.node << bits, self.node_bits
        positions = range(first, first + count)
        return [str((each & ~mask) << shift | node | (each & mask)) for each in positions], count


class Uuid7:
    """Makes UUIDs of version 7 (RFC 9562, 5.7): milliseconds, a counter in `rand_a` (6.2, method 1), chance."""

    def __init__(self, random: Callable[[int], bytes] = os.urandom) -> None:
        self.random = random
        self._pool: list[int] = []

    def make(self, first: int, left: int, count: int, time_s: int, salt: bytes) -> tuple[list[str], int]:  # noqa: ARG002
        """Return UUIDs as text; see `rule.Maker`."""
        pool = self._pool
        while len(pool) < count:
            pool += struct.unpack(f">{RANDOM_COUNT}Q", self.random(8 * RANDOM_COUNT))
        made = []
        for position in range(first, first + count):
            ms, low = position >> UUID7_SEQUENCE_BITS, pool.pop()
            head = f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{position & 0xFFF:03x}"
            made.append(f"{head}-{0x8000 | low >> 50:04x}-{low & 0xFFFF_FFFF_FFFF:012x}")
        return made, count


class Ulid:
    """Makes ULIDs: milliseconds, then 80 bits of chance, which grow by one within the millisecond.

    The chance of a millisecond is a keyed hash of it with a key of the process, so that it needs no memory.
    """

    def __init__(self, random: Callable[[int], bytes] = os.urandom) -> None:
        self._key = random(32)

    def make(self, first: int, left: int, count: int, time_s: int, salt: bytes) -> tuple[list[str], int]:  # noqa: ARG002
        """Return ULIDs as text; see `rule.Maker`."""
        made = []
        pairs, head_of, head = CROCKFORD_PAIRS, -1, ""
        known_ms, chance, sequences = -1, 0, 1 << ULID_SEQUENCE_BITS
        for position in range(first, first + count):
            ms, sequence = divmod(position, sequences)
            if ms != known_ms:
                digest = hashlib.blake2b(ms.to_bytes(8), key=self._key, digest_size=16).digest()
                known_ms, chance = ms, int.from_bytes(digest) % ((1 << 80) - sequences)
            value = ms << 80 | chance + sequence
            if value >> 20 != head_of:
                head_of = value >> 20
                head = "".join([pairs[head_of >> shift & 1023] for shift in range(100, -1, -10)])
            made.append(head + pairs[value >> 10 & 1023] + pairs[value & 1023])
        return made, count


def check_bits(time_bits: int, node_bits: int, sequence_bits: int, step: int) -> None:
    """Verify the bits of a Snowflake. Raises RuleError: they are too many, or too few for the nodes."""
    if time_bits < 1 or node_bits < 0 or sequence_bits < 0 or time_bits + node_bits + sequence_bits > 63:
        raise RuleError("time_bits, node_bits and sequence_bits must be 63 at most together, and none negative")
    if step > 1 << node_bits:
        raise RuleError(f"{step} nodes need more than {node_bits} node_bits: two nodes would make the same number")
