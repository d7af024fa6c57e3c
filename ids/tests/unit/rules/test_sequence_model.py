"""A counter under Hypothesis: takes, reservations that land or don't, crashes, stops, a jumping clock, changed rules.

The model is the set of what was handed out: what a number shows of its time, and the number. It must never grow by what
it has.
"""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from beanpole_ids.errors import ExhaustedError, NeedRangeError
from beanpole_ids.rules.sequence import Counter, Counting, Shape
from tests.examples import examples
from tests.unit.counter import next_number
from tests.unit.rules.row_model import RowModel
from tests.unit.rules.test_sequence import KEY, days

SHORT_S, LONG_S = 10, 40


class Sequence(RowModel):
    """Numbers of a sequence."""

    counter: Counter

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000
        self.shape = Shape(0, 60)
        self.length_s = SHORT_S
        self.batch = 4
        self.given: set[tuple[int, int]] = set()
        self.start()

    @property
    def counting(self) -> Counting:
        return Counting(self.shape, days(self.length_s), self.batch)

    def start(self) -> None:
        self.counter = Counter(KEY, self.counting, self.stored, self.now_s)

    @rule(count=st.integers(1, 6))
    def take(self, count: int) -> None:
        shown_s = self.counter.open(self.now_s)
        for _ in range(count):
            try:
                number = (days(SHORT_S).start_s(shown_s), next_number(self.counter))
            except (NeedRangeError, ExhaustedError):
                return
            assert number not in self.given, f"{number} was given before"
            self.given.add(number)

    @rule(count=st.integers(1, 30))
    def need(self, count: int) -> None:
        self.counter.open(self.now_s)
        try:
            self.counter.need(count)
        except ExhaustedError:
            assert self.counter.shape.remaining(self.counter.last) < count

    @rule(lands=st.booleans())
    def plan(self, lands: bool) -> None:
        self.counter.open(self.now_s)
        mark = self.counter.plan()
        if mark and lands:
            self.land(mark)

    @rule(seconds=st.integers(-60, 60))
    def time_passes(self, seconds: int) -> None:
        self.now_s = max(0, self.now_s + seconds)

    @rule(length_s=st.sampled_from([SHORT_S, LONG_S]), maximum=st.integers(20, 80), minimum=st.integers(0, 12))
    def reload(self, length_s: int, maximum: int, minimum: int) -> None:
        self.length_s = length_s
        self.shape = replace(self.shape, minimum=minimum, maximum=maximum)
        self.counter.change(self.counting, self.now_s)

    @rule(step=st.integers(1, 4), offset=st.integers(0, 3), batch=st.integers(1, 8))
    def restart_with_another_step(self, step: int, offset: int, batch: int) -> None:
        self.shape = replace(self.shape, step=step, offset=offset % step)
        self.batch = batch
        self.start()

    @invariant()
    def holds(self) -> None:
        self.counter.check()


TestSequence = Sequence.TestCase
TestSequence.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
