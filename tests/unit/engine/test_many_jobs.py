"""Commands about many jobs do a piece at a time: others are served in between, and what they do is seen."""

import random

import pytest

from beanpole.engine import limits
from beanpole.engine.check import check
from tests.unit.engine.queue import Queue

PUT = b"put 0 0 60 0\r\n\r\n"
PIECE = limits.JOBS_PER_PIECE


class Many(Queue):
    """One client, `a`, asks for much, and the other one goes on in between."""

    def __init__(self, *, body_bytes_max: int = 65535) -> None:
        super().__init__(1, body_bytes_max=body_bytes_max)
        self.say(b"use t\r\n")

    def say(self, data: bytes) -> bytes:
        return self.ask(data, self.b)

    def put(self, count: int) -> None:
        for first in range(0, count, 1000):
            self.say(PUT * min(1000, count - first))

    def begin(self, command: bytes) -> None:
        """The first piece of a command that takes several."""
        self.a.receive(1, command)
        assert self.a.pending
        assert self.a.take_output() == b""

    def end(self) -> bytes:
        """Its reply."""
        return self.ask(b"")


def test_clear_takes_pieces_and_spares_what_is_put_later() -> None:
    queue = Many()
    queue.put(3 * PIECE)
    queue.begin(b"clear-tube t\r\nlist-tube-used\r\n")
    assert queue.engine.jobs.count == 2 * PIECE
    check(queue.engine)
    queue.say(PUT * 5 + b"delete 1\r\nreserve-job 2\r\n")
    assert queue.end() == b"CLEARED %d\r\nUSING default\r\n" % (3 * PIECE - 2)
    assert sorted(job.id for job in queue.engine.jobs.jobs()) == [2, *range(3 * PIECE + 1, 3 * PIECE + 6)]
    check(queue.engine)


@pytest.mark.parametrize("how", ["close", "half_close"])
def test_client_that_goes_leaves_the_rest(how: str) -> None:
    queue = Many()
    queue.put(3 * PIECE)
    queue.begin(b"clear-tube t\r\n")
    getattr(queue.a, how)(1)
    if how == "half_close":
        queue.end()
    assert queue.engine.jobs.count == (2 * PIECE if how == "close" else 0)
    check(queue.engine)


def test_tube_that_is_made_again_is_another_one() -> None:
    """The tube is forgotten while a clear goes on; one of its name that is made then is none of its business."""
    queue = Many()
    queue.put(2 * PIECE)
    queue.say(b"use default\r\n")
    queue.begin(b"clear-tube t\r\n")
    queue.say(b"clear-tube t\r\n")
    assert b"\r\n- t\n" not in queue.say(b"list-tubes\r\n")
    queue.say(b"use t\r\n" + PUT)
    assert queue.end() == b"CLEARED %d\r\n" % PIECE
    assert queue.engine.jobs.count == 1
    check(queue.engine)


def test_many_ids_of_other_tubes_are_passed_in_pieces() -> None:
    queue = Many()
    queue.say(b"use other\r\n")
    queue.put(2 * limits.WALK_IDS_PER_TURN)
    queue.say(b"use t\r\n" + PUT + b"reserve-job %d\r\n" % (2 * limits.WALK_IDS_PER_TURN + 1))
    queue.begin(b"list-jobs t reserved 1\r\n")
    queue.say(b"use other\r\nput 0 0 60 0\r\n\r\n")
    assert queue.end().startswith(b"JOBS 1 next=%d\r\nJOB " % (2 * limits.WALK_IDS_PER_TURN + 1))


def test_move_goes_on_with_a_target_that_was_forgotten() -> None:
    queue = Many()
    queue.put(2 * PIECE)
    queue.begin(b"move-jobs t ready 1000000 to=u\r\n")
    assert queue.say(b"clear-tube u\r\n") == b"CLEARED %d\r\n" % PIECE
    assert queue.say(b"stats-tube u\r\n") == b"NOT_FOUND\r\n"
    check(queue.engine)
    assert queue.end() == b"MOVED %d\r\n" % (2 * PIECE)
    assert b"current-jobs-ready: %d\n" % PIECE in queue.say(b"stats-tube u\r\n")
    check(queue.engine)


