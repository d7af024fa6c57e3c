"""What a server says of its schedules."""

import re
from dataclasses import dataclass

from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection

SCHEDULE = b"schedule "
"""Before the name of a schedule where rules stand too: no pattern has a space."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a server says of a schedule."""

    text: bytes
    """All of it but why it is blocked, which no log keeps."""

    @property
    def document(self) -> bytes:
        return self.text.partition(b"\r\n")[2]

    @property
    def paused(self) -> bool:
        return b" state=paused " in self.text

    def number(self, name: bytes) -> float:
        """One of its numbers; 0: it says nothing of that."""
        line = self.text.partition(b"\r\n")[0]
        return float(line.partition(b" %b=" % name)[2].partition(b" ")[0] or 0)

    @property
    def progress(self) -> tuple[float, ...]:
        """Numbers that only grow while it fires."""
        return tuple(map(self.number, (b"fires", b"skips", b"misses", b"last", b"job")))


def schedules_of(engine: Engine) -> dict[bytes, Said]:
    """What a server says of each schedule."""
    if engine.schedules is None:
        return {}
    connection = Connection(engine, engine.now_ns)
    connection.receive(engine.now_ns, b"list-schedules bodies=16384 limit=100\r\n")
    first, _, rest = connection.take_output().partition(b"\r\n")
    connection.close(engine.now_ns)
    assert first.startswith(b"SCHEDULES "), first
    found: dict[bytes, Said] = {}
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        _, name, size = line.split()[:3]
        line = re.sub(rb" blocked=\w+", b"", line)
        found[name] = Said(line + b"\r\n" + rest[: int(size)])
        rest = rest[int(size) + 2 :]
    assert len(found) == int(first.split()[1])
    return found
