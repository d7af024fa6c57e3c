"""Taking numbers and totals in C, against what Python says of them: also next to the largest number."""

from hypothesis import example, given
from hypothesis import strategies as st

from beanpole_ids import limits
from beanpole_ids.hand import Bounds, Hand, Mark, Totals, add
from beanpole_ids.rules.cycle import Cycle
from beanpole_ids.rules.reader import zone_named
from beanpole_ids.rules.sequence import Counter, Counting, Key, Shape
from tests.unit.counter import next_number

DAY_S = 86_400
DAY = Cycle("day", 0, zone_named("UTC"))

shapes = st.builds(
    lambda minimum, length, step, offset: Shape(minimum, minimum + step + length, step, offset % step),
    st.integers(0, 50) | st.just(limits.NUMBER_MAX - 200),
    st.integers(1, 100),
    st.integers(1, 7),
    st.integers(0, 6),
)

numbers = st.one_of(
    st.integers(0, 50),
    st.integers(limits.NUMBER_MAX - 50, limits.NUMBER_MAX),
    st.integers(0, limits.NUMBER_MAX),
)


def hand_of(shape: Shape, last: int, reserved: int) -> Hand:
    hand = Hand()
    hand.bounds = Bounds(shape.first, shape.step, shape.maximum, 0)
    hand.last, hand.reserved = last, reserved
    return hand


@given(st.tuples(numbers, numbers), st.integers(1, limits.STEP_MAX), st.data())
def test_the_next_number_is_the_one_of_this_node_after_the_last(
    bounds: tuple[int, int], step: int, data: st.DataObject
) -> None:
    minimum, maximum = min(*bounds, limits.NUMBER_MAX - 1), max(*bounds, 1)
    offset = (minimum + data.draw(st.integers(0, min(step - 1, maximum - minimum)))) % step
    shape = Shape(minimum, max(maximum, minimum + 1), step, offset)
    reserved = data.draw(st.one_of(st.just(minimum - 1), numbers))
    last = data.draw(st.one_of(st.just(minimum - 1), st.integers(-1, reserved)))
    first, left = hand_of(shape, last, reserved).offer()
    assert first == shape.after(last)
    upper = min(reserved, shape.maximum)
    assert left == len(range(first, upper + 1, step))


@given(st.integers(limits.NUMBER_MAX - 5_000_000, limits.NUMBER_MAX), st.integers(1, limits.STEP_MAX))
@example(limits.NUMBER_MAX, 1)
@example(limits.NUMBER_MAX, limits.STEP_MAX)
def test_after_the_largest_number_nothing_is_left(last: int, step: int) -> None:
    hand = hand_of(Shape(0, limits.NUMBER_MAX, step), last, limits.NUMBER_MAX)
    for _ in range(2):
        first, left = hand.offer()
        if not left:
            break
        assert hand.last < first <= limits.NUMBER_MAX
        hand.advance(first, left)
    assert first > limits.NUMBER_MAX


def test_the_whole_range_of_64_bits_can_be_left() -> None:
    assert hand_of(Shape(0, limits.NUMBER_MAX), -1, limits.NUMBER_MAX).offer() == (0, 2**63)


def test_a_hand_that_was_given_nothing_has_nothing() -> None:
    assert hand_of(Shape(0, 9), -1, -1).offer() == (0, 0)


@given(shapes, st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 120), st.integers(0, 12)), max_size=6))
def test_totals_are_the_sums_of_counters(shape: Shape, made: list[tuple[int, int, int]]) -> None:
    """Each counter: how many days ago it was used, what was reserved before, how many numbers it gives."""
    counting, now_s = Counting(shape, DAY, 10), 7 * DAY_S + 5
    counters: list[Counter | None] = [None]
    held = 0
    for days, before, count in made:
        then_s = now_s - days * DAY_S
        reserved = min(shape.minimum + before, shape.maximum)
        mark = Mark(DAY.start_s(then_s), reserved, then_s, DAY.kind) if before >= 0 else None
        counter = counting.counter(Key(b"r", b"a"), mark, then_s)
        counter.open(then_s)
        counter.wanted = count
        if wanted := counter.plan():
            counter.confirm(wanted)
        for _ in range(min(count, counter.available)):
            next_number(counter)
            counter.answered_count += 1
            counter.given_count += 1
        counters.append(counter)
        held += counter.available if not days else 0
    totals = {b"r": Totals(100, 1000)}
    add(totals, counters, now_s)
    found, whole = totals[b"r"], shape.remaining(shape.minimum - 1)
    used = [each for each in counters if each]
    left = [each.shape.remaining(each.last) if each.cycle_s == DAY.start_s(now_s) else whole for each in used]
    assert found.answered == 100 + sum(each.answered_count for each in used)
    assert found.given == 1000 + sum(each.given_count for each in used)
    assert (found.counters, found.held, found.exhausted) == (len(used), held, left.count(0))
    assert found.least == min(left, default=None)
