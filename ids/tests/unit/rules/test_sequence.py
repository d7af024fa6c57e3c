"""Numbers, step by step: what is handed out, what is reserved, and what happens when it can't be."""

from datetime import UTC

import pytest

from beanpole_ids import limits
from beanpole_ids.errors import ClockAheadError, ExhaustedError, NeedRangeError
from beanpole_ids.hand import Mark
from beanpole_ids.rules.cycle import Cycle
from beanpole_ids.rules.fingerprint import Fingerprint, followed
from beanpole_ids.rules.sequence import Clock, Counter, Counting, Key, Shape
from tests.unit.counter import next_number

DAY_S = 86_400
KEY = Key(b"order", b"shop")


NEVER = Cycle("never", 0, UTC)


def days(length_s: int = DAY_S) -> Cycle:
    """Days of UTC, or of another length."""
    return Cycle("seconds", length_s, UTC, f"every {length_s}")


def counter(shape: Shape, batch: int = 4, mark: Mark | None = None, now_s: int = 0) -> Counter:
    return Counter(KEY, Counting(shape, days(), batch), mark, now_s)


def reserve(numbers: Counter) -> None:
    mark = numbers.plan()
    if mark:
        numbers.confirm(mark)


def take(numbers: Counter, now_s: int = 0) -> int:
    numbers.open(now_s)
    try:
        return next_number(numbers)
    except NeedRangeError:
        reserve(numbers)
        return next_number(numbers)


def test_counters_share_what_their_rule_says_of_them() -> None:
    """A hundred thousand counters that had it each by itself took 3 MB more, and a reload ten times as long."""
    new = Fingerprint("b" * 12, 7)
    counting = Counting(Shape(0, 99), days(), fingerprint=new)
    marks = (Mark(0, 9, 100, days().kind, f"{'a' * 12}.6") for _ in range(3))
    begun = followed.cache_info().misses
    numbers = [Counter(Key(b"order", b"%d" % app), counting, mark, 0) for app, mark in enumerate(marks)]
    assert followed.cache_info().misses <= begun + 1
    assert len({id(each.bounds) for each in numbers}) == len({id(each.fingerprints) for each in numbers}) == 1
    assert {each.fingerprints for each in numbers} == {f".6 {'b' * 12}.7"}


