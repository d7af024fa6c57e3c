"""Opens connections to a server and prepares them: tubes to use and watch, and tubes that only exist.

Blocking sockets and plain Python: nothing here is timed. Every step waits for the server's answers, so that the server
has accepted a connection, and made its tubes, before the load starts. Loops are bounded by `deadline`.
"""

import resource
import socket
import struct
import time
from collections.abc import Iterator, Sequence

from benchmarks.bench.plan import Group

ANSWER_TIMEOUT_S = 30.0
"""How long one answer may take."""
CHUNK_COMMANDS = 100
"""Commands sent before their answers are read: few enough that neither side's socket buffers fill up."""


class SetupError(Exception):
    """The server could not be brought into the state that the load starts from."""


def dial(address: str | tuple[str, int]) -> socket.socket:
    """Opens one connection. It is reset on close, so that thousands of them leave no port in TIME_WAIT."""
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(ANSWER_TIMEOUT_S)
        sock.connect(address)
        return sock
    sock = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sock


def converse(sock: socket.socket, commands: Sequence[bytes], expected: Sequence[bytes], deadline: float) -> None:
    """Sends commands that are answered in one line each, in chunks, and checks how each answer begins."""
    for start in range(0, len(commands), CHUNK_COMMANDS):
        if time.monotonic() > deadline:
            raise SetupError(f"too slow: {start} of {len(commands)} preparing commands were answered in time")
        wanted = expected[start : start + CHUNK_COMMANDS]
        sock.sendall(b"".join(commands[start : start + CHUNK_COMMANDS]))
        received = bytearray()
        while received.count(b"\n") < len(wanted):
            piece = sock.recv(65536)
            if not piece:
                raise SetupError("the server closed the connection while it was prepared")
            received += piece
        for line, prefix in zip(received.split(b"\r\n"), wanted, strict=False):
            if not line.startswith(prefix):
                raise SetupError(f"expected {prefix!r}, got {line!r}")


def make_tubes(sock: socket.socket, count: int, deadline: float) -> None:
    """Makes `count` tubes and keeps them in being with one ready job each."""
    commands = [b"use other-%d\r\nput 1024 0 86400 8\r\nxxxxxxxx\r\n" % i for i in range(count)]
    pairs = [line for command in commands for line in command.split(b"\r\n", 1)]
    pairs = [line if i % 2 else line + b"\r\n" for i, line in enumerate(pairs)]
    converse(sock, pairs, [b"USING other-", b"INSERTED "] * count, deadline)
    converse(sock, [b"use default\r\n"], [b"USING default"], deadline)


def tubes_of(group: Group, index: int) -> list[bytes]:
    """The tubes of one connection of a group: its own, a shared one, or its share of many."""
    if group.tubes == 0:
        return [b"%s-own-%d" % (group.name.encode(), index)]
    step = min(group.connections, group.tubes)
    return [b"%s-%d" % (group.name.encode(), i) for i in range(index % step, group.tubes, step)]


def open_group(
    group: Group, address: str | tuple[str, int], deadline: float
) -> Iterator[tuple[socket.socket, list[bytes]]]:
    """Opens the group's connections; yields each with the tubes that it names in turn (none if it has one)."""
    for index in range(group.connections):
        sock = dial(address)
        try:
            if not group.programme:
                converse(sock, [b"list-tube-used\r\n"], [b"USING default"], deadline)
                yield sock, []
                continue
            tubes = tubes_of(group, index)
            commands = [b"use " + tubes[0], *(b"watch " + tube for tube in tubes), b"ignore default"]
            expected = [b"USING ", *[b"WATCHING "] * (len(tubes) + 1)]
            converse(sock, [command + b"\r\n" for command in commands], expected, deadline)
        except BaseException:
            sock.close()
            raise
        yield sock, tubes if len(tubes) > 1 else []


def allow_descriptors(wanted: int) -> None:
    """Raises this process's limit of open descriptors, which the servers that it starts inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if wanted <= soft:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    except (ValueError, OSError) as error:
        raise SetupError(f"{wanted} open files are needed and {hard} are allowed (ulimit -n)") from error
