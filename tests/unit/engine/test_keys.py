"""The index of keys finds the job that holds a key, and no other, while it grows and shrinks."""

from random import Random

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection


@pytest.mark.parametrize("seed", range(3))
def test_index_finds_each_key_and_no_other(seed: int) -> None:
    rng = Random(seed)
    engine = Engine()
    client = Connection(engine, 1)
    held: dict[tuple[bytes, bytes], int] = {}
    for aim in (9000, 50, 0, 5000, 0):  # more than a segment of buckets, and none
        while len(held) < aim:
            place = (b"t%d" % rng.randrange(3), b"%x" % rng.getrandbits(16))
            client.receive(1, b"put-job 0 tube=%b key=%b\r\n\r\n" % place)
            word, number = client.take_output().split()
            assert word == (b"EXISTS" if place in held else b"INSERTED")
            assert held.setdefault(place, int(number)) == int(number)
        while len(held) > aim:
            place = rng.choice(list(held)) if aim < 1000 and len(held) < 200 else next(iter(held))
            client.receive(1, b"delete %d\r\n" % held.pop(place))
            assert client.take_output() == b"DELETED\r\n"
        for place, id in list(held.items())[:500]:
            client.receive(1, b"find-job %b %b\r\nfind-job %b x%b\r\n" % (place * 2))
            assert client.take_output() == b"FOUND %d 0\r\n\r\nNOT_FOUND\r\n" % id
        check(engine)


@pytest.mark.parametrize(("stuck", "kicked"), [(1000, 1), (1001, 0)])
def test_kick_ends_where_it_passes_over_too_many(stuck: int, kicked: int) -> None:
    """A kick must not look at a million buried jobs for one that it may kick."""
    client = Connection(engine := Engine(), 1)
    for id in range(1, stuck + 1):
        client.receive(1, b"put-job 0 key=k\r\n\r\nreserve-job %d\r\nbury %d 0\r\n" % (id, id))
    client.receive(1, b"put-job 0 key=k\r\n\r\nput-job 0\r\n\r\n")
    client.receive(1, b"reserve-job %d\r\nbury %d 0\r\n" % (stuck + 2, stuck + 2))
    client.take_output()
    client.receive(1, b"kick 5\r\n")
    client.receive(1, b"peek-buried\r\n")
    assert client.take_output() == b"KICKED %d\r\nFOUND 1 0\r\n\r\n" % kicked
    check(engine)