def test_nothing_is_taken_before_it_is_reserved() -> None:
    numbers = counter(Shape(0, 99))
    numbers.open(0)
    with pytest.raises(NeedRangeError):
        next_number(numbers)
    mark = numbers.plan()
    with pytest.raises(NeedRangeError):
        next_number(numbers)
    assert mark == Mark(0, 3, 0, "every 86400")
    numbers.confirm(mark)
    assert [next_number(numbers) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(NeedRangeError):
        next_number(numbers)


def test_maximum_inside_a_cycle_is_an_error_that_says_when_it_resets() -> None:
    """Hole 1 of the original: it went back to the minimum without a word."""
    numbers = counter(Shape(0, 9, step=2))
    assert [take(numbers) for _ in range(5)] == [0, 2, 4, 6, 8]
    for _ in range(3):
        with pytest.raises(ExhaustedError) as error:
            take(numbers)
    assert error.value.resets_at_s == DAY_S
    assert take(numbers, DAY_S) == 0


def test_maximum_of_a_counter_without_cycle_is_final() -> None:
    numbers = Counter(KEY, Counting(Shape(0, 1), NEVER, 4), None, 0)
    assert [take(numbers) for _ in range(2)] == [0, 1]
    with pytest.raises(ExhaustedError) as error:
        take(numbers, 10**9)
    assert error.value.resets_at_s is None


def test_crash_loses_what_is_reserved_and_repeats_nothing() -> None:
    numbers = counter(Shape(0, 99))
    assert [take(numbers) for _ in range(2)] == [0, 1]
    assert take(counter(Shape(0, 99), mark=numbers.durable)) == 4


def test_store_down_serves_what_is_reserved_and_then_nothing() -> None:
    """Holes 3, 4 and 5: numbers went on while the database was down or the queue full."""
    numbers = counter(Shape(0, 99))
    assert take(numbers) == 0
    for expected in (1, 2, 3):
        failed = numbers.plan()
        if failed:
            numbers.fail(failed)
        assert next_number(numbers) == expected
    with pytest.raises(NeedRangeError):
        next_number(numbers)


@pytest.mark.parametrize("length_s", [DAY_S, 3600])
@pytest.mark.parametrize("ends", ["failed before", "failed", "confirmed"])
def test_range_after_one_that_may_be_durable_is_not_below_it(length_s: int, ends: str) -> None:
    """Else the row would go back. By then the rule has smaller ranges, and maybe another cycle."""
    numbers = counter(Shape(0, 99), batch=20)
    numbers.open(5)
    first = numbers.plan()
    assert first
    if ends == "failed before":
        numbers.fail(first)
    numbers.change(Counting(Shape(0, 99), days(length_s), 4), 5)
    if ends == "failed":
        numbers.fail(first)
    if ends == "confirmed":
        numbers.confirm(first)
    numbers.open(5)
    following = numbers.plan() or numbers.durable
    assert following
    assert following.may_follow(first)


def test_cycle_begins_with_a_reservation() -> None:
    """Hole 6: a crash after midnight began the new day twice."""
    numbers = counter(Shape(0, 99))
    take(numbers, 5)
    numbers.open(DAY_S)
    with pytest.raises(NeedRangeError):
        next_number(numbers)
    assert take(numbers, DAY_S) == 0
    assert take(counter(Shape(0, 99), mark=numbers.durable), DAY_S) == 4


def test_time_and_number_come_from_one_reading() -> None:
    """Hole 7: the old date with the new day's counter."""
    numbers = counter(Shape(0, 99))
    assert (numbers.open(DAY_S - 1), take(numbers, DAY_S - 1)) == (DAY_S - 1, 0)
    assert (numbers.open(DAY_S), take(numbers, DAY_S)) == (DAY_S, 0)
    # A request that read the clock before midnight, and comes second.
    assert (numbers.open(DAY_S - 1), take(numbers, DAY_S - 1)) == (DAY_S, 1)


def test_restart_at_the_end_of_a_small_range_does_not_wrap() -> None:
    """Hole 9: what was saved lay above the maximum, so every restart began again."""
    numbers = counter(Shape(0, 9), batch=100)
    assert take(numbers) == 0
    assert numbers.durable
    assert numbers.durable.reserved == 9
    with pytest.raises(ExhaustedError):
        take(counter(Shape(0, 9), mark=numbers.durable))
    with pytest.raises(ExhaustedError):
        take(counter(Shape(0, 9), mark=Mark(0, 500, 0, "every 86400")))


@pytest.mark.parametrize(
    ("step", "offset", "expected"), [(1, 0, 105), (2, 0, 106), (2, 1, 105), (7, 3, 108), (7, 6, 111)]
)
def test_changed_step_goes_on_above_everything_reserved(step: int, offset: int, expected: int) -> None:
    """Hole 13: a node that was added handed out 105 again."""
    mark = Mark(0, 104, 0, "every 86400")
    assert take(counter(Shape(0, 10_000, step, offset), mark=mark)) == expected
    assert expected % step == offset


@pytest.mark.parametrize(
    ("minimum", "maximum", "step", "offset"),
    [
        (0, 9, 0, 0),
        (0, 9, 2, 2),
        (0, 9, 2, -1),
        (5, 5, 1, 0),
        (-1, 9, 1, 0),
        (0, 9, 20, 11),
        (0, 2**63, 1, 0),
    ],
)
def test_shape_that_makes_no_sense_is_refused(minimum: int, maximum: int, step: int, offset: int) -> None:
    with pytest.raises(ValueError, match=r"must be|no number"):
        Shape(minimum, maximum, step, offset)


@pytest.mark.parametrize("minimum", range(7))
@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_each_number_is_one_nodes_whatever_the_minimum_is(minimum: int, step: int) -> None:
    found: list[int] = []
    for offset in range(step):
        shape = Shape(minimum, 40, step, offset)
        mine = [shape.first]
        while len(mine) < shape.remaining(minimum - 1):
            mine.append(shape.after(mine[-1]))
        assert {each % step for each in mine} == {offset}
        assert shape.after(minimum - 1) == mine[0]
        assert shape.after(mine[-1]) > 40
        found += mine
    assert sorted(found) == list(range(minimum, 41))


def test_step_above_127_counts_up() -> None:
    """Hole 14: a step of 200 was a negative one."""
    numbers = counter(Shape(0, 1000, 200, 130))
    assert [take(numbers) for _ in range(5)] == [130, 330, 530, 730, 930]


def test_numbers_and_times_beyond_32_bits() -> None:
    """Hole 15: counters and seconds were 32 bits wide."""
    numbers = Counter(KEY, Counting(Shape(2**31 - 1, 2**62), NEVER, 4), None, 0)
    assert [take(numbers, 2**33) for _ in range(3)] == [2**31 - 1, 2**31, 2**31 + 1]


def test_lowered_maximum_is_exhausted_and_not_begun_anew() -> None:
    """Hole 16: a reload with a lower maximum wrapped the counter."""
    numbers = counter(Shape(0, 99))
    for _ in range(6):
        take(numbers)
    numbers.change(Counting(Shape(0, 3), days(), 4), 0)
    with pytest.raises(ExhaustedError):
        take(numbers)


def test_clock_back_over_midnight_stays_in_the_cycle() -> None:
    """Hole 17."""
    numbers = counter(Shape(0, 99))
    assert take(numbers, DAY_S + 5) == 0
    assert numbers.open(10) == DAY_S + 5
    assert take(numbers, 10) == 1
    assert numbers.open(DAY_S + 1) == DAY_S + 5, "nor does time go back in it"
    restarted = counter(Shape(0, 99), mark=numbers.durable, now_s=10)
    assert restarted.open(10) == DAY_S + 5
    assert take(restarted, 10) == 4


def test_graceful_stop_leaves_no_gap() -> None:
    """Hole 18: a restart went from 8 to 202."""
    numbers = counter(Shape(0, 99), batch=50)
    assert [take(numbers) for _ in range(3)] == [0, 1, 2]
    rest = numbers.final_mark()
    assert rest
    assert not numbers.available, "whoever still has it gets nothing of what is given back"
    assert take(counter(Shape(0, 99), mark=rest)) == 3
    assert counter(Shape(0, 99), mark=rest).final_mark() is None


def test_graceful_stop_with_nothing_handed_out() -> None:
    numbers = counter(Shape(10, 99), batch=50)
    numbers.open(0)
    reserve(numbers)
    rest = numbers.final_mark()
    assert take(counter(Shape(10, 99), mark=rest)) == 10


def test_numbers_that_are_offered_are_not_handed_out() -> None:
    """Hole 19: an error in a rule after it took a number skipped that number."""
    numbers = counter(Shape(0, 99))
    take(numbers)
    assert numbers.offer() == (1, 3)
    assert numbers.offer() == (1, 3)
    numbers.advance(1, 2)
    assert numbers.offer() == (3, 1)
    assert take(numbers) == 3
    assert numbers.offer() == (4, 0)


def test_low_water_fetches_the_next_range_ahead() -> None:
    numbers = counter(Shape(0, 99), batch=10)
    take(numbers)
    assert numbers.plan() is None
    for _ in range(4):
        next_number(numbers)
    mark = numbers.plan()
    assert mark
    assert mark.reserved == 19
    assert numbers.plan() is None, "one at a time"
    assert next_number(numbers) == 5
    numbers.confirm(mark)
    assert [next_number(numbers) for _ in range(14)] == list(range(6, 20))


def test_batch_of_one_reserves_nothing_ahead() -> None:
    numbers = counter(Shape(0, 99), batch=1)
    assert take(numbers) == 0
    assert numbers.plan() is None
    assert take(counter(Shape(0, 99), batch=1, mark=numbers.durable)) == 1


def test_many_at_once_reserve_enough() -> None:
    numbers = counter(Shape(0, 99), batch=4)
    numbers.open(0)
    numbers.need(50)
    reserve(numbers)
    assert [next_number(numbers) for _ in range(50)] == list(range(50))
    with pytest.raises(ExhaustedError):
        numbers.need(51)
    numbers.need(50)


def test_range_of_the_old_day_is_not_used_in_the_new_one() -> None:
    numbers = counter(Shape(0, 99))
    numbers.open(0)
    old = numbers.plan()
    assert old
    numbers.open(DAY_S)
    numbers.confirm(old)
    with pytest.raises(NeedRangeError):
        next_number(numbers)


@pytest.mark.parametrize(("before_s", "after_s"), [(30 * DAY_S, DAY_S), (DAY_S, 30 * DAY_S), (DAY_S, 3600)])
def test_changed_cycle_goes_on_until_the_next_one_begins(before_s: int, after_s: int) -> None:
    now_s = 35 * DAY_S + 100
    numbers = Counter(KEY, Counting(Shape(0, 99), days(before_s), 4), None, 0)
    take(numbers, now_s)
    numbers.change(Counting(Shape(0, 99), days(after_s), 4), now_s)
    assert take(numbers, now_s) == 4
    restarted = Counter(KEY, Counting(Shape(0, 99), days(after_s), 4), numbers.durable, now_s)
    assert take(restarted, now_s) == 8
    assert take(restarted, days(after_s).start_s(now_s) + after_s) == 0


def test_clock_goes_ahead_only_so_far() -> None:
    clock = Clock(1000, 0.0)
    assert clock.read(1010, 10.0) == 1010
    with pytest.raises(ClockAheadError) as error:
        clock.read(1020 + limits.CLOCK_AHEAD_S_MAX + 1, 20.0)
    assert error.value.ahead_s == limits.CLOCK_AHEAD_S_MAX + 1
    assert clock.read(1030, 30.0) == 1030
    clock.accept(90_000, 40.0)
    assert clock.read(90_001, 41.0) == 90_001


def test_clock_that_went_back_stands_still() -> None:
    clock = Clock(1000, 0.0)
    assert [clock.read(wall_s, 1.0) for wall_s in (1001, 900, 1000, 1002)] == [1001, 1001, 1001, 1002]
    assert clock.back_count == 2
