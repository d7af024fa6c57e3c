"""How attempts failed is in the log: in the record that their end leaves, and nowhere where it leaves none."""

import pytest

from beanpole.engine.check import check
from tests.simulation.server import Server

RULES = b"attempts: 9"
LOST = b""


def history(server: Server) -> list[list[str]]:
    """Of each attempt that failed how, by whom and with which error."""
    reply = b"".join(server.ask(b"list-jobs t %b 1 fields=history" % state) for state in (b"ready", b"buried"))
    _, _, text = reply.decode().partition(" history=")
    lines = text.partition("\r\n")[0].split("%0A") if text else []
    return [line.split("%09")[1:] for line in lines]


@pytest.mark.parametrize(
    ("rules", "said", "kept"),
    [
        (RULES, b"fail-job 1 10\r\n\r\n why\nnot", ["failed", "w", "why"]),
        (RULES, b"release 1 0 0", ["released", "w", ""]),
        (RULES, b"bury 1 0", ["buried", "w", ""]),
        (RULES, LOST, ["lost", "w", ""]),
        (RULES, b"snooze-job 1 0", None),
        (b"", b"fail-job 1 1\r\nx", ["failed", "w", "x"]),
        (b"", b"release 1 0 0", None),
        (b"", LOST, None),
        (b"group-order: strict", b"release 1 0 0", ["released", "w", ""]),
    ],
)
def test_end_of_an_attempt_is_kept_with_its_record(rules: bytes, said: bytes, kept: list[str] | None) -> None:
    """Seven times, of which the last five count; each is there after a start, and none after another put."""
    server = Server()
    server.ask(b"set-rules t %d\r\n%b" % (len(rules), rules), b"put-job 1 tube=t key=k\r\nx")
    for count in range(1, 8):
        server.ask(b"name-session w", b"watch t", b"kick-job 1", b"reserve-job 1", client=1)
        if said == LOST:
            server.life.disconnect(server.clients[1])
            server.life.log.append()
            server.life.runner.settle()
        else:
            server.ask(said, client=1)
        assert history(server) == ([kept] * min(count, 5) if kept else [])
        check(server.life.engine)
        server.restart()
        assert history(server) == ([kept] * min(count, 5) if kept else [])
    server.ask(b"kick-job 1", b"put-job 1 tube=t key=k taken=replace\r\ny")
    assert history(server) == []
