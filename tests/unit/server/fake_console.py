"""Stands for the console: what it is handed is what the console is handed, and it behaves as its argument says.

It answers a connection with what it sees, in a line of JSON, and ends when one of its pairs does.
"""

import contextlib
import json
import os
import select
import socket
import sys
import time
from pathlib import Path

LISTENER, FIRST_PAIR, END = 3, 4, 8


def look(pairs: list[socket.socket]) -> dict[str, object]:
    """What this process has been handed."""
    found = {"pid": os.getpid(), "group": os.getpgid(0), "arguments": sys.argv[1:], "variables": sorted(os.environ)}
    numbers = [int(each.name) for each in Path("/proc/self/fd").iterdir()]
    descriptors = [fd for fd in numbers if Path(f"/proc/self/fd/{fd}").exists()]
    replies = []
    for each in pairs:
        each.sendall(b"list-tube-used\r\n")
        replies.append(each.recv(100).decode())
    return found | {"descriptors": sorted(descriptors), "replies": replies, "input": os.read(0, 10).decode()}


def serve(listener: socket.socket, pairs: list[socket.socket]) -> None:
    """Answer connections until a pair ends."""
    while True:
        readable, _, _ = select.select([listener, *pairs], [], [])
        if listener not in readable:
            return
        seen = look(pairs)
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            client.sendall(json.dumps(seen).encode() + b"\n")


def flood(pairs: list[socket.socket]) -> None:
    """Ask for much and read nothing of it, until a pair ends."""
    for each in pairs:
        each.setblocking(False)
    commands = b"stats\r\n" * 1000
    while True:
        _, writable, _ = select.select([], pairs, [])
        for each in writable:
            try:
                each.send(commands)
            except BlockingIOError:
                pass
            except OSError:
                return


def main(behaviour: str) -> None:
    """Behave so."""
    if behaviour == "fail":
        sys.exit(3)
    listener = socket.socket(fileno=LISTENER)
    pairs = [socket.socket(fileno=fd) for fd in range(FIRST_PAIR, END)]
    if behaviour == "hang":
        pairs[0].sendall(b"put 0 0 1 4\r\nhang\r\n")
        while True:
            time.sleep(1000)
    if behaviour == "flood":
        flood(pairs)
    serve(listener, pairs)


if __name__ == "__main__":
    main(sys.argv[1])
