"""Spaces: how much may lie in the tubes of a pattern, together, whoever puts it there."""

import pytest

from beanpole.engine.check import check
from beanpole.engine.limits import MOVES_PER_TURN
from tests.unit.engine.queue import Queue

FULL = b"OUT_OF_MEMORY\r\n"
PUT = b"put 0 0 60 3\r\nabc\r\n"


def queue_with(jobs: int = 0, size: int = 0, tubes: int = 0, pattern: bytes = b"m-*") -> Queue:
    queue = Queue()
    queue.engine.set_spaces({pattern: (jobs, size, tubes)})
    return queue


def ask(queue: Queue, data: bytes) -> bytes:
    replies = queue.ask(data)
    check(queue.engine)
    return replies


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        (PUT, FULL),
        (b"put-job 3 tube=m-b\r\nabc\r\n", FULL),
        (b"use o\r\n" + PUT, b"USING o\r\nINSERTED 4\r\n"),
        (b"change-job 3 tube=m-b\r\n", FULL),
        (b"move-jobs default ready 9 to=m-a\r\n", b"MOVED 0\r\n"),
        (b"change-job 1 tube=m-b\r\n", b"CHANGED\r\n"),  # within the space
        (b"move-jobs m-a ready 9 to=m-b\r\n", b"MOVED 2\r\n"),
        (b"delete 1\r\n" + PUT, b"DELETED\r\nINSERTED 4\r\n"),
        (b"delete 1\r\nmove-jobs default ready 9 to=m-a\r\n", b"DELETED\r\nMOVED 1\r\n"),
        (b"put-job 3 key=k\r\nabc\r\n", FULL),
    ],
)
def test_no_job_too_many(said: bytes, reply: bytes) -> None:
    queue = queue_with(jobs=2)
    queue.ask(b"use m-a\r\n" + 2 * PUT)
    queue.ask(PUT, queue.b)
    assert ask(queue, said) == reply


def test_jobs_of_all_states_count_and_buried_ones_are_not_let_in() -> None:
    queue = queue_with(jobs=3)
    queue.ask(b"use m-a\r\nwatch m-a\r\n" + 2 * PUT + b"put 0 9 60 1\r\nx\r\nreserve\r\nbury 1 0\r\nreserve\r\n")
    assert ask(queue, PUT) == FULL
    queue.ask(PUT + b"watch default\r\nreserve\r\nbury 4 0\r\n", queue.b)
    assert ask(queue, b"change-job 4 tube=m-b\r\n") == FULL


def test_no_byte_too_many() -> None:
    queue = queue_with(size=7)
    assert ask(queue, b"use m-a\r\n" + 3 * PUT) == b"USING m-a\r\nINSERTED 1\r\nINSERTED 2\r\n" + FULL
    assert ask(queue, b"change-body 1 5\r\nabcde\r\n") == FULL
    assert ask(queue, b"change-body 1 4\r\nabcd\r\n") == b"CHANGED\r\n"
    assert ask(queue, b"put 0 0 60 0\r\n\r\n") == b"INSERTED 3\r\n"  # it has none
    assert ask(queue, b"change-body 1 1\r\na\r\n" + PUT) == b"CHANGED\r\nINSERTED 4\r\n"


@pytest.mark.parametrize("verb", [b"use", b"watch"])
def test_no_tube_too_many_and_nothing_behind_it_runs(verb: bytes) -> None:
    """As beyond `--tubes-max`: what follows was meant for that tube."""
    queue = queue_with(tubes=2)
    assert queue.ask(b"use m-a\r\nwatch m-b\r\nput-job 3 tube=m-c\r\nabc\r\n").endswith(FULL)
    assert ask(queue, verb + b" m-c\r\n" + PUT) == FULL
    assert queue.a.session.quitting
    queue.a.close(queue.now_ns)
    queue.tick()
    assert queue.ask(b"use m-d\r\n", queue.b) == b"USING m-d\r\n"
    check(queue.engine)


def test_the_longest_pattern_counts() -> None:
    queue = Queue()
    queue.engine.set_spaces({b"*": (1, 0, 0), b"m-*": (2, 0, 0), b"m-a": (3, 0, 0)})
    for tube, most in ((b"m-a", 3), (b"m-b", 2), (b"o", 1)):
        replies = ask(queue, b"use " + tube + b"\r\n" + 4 * PUT)
        assert replies.count(b"INSERTED") == most


def test_what_must_not_be_lost_goes_in_and_counts() -> None:
    queue = queue_with(jobs=1, tubes=1)
    queue.ask(b"set-rules o 25\r\nattempts: 1\ndead: m-dead\n\r\n")
    queue.ask(b"use m-a\r\n" + PUT + b"use o\r\nwatch o\r\n" + PUT + b"reserve\r\nfail-job 2 1\r\nx\r\n")
    assert b"current-jobs-ready: 1" in ask(queue, b"stats-tube m-dead\r\n")
    assert ask(queue, b"delete 1\r\nuse m-dead\r\n" + PUT) == b"DELETED\r\nUSING m-dead\r\n" + FULL


def test_a_time_of_a_schedule_is_skipped_where_there_is_no_place() -> None:
    queue = queue_with(jobs=1)
    document = b"tube: m-a\nevery: 1\noverlap: allow\n\nbody"
    assert queue.ask(b"set-schedule s %d\r\n%b\r\n" % (len(document), document)).startswith(b"SCHEDULED")
    for _ in range(5):
        queue.tick(1)
    check(queue.engine)
    said = queue.ask(b"get-schedule s\r\n")
    assert b"fires=1" in said
    assert b"skips=" in said
    assert queue.ask(b"fire-schedule s\r\n") == FULL
    queue.ask(b"delete 1\r\n")
    assert queue.ask(b"fire-schedule s\r\n") == b"INSERTED 2\r\n"


def test_explain_names_the_space() -> None:
    queue = queue_with(jobs=1, size=3)
    said = ask(queue, b"use m-a\r\n" + PUT + b"explain-tube m-a\r\n")
    assert b'- full: {"space": "m-*", "of": "jobs", "limit": 1, "count": 1}' in said
    assert b'- full: {"space": "m-*", "of": "bytes", "limit": 3, "count": 3}' in said


def test_other_limits_count_at_once_and_no_limit_is_none() -> None:
    queue = queue_with(jobs=1)
    queue.ask(b"use m-a\r\n" + PUT)
    queue.engine.set_spaces({b"m-*": (2, 0, 0)})
    assert ask(queue, 2 * PUT) == b"INSERTED 2\r\n" + FULL
    queue.engine.set_spaces({})
    assert ask(queue, PUT) == b"INSERTED 3\r\n"


def test_many_tubes_are_counted_in_pieces_while_puts_wait() -> None:
    """A put that ran meanwhile could be one too many: spaces that are half counted seem to have room."""
    queue = Queue()
    count = 3 * MOVES_PER_TURN
    queue.ask(b"".join(b"put-job 1 tube=m-%d\r\nx\r\n" % number for number in range(count)))
    queue.engine.set_spaces({b"m-*": (count, 0, 0)})
    queue.a.receive(queue.now_ns, b"put-job 1 tube=m-0\r\nx\r\nlist-tube-used\r\n")
    for _ in range(10):
        assert queue.a.take_output() == b""
        queue.tick()
        queue.a.resume(queue.now_ns)
        if not queue.a.pending:
            break
    assert queue.a.take_output() == FULL + b"USING default\r\n"
    check(queue.engine)
