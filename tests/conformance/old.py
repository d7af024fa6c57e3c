"""Clients that know nothing of rules, each as a producer and worker of one tube, and what is asked behind their backs.

Greenstalk and Pystalk are themselves. Of pheanstalk, the client of PHP, this is what it sends: a command in one piece,
its body with it, the next one when the reply has come.
"""

import re
import socket
from abc import ABC, abstractmethod
from contextlib import suppress

import greenstalk
import pystalk
from pystalk.client import BeanstalkError

from tests.servers import HOST, Server

WAIT_S = 30
"""How long a reply that must come may take."""

PRI = 1024


class OldClient(ABC):
    """A connection that uses and watches one tube. Whatever is refused raises an error of the client's own."""

    def __init__(self, port: int, tube: str) -> None:
        self.port = port
        self.tube = tube

    @abstractmethod
    def put(self, body: bytes, ttr: int = 60) -> int:
        """Puts a job and returns its id."""

    @abstractmethod
    def reserve(self, timeout: int = WAIT_S) -> tuple[int, bytes] | None:
        """Reserves a job: its id and body. None: it timed out."""

    @abstractmethod
    def release(self, id: int, delay: int = 0) -> None: ...

    @abstractmethod
    def bury(self, id: int) -> None: ...

    @abstractmethod
    def delete(self, id: int) -> None: ...

    @abstractmethod
    def kick(self, bound: int) -> int:
        """How many were kicked."""

    @abstractmethod
    def stats_job(self, id: int) -> dict[str, object]: ...

    @abstractmethod
    def peek_buried(self) -> int | None:
        """The id of the first buried job."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection, with no other word."""


class Greenstalk(OldClient):
    """greenstalk."""

    def __init__(self, port: int, tube: str) -> None:
        super().__init__(port, tube)
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


class Pystalk(OldClient):
    """pystalk."""

    def __init__(self, port: int, tube: str) -> None:
        super().__init__(port, tube)
        self.client = pystalk.BeanstalkClient(HOST, port, socket_timeout=2 * WAIT_S)
        self.client.use(tube)
        self.client.watchlist = {tube}

    def put(self, body: bytes, ttr: int = 60) -> int:
        _, id = self.client.put_job(body, ttr=ttr)
        return int(id)

    def reserve(self, timeout: int = WAIT_S) -> tuple[int, bytes] | None:
        try:
            job = self.client.reserve_job(timeout)
        except BeanstalkError as error:
            if error.message != "TIMED_OUT":
                raise
            return None
        return int(job.job_id), job.job_data

    def release(self, id: int, delay: int = 0) -> None:
        assert self.client.release_job(id, PRI, delay) in {b"RELEASED", (b"RELEASED",)}

    def bury(self, id: int) -> None:
        self.client.bury_job(id)

    def delete(self, id: int) -> None:
        self.client.delete_job(id)

    def kick(self, bound: int) -> int:
        return int(self.client.kick_jobs(bound)[1])

    def stats_job(self, id: int) -> dict[str, object]:
        return dict(self.client.stats_job(id))

    def peek_buried(self) -> int | None:
        with suppress(BeanstalkError):
            return int(self.client.peek_buried().job_id)
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


class Pheanstalk(OldClient):
    """What pheanstalk sends, with its defaults."""

    def __init__(self, port: int, tube: str) -> None:
        super().__init__(port, tube)
        self.line = Plain(port)
        self.expect(f"USING {tube}", f"use {tube}")
        self.expect("WATCHING 2", f"watch {tube}")
        self.expect("WATCHING 1", "ignore default")

    def expect(self, wanted: str, line: str, body: bytes | None = None) -> bytes:
        """The data of a reply whose line matches."""
        reply, data = self.line.ask(line, body)
        assert re.fullmatch(wanted, reply), f"{line} was answered with {reply}"
        self.reply = reply
        return data

    def put(self, body: bytes, ttr: int = 60) -> int:
        self.expect(r"INSERTED \d+", f"put {PRI} 0 {ttr} {len(body)}", body)
        return int(self.reply.split()[1])

    def reserve(self, timeout: int = WAIT_S) -> tuple[int, bytes] | None:
        data = self.expect(r"RESERVED \d+ \d+|TIMED_OUT", f"reserve-with-timeout {timeout}")
        return None if self.reply == "TIMED_OUT" else (int(self.reply.split()[1]), data)

    def release(self, id: int, delay: int = 0) -> None:
        self.expect("RELEASED", f"release {id} {PRI} {delay}")

    def bury(self, id: int) -> None:
        self.expect("BURIED", f"bury {id} {PRI}")

    def delete(self, id: int) -> None:
        self.expect("DELETED", f"delete {id}")

    def kick(self, bound: int) -> int:
        self.expect(r"KICKED \d+", f"kick {bound}")
        return int(self.reply.split()[1])

    def stats_job(self, id: int) -> dict[str, object]:
        text = self.expect(r"OK \d+", f"stats-job {id}").decode()
        lines = dict(line.split(": ") for line in text.splitlines()[1:])
        return {key: int(value) if value.isdigit() else value for key, value in lines.items()}

    def peek_buried(self) -> int | None:
        self.expect(r"FOUND \d+ \d+|NOT_FOUND", "peek-buried")
        return None if self.reply == "NOT_FOUND" else int(self.reply.split()[1])

    def close(self) -> None:
        self.line.close()


KINDS: list[type[OldClient]] = [Greenstalk, Pystalk, Pheanstalk]


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
