"""A walk finds each job of a tube that is there throughout, exactly once, whatever happens between its steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.restore import Restore
from beanpole.engine.state.job import State
from beanpole.engine.state.walk import Walk
from beanpole.server.connection import Connection

READY, RESERVED, DELAYED, BURIED = (1 << state for state in range(4))
WAITING = READY | DELAYED | BURIED
BLOCK_IDS = 4096
BLOCK_SLOTS = 256
BLOCKS_OF_A_REGION = 2**14
LAST_ID = 2**64 - 1
COPIED, BY_ID = 1_000_000, 0
"""Up to how many jobs a walk copies their ids: always, or never."""

PUT, PUT_DELAYED, PUT_ELSEWHERE = b"put 0 0 60 1\r\nt\r\n", b"put 5 9 60 1\r\nt\r\n", b"put 0 0 60 1\r\no\r\n"
HERE, ELSEWHERE = b"use t\r\n", b"use other\r\n"
BURY = (b"reserve-job %d\r\n", b"bury %d 0\r\n")

changes = st.lists(
    st.tuples(
        st.sampled_from(
            [
                (PUT * 2,),
                (PUT_DELAYED,),
                (ELSEWHERE, PUT_ELSEWHERE * 3, HERE),
                (b"reserve-job %d\r\n",),
                BURY,
                (b"reserve-job %d\r\n", b"release %d 3 0\r\n"),
                (b"reserve-job %d\r\n", b"release %d 3 9\r\n"),
                (b"delete %d\r\n",),
                (b"kick-job %d\r\n",),
                (b"move-jobs t ready 2 to=other\r\n",),
                (b"move-jobs other ready 3 to=t\r\n",),
                (b"move-jobs t buried 1 to=other\r\n",),
                (b"change-job %d tube=other\r\n",),
                (b"change-job %d tube=t delay=5\r\n",),
            ]
        ),
        st.integers(0, 30),
        st.integers(1, 7),
    ),
    max_size=20,
)
"""Commands, which job they are about, and how many steps the walk goes on after them."""


class Queue:
    """An engine whose client uses the tube `t`."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.connection = Connection(self.engine, 1)
        self.say(b"watch t\r\n", HERE)
        self.tube = self.engine.tube_list[1]

    def say(self, *lines: bytes) -> None:
        self.connection.receive(1, b"".join(lines))
        while self.connection.pending:
            self.connection.resume(1)
        self.connection.take_output()

    def put_as(self, id: int) -> None:
        """Puts a job that gets a certain id."""
        Restore(self.engine).reach_job_id(id)
        self.say(PUT)

    def ids_in(self, states: int) -> set[int]:
        return {job.id for job in self.engine.jobs.jobs() if job.tube.name == b"t" and states >> job.state & 1}

    def walk(
        self, states: int = WAITING, after: int = 0, upto: int | None = None, *, down: bool = False, copied: int
    ) -> Walk:
        last = self.engine.next_job_id - 1 if upto is None else upto
        return Walk(self.engine.jobs, self.tube, states, after, last, down, copied)


def found(walk: Walk, steps: int = 1 << 60) -> list[int]:
    """The ids that a walk finds in one piece."""
    walk.steps_left = steps
    ids = []
    while (job := walk.next_job()) is not None:
        ids.append(job.id)
    return ids


@pytest.mark.parametrize("copied", [COPIED, BY_ID])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("states", [READY, WAITING, READY | BURIED])
@given(steps=changes)
def test_walk_finds_each_job_that_stays_and_none_twice(
    copied: int, down: bool, states: int, steps: list[tuple[tuple[bytes, ...], int, int]]
) -> None:
    queue = Queue()
    queue.say(PUT * 6, PUT_DELAYED * 2, ELSEWHERE, PUT_ELSEWHERE, HERE)
    queue.say(*(line % id for id in (2, 4) for line in BURY), PUT * 2, PUT_DELAYED)
    upto = queue.engine.next_job_id - 1
    walk = queue.walk(states, 1, upto, down=down, copied=copied)
    stayed = {id for id in queue.ids_in(states) if 1 < id <= upto}
    ids: list[int] = []
    for lines, id, count in steps:
        queue.say(*(line % id if b"%" in line else line for line in lines))
        check(queue.engine)
        stayed &= queue.ids_in(states)
        there = queue.ids_in(states)
        piece = found(walk, count)
        assert set(piece) <= there
        ids += piece
        stayed |= set(piece)  # What was found need not stay any longer.
    ids += found(walk)
    assert walk.done
    assert len(ids) == len(set(ids))
    assert stayed <= set(ids)
    assert all(1 < id <= upto for id in ids)
    assert down or ids == sorted(ids)


@pytest.mark.parametrize("copied", [COPIED, BY_ID])
def test_walk_takes_the_smallest_ids_first_whatever_the_order_of_the_heap(copied: int) -> None:
    queue = Queue()
    queue.say(*(b"put %d 0 60 1\r\nt\r\n" % (id * 37 % 101) for id in range(200)))
    assert found(queue.walk(after=50, upto=150, copied=copied)) == list(range(51, 151))


