"""list-tubes with more tubes than fit into one piece, and with many that come and go."""

import random
import tracemalloc

from beanpole.engine import limits
from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection


def listed(connection: Connection) -> list[bytes]:
    """The tubes of list-tubes, whose reply takes as many turns as it needs."""
    connection.receive(1, b"list-tubes\r\nlist-tube-used\r\n")
    reply = connection.take_output()
    while connection.pending or connection.choked:
        connection.resume(1)
        reply += connection.take_output()
    line, _, rest = reply.partition(b"\r\n")
    size = int(line.removeprefix(b"OK "))
    assert rest[size:] == b"\r\nUSING default\r\n"
    text = rest[:size].split(b"\n- ")
    assert text[0] == b"---"
    return [name.rstrip(b"\n") for name in text[1:]]


def test_list_follows_every_change() -> None:
    """Tubes come and go in an order that the seed says; a removed tube's place is taken by the last one."""
    engine = Engine()
    connection = Connection(engine, 1)
    chance = random.Random(7)
    expected = [b"default"]
    for step in range(1500):
        if len(expected) > 1 and chance.random() < 0.3:
            name = expected[chance.randrange(1, len(expected))]
            connection.receive(1, b"ignore %b\r\n" % name)
            at = expected.index(name)
            last = expected.pop()
            if last != name:
                expected[at] = last
        else:
            expected.append(b"tube-%d" % step)
            connection.receive(1, b"watch tube-%d\r\n" % step)
        if step % 7 == 0:
            connection.take_output()
            assert listed(connection) == expected
            check(engine)
    connection.take_output()
    for name in expected[1:]:
        connection.receive(1, b"ignore %b\r\n" % name)
    connection.take_output()
    assert listed(connection) == [b"default"]
    check(engine)


def test_list_is_that_of_the_moment_of_the_command() -> None:
    """A long reply is written in pieces; what others change between them is not in it."""
    engine = Engine()
    owner, reader, other = (Connection(engine, 1) for _ in range(3))
    names = [b"%0190d" % each for each in range(3 * limits.REPLY_BYTES_PER_TURN // 190)]
    for name in names:
        owner.receive(1, b"watch %b\r\n" % name)
        owner.take_output()
    reader.feed(1, b"list-tubes\r\n" * 30 + b"quit\r\n")
    before = reader.take_output()
    assert before.count(b"OK ") < 30, "the replies fit into one turn"
    other.receive(1, b"watch late\r\n")
    owner.close(1)
    while not reader.finished:
        reader.resume(1)
        before += reader.take_output()
    first = before[: before.index(b"\r\n") + 2 + 4 + 193 * len(names) + len(b"- default\n") + 2]
    assert first.endswith(b"- %b\n\r\n" % names[-1])
    assert before.endswith(b"OK 21\r\n---\n- default\n- late\n\r\n")
    assert before.count(b"OK ") == 30


def test_list_that_nobody_reads_keeps_no_text() -> None:
    """What a client's output has no room for costs a pointer a tube, however long the names are."""
    engine = Engine()
    owner, reader = Connection(engine, 1), Connection(engine, 1)
    names = [b"%0190d" % each for each in range(20_000)]
    for name in names:
        owner.receive(1, b"watch %b\r\n" % name)
        owner.take_output()
    tracemalloc.start()
    try:
        reader.receive(1, b"list-tubes\r\n")
        for _ in range(1_000):
            reader.resume(1)
        kept_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert reader.choked
    assert kept_bytes < 16 * len(names)