def test_move_stops_where_there_may_be_no_more_tubes() -> None:
    queue = Many()
    queue.say(PUT)
    queue.engine.tubes_max = 2
    assert queue.say(b"move-jobs t ready 1 to=u\r\n") == b"MOVED 0\r\n"
    assert queue.say(b"move-jobs t ready 1 to=default\r\n") == b"MOVED 1\r\n"
    check(queue.engine)


def test_page_ends_at_its_limit_of_bodies_and_goes_on_behind() -> None:
    size = limits.BODIES_BYTES_MAX // 2 - 1
    queue = Many(body_bytes_max=1 << 20)
    for each in (size, size, 5, size, 4 * size):
        queue.say(b"put 0 0 60 %d\r\n%b\r\n" % (each, b"x" * each))
    for after, heads in ((0, b"JOBS 2 next=2"), (2, b"JOBS 2 next=4"), (4, b"JOBS 1")):
        reply = queue.say(b"list-jobs t ready 1000 bodies=1000000 after=%d\r\n" % after)
        assert reply.partition(b"\r\n")[0] == heads
    assert queue.say(b"list-jobs t ready 1000 bodies=10\r\n").startswith(b"JOBS 5\r\n")
    reply = queue.say(b"list-jobs t ready 1000 bodies=1000000 order=next\r\n")
    assert reply.startswith(b"JOBS 2\r\nJOB 1 %d " % size)


@pytest.mark.parametrize("state", ["ready", "delayed", "buried"])
def test_jobs_are_listed_as_they_would_be_handed_out(state: str) -> None:
    """As many as the heap has levels for, against a sorted list."""
    queue = Many()
    chance = random.Random(state)
    keys = [chance.randrange(40) for _ in range(700)]
    order = sorted(range(1, 701), key=lambda id: (keys[id - 1], id))
    for id, key in enumerate(keys, 1):
        queue.say(b"put %d %d 60 0\r\n\r\n" % (key, key + 1 if state == "delayed" else 0))
        assert queue.engine.next_job_id == id + 1
    if state == "buried":
        for id in order:
            queue.say(b"reserve-job %d\r\nbury %d 0\r\n" % (id, id))
    for count in (1, 9, 100, 700, 1000):
        reply = queue.say(b"list-jobs t %b %d order=next\r\n" % (state.encode(), count))
        listed = [int(line.split()[1]) for line in reply.split(b"\r\n") if line.startswith(b"JOB ")]
        assert listed == order[:count]


def names_in(reply: bytes) -> list[str]:
    """The tubes that a stats-tubes shows."""
    return [line[8:].decode() for line in reply.split(b"\n") if line.startswith(b"- name: ")]


def test_pages_of_tubes_show_each_that_stays_once() -> None:
    """Tubes come and go between the pages and between the pieces of one; those that stay are shown in their order."""
    queue = Many()
    chance = random.Random(3)
    names = [f"tube{number}" for number in range(limits.NAMES_PER_TURN + 2_000)]
    chance.shuffle(names)
    for first in range(0, len(names), 500):
        queue.say(b"".join(b"watch %b\r\n" % name.encode() for name in names[first : first + 500]))
    stayed = {*names, "default", "t"}
    shown: list[str] = []
    while True:
        queue.begin(b"stats-tubes limit=1000 after=%b\r\n" % (shown[-1] if shown else "$").encode())
        gone = chance.sample(sorted(stayed - {"default", "t"}), 100)
        queue.say(b"".join(b"ignore %b\r\n" % name.encode() for name in gone))
        queue.say(b"".join(b"watch new%d\r\n" % chance.randrange(10**9) for _ in range(50)))
        stayed -= set(gone)
        page = names_in(queue.end())
        if not page:
            break
        assert page == sorted(page)
        shown += page
    assert len(shown) == len(set(shown))
    assert stayed <= set(shown)
    check(queue.engine)


def test_page_of_tubes_that_are_all_gone_is_followed_by_the_next() -> None:
    queue = Many()
    queue.say(b"".join(b"watch a%d\r\n" % number for number in range(limits.NAMES_PER_TURN)) + b"watch z\r\n")
    queue.begin(b"stats-tubes limit=3\r\n")
    queue.say(b"".join(b"ignore a%d\r\n" % number for number in range(limits.NAMES_PER_TURN)))
    assert names_in(queue.end()) == ["default", "t", "z"]
