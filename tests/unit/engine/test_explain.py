"""explain and explain-tube: places are exact up to a thousand, and what is named is bounded."""

import random
import re

from beanpole.engine.check import check
from beanpole.server.connection import Connection
from tests.unit.engine.queue import SECOND_NS, Queue


class Server(Queue):
    """What explain says to its clients."""

    def said(self, data: bytes, client: Connection | None = None) -> str:
        return self.ask(data, client).decode()

    def explain(self, id: int) -> dict[str, str]:
        """What explain says first, and its reasons with a hyphen before them."""
        return parts(self.said(b"explain %d\r\n" % id))


def parts(reply: str) -> dict[str, str]:
    """The lines of a reply by what stands before the first colon."""
    lines = reply.splitlines()[2:-1]
    assert all(re.fullmatch(r"[a-z-]+:(?: (?!.*: ).+)?|- [a-z-]+: \{.*\}", line) for line in lines), "a line is no YAML"
    return dict(line.partition(": ")[::2] for line in lines)


def test_places_are_counted_up_to_a_thousand() -> None:
    server, chance = Server(), random.Random(1)
    pris = [chance.choice([chance.randrange(50), chance.randrange(2**32)]) for _ in range(3000)]
    server.ask(b"".join(b"put %d 0 60 0\r\n\r\n" % pri for pri in pris))
    for id in chance.sample(range(1, 3001), 1500):
        server.ask(b"delete %d\r\n" % id)
    line = sorted((job.pri, job.id) for job in server.engine.jobs.jobs())
    for place, (_, id) in enumerate(line, 1):
        said = server.explain(id)
        assert said["place"] == (str(place) if place <= 1000 else "more than 1000")
        assert said.get("- order") == (f'{{"before": {min(place - 1, 1000)}}}' if place > 1 else None)
    check(server.engine)


def test_places_among_the_delayed_and_the_buried() -> None:
    server = Server()
    server.ask(b"".join(b"put 0 %d 60 0\r\n\r\n" % delay for delay in (30, 10, 20)))
    assert [server.explain(id)["place"] for id in (1, 2, 3)] == ["3", "1", "2"]
    for id in (3, 1):
        server.ask(b"reserve-job %d\r\nbury %d 0\r\n" % (id, id))
    assert [server.explain(id)["place"] for id in (1, 2, 3)] == ["2", "1", "1"]


def test_a_held_job_names_its_holder() -> None:
    server = Server()
    names = {server.a: "10.0.0.1:4", server.b: "unix"}
    server.engine.describe = lambda owner: names.get(owner, "")
    server.ask(b"put 0 0 5 0\r\n\r\n")
    server.ask(b"reserve\r\n", server.b)
    server.now_ns += SECOND_NS // 4
    server.ask(b"list-tube-used\r\n", server.b)
    server.now_ns += SECOND_NS // 2
    said = server.explain(1)
    assert said["- reserved"] == '{"session": 1, "peer": "unix", "silent": 0.5, "left": 4.25, "ttr": 5}'
    assert "- timeouts" not in said
    server.now_ns += 5 * SECOND_NS
    server.engine.tick(server.now_ns)
    server.ask(b"reserve\r\n", server.b)
    assert server.explain(1)["- timeouts"] == '{"count": 1}'


def test_an_obstacle_of_the_log_is_a_reason() -> None:
    server = Server()
    server.engine.describe = lambda owner: "the disk is full" if owner is None else ""
    server.ask(b"put 0 0 5 0\r\n\r\n")
    assert server.explain(1)["- log"] == '{"obstacle": "the disk is full"}'
    assert parts(server.said(b"explain-tube default\r\n"))["- log"] == '{"obstacle": "the disk is full"}'


def test_a_tube_names_ten_of_each_however_far_they_are_apart() -> None:
    server = Server()
    for first in range(1, 90_001, 30_000):
        server.ask(b"put 9 0 60 0\r\n\r\n" * 30_000)
        server.ask(b"".join(b"reserve-job %d\r\n" % id for id in range(first, first + 5)))
    server.ask(b"clear-tube default\r\nput 0 0 60 0\r\n\r\nreserve\r\n")
    waiting = [server.connect() for _ in range(12)]
    for connection in waiting:
        server.ask(b"reserve\r\n", connection)
    said = parts(server.said(b"explain-tube default\r\n"))
    assert said["- reserved"] == '{"count": 16, "ids": [1, 2, 3, 4, 5, 30001, 30002, 30003, 30004, 30005]}'
    sessions = ", ".join(f'{{"session": {each}}}' for each in range(2, 12))
    assert said["- waiting"] == f'{{"count": 12, "sessions": [{sessions}]}}'
    server.ask(b"".join(b"bury %d 0\r\n" % id for id in (30001, 1, 60003, 2, 3)))
    said = parts(server.said(b"explain-tube default\r\n"))
    assert said["- buried"] == '{"count": 5, "ids": [30001, 1, 60003, 2, 3]}'
    assert said["- reserved"].startswith('{"count": 11, "ids": [4, 5, 30002, ')


def test_a_tube_that_goes_while_it_is_explained_is_not_found() -> None:
    server = Server()
    server.ask(b"use t\r\n")
    server.ask(b"use u\r\nput 0 0 60 0\r\n\r\n", server.b)
    for _ in range(3):
        server.ask(b"put 0 0 60 0\r\n\r\n" * 30_000)
    server.ask(b"use u\r\nput 0 0 60 0\r\n\r\n", server.b)
    last = server.engine.next_job_id - 1
    server.ask(b"reserve-job %d\r\n" % last, server.b)
    server.ask(b"use default\r\n", server.b)
    server.a.receive(server.now_ns, b"explain-tube u\r\n")
    assert server.a.pending
    server.ask(b"delete 1\r\ndelete %d\r\n" % last, server.b)
    assert server.ask(b"") == b"NOT_FOUND\r\n"
