"""What a log keeps of jobs that wait for who has a token: over kills, stops, and all that is recorded of a job."""

from itertools import pairwise

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.log.accounts import Accounts
from beanpole.log.encoder import Encoder
from beanpole.log.format import Kind
from beanpole.log.reader import describe, read_header
from beanpole.server.connection import Connection
from tests.simulation.server import Server
from tests.unit.engine.test_keeping import SECOND, A, B
from tests.unit.log.test_attempts import replayed
from tests.unit.log.test_growth import SALT, seal, whole

AGAIN = f"keep-session 10 {A}".encode()
PUT = b"put 5 0 60 1\r\nx"


@pytest.fixture
def server() -> Server:
    """A server whose first client keeps its session, and holds job 1."""
    server = Server(clients=3)
    assert server.ask(AGAIN, PUT, b"reserve-job 1") == b"KEPT 0\r\nINSERTED 1\r\nRESERVED 1 1\r\nx\r\n"
    return server


def restart(server: Server) -> None:
    server.restart()
    check(server.life.engine)


def state(server: Server, id: int = 1) -> bytes:
    return server.ask(b"stats-job %d" % id, client=1).partition(b"state: ")[2].split(b"\n")[0]


def test_job_waits_for_its_holder_over_a_kill(server: Server) -> None:
    for _ in range(3):
        restart(server)
        assert state(server) == b"reserved"
        assert server.ask(b"delete 1", client=1) == b"NOT_FOUND\r\n"
        assert server.ask(AGAIN) == b"KEPT 1 1\r\n"
    assert b"reserves: 1\n" in server.ask(b"stats-job 1", client=1)
    assert server.ask(b"delete 1") == b"DELETED\r\n"
    restart(server)
    assert server.ids() == []
    assert server.ask(AGAIN) == b"KEPT 0\r\n"


def test_what_was_cancelled_waits_for_nobody(server: Server) -> None:
    restart(server)
    assert server.ask(b"cancel-job 1", client=1) == b"CANCELLED\r\n"
    restart(server)
    assert server.ids() == []
    assert server.ask(AGAIN) == b"KEPT 0\r\n"


def test_time_to_return_begins_with_the_server(server: Server) -> None:
    server.clock.now_ns += 3600 * SECOND
    restart(server)
    server.clock.now_ns += 9 * SECOND
    server.life.tick()
    assert state(server) == b"reserved"
    server.clock.now_ns += SECOND
    server.life.tick()
    assert state(server) == b"ready"
    restart(server)  # that nobody came back is known, too
    assert state(server) == b"ready"


CHANGES = {
    "change-job": b"change-job 1 pri=3 ttr=70",
    "change-job to a tube": b"change-job 1 tube=t",
    "key taken": b"put-job 1 tube=default key=k taken=replace\r\ny",
}


@pytest.mark.parametrize("how", CHANGES)
def test_job_waits_on_whatever_is_recorded_of_it(how: str) -> None:
    server = Server(clients=3)
    server.ask(AGAIN, b"put-job 1 tube=default key=k\r\nx", b"reserve-job 1", CHANGES[how])
    restart(server)
    assert state(server) == b"reserved"
    assert server.ask(AGAIN) == b"KEPT 1 1\r\n"
    assert server.ask(b"release 1 0 0") == b"RELEASED\r\n" if how != "key taken" else b"NOT_FOUND\r\n"


ENDS = {
    "release": (b"release 1 5 0", b"ready"),
    "release with delay": (b"release 1 5 100", b"delayed"),
    "bury": (b"bury 1 5", b"buried"),
    "quit": (b"quit", b"ready"),
    "off": (f"keep-session 0 {A}".encode(), b"ready"),
}


@pytest.mark.parametrize("how", ENDS)
def test_job_waits_for_nobody_whose_reservation_has_ended(server: Server, how: str) -> None:
    line, expected = ENDS[how]
    server.ask(line)
    if how == "quit":
        connection = server.clients[0].connection
        server.life.guard(lambda: connection.close(server.life.now_ns))
        server.say(client=1)
    restart(server)
    assert state(server) == expected
    assert server.ask(AGAIN) == b"KEPT 0\r\n"


def test_job_waits_for_nobody_when_another_has_it(server: Server) -> None:
    """Who reserves without a token leaves no record of that in a file."""
    connection = server.clients[0].connection
    server.life.guard(lambda: connection.close(server.life.now_ns))
    assert server.ask(b"reserve", client=2) == b"RESERVED 1 1\r\nx\r\n"
    restart(server)
    assert state(server) == b"ready"


def test_job_waits_on_when_its_record_is_moved(server: Server) -> None:
    """Compaction moves what lies in old segments."""
    for _ in range(400):
        server.ask(b"put 0 0 60 100\r\n" + b"y" * 100, client=1)
    for id in range(2, 402):
        server.ask(b"delete %d" % id, client=1)
    segments = [name for name, _ in sorted(server.disk.cache.items()) if "seg" in name]
    assert len(segments) < 10, "nothing was moved"
    assert not any(name.endswith("0001") for name in segments), "the first segment is still there"
    restart(server)
    assert server.ask(AGAIN) == b"KEPT 1 1\r\n"


