"""What a log keeps of groups: whose job it is, and which one has begun where the order is strict."""

import pytest

from beanpole.engine.check import check
from beanpole.log.compaction import group_pauses
from beanpole.log.files.names import segment_name
from beanpole.log.format import Kind
from tests.simulation.server import Server
from tests.unit.log.test_growth import seal
from tests.unit.log.test_replay import NS_PER_S, TURN_S, delayed, packed, replayed, turn
from tests.unit.log.test_replay import paused as paused_tube
from tests.unit.log.test_rules import rules_record

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


def paused(until_s: int, pause_s: int) -> bytes:
    return seal(bytes([Kind.GROUP]) + packed((pause_s, 4), (until_s * NS_PER_S, 8)) + b"\x01tg")


@pytest.mark.parametrize("last", [b"", turn(TURN_S)], ids=["no turn", "a turn"])
def test_no_pause_is_longer_than_was_asked_for(last: bytes) -> None:
    engine = replayed(paused(10**9, 5), last, now_s=TURN_S)
    (pause,) = group_pauses(engine)
    assert (pause.tube, pause.group, pause.until_ns) == (b"t", b"g", (TURN_S + 5) * NS_PER_S)
    check(engine)


def test_what_follows_a_log_forgets_pauses_that_are_over() -> None:
    engine = replayed(paused(TURN_S, 5), turn(TURN_S + 1), paused(TURN_S, 5), now_s=TURN_S + 1)
    assert [each.name for each in engine.tube_list] == [b"default"]
    check(engine)


def test_pause_of_a_tube_outlives_that_of_its_last_group() -> None:
    records = [paused(TURN_S, 5), paused_tube(TURN_S + 90, 90), turn(TURN_S + 1), delayed(1, 0, 0)]
    engine = replayed(*records, now_s=TURN_S + 1)
    (job,) = engine.jobs.jobs()
    assert job.tube.paused_until_ns == (TURN_S + 90) * NS_PER_S


def test_what_is_read_back_notes_no_tube_that_is_open_again() -> None:
    """Nobody waits: what follows a log would note more and more of them."""
    rules = [rules_record(b"t\nrate: 1/h"), rules_record(b"t")]
    engine = replayed(delayed(1, TURN_S + 5, 5), *rules, turn(TURN_S), now_s=TURN_S)
    assert engine.next_deadline_ns == (TURN_S + 5) * NS_PER_S


@pytest.mark.parametrize("names", [b"\x01t", b"\x02t", b"\x01t" + b"g" * 201], ids=["no group", "no end", "too long"])
def test_no_group_has_another_name(names: bytes) -> None:
    with pytest.raises(AssertionError):  # the segment is not read to its end
        replayed(seal(bytes([Kind.GROUP]) + packed((5, 4), (10**18, 8)) + names), now_s=0)


def test_pause_holds_over_starts_and_compaction_without_jobs() -> None:
    server = Server()
    put(server, b"g")
    assert server.ask(b"pause-group t g 3600", b"delete 1") == b"PAUSED\r\nDELETED\r\n"
    for _ in range(40):
        server.ask(b"put 0 0 60 2000", b"y" * 2000)
        server.ask(b"delete %d" % (server.life.engine.next_job_id - 1))
    assert segment_name(1) not in server.disk.cache
    for _ in range(2):
        server.restart()
        check(server.life.engine)
        put(server, b"g")
        server.ask(b"watch t", client=1)
        assert reserved(server) == 0
    server.clock.now_ns += 3600 * NS_PER_S
    server.life.tick()
    assert reserved(server)
    check(server.life.engine)


def test_pause_that_was_ended_stays_so() -> None:
    server = Server()
    put(server, b"g")
    server.ask(b"pause-group t g 3600", b"pause-group t g 0")
    server.restart()
    check(server.life.engine)
    server.ask(b"watch t", client=1)
    assert reserved(server) == 1
