"""list-sessions and name-session where their output is read by a program, and while others come and go."""

import json
import random
import re
from typing import Any

import pytest

from beanpole.engine import limits
from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection

SECOND_NS = 1_000_000_000

HOSTILE = [
    "a: b",
    "- a",
    "# no comment",
    "a #b: c",
    '"',
    "\\",
    '\\"',
    "\\u0041",
    "'",
    "{a: 1}",
    "[a, b]",
    "&a *a !!python/object:os.system",
    "%YAML 1.1",
    "---",
    "...",
    "null",
    "~",
    "123",
    "a ",
    "\xa0\xad\u2028\u2029\ufeff\u200b\u202e",
    "\ufffe\uffff\ue000",
    "\U0001f41d\U000e0001\U0010ffff",
]


def listed(connection: Connection, now_ns: int, rest: str = "") -> list[dict[str, str]]:
    """The items of a page, whose pieces are written in one turn each."""
    connection.receive(now_ns, f"list-sessions{rest}\r\n".encode())
    while connection.pending:
        connection.resume(now_ns)
    head, _, text = connection.take_output().decode().partition("\r\n")
    assert head == f"OK {len(text.encode()) - 2}"
    items = re.split(r"^- ", text.removeprefix("---\n").removesuffix("\r\n"), flags=re.MULTILINE)[1:]
    return [dict(line.strip().split(": ", 1) for line in item.splitlines()) for item in items]


def numbers(items: list[dict[str, str]]) -> list[int]:
    """Which sessions are on a page."""
    return [int(item["number"]) for item in items]


def engine_of(names: list[str]) -> tuple[Engine, list[Connection]]:
    """An engine with sessions of some names."""
    engine = Engine()
    connections = [Connection(engine, 1) for _ in names]
    for connection, name in zip(connections, names, strict=True):
        connection.receive(1, f"name-session {name}\r\n".encode())
        assert connection.take_output() == b"NAMED\r\n", name
    return engine, connections


def test_any_name_is_a_string_of_json_on_one_line() -> None:
    _, connections = engine_of(HOSTILE)
    items = listed(connections[0], 1)
    assert [json.loads(item["name"]) for item in items] == HOSTILE
    assert all(item["name"].isprintable() or max(item["name"]) > "\uffff" for item in items)


def test_any_name_is_a_string_of_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    engine, connections = engine_of(HOSTILE)
    connections[0].receive(1, b"list-sessions\r\n")
    text = connections[0].take_output().partition(b"\r\n")[2].decode()
    found: list[dict[str, Any]] = yaml.safe_load(text)
    assert [item["name"] for item in found] == HOSTILE
    assert found[3]["watched"] == ["default"]
    for id, connection in enumerate(connections, 1):
        connection.receive(1, b"put 0 0 60 1\r\nx\r\nreserve-job %d\r\n" % id)
        connection.take_output()
        connections[0].receive(1, b"explain %d\r\n" % id)
        reasons = yaml.safe_load(connections[0].take_output().partition(b"\r\n")[2].decode())["reasons"]
        assert list(reasons[0]) == ["reserved"]
        assert reasons[0]["reserved"]["name"] == HOSTILE[id - 1]
    check(engine)


