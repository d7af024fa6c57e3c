"""Which ids are new, and how many jobs were missed."""

from beanpole.observe.tail import IDS_AHEAD, IDS_PER_POLL, NewIds


def ids(due: range) -> tuple[int, int]:
    """The first and the last id that is expected, without those that are only looked at in case."""
    return due.start, due.stop - 1 - IDS_AHEAD


def test_nothing_new_in_the_tube_is_nothing_to_look_at() -> None:
    new_ids = NewIds(last_id=100, server_total=40, tube_total=7)
    assert not new_ids.due(40, 7)
    assert not new_ids.due(90, 7), "fifty jobs of others"
    assert ids(new_ids.due(92, 8)) == (151, 152), "they are not looked at later"


def test_new_job_is_looked_at_once() -> None:
    new_ids = NewIds(100, 100, 0)
    assert ids(new_ids.due(103, 2)) == (101, 103)
    assert new_ids.inspected([101, 103], 2) == 0
    assert not new_ids.due(103, 2)
    assert ids(new_ids.due(104, 3)) == (104, 104)


def test_jobs_that_were_gone_are_counted_once() -> None:
    new_ids = NewIds(100, 100, 0)
    assert new_ids.due(105, 5)
    assert new_ids.inspected([102], 1) == 4
    assert not new_ids.due(105, 5)


def test_job_that_was_seen_before_it_was_counted_is_not_missed_later() -> None:
    new_ids = NewIds(100, 100, 0)
    new_ids.due(101, 1)
    assert new_ids.inspected([101, 102], 2) == 0
    assert not new_ids.due(102, 2)
    assert new_ids.due(103, 3).start == 103


def test_ids_that_failed_puts_took_are_made_up_for() -> None:
    new_ids = NewIds(100, 100, 0)
    new_ids.due(101, 1)  # five puts failed, so the job has id 106
    assert new_ids.inspected([106], 1) == 0
    assert ids(new_ids.due(102, 2)) == (107, 107)
    assert new_ids.inspected([107], 1) == 0
    assert ids(new_ids.due(103, 3)) == (108, 108)


def test_what_ids_are_ahead_is_remembered_while_others_put() -> None:
    new_ids = NewIds(100, 100, 0)
    for count in (1, 2):
        new_ids.due(100 + count, count)
        assert new_ids.inspected([100 + count + 50 * count], 1) == 0  # fifty puts have failed each time
    assert not new_ids.due(1102, 2)
    assert 1203 in new_ids.due(1103, 3)


def test_flood_is_looked_at_from_its_end() -> None:
    new_ids = NewIds(0, 0, 0)
    due = new_ids.due(1_000_000, 10)
    assert ids(due) == (1_000_001 - IDS_PER_POLL, 1_000_000)
    assert new_ids.inspected([], 0) == 10
    assert new_ids.next_id == 1_000_001


def test_no_id_is_looked_at_twice_when_counts_lag() -> None:
    new_ids = NewIds(100, 100, 0)
    new_ids.due(101, 1)
    new_ids.inspected([101, 140], 1)
    assert new_ids.due(102, 2).start == 141


def test_job_that_came_between_the_counts_and_the_look_hides_none_after_it() -> None:
    new_ids = NewIds(100, 100, 0)
    new_ids.due(101, 1)
    assert new_ids.inspected([101, 102], 1) == 0  # 102 is another tube's, and was put after the counts
    assert not new_ids.due(102, 1)
    assert 103 in new_ids.due(103, 2)
