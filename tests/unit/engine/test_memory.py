"""What the engine makes many of is no business of Python's garbage collector."""

import sys

import pytest

from beanpole.engine.engine import Engine
from beanpole.engine.state.job import Job
from beanpole.engine.state.session import Session
from beanpole.engine.state.tube import Tube, Watch
from beanpole.server.connection import Connection

HAVE_GC = 1 << 14
"""Py_TPFLAGS_HAVE_GC of CPython: the collector walks through every object of such a type, however many there are."""


@pytest.mark.parametrize("kind", [Job, Tube, Watch, Session])
def test_collector_passes_over(kind: type) -> None:
    assert not kind.__flags__ & HAVE_GC


@pytest.mark.parametrize(("kind", "size"), [(Job, 96), (Tube, 304), (Session, 208)])
def test_size(kind: type, size: int) -> None:
    """Each fits the class of allocations that it was made for: a byte more costs 16."""
    assert kind.__basicsize__ <= size


def test_references_of_jobs_are_counted() -> None:
    """A job is not made as Python makes objects: what its fields refer to at first is counted by hand."""
    connection = Connection(engine := Engine(now_ns=1), 1)
    tube = engine.tube_list[0]
    before = sys.getrefcount(None), sys.getrefcount(tube), sys.getrefcount(Job)
    for id in range(1, 1_501):
        size = (0, 100, 1_000)[id % 3]
        connection.receive(1, b"put 0 0 60 %d\r\n%b\r\nreserve\r\ndelete %d\r\n" % (size, b"x" * size, id))
        connection.take_output()
    assert engine.jobs.count == 0
    after = sys.getrefcount(None), sys.getrefcount(tube), sys.getrefcount(Job)
    assert all(abs(now - then) < 100 for now, then in zip(after, before, strict=True))


def test_nothing_is_left_of_a_session_that_ends() -> None:
    """As nobody looks for cycles among these, there must be none: a tube goes when its last session ends."""
    engine = Engine(now_ns=1)
    for number in range(3):
        waiting, worker = Connection(engine, 1), Connection(engine, 1)
        waiting.receive(1, b"watch t%d\r\nignore default\r\nreserve\r\n" % number)
        worker.receive(1, b"use u\r\nput 0 0 9 1\r\na\r\nwatch u\r\nreserve\r\n")
        id = int(worker.take_output().split(b"RESERVED ")[1].split()[0])
        worker.receive(1, b"delete %d\r\nreserve\r\n" % id)
        for each in (waiting, worker):
            each.close(1)
    engine.take_woken()
    assert (engine.session_count, engine.jobs.count, len(engine.tube_list)) == (0, 0, 1)
