"""Taking numbers, against what `Shape` says of them: also next to the largest number, where C would begin again."""

from hypothesis import example, given
from hypothesis import strategies as st

from beanpole_ids import limits
from beanpole_ids.hand import Bounds, Hand
from beanpole_ids.rules.sequence import Shape

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
