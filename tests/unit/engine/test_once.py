"""Tokens of puts: each is found as long as it counts, none is forgotten before, and those that have ended go."""

import subprocess
import sys
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.check import check
from beanpole.engine.state.once import OnceTable
from tests.unit.engine.queue import SECOND_NS, Queue

MAX = 150

SHORT_OF_MEMORY = r"""
import resource
from itertools import count

from tests.unit.engine.queue import Queue

queue = Queue()
queue.ask(b"put-job 0 key=k\r\n\r\n")
with open("/proc/self/statm") as file:
    most = int(file.read().split()[0]) * resource.getpagesize() + 2**23
resource.setrlimit(resource.RLIMIT_AS, (most, most))
for token in count():
    reply = queue.ask(b"put-job 0 key=k once=%d\r\n\r\n" % token)
    if reply != b"EXISTS 1\r\n":
        break
assert reply == b"OUT_OF_MEMORY\r\n"
assert queue.ask(b"put-job 0 once=0\r\n\r\nput-job 0\r\n\r\n") == b"EXISTS 1\r\nINSERTED 2\r\n"
print("went on", end="")
"""
"""A program of eight megabytes more than it needs, which puts until that is not enough."""


def table(queue: Queue) -> OnceTable:
    return queue.engine.once or OnceTable()


def put(queue: Queue, token: int, seconds: int = 300) -> bytes:
    """A put that makes no job more: its key is taken."""
    return queue.ask(b"put-job 0 key=k once=%d for=%d\r\n\r\n" % (token, seconds))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 350),
            st.integers(1, 100),
            st.integers(1, 40),
            st.sampled_from([0, 0, 0, 1, 7]),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_token_counts_for_its_time_and_no_longer(steps: list[tuple[int, int, int, int, bool]]) -> None:
    queue = Queue()
    queue.engine.once_max = MAX
    queue.ask(b"put-job 0 key=k\r\n\r\n")
    ends: dict[int, int] = {}
    for first, count, seconds, pause_s, ticks in steps:
        for token in range(first, first + count):
            live = sum(end > queue.now_ns for end in ends.values())
            is_known = ends.get(token, 0) > queue.now_ns
            is_done = is_known or live < MAX
            assert put(queue, token, seconds) == (b"EXISTS 1\r\n" if is_done else b"OUT_OF_MEMORY\r\n")
            if is_done and not is_known:
                ends[token] = queue.now_ns + seconds * SECOND_NS
        queue.now_ns += pause_s * SECOND_NS
        if ticks and pause_s:
            queue.engine.tick(queue.now_ns)
            assert table(queue).count == sum(end > queue.now_ns for end in ends.values())
        check(queue.engine)


def test_hash_is_the_one_that_logs_have() -> None:
    queue = Queue()
    pairs = [(b"t" * size, b"a" * 63 + b"\xff") for size in range(1, 201)] + [
        (b"t", b"b" * size) for size in range(1, 64)
    ]
    for tube, token in pairs:
        queue.ask(b"put-job 0 tube=%b once=%b\r\n\r\n" % (tube, token))
    hashes = {blake2b(b"%b %b" % pair, digest_size=16).digest() for pair in pairs}
    assert {found for found, *_ in table(queue).tokens()} == hashes


def test_one_more_is_refused_and_changes_nothing() -> None:
    queue = Queue()
    queue.engine.once_max = 2
    assert queue.ask(b"put-job 0 once=a for=5\r\n\r\n") == b"INSERTED 1\r\n"
    assert queue.ask(b"put-job 0 once=b for=9\r\n\r\n") == b"INSERTED 2\r\n"
    assert queue.ask(b"put-job 8 tube=new once=c\r\ndelete 1\r\n") == b"OUT_OF_MEMORY\r\n"
    assert queue.ask(b"peek 1\r\n").startswith(b"FOUND 1 "), "the body is no command"
    assert queue.ask(b"stats-tube new\r\nput-job 0\r\n\r\n") == b"NOT_FOUND\r\nINSERTED 3\r\n"
    assert queue.ask(b"put-job 0 once=a\r\n\r\n") == b"EXISTS 1\r\n"
    queue.now_ns += 5 * SECOND_NS
    assert queue.ask(b"put-job 0 tube=new once=c\r\n\r\n") == b"INSERTED 4\r\n"


def test_a_put_without_memory_for_its_token_is_refused() -> None:
    assert subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], check=True, capture_output=True).stdout == b"went on"


def test_a_put_that_was_done_is_answered_while_the_server_drains_and_its_tube_is_full() -> None:
    queue = Queue()
    queue.ask(b"set-rules default 11\r\njobs-max: 1\r\n")
    assert queue.ask(b"put-job 0 once=a\r\n\r\nput-job 0 once=b\r\n\r\n") == b"INSERTED 1\r\nOUT_OF_MEMORY\r\n"
    queue.engine.draining = True
    assert queue.ask(b"put-job 0 once=a\r\n\r\nput-job 0 once=b\r\n\r\n") == b"EXISTS 1\r\nDRAINING\r\n"


def test_tokens_go_by_themselves_when_nobody_puts() -> None:
    queue = Queue()
    put_count = 12_000
    for token in range(put_count):
        queue.ask(b"put-job 0 key=k once=%d for=3\r\n\r\n" % token)
    ticks = 0
    while table(queue).count:
        assert queue.engine.next_deadline_ns <= queue.now_ns + SECOND_NS
        queue.tick(1)
        ticks += 1
    assert ticks <= 3 + 3
    assert queue.engine.next_deadline_ns == -1
    check(queue.engine)


def test_token_takes_forty_bytes() -> None:
    queue = Queue()
    count = 60_000
    for first in range(0, count, 500):
        queue.ask(b"".join(b"put-job 0 key=k once=%d\r\n\r\n" % token for token in range(first, first + 500)))
    assert table(queue).count == count
    assert table(queue).memory_bytes <= 40 * count
    queue.now_ns += 400 * SECOND_NS
    for _ in range(count // 5_000):
        queue.tick(1)
    assert table(queue).memory_bytes < 40 * 2_048
