"""What a log keeps of tokens of puts: the token and its job together, until the token has ended."""

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.state.once import OnceTable
from beanpole.log.compaction import write_all
from beanpole.log.encoder import Encoder
from beanpole.log.format import Kind, segment_header
from beanpole.log.postgres.digest import digest_of
from beanpole.log.reader import describe, read_header
from beanpole.log.replay import Replay
from tests.simulation.server import Server
from tests.unit.log.test_growth import SALT, seal, whole
from tests.unit.log.test_replay import NS_PER_S, TURN_S, packed, replayed, turn

HOUR_NS = 3600 * NS_PER_S


def put(server: Server, token: str, *options: str, body: bytes = b"x") -> bytes:
    line = " ".join([f"put-job {len(body)}", f"once={token}", *options])
    return server.ask(line.encode() + b"\r\n" + body)


def fill(server: Server, count: int = 40) -> None:
    """Put and delete jobs, so that segments go."""
    for _ in range(count):
        id = server.life.engine.next_job_id
        server.ask(b"put 0 0 60 300\r\n" + b"y" * 300, b"delete %d" % id)


def record(token: int, until_s: int, id: int, job: bytes = b"") -> bytes:
    payload = bytes([Kind.ONCE]) + token.to_bytes(16, "little") + packed((until_s * NS_PER_S, 8), (id, 8))
    return seal(payload + (bytes(9) + job[9:] if job else b""))


def held(engine: Engine) -> list[tuple[int, int, int]]:
    table = engine.once or OnceTable()
    return sorted((int.from_bytes(mark, "little"), id, end_s) for mark, _, id, end_s in table.tokens())


def test_tokens_are_known_after_a_kill() -> None:
    server = Server()
    assert put(server, "a") == b"INSERTED 1\r\n"
    assert put(server, "b", "key=k") == b"INSERTED 2\r\n"
    assert put(server, "c", "key=k") == b"EXISTS 2\r\n"
    assert put(server, "d", "key=k", "taken=replace", body=b"yy") == b"REPLACED 2\r\n"
    server.ask(b"delete 1")
    for _ in range(2):
        server.restart()
        check(server.life.engine)
        assert server.ids() == [2]
        replies = [put(server, token) for token in "abcd"]
        assert replies == [b"EXISTS 1\r\n", b"EXISTS 2\r\n", b"EXISTS 2\r\n", b"EXISTS 2\r\n"]
    server.clock.now_ns += 300 * NS_PER_S
    server.restart()
    assert put(server, "a") == b"INSERTED 3\r\n"


def test_compaction_moves_what_counts_and_drops_what_has_ended() -> None:
    server = Server(segment_bytes=4096)
    put(server, "long", "for=86400")
    for token in range(100):
        put(server, f"short{token}", "for=60")
    server.clock.now_ns += HOUR_NS
    for _ in range(2):
        last = server.life.records.segment
        for _ in range(100):
            fill(server, 4)
        accounts = server.life.records.accounts
        assert accounts.first_segment > last
        assert put(server, "long") == b"EXISTS 1\r\n"
        assert len(held(server.life.engine)) == 1
        server.restart()
        check(server.life.engine)
    assert accounts.live_bytes < 101 * 110, "the jobs, and one token"


def test_a_large_job_and_its_token_move_too() -> None:
    server = Server(segment_bytes=4096)
    assert put(server, "large", "for=86400", body=b"z" * 9000) == b"INSERTED 1\r\n"
    first = server.life.records.accounts.first_segment
    for _ in range(20):
        fill(server)
    assert server.life.records.accounts.first_segment > first + 2
    server.restart()
    assert put(server, "large") == b"EXISTS 1\r\n"
    assert [job.text for job in server.life.engine.jobs.jobs()] == [b"z" * 9000]


def test_the_last_record_of_a_token_wins() -> None:
    engine = replayed(
        turn(TURN_S),
        record(7, TURN_S + 5, 1, whole(1)),
        record(8, TURN_S + 9, 1),
        record(7, TURN_S + 20, 3),
        record(9, TURN_S - 1, 4),
        now_s=TURN_S,
    )
    assert held(engine) == [(7, 3, TURN_S + 20), (8, 1, TURN_S + 9)]
    assert [job.id for job in engine.jobs.jobs()] == [1]
    assert replay_problem(record(7, 5, 1)[:-1] + b"x") == "a record has a wrong length or checksum"


@pytest.mark.parametrize("rest", [b"x", bytes(9), bytes(9 + 67)])
def test_a_token_with_less_than_a_job_is_damage(rest: bytes) -> None:
    payload = bytes([Kind.ONCE]) + bytes(32) + rest
    assert "says what no program writes" in replay_problem(seal(payload))


def replay_problem(data: bytes) -> str:
    replay = Replay()
    replay.segment(segment_header(1, 1, (0, 0), SALT, 1) + data, 1)
    return replay.problem or ""


def test_dump_shows_tokens() -> None:
    content = segment_header(1, 1, (0, 0), SALT, 1) + record(7, 5, 3) + record(8, 6, 4, whole(4))
    header = read_header(content)
    size, kind, fields = describe(content, header.size, header) or (0, 0, {})
    assert (kind, fields) == (Kind.ONCE, {"token_hash": bytes([7, *bytes(15)]), "until_ns": 5 * NS_PER_S, "job": 3})
    _, _, fields = describe(content, header.size + size, header) or (0, 0, {})
    assert (fields["job"], fields["tube"], fields["body_bytes"], fields["until_ns"]) == (4, b"mail", 4, 6 * NS_PER_S)


def test_all_that_is_written_again_comes_back() -> None:
    engine = replayed(*[record(token, TURN_S + token, token, whole(token)) for token in (9, 3, 5)], now_s=1)
    before = held(engine)
    records = Encoder()
    records.open_segment(1, 2**20)
    pieces: list[bytes] = []
    write_all(engine, records, lambda: None)
    records.write_to(lambda _at, data: pieces.append(bytes(data)))
    again = Engine(records=(encoder := Encoder()))
    replay = Replay(again, encoder)
    replay.segment(b"".join(pieces), 1)
    assert held(again) == before


def test_digest_is_of_the_tokens_that_count_in_any_order() -> None:
    def digest(*tokens: int) -> bytes:
        return digest_of(replayed(*[record(each, TURN_S + each, each) for each in tokens], now_s=1), TURN_S * NS_PER_S)

    assert digest(5, 3, 9) == digest(9, 5, 0, 3) != digest(9, 5)
