"""Who is served next: an account of what each source was given, and of what waits."""

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole_ids.fair import Fair

SHARE_NS = 200_000

STEPS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(1, 3), st.integers(1, 400))
    | st.sampled_from([0, SHARE_NS // 3, 7 * SHARE_NS]),
    max_size=200,
)


@given(steps=STEPS)
def test_nothing_is_lost_or_doubled_and_each_port_keeps_its_order(
    steps: list[tuple[bytes, int, int] | int],
) -> None:
    """Each step adds an item, or takes one and says what it has cost."""
    fair = Fair(1_000, 2_000)
    waiting: dict[tuple[bytes, int], deque[tuple[int, int]]] = {}
    for number, step in enumerate([*steps, *[0] * len(steps)]):
        if isinstance(step, tuple):
            source, port, size = step
            line = waiting.setdefault((source, port), deque())
            if fair.add(source, port, (source, port, number), size):
                line.append((number, size))
            else:
                others = sum(each for (owner, _), line in waiting.items() if owner == source for _, each in line)
                assert line or others + size > 2 * 2_000 // 3, "a port that has nothing waiting may have one"
        elif (found := fair.take()) is not None:
            source, port, taken = found
            assert waiting[source, port].popleft()[0] == taken
            fair.charge(step)
        assert fair.count == sum(map(len, waiting.values()))
        assert fair.byte_count == sum(size for line in waiting.values() for _, size in line) <= 8_000
    assert fair.count == 0, "as many were taken as can have come"


def test_sources_are_given_the_same_time() -> None:
    """One whose requests cost fifty times as much gets a fiftieth of them served."""
    fair = Fair()
    for number in range(2_000):
        fair.add(b"dear", 1, b"dear", 10)
        fair.add(b"cheap", number % 3, b"cheap", 10)
    given = Counter[bytes]()
    cost_ns = {b"dear": SHARE_NS, b"cheap": SHARE_NS // 50}
    for _ in range(1_000):
        source = fair.take()
        assert isinstance(source, bytes)
        given[source] += cost_ns[source]
        fair.charge(cost_ns[source])
    assert 0.9 < given[b"dear"] / given[b"cheap"] < 1.1


@pytest.mark.parametrize("source", [b"flood", b"other"])
def test_who_has_nothing_waiting_is_served_next(source: bytes) -> None:
    """Whether a flood comes from a thousand ports of the same address or of another one."""
    fair = Fair()
    for number in range(5_000):
        fair.add(b"flood", number % 1_000, None, 10)
    for number in range(4_000):
        assert fair.take() is None
        fair.charge(SHARE_NS // 4)
        if number >= 2_000 and number % 100 == 0:  # each port has been served once
            fair.add(source, 5_000, b"quiet", 10)
            taken = []
            while b"quiet" not in taken:
                taken.append(fair.take())
                fair.charge(SHARE_NS // 4)
            assert len(taken) <= 10, "two shares of the flood"


def test_ports_that_come_and_go_starve_nobody() -> None:
    """A port with more waiting is served in alternation with those that have just come."""
    fair = Fair()
    for _ in range(10):
        fair.add(b"a", 0, b"old", 10)
    taken = []
    for port in range(1, 100):
        fair.add(b"a", port, b"new", 10)
        taken.append(fair.take())
        fair.charge(10)
    assert taken.count(b"old") == 10


def test_a_source_has_its_share_of_the_bytes() -> None:
    fair = Fair(source_bytes=1_000, bytes_max=1_500)
    assert sum(fair.add(b"a", 1, None, 10) for _ in range(200)) == 100
    assert sum(fair.add(b"a", 2, None, 10) for _ in range(200)) == 50, "half of it, beside another port"
    assert sum(fair.add(b"b", 1, None, 10) for _ in range(200)) == 75, "half of what all may have"
    assert not fair.add(b"a", 1, None, 10)
    assert sum(fair.add(b"c%d" % each, 1, None, 10) for each in range(1_000)) == 600 - 225, "four times as much in all"


def test_ports_of_a_source_take_no_room_of_others() -> None:
    """One that sent an item from each of thousands of ports had all the room."""
    fair = Fair(source_bytes=1_000, bytes_max=1_500)
    assert sum(fair.add(b"a", port, None, 10) for port in range(1_000)) == 200, "twice its share"
    assert sum(fair.add(b"b", 1, None, 10) for _ in range(200)) == 75
    assert not fair.add(b"a", 1_000, None, 10)
    assert fair.add(b"c", 1, None, 3_000), "who has nothing waiting may have one item, of whatever size"
