"""The order in which ids are looked at: every id once, those near the known ones first."""

from itertools import chain, islice

import pytest

from beanpole.client.extensions import ID_MAX
from beanpole.operations.listing import STEP, around, outward


def looked_at(ids: list[int], ranges: int) -> list[int]:
    """The ids that are looked at in some round trips."""
    return list(chain.from_iterable(islice(around(ids), ranges)))


@pytest.mark.parametrize("ids", [[1], [5000], [1, 2], [1, 3000, 3001, 50_000], [ID_MAX], [1, ID_MAX]])
def test_no_id_is_looked_at_twice(ids: list[int]) -> None:
    found = looked_at(ids, 60)
    assert len(found) == len(set(found))
    assert set(ids) <= set(found[: 2 * STEP * len(ids)])
    assert all(1 <= id <= ID_MAX for id in found)


def test_no_id_is_left_out() -> None:
    found = looked_at([3000, 9000], 60)
    assert set(range(1, 20_000)) <= set(found)


def test_what_is_near_comes_first() -> None:
    assert looked_at([100_000], 2) == [*range(100_001 - STEP, 100_001), *range(100_001, 100_001 + STEP)]


def test_all_ids_have_an_end() -> None:
    assert list(outward(3, 1, 5)) == [range(1, 4), range(4, 6)]
    assert list(outward(3, 3, 3)) == [range(3, 4)]
