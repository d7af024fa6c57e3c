"""Commands and statistics without a connection."""

import pytest

from beanpole.engine.commands import stats
from beanpole.engine.engine import Engine
from beanpole.engine.state.times import KEYS
from beanpole.protocol.decoder import Decoder
from beanpole.protocol.extensions import ACCESS_FORMATS, EXTENSIONS


def test_command_is_applied_without_a_connection() -> None:
    engine = Engine()
    session = engine.open_session(0)
    decoder = Decoder()
    decoder.receive(b"put 3 0 10 1\r\nx\r\nreserve\r\n")
    while (command := decoder.next_command()) is not None:
        engine.apply(5, session, command)
    assert session.take_replies() == b"INSERTED 1\r\nRESERVED 1 1\r\nx\r\n"
    assert engine.next_deadline_ns == 10_000_000_005


@pytest.mark.parametrize("line", [b"put 0 0 1 1\r\nx\r\n", b"reserve\r\n", b"peek-ready\r\n", b"stats\r\n"])
def test_command_of_a_session_that_can_run_none_is_an_exception(line: bytes) -> None:
    engine = Engine()
    closed, waiting = engine.open_session(0), engine.open_session(0)
    engine.close_session(0, closed)
    decoder = Decoder()
    decoder.receive(b"reserve\r\n" + line)
    reserve, command = decoder.next_command(), decoder.next_command()
    assert reserve is not None
    assert command is not None
    engine.apply(0, waiting, reserve)
    for session in (closed, waiting, None):
        with pytest.raises(ValueError, match="a session that is open and does not wait"):
            engine.apply(0, session, command)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a command needs"):
        engine.apply(0, waiting, None)  # type: ignore[arg-type]


def stats_of(engine: Engine) -> dict[str, str]:
    """What stats says, as it stands there."""
    start, *lines, end = stats.server_text(engine, 0).decode().split("\n")
    assert (start, end) == ("---", "")
    return dict(line.split(": ", 1) for line in lines)


def test_statistics_have_the_keys_of_all_parts_in_their_order() -> None:
    engine = Engine(facts=lambda: {"os": "#1 SMP", "durability": "none"})
    pairs = stats_of(engine)
    assert (pairs["os"], pairs["version"], pairs["current-tubes"]) == ('"#1 SMP"', '"1.13"', "1")
    keys = list(pairs)
    kept = [key for key in keys if key.startswith(("schedule", "clock-", "sessions-", "once-", "shard"))]
    counted = [
        *KEYS.values(),
        *kept,
        *("cmd-" + text.decode() for text, *_ in EXTENSIONS if text not in ACCESS_FORMATS),
    ]
    at = keys.index("durability") + 1
    assert keys[at : at + len(counted)] == counted
    assert list(stats_of(Engine(facts=engine.facts, extensions=False)))[-1] == "durability"


def test_extensions_are_listed_in_the_order_of_their_bytes() -> None:
    engine = Engine()
    session = engine.open_session(0)
    decoder = Decoder()
    decoder.receive(b"list-extensions\r\n")
    command = decoder.next_command()
    assert command is not None
    engine.apply(0, session, command)
    first, begin, *listed, end = session.take_replies().split(b"\r\n", 1)[1].split(b"\n")
    assert (first, end) == (b"---", b"")
    names = [begin, *listed[:-1]]
    assert listed[-1] == b"\r"
    assert names == sorted(names)
    assert {b"- fractions", b"- list-extensions"} <= set(names)
    verbs = {each[0] for each in EXTENSIONS} - ACCESS_FORMATS.keys()
    assert {text.split(b".")[0].removeprefix(b"- ") for text in names} == {
        b"fractions",
        b"rule",
        b"field",
        b"schedule",
    } | verbs
