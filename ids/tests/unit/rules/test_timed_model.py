"""All that may happen to numbers that begin with the time: they grow, and never run further ahead than a window."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from beanpole_ids.errors import ClockBehindError
from beanpole_ids.rules.rule import Rule
from tests.examples import examples
from tests.unit.rules.row_model import RowModel
from tests.unit.rules.test_timed import KEY, NOW_S, read, timing

WINDOW = 40  # positions of a window: few, so that numbers come to its end
TEXTS = ('kind = "snowflake"\nsequence_bits = 2', 'kind = "uuid7"', 'kind = "ulid"')


class Times(RowModel):
    """A rule of a kind on one node; a clock that jumps; a store that may have what nobody was told of."""

    @initialize(which=st.integers(0, 2))
    def begin(self, which: int) -> None:
        self.rule = RULES[which]
        self.now_s = self.latest_s = NOW_S
        self.last = ""
        self.start()

    def start(self) -> None:
        self.counter = self.rule.counting.counter(KEY, self.stored, self.now_s)

    @rule(count=st.integers(0, 20))
    def take(self, count: int) -> None:
        try:
            shown_s = self.counter.open(self.now_s)
        except ClockBehindError:
            return
        first, left = self.counter.offer()
        count = count or max(1, left)  # 0: whatever is reserved
        if left < count:
            with suppress(ClockBehindError):
                self.counter.need(count)
            return
        numbers, used = self.rule.make(first, left, count, shown_s, b"")
        self.counter.advance(first, used)
        for number in numbers:
            padded = number.rjust(40, "0")
            assert self.last < padded, "numbers grow, so none comes again"
            self.last = padded

    @precondition(lambda self: self.counter.cycle_s >= 0)
    @rule(lands=st.booleans())
    def plan(self, lands: bool) -> None:
        mark = self.counter.plan()
        if mark and lands:
            self.land(mark)

    @rule(ms=st.integers(-1, 1) | st.integers(-20_000, 20_000))
    def time_passes(self, ms: int) -> None:
        self.now_s += ms / 1000
        self.latest_s = max(self.latest_s, self.now_s)

    @invariant()
    def holds(self) -> None:
        self.counter.check()
        if self.stored:
            layout = timing(self.rule).layout
            bound = layout.position(self.latest_s) + WINDOW - 1 | (1 << layout.sequence_bits) - 1
            assert self.stored.reserved <= bound, "further ahead than a window, and the rest of a unit after a start"


def _rules() -> list[Rule]:
    with tempfile.TemporaryDirectory() as folder:
        read_rules = [read(Path(folder), text) for text in TEXTS]
    return [replace(each, counting=replace(timing(each), batch=WINDOW)) for each in read_rules]


RULES = _rules()
TestTimes = Times.TestCase
TestTimes.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