def test_what_is_said_of_a_session() -> None:
    engine = Engine()
    asks, own, busy = Connection(engine, 1), Connection(engine, 1, own=True), Connection(engine, SECOND_NS)
    engine.describe = lambda owner: "127.0.0.1:7" if owner is busy else ""
    busy.receive(2 * SECOND_NS, b"put 0 0 60 1\r\nx\r\n" * 2 + b"reserve\r\n")
    busy.receive(3 * SECOND_NS, b"reserve\r\nuse u\r\n" + b"".join(b"watch t%d\r\n" % i for i in range(30)))
    busy.receive(4 * SECOND_NS, b"touch 1\r\nreserve-with-timeout 50\r\n")
    engine.tick(5_500_000_000)
    items = listed(asks, 5_500_000_000)
    assert numbers(items) == [0, 1, 2]
    assert items[0]["last-command"] == "list-sessions"
    assert items[1] | {"peer": '"console"', "last-command": "none", "watched": "[]", "watched-count": "0"} == items[1]
    assert items[2] == {
        "number": "2",
        "name": '""',
        "peer": '"127.0.0.1:7"',
        "since": "4.5",
        "last-command": "reserve-with-timeout",
        "last-command-age": "1.5",
        "used": "u",
        "watched": f"[{', '.join(['default', *(f't{i}' for i in range(19))])}]",
        "watched-count": "31",
        "waiting": "1.5",
        "jobs-held": "2",
        "oldest-held": "3.5",
    }
    busy.receive(6 * SECOND_NS, b"cancel-reserve\r\n")
    engine.tick(7 * SECOND_NS)
    (item,) = listed(asks, 7 * SECOND_NS, " after=1")
    assert "waiting" not in item
    own.close(7 * SECOND_NS)
    check(engine)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"nonsense", "unknown-command"),
        (b"put 0 0 x 1", "bad-format"),
        (b"put 0 0 1 99999\r\n" + b"x" * 99999, "job-too-big"),
        (b"put 0 0 1 0\r\nx", "expected-crlf"),
        (b"kick 1", "kick"),
        (b"list-extensions", "list-extensions"),
    ],
)
def test_last_command_is_what_was_understood(line: bytes, said: str) -> None:
    engine = Engine()
    asks, other = Connection(engine, 1), Connection(engine, 1)
    other.receive(1, line + b"\r\n")
    assert listed(asks, 1, " after=0")[0]["last-command"] == said


def test_session_that_stays_is_on_one_page_while_others_come_and_go() -> None:
    chance = random.Random(7)
    engine = Engine()
    asks = Connection(engine, 1)
    all_of_them = [Connection(engine, 1) for _ in range(1000)]
    stay = set(chance.sample(range(1000), 100))
    seen: list[int] = []
    others = [each for at, each in enumerate(all_of_them) if at not in stay]
    while page := listed(asks, 1, f" limit=7 after={seen[-1] if seen else 0}"):
        seen += numbers(page)
        for _ in range(50):
            if others:
                others.pop(chance.randrange(len(others))).close(1)
        others += [Connection(engine, 1) for _ in range(3)] if seen[-1] < 900 else []
        check(engine)
    assert seen == sorted(set(seen))
    assert {number - 1 for number in seen} >= stay


def test_one_piece_of_a_page_is_bounded_and_others_may_close_between_two() -> None:
    engine = Engine()
    asks = Connection(engine, 1)
    others = [Connection(engine, 1) for _ in range(1000)]
    asks.receive(1, b"list-sessions\r\n")
    turns = 1
    while asks.pending:
        others.pop().close(1)
        others.pop(0).close(1)
        asks.resume(1)
        turns += 1
        check(engine)
    assert turns >= 900 // limits.SESSIONS_PER_TURN / 2
    text = asks.take_output()
    assert 1001 - 2 * (turns - 1) <= text.count(b"- number: ") <= 1001 - (turns - 1)


def test_page_of_sessions_of_which_much_is_said_ends_early() -> None:
    engine = Engine()
    rude = b"".join(b"watch %b%d\r\n" % (b"t" * 190, each) for each in range(20)) + b"name-session " + b'"' * 200
    for connection in [Connection(engine, 1) for _ in range(100)]:
        connection.receive(1, rude + b"\r\n")
    asks = Connection(engine, 1)
    seen: list[int] = []
    sizes = []
    while page := listed(asks, 1, f" after={seen[-1]}" if seen else ""):
        seen += numbers(page)
        sizes.append(len(page))
    assert seen == list(range(101))
    assert 50 < sizes[0] < 70
