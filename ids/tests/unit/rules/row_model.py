"""What may happen between a counter and the row that outlives it, under Hypothesis, whatever the counter counts."""

from abc import abstractmethod
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from beanpole_ids.hand import Mark


class RowModel(RuleBasedStateMachine):
    """One key: one process at a time, and its row, which has what landed, whether or not the counter was told."""

    counter: Any
    stored: Mark | None = None

    @abstractmethod
    def start(self) -> None:
        """A process begins with what is stored."""

    def land(self, mark: Mark) -> None:
        """What the store does, and what it holds against a counter that goes back."""
        assert self.stored is None or mark.may_follow(self.stored), "the row would go back"
        self.stored = mark

    @precondition(lambda self: self.counter.under_way)
    @rule(told=st.booleans())
    def finish(self, told: bool) -> None:
        mark = self.counter.under_way
        assert mark
        if not told:
            self.counter.fail(mark)
            return
        if self.stored != mark:
            self.land(mark)
        self.counter.confirm(mark)

    @rule()
    def crash(self) -> None:
        self.start()

    @precondition(lambda self: not self.counter.under_way)
    @rule()
    def stop(self) -> None:
        self.stored = self.counter.final_mark() or self.stored
        self.start()