def test_walk_finds_held_jobs_by_id() -> None:
    queue = Queue()
    queue.say(PUT * 5, b"reserve-job 2\r\n", b"reserve-job 4\r\n")
    assert found(queue.walk(RESERVED, copied=COPIED)) == [2, 4]
    assert found(queue.walk(RESERVED | READY, copied=COPIED)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("down", [False, True])
def test_walk_by_id_passes_over_blocks_without_jobs(down: bool) -> None:
    """A few jobs among fifty thousand ids: a block without jobs costs a few steps, and no job is passed over."""
    queue = Queue()
    kept = [3, 2 * BLOCK_IDS - 1, 5 * BLOCK_IDS, 9 * BLOCK_IDS + 7]
    for id in kept:
        queue.put_as(id)
    check(queue.engine)
    walk = queue.walk(after=0, upto=12 * BLOCK_IDS, down=down, copied=BY_ID)
    assert found(walk, 5 * BLOCK_IDS) == (kept[::-1] if down else kept)
    assert walk.done
    assert not found(walk)


@pytest.mark.parametrize("down", [False, True])
def test_walk_by_id_passes_over_a_gap_of_any_size_in_one_go(down: bool) -> None:
    """Ids that begin far above 1, as those of a shard do, and go on far above the first."""
    queue = Queue()
    kept = [3, *range(2**43 + 1, 2**43 + 4), 2**43 + 2**40, 2**44 + BLOCK_IDS * 4, 2**53 - 1]
    for id in kept:
        queue.put_as(id)
    for slots in range(BLOCK_SLOTS):  # so that the counts of these jobs stand in dicts, and in the array
        if slots in {0, 200}:
            walk = queue.walk(after=0, upto=2**53 - 1, down=down, copied=BY_ID)
            assert found(walk, len(kept) * BLOCKS_OF_A_REGION * 8) == (kept[::-1] if down else kept)
            assert walk.done
        queue.put_as(2**54 + slots * BLOCK_IDS)
    check(queue.engine)


def test_walk_by_id_ends_at_the_greatest_id() -> None:
    queue = Queue()
    queue.say(PUT * 3)
    for down in (False, True):
        walk = queue.walk(after=LAST_ID - 3 * BLOCK_IDS, upto=LAST_ID, down=down, copied=BY_ID)
        assert found(walk, 100) == []
        assert walk.done
    assert queue.walk(after=LAST_ID, upto=LAST_ID, copied=BY_ID).next_job() is None


def test_walk_over_nothing_is_done_at_once() -> None:
    queue = Queue()
    queue.say(ELSEWHERE, PUT_ELSEWHERE * 3, HERE)
    walk = queue.walk(copied=BY_ID)
    assert walk.next_job() is None
    assert walk.done


@pytest.mark.parametrize("lap_ids", [BLOCK_SLOTS * BLOCK_IDS, 2**43])
@given(steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=60))
def test_counts_of_blocks_follow_jobs_of_blocks_that_share_a_slot(
    lap_ids: int, steps: list[tuple[int, int, bool]]
) -> None:
    """Blocks so far apart that they share a slot of the array, so that their counts go to and fro to a dict."""
    queue = Queue()
    there: list[int] = []
    next_id = 1
    for lap, job, putting in steps:
        if putting:
            next_id = max(next_id + 1, lap * lap_ids)
            queue.put_as(next_id)
            there.append(next_id)
        elif there:
            queue.say(b"delete %d\r\n" % there.pop(job % len(there)))
        queue.engine.jobs.check()
    assert found(queue.walk(upto=next_id, copied=BY_ID)) == there
    assert found(queue.walk(upto=next_id, down=True, copied=BY_ID)) == there[::-1]


def test_states_are_numbered_as_the_walk_takes_them() -> None:
    assert [State.READY, State.RESERVED, State.DELAYED, State.BURIED] == [0, 1, 2, 3]


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("copied", [COPIED, BY_ID])
def test_a_walk_over_a_group_finds_its_jobs_alone(copied: int, *, down: bool) -> None:
    queue = Queue()
    put = b"put-job 1 tube=t%s\r\nx\r\n"
    for options in (b"", b" group=g", b" group=h", b" group=g delay=9", b" group=h delay=9", b" group=g", b" group=g"):
        queue.say(put % options)
    queue.say(b"reserve-job 6\r\n", b"bury 6 0\r\n", b"reserve-job 7\r\n")
    tube = next(each for each in queue.engine.tube_list if each.name == b"t")

    def walk(states: int, group: bytes = b"g") -> Walk:
        return Walk(queue.engine.jobs, tube, states, 0, 7, down, copied, group)

    def found(begun: Walk) -> list[int]:
        begun.steps_left = 1_000_000
        return sorted(job.id for job in iter(begun.next_job, None))

    begun = walk(WAITING)
    assert [found(walk(states)) for states in (READY, RESERVED, DELAYED, BURIED)] == [[2], [7], [4], [6]]
    assert found(walk(WAITING, b"none")) == []
    queue.say(b"delete 4\r\n", put % b" group=g", b"delete 3\r\n", b"delete 5\r\n")
    assert found(begun) == [2, 6]
    queue.say(b"clear-tube t group=g\r\n", b"delete 7\r\n")
    assert found(walk(WAITING | RESERVED)) == []
    check(queue.engine)
