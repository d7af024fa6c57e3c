"""A client that knows nothing of rules, as a producer and worker of one tube, and what is asked behind its back."""

import socket
from contextlib import suppress

import greenstalk

from tests.servers import HOST, Server

WAIT_S = 30
"""How long a reply that must come may take."""

PRI = 1024


class Greenstalk:
    """greenstalk."""

    def __init__(self, port: int, tube: str) -> None:
        self.client = greenstalk.Client((HOST, port), encoding=None, use=tube, watch=tube)
        self.client._sock.settimeout(2 * WAIT_S)

    def put(self, body: bytes, ttr: int = 60) -> int:
        return self.client.put(body, ttr=ttr)

    def reserve(self, timeout: int = WAIT_S) -> tuple[int, bytes] | None:
        with suppress(greenstalk.TimedOutError):
            job = self.client.reserve(timeout)
            return job.id, job.body
        return None

    def release(self, id: int, delay: int = 0) -> None:
        self.client.release(greenstalk.Job(id, b""), PRI, delay)

    def bury(self, id: int) -> None:
        self.client.bury(greenstalk.Job(id, b""))

    def delete(self, id: int) -> None:
        self.client.delete(id)

    def kick(self, bound: int) -> int:
        return self.client.kick(bound)

    def stats_job(self, id: int) -> dict[str, object]:
        return dict(self.client.stats_job(id))

    def peek_buried(self) -> int | None:
        with suppress(greenstalk.NotFoundError):
            return self.client.peek_buried().id
        return None

    def close(self) -> None:
        self.client.close()


class Plain:
    """A connection on which lines are sent and replies are read."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=2 * WAIT_S)
        self.file = self.socket.makefile("rb")

    def ask(self, line: str, body: bytes | None = None) -> tuple[str, bytes]:
        """Sends a command, with its body in the same piece; the line of its reply and what stands behind it."""
        self.socket.sendall(line.encode() + b"\r\n" + (b"" if body is None else body + b"\r\n"))
        reply = self.file.readline().decode()
        assert reply.endswith("\r\n"), f"{line} was answered with {reply!r}"
        reply = reply[:-2]
        if reply.split()[0] not in {"OK", "RESERVED", "FOUND"}:
            return reply, b""
        data = self.file.read(int(reply.split()[-1]) + 2)
        assert data.endswith(b"\r\n")
        return reply, data[:-2]

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def set_rules(server: Server, pattern: str, *rules: str) -> None:
    """Sets rules as an administrator does."""
    text = "\n".join(rules).encode()
    assert ask(server, f"set-rules {pattern} {len(text)}", text)[0] == "RULES_SET"


def ask(server: Server, line: str, body: bytes | None = None) -> tuple[str, bytes]:
    """The reply to a command on a connection of its own."""
    plain = Plain(server.port)
    try:
        return plain.ask(line, body)
    finally:
        plain.close()
