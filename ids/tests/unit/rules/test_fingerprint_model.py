"""A counter whose rule changes again and again under Hypothesis: whatever is let pass, no number comes twice."""

import itertools
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from beanpole_ids.errors import NoNumberError, RuleError
from beanpole_ids.rules.cycle import Cycle
from beanpole_ids.rules.reader import Common
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Counting, Shape
from beanpole_ids.rules.template import Template
from tests.examples import examples
from tests.unit.rules.test_fingerprint import Node

START_S = int(datetime(2026, 11, 21, 14, 50, tzinfo=UTC).timestamp())
TIMES = {
    "never": "",
    "day": "{year:02}{month:02}{day:02}",
    "hour": "{year:02}{month:02}{day:02}{hour:02}",
}


def make_rule(head: str, unit: str, zone: str, width: int, spelling: tuple[str, str | None]) -> Rule:
    """A rule of a template; its spelling is an alphabet and a check digit."""
    alphabet, check = spelling
    cycle = Cycle(unit, 0, ZoneInfo(zone))
    text = f"{head}{TIMES[unit]}{{counter:0{width}}}"
    template = Template(text, cycle, 99, alphabet, check)
    look = Common("r", 1, 0, 3, cycle.zone).fingerprint(template.length, cycle, text, alphabet, check)
    return Rule("r", Counting(Shape(0, 99), cycle, 3, fingerprint=look), cycle, template.make, text)


DIGITS = "0123456789"
CHOICES = [
    make_rule(*choice)
    for choice in itertools.product(
        ["", "N"],
        TIMES,
        ["Asia/Shanghai", "UTC", "America/New_York"],
        [2, 3, 4],
        [(DIGITS, None), (DIGITS, "luhn"), (DIGITS + "ABCDEF", None)],
    )
]


class Changes(RuleBasedStateMachine):
    """One counter, one rule's name."""

    @initialize(first=st.sampled_from(CHOICES))
    def begin(self, first: Rule) -> None:
        self.now_s = START_S
        self.node = Node(first, self.now_s)
        self.given: set[str] = set()

    @rule(count=st.integers(1, 12))
    def take(self, count: int) -> None:
        try:
            made = self.node.take(count, self.now_s)
        except NoNumberError:
            return
        assert not self.given & set(made)
        self.given |= set(made)

    @rule(seconds=st.sampled_from([-4000, -30, 1, 600, 3600, 86_400]))
    def move_clock(self, seconds: int) -> None:
        self.now_s += seconds

    @rule(to=st.sampled_from(CHOICES))
    def reload(self, to: Rule) -> None:
        try:
            self.node.change(to, self.now_s)
        except RuleError:
            self.node.counter.check()

    @rule(to=st.sampled_from(CHOICES), is_crash=st.booleans())
    def restart(self, to: Rule, is_crash: bool) -> None:
        try:
            self.node = (self.node.crashed if is_crash else self.node.stopped)(to, self.now_s)
        except NoNumberError:
            self.node = self.node.crashed(self.node.rule, self.now_s)


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
