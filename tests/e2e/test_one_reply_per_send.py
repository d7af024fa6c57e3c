"""--one-reply-per-send, measured by what the kernel counts: the segments with data that a client has received.

A send of the server is a segment here: Nagle is off, the replies are small, and there are fewer than TCP sends without
an acknowledgement. The server finds all commands at once, since it was frozen while they came.
"""

import socket
import struct

import pytest

from tests.e2e.process import Client, healthy

DATA_SEGMENTS_IN_AT = 152
"""Where `tcpi_data_segs_in` is in `struct tcp_info` of linux/tcp.h."""

TRIES = 5
"""A kernel that has to wait for a processor sends a segment again whose acknowledgement is some milliseconds late."""

COMMANDS = b"use a\r\nput 0 0 60 4\r\nbody\r\npeek 1\r\npeek 9\r\nput 0 0 60 0\r\n\r\nlist-tube-used\r\n"
REPLIES = [
    b"USING a\r\n",
    b"INSERTED 1\r\n",
    b"FOUND 1 4\r\nbody\r\n",
    b"NOT_FOUND\r\n",
    b"INSERTED 2\r\n",
    b"USING a\r\n",
]


def data_segments_in(client: Client) -> int:
    """Segments with data that a client's kernel has received."""
    info = client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGMENTS_IN_AT + 4)
    return int(struct.unpack_from("I", info, DATA_SEGMENTS_IN_AT)[0])


def segments_of_pipelined_replies(flags: tuple[str, ...]) -> int:
    """In how many segments the replies come."""
    with healthy(*flags) as process, process.connect() as client:
        before = data_segments_in(client)
        with process.frozen():
            client.send(COMMANDS)
        client.expect(b"".join(REPLIES))
        return data_segments_in(client) - before


def segments_of_bodies(flags: tuple[str, ...]) -> list[int]:
    """In how many segments each reply comes that has a body."""
    found = []
    with healthy(*flags) as process, process.connect() as client:
        client.ask(b"put 0 0 60 4\r\nbody\r\n", b"INSERTED 1\r\n")
        for command in (b"peek 1\r\n", b"reserve\r\n", b"stats-job 1\r\n", b"list-tubes\r\n"):
            before = data_segments_in(client)
            client.send(command)
            client.body()
            found.append(data_segments_in(client) - before)
    return found


@pytest.mark.parametrize(
    ("flags", "segments"),
    [((), 1), (("--one-reply-per-send",), len(REPLIES)), (("--one-reply-per-send", "--fronts", "1"), len(REPLIES))],
)
def test_segments_of_pipelined_replies(flags: tuple[str, ...], segments: int) -> None:
    assert segments in (segments_of_pipelined_replies(flags) for _ in range(TRIES))


@pytest.mark.parametrize("flags", [(), ("--one-reply-per-send",)])
def test_line_and_body_are_in_one_segment(flags: tuple[str, ...]) -> None:
    assert [1, 1, 1, 1] in (segments_of_bodies(flags) for _ in range(TRIES))
