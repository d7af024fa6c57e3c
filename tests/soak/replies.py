"""Replies as bytes, of a server and of the model, without what is a server's own."""

import re

from tests.e2e.process import Client

PEER = rb"127\.0\.0\.1:\d+"
OF_THE_SERVER = re.compile(rb"^( *(?:turn|turn-commands|sync)): [\d ]+$", re.MULTILINE)
"""Times that a server takes itself, of which the model knows nothing."""


def plain(reply: bytes) -> bytes:
    """A reply without what the model can't know: who is or was at the other end, and what a server measures."""
    if not reply.startswith(b"OK "):
        return re.sub(rb" peer=%b" % PEER, b"", reply) if reply.startswith(b"JOBS ") else reply
    text = reply.partition(b"\r\n")[2]
    text = re.sub(rb'"%b"' % PEER, b'""', re.sub(rb', "(?:peer|by)": "(?:%b|gone)"' % PEER, b"", text))
    return OF_THE_SERVER.sub(rb"\1:", text)


def replies(client: Client, count: int) -> list[bytes]:
    """The next replies on a connection, without what belongs to this server alone. Raises OSError: it is closed."""
    found = []
    for _ in range(count):
        reply = line_of(client)
        words = reply.split()
        if words[0] in {b"OK", b"FOUND", b"RESERVED"}:
            reply += body_of(client, int(words[-1]))
        elif words[0] == b"SCHEDULE":
            reply += body_of(client, int(words[2]))
        elif words[0] in {b"JOBS", b"SCHEDULES"}:
            for _ in range(int(words[1])):
                frame = line_of(client)
                reply += frame + body_of(client, int(frame.split()[2]))
        found.append(plain(reply))
    return found


def line_of(client: Client) -> bytes:
    """The next line, whole."""
    line = client.line()
    if not line.endswith(b"\r\n"):
        raise ConnectionResetError
    return line


def body_of(client: Client, size: int) -> bytes:
    """The next bytes with their CRLF, all of them."""
    body = client.take(size + 2)
    if len(body) < size + 2:
        raise ConnectionResetError
    return body


class Script(Client):
    """The replies of the model, read as those of a server are."""

    def __init__(self, text: str) -> None:
        self.received = text.encode("latin-1")

    def fill(self) -> bool:
        """There is no more."""
        return False


def replies_in(text: str) -> list[bytes]:
    """The replies that stand in what the model has said."""
    script, found = Script(text), []
    while script.received:
        found += replies(script, 1)
    return found
