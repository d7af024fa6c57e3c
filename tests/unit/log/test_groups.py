"""What a log keeps of groups: whose job it is, and which one has begun where the order is strict."""

import pytest

from beanpole.engine.check import check
from tests.simulation.server import Server

STRICT = b"group-order: strict\n"


def put(server: Server, group: bytes) -> None:
    assert server.ask(b"put-job 1 tube=t group=%b\r\nx" % group).startswith(b"INSERTED ")


def reserved(server: Server, client: int = 1) -> int:
    words = server.ask(b"reserve-with-timeout 0", client=client).split()
    return int(words[1]) if words[0] == b"RESERVED" else 0


def test_jobs_have_their_groups_after_a_start() -> None:
    server = Server()
    for group in (b"a", b"a", b"b"):
        put(server, group)
    server.restart()
    check(server.life.engine)
    server.ask(b"watch t", client=1)
    assert [reserved(server) for _ in range(3)] == [1, 3, 2]


def test_what_has_begun_goes_first_after_a_kill() -> None:
    server = Server()
    server.ask(b"set-rules t %d\r\n%b" % (len(STRICT), STRICT), b"watch t")
    server.ask(b"watch t", client=1)
    for pri in (5, 1):
        server.ask(b"put-job 1 tube=t group=a pri=%d\r\nx" % pri)
    put(server, b"b")
    assert reserved(server) == 2
    server.ask(b"put-job 1 tube=t group=a pri=0\r\nx")  # its reply waits for all that was written before
    server.restart()
    check(server.life.engine)
    server.ask(b"watch t", client=1)
    server.life.tick()
    assert sorted([reserved(server), reserved(server)]) == [2, 3]
    assert reserved(server) == 0
    assert server.ask(b"delete 2", client=1) == b"DELETED\r\n"
    assert reserved(server) == 4


def say(server: Server, *lines: bytes) -> bytes:
    return server.ask(*lines, client=1)


@pytest.mark.parametrize(
    ("rules", "before", "after"),
    [
        # 1 is released behind 2, both have been reserved: only a strict order lets it come before
        (b"", [b"release 1 99 0", b"reserve-with-timeout 0", b"release 2 5 0"], [2, 1]),
        (b"group-order: strict", [b"release 1 99 0"], [1, 0]),
        (b"group-order: strict hold-buried", [b"bury 1 5"], [0, 0]),
        (b"group-order: strict", [b"bury 1 5"], [2, 0]),
        (b"group-order: strict", [b"release 1 5 9"], [0, 0]),
    ],
)
@pytest.mark.parametrize("group", [b"", b" group=a"])
def test_order_in_a_group_goes_on_after_a_start(
    rules: bytes, before: list[bytes], after: list[int], group: bytes
) -> None:
    server = Server()
    say(server, b"watch t", b"set-rules t %d\r\n%b" % (len(rules), rules))
    say(server, *[b"put-job 1 tube=t%b pri=5\r\nx" % group] * 2, b"reserve", *before)
    server.restart()
    check(server.life.engine)
    say(server, b"watch t")
    assert [reserved(server), reserved(server)] == after
