"""The numbers of a shard as people write them, and the ids that they stand for."""

import pytest

from beanpole.limits import SHARDS_MAX
from beanpole.log.limits import JOB_IDS_SKIPPED
from beanpole.shard_ids import IDS_SPARED, end_id, first_id, ids_left, read_numbers


@pytest.mark.parametrize(("text", "numbers"), [("0", (0,)), ("1023", (1023,)), ("3,17,18,1023", (3, 17, 18, 1023))])
def test_numbers_are_read(text: str, numbers: tuple[int, ...]) -> None:
    assert read_numbers(text) == numbers


@pytest.mark.parametrize(
    ("text", "what"),
    [
        *[(text, "0 to 1023") for text in ("1024", "-1", "", "3,", "3, 17", "a", "٣", "3;17")],
        *[(text, "rise") for text in ("17,3", "3,3")],
        ("1,2,3,4,5", "more than 4"),
    ],
)
def test_what_are_no_numbers_is_refused(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        read_numbers(text)


def test_each_number_has_ids_of_its_own_that_javascript_can_count() -> None:
    assert first_id(0) == 1
    for number in (0, 1, SHARDS_MAX - 1):
        assert {id >> 43 for id in (first_id(number), end_id(number), end_id(number) + IDS_SPARED - 1)} == {number}
    assert end_id(SHARDS_MAX - 1) + IDS_SPARED == 2**53
    assert IDS_SPARED > JOB_IDS_SKIPPED, "or a new leader could pass over what is spared"


def test_ids_that_are_left_are_those_of_all_ranges_behind_the_last_id() -> None:
    whole = end_id(3) - first_id(3)
    assert ids_left((3, 17), 1) == 2 * whole
    assert ids_left((3, 17), end_id(3) - 5) == whole + 5
    assert ids_left((3, 17), end_id(3)) == ids_left((3, 17), first_id(17)) == whole
    assert ids_left((3, 17), end_id(17) + 9) == 0
