"""Pages of list-jobs: each job that is there throughout is on exactly one, whatever happens between them.

Jobs are put, deleted, kicked, buried, released, changed and moved to and fro between two tubes, also by rules, and the
server starts again with what its log has. A page is asked for as clients do it, or walked by ids as that of a tube with
many jobs.
"""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.state.job import State
from beanpole.engine.state.walk import Walk
from tests.simulation import server as simulation

STATES = {"ready": State.READY, "reserved": State.RESERVED, "delayed": State.DELAYED, "buried": State.BURIED}
RESTART = b"restart"
HOLD = b"reserve-job %(id)d\r\n"

CHANGES = [
    b"use t\r\nput %(id)d 0 60 0\r\n\r\n",
    b"use t\r\nput 0 9 60 0\r\n\r\n",
    b"use u\r\nput 0 0 60 0\r\n\r\n",
    b"delete %(id)d\r\n",
    HOLD,
    HOLD + b"release %(id)d 3 0\r\n",
    HOLD + b"release %(id)d 3 9\r\n",
    HOLD + b"bury %(id)d 0\r\n",
    b"use t\r\nkick 2\r\n",
    b"kick-job %(id)d\r\n",
    b"move-jobs t ready %(count)d to=u\r\n",
    b"move-jobs u ready %(count)d to=t\r\n",
    b"move-jobs t buried %(count)d to=u\r\n",
    b"move-jobs t delayed %(count)d to=u\r\nmove-jobs u delayed %(count)d to=t\r\n",
    b"change-job %(id)d pri=7 tube=t\r\n",
    b"change-job %(id)d delay=%(count)d tube=u\r\n",
    b"change-body %(id)d 4\r\nbody\r\n",
    b"clear-tube u\r\n",
    b"set-rules t 19\r\nattempts: 1\ndead: u\r\nmove-jobs u ready 9\r\n",
    RESTART,
]
changes = st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(1, 30), st.integers(1, 4)), max_size=20)
"""What happens, to which job, and how many jobs the page behind it may have."""

FIRST_JOBS = (
    b"use t\r\n"
    + b"put 5 0 60 0\r\n\r\nput 0 0 60 0\r\n\r\nput 0 9 60 0\r\n\r\n" * 4
    + b"use u\r\nput 0 0 60 0\r\n\r\nuse t\r\n"
    + HOLD % {b"id": 2}
    + (HOLD + b"bury %(id)d 0\r\n") % {b"id": 7}
)
"""Thirteen jobs."""

LAST_JOBS = {
    "ready": b"put 0 0 60 0\r\n\r\n" * 2,
    "reserved": b"put 0 0 60 0\r\n\r\n" * 2 + b"reserve-job 14\r\nreserve-job 15\r\n",
    "delayed": b"put 0 9 60 0\r\n\r\n" * 2,
    "buried": b"put 0 0 60 0\r\n\r\n" * 2 + b"reserve-job 14\r\nbury 14 0\r\nreserve-job 15\r\nbury 15 0\r\n",
}
"""Two more, in the state that is listed."""


class Server:
    """An engine with a log that survives it, and a client that asks for everything."""

    def __init__(self) -> None:
        self.server = simulation.Server(segment_bytes=65_536)

    @property
    def engine(self) -> Engine:
        """The engine of the process that runs."""
        return self.server.life.engine

    def say(self, data: bytes) -> bytes:
        """The replies to commands, or nothing from a server that starts again."""
        if data == RESTART:
            self.server.life.log.append()
            self.server.restart()
            return b""
        connection = self.server.client.connection
        connection.receive(self.server.life.now_ns, data)
        assert not connection.pending
        return connection.take_output()

    def ids_in(self, state: str) -> set[int]:
        """The jobs of the tube t in a state."""
        jobs = self.engine.jobs.jobs()
        return {job.id for job in jobs if job.tube.name == b"t" and job.state == STATES[state]}

    def page(self, state: str, limit: int, after: int) -> tuple[list[int], int | None]:
        """The jobs of a page, and behind which one the next begins."""
        reply = self.say(b"list-jobs t %b %d after=%d\r\n" % (state.encode(), limit, after))
        first, *lines = reply.split(b"\r\n")
        ids = [int(line.split()[1]) for line in lines if line.startswith(b"JOB ")]
        words = first.split()
        assert words[:2] == [b"JOBS", b"%d" % len(ids)]
        return ids, int(words[2].removeprefix(b"next=")) if len(words) > 2 else None

    def page_by_id(self, state: str, limit: int, after: int) -> tuple[list[int], int | None]:
        """The same for a tube with more jobs than are copied: every id is looked up, here two in a piece."""
        tube = next((each for each in self.engine.tube_list if each.name == b"t"), None)
        if tube is None:
            return [], None
        walk = Walk(self.engine.jobs, tube, 1 << STATES[state], after, self.engine.next_job_id - 1, False, 0)
        ids: list[int] = []
        while len(ids) < limit and not walk.done:
            walk.steps_left = 2
            while len(ids) < limit and (job := walk.next_job()) is not None:
                ids.append(job.id)
        return ids, ids[-1] if len(ids) == limit else None


Way = Callable[[Server, str, int, int], tuple[list[int], int | None]]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("way", [Server.page, Server.page_by_id])
@given(steps=changes)
def test_each_job_that_is_there_throughout_is_on_one_page(
    state: str,
    way: Way,
    steps: list[tuple[bytes, int, int]],
) -> None:
    server = Server()
    server.say(FIRST_JOBS + LAST_JOBS[state])
    stayed = server.ids_in(state)
    assert {14, 15} < stayed
    shown, after = way(server, state, 1, 0)
    for change, id, limit in steps:
        server.say(change if change == RESTART else change % {b"id": id, b"count": limit})
        check(server.engine)
        stayed &= server.ids_in(state)
        if after is None:
            break
        ids, after = way(server, state, limit, after)
        assert set(ids) <= server.ids_in(state)
        shown += ids
    while after is not None:
        ids, after = way(server, state, 3, after)
        shown += ids
    assert shown == sorted(set(shown)), "a job is on two pages"
    assert stayed <= set(shown), "a job is on no page"