@pytest.mark.parametrize("stop", [False, True], ids=["kill", "stop"])
def test_attempt_of_a_job_that_waits_goes_on(stop: bool) -> None:
    server = Server(clients=3)
    lines = b"attempts: 1\nconcurrency: 1\n"
    server.ask(b"set-rules default %d\r\n%s" % (len(lines), lines), AGAIN, PUT, PUT, b"reserve-job 1")
    if stop:
        server.life.guard(server.life.engine.give_back)
        server.say(client=1)
    restart(server)
    assert server.ask(b"reserve-with-timeout 0", client=1) == b"TIMED_OUT\r\n"
    assert server.ask(AGAIN) == b"KEPT 1 1\r\n"
    server.ask(b"release 1 0 0")
    assert state(server) == b"buried"  # that was its only attempt


# --- in a cluster -----------------------------------------------------------------------------------------------------


def kept(id: int, token: bytes, seconds: int = 10, reserve_count: int = 1) -> bytes:
    """The record of a job that waits for who has a token; of an empty one: for nobody."""
    payload = bytes([Kind.KEPT]) + id.to_bytes(8, "little") + reserve_count.to_bytes(4, "little")
    return seal(payload + seconds.to_bytes(2, "little") + token)


def reserved(id: int) -> bytes:
    return seal(bytes([Kind.RESERVED]) + id.to_bytes(8, "little") + bytes(8) + (2).to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("records", "lost_count"),
    [
        ((whole(1), kept(1, b"t" * 16)), 1),
        ((whole(1), whole(2), kept(1, b"t" * 16), kept(2, b"t" * 16)), 1),
        ((whole(1), whole(2), kept(1, b"t" * 16), kept(2, b"u" * 16)), 2),
        ((whole(1), kept(1, b"t" * 16), kept(1, b"")), 0),
        ((whole(1), kept(1, b"t" * 16), reserved(1)), 0),
        ((whole(1), reserved(1), kept(1, b"t" * 16)), 1),
        ((whole(1), kept(1, b"t" * 16), whole(1)), 0),
        ((kept(1, b"t" * 16),), 0),
    ],
)
def test_which_records_say_that_a_job_waits(records: tuple[bytes, ...], lost_count: int) -> None:
    engine = replayed(*records)
    check(engine)
    assert engine.lost_count == lost_count


def test_another_token_is_unknown_after_a_start(server: Server) -> None:
    restart(server)
    assert server.ask(f"keep-session 10 {B}".encode()) == b"KEPT 0\r\n"
    assert state(server) == b"reserved"


def test_record_of_a_job_and_that_it_waits_stand_in_one_segment() -> None:
    """So they stand in one row of a cluster's log, which is there or not."""
    encoder = Encoder(Accounts(4096, unlimited=True), SALT, wants_reservations=True)
    engine = Engine(records=encoder)
    encoder.open_segment(1, 4096)
    connection = Connection(engine, SECOND)
    changing = b"".join(b"change-job 1 ttr=9\r\n" + b"touch 1\r\n" * (number % 7) for number in range(200))
    connection.receive(SECOND, AGAIN + b"\r\n" + PUT + b"\r\nreserve\r\n" + changing)
    while connection.pending:
        connection.resume(SECOND)
    kinds: list[int] = []

    def read(_: int, data: memoryview) -> None:
        header = read_header(bytes(data))
        at = header.size
        kinds.append(Kind.END)
        while at < len(data) and (found := describe(bytes(data), at, header)) is not None:
            kinds.append(found[1])
            at += found[0]

    while encoder.write_to(read)[1]:
        pass
    changes = [(one, other) for one, other in pairwise(kinds) if one == Kind.CHANGED]
    assert (len(changes), {other for _, other in changes}) == (200, {Kind.KEPT})


def test_touch_leaves_a_job_to_its_holder_in_a_cluster() -> None:
    """It is recorded as a reservation is."""
    engine = replayed(whole(1), reserved(1), kept(1, b"t" * 16, reserve_count=2), reserved(1))
    assert engine.lost_count == 1


def test_compaction_comes_to_rest_beside_a_job_that_waits_for_its_holder() -> None:
    server = Server(1, segment_bytes=2048, clients=1)
    server.ask(b"keep-session 60 %032x" % 1)
    for _ in range(5):
        server.ask(b"put 1 0 60 500\r\n%b" % (b"x" * 500))
    server.ask(b"reserve")
    for id in range(6, 66):
        server.ask(b"put 0 0 60 1\r\nx")
        server.ask(b"reserve")
        assert server.ask(b"delete %d" % id) == b"DELETED\r\n"
