"""Which ids are new, and how many jobs were missed."""

from beanpole.monitor.follow import IDS_AHEAD, IDS_PER_LOOK, Reckoning


def ids(due: range) -> tuple[int, int]:
    """The first and the last id that is expected, without those that are only looked at in case."""
    return due.start, due.stop - 1 - IDS_AHEAD


def test_nothing_new_in_the_tube_is_nothing_to_look_at() -> None:
    reckoning = Reckoning(last_id=100, server_total=40, tube_total=7)
    assert not reckoning.due(40, 7)
    assert not reckoning.due(90, 7), "fifty jobs of others"
    assert ids(reckoning.due(92, 8)) == (151, 152), "they are not looked at later"


def test_new_job_is_looked_at_once() -> None:
    reckoning = Reckoning(100, 100, 0)
    assert ids(reckoning.due(103, 2)) == (101, 103)
    assert reckoning.looked([101, 103], 2) == 0
    assert not reckoning.due(103, 2)
    assert ids(reckoning.due(104, 3)) == (104, 104)


def test_jobs_that_were_gone_are_counted_once() -> None:
    reckoning = Reckoning(100, 100, 0)
    assert reckoning.due(105, 5)
    assert reckoning.looked([102], 1) == 4
    assert not reckoning.due(105, 5)


def test_job_that_was_seen_before_it_was_counted_is_not_missed_later() -> None:
    reckoning = Reckoning(100, 100, 0)
    reckoning.due(101, 1)
    assert reckoning.looked([101, 102], 2) == 0
    assert not reckoning.due(102, 2)
    assert reckoning.due(103, 3).start == 103


def test_ids_that_failed_puts_took_are_made_up_for() -> None:
    reckoning = Reckoning(100, 100, 0)
    reckoning.due(101, 1)  # five puts failed, so the job has id 106
    assert reckoning.looked([106], 1) == 0
    assert ids(reckoning.due(102, 2)) == (107, 107)
    assert reckoning.looked([107], 1) == 0
    assert ids(reckoning.due(103, 3)) == (108, 108)


def test_what_ids_are_ahead_is_remembered_while_others_put() -> None:
    reckoning = Reckoning(100, 100, 0)
    for count in (1, 2):
        reckoning.due(100 + count, count)
        assert reckoning.looked([100 + count + 50 * count], 1) == 0  # fifty puts have failed each time
    assert not reckoning.due(1102, 2)
    assert 1203 in reckoning.due(1103, 3)


def test_flood_is_looked_at_from_its_end() -> None:
    reckoning = Reckoning(0, 0, 0)
    due = reckoning.due(1_000_000, 10)
    assert ids(due) == (1_000_001 - IDS_PER_LOOK, 1_000_000)
    assert reckoning.looked([], 0) == 10
    assert reckoning.next_id == 1_000_001


def test_no_id_is_looked_at_twice_when_counts_lag() -> None:
    reckoning = Reckoning(100, 100, 0)
    reckoning.due(101, 1)
    reckoning.looked([101, 140], 1)
    assert reckoning.due(102, 2).start == 141


def test_job_that_came_between_the_counts_and_the_look_hides_none_after_it() -> None:
    reckoning = Reckoning(100, 100, 0)
    reckoning.due(101, 1)
    assert reckoning.looked([101, 102], 1) == 0  # 102 is another tube's, and was put after the counts
    assert not reckoning.due(102, 1)
    assert 103 in reckoning.due(103, 2)
