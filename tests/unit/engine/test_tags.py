"""The tags of a job: each says what it was last told, in the order of their numbers, whatever the body is."""

import struct
from random import Random

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.state.tags import KeyBit, Tag
from beanpole.log.accounts import Accounts
from beanpole.log.encoder import Encoder
from beanpole.log.format import Kind, number_record, segment_header
from beanpole.log.replay import Replay
from beanpole.server.connection import Connection
from tests.unit.log.test_growth import SALT, seal

TEXT = Tag.FAILURE_TEXT


def tagged(tags: dict[int, bytes]) -> bytes:
    """Tags as they stand behind a body."""
    return b"".join(struct.pack("<BH", number, len(tags[number])) + tags[number] for number in sorted(tags))


def known(tags: bytes) -> dict[int, bytes]:
    """What tags say, by their numbers, but for the history: it has a moment."""
    found: dict[int, bytes] = {}
    while tags:
        number, size = struct.unpack_from("<BH", tags)
        assert number > max(found, default=0)
        found[number], tags = tags[3 : 3 + size], tags[3 + size :]
    found.pop(Tag.HISTORY, None)
    return found


def whole(id: int, tags: dict[int, bytes]) -> bytes:
    """The record of a ready job."""
    numbers = struct.pack("<QqqQ8IB", id, 0, 0, 0, 5, 0, 60, 0, 0, 0, 0, 0, 0)
    text = tagged(tags)
    return seal(bytes([Kind.WHOLE]) + numbers + struct.pack("<BH", 1, len(text)) + b"t" + text + b"body")


def engine_with(*jobs: dict[int, bytes]) -> Engine:
    """An engine with ready jobs, from 1 on, that have these tags."""
    records = b"".join(whole(id, tags) for id, tags in enumerate(jobs, 1))
    encoder = Encoder(Accounts(unlimited=True))
    engine = Engine(records=encoder)
    replay = Replay(engine, encoder)
    replay.segment(segment_header(1, 1, (0, 0), SALT, 1) + records + number_record(Kind.END, 9, SALT), 1)
    assert replay.ended, replay.problem
    replay.finish(0)
    encoder.open_segment(2, 1 << 20)
    return engine


@pytest.mark.parametrize("unknown", [(), (128,), (133, 200), (128, 133)], ids=str)
def test_text_of_a_failure_stands_among_other_tags(unknown: tuple[int, ...]) -> None:
    rng = Random(len(unknown))
    tags = {number: rng.randbytes(rng.randrange(1, 300)) for number in unknown}
    engine = engine_with(tags)
    (job,) = engine.jobs.jobs()
    assert known(job.tags) == tags
    worker = Connection(engine, 0)
    body = b"body"
    for size in (3, 3, 900, 0, 0, 1024, 7):
        tags[TEXT] = rng.randbytes(size)
        worker.receive(0, b"reserve-job 1\r\nfail-job 1 %d\r\n%b\r\n" % (size, tags[TEXT]))
        assert worker.take_output() == b"RESERVED 1 %d\r\n%b\r\nRELEASED\r\n" % (len(body), body)
        if size == 0:
            del tags[TEXT]
        assert known(job.tags) == tags
        body = rng.randbytes(rng.choice((0, 2, 500)))
        worker.receive(0, b"change-body 1 %d\r\n%b\r\n" % (len(body), body))
        assert worker.take_output() == b"CHANGED\r\n"
        assert (job.text, known(job.tags)) == (body, tags)


def test_key_that_two_jobs_of_a_log_have_is_that_of_the_later() -> None:
    """No program writes such a log, but records of one can be lost."""
    engine = engine_with({Tag.KEY: b"\0k"}, {Tag.KEY: b"\0k", 200: b"x"}, {Tag.KEY: b"\0kk"})
    check(engine)
    tags = {job.id: job.tags for job in engine.jobs.jobs()}
    assert tags[1] == tagged({Tag.KEY: bytes([KeyBit.FREED]) + b"k"})
    assert tags[2] == tagged({Tag.KEY: b"\0k", 200: b"x"})
    client = Connection(engine, 0)
    client.receive(0, b"find-job t k\r\nfind-job t kk\r\n")
    assert client.take_output() == b"FOUND 2 4\r\nbody\r\nFOUND 3 4\r\nbody\r\n"
