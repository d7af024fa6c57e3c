"""A router with a token, over TLS, to a server with users: for whom it speaks, and its end when the token goes."""

import signal
import ssl
import struct
from pathlib import Path

from beanpole.access import tokens
from beanpole.protocol.evidence import Evidence
from beanpole.protocol.link import first_line, frame
from tests.e2e.process import Client
from tests.e2e.test_tls import connected, tls_server
from tests.servers import HOST

OPEN, DATA, CLOSE = 1, 2, 4

USERS = """
[user.router]
links = ["shop"]

[user.shop]
certificates = ["CN=shop"]
put = ["orders"]

[user.mail]
reserve = ["orders"]
"""


def said(client: Client, channel: int) -> bytes:
    """What comes for a channel next."""
    number, kind_and_size = struct.unpack("<II", client.take(8))
    assert (number, kind_and_size & 255) == (channel, DATA)
    return client.take(kind_and_size >> 8)


def test_a_router_speaks_for_whom_it_may(tmp_path: Path) -> None:
    access, file = tmp_path / "access.toml", tmp_path / "tokens"
    access.write_text(USERS)
    access.chmod(0o644)
    router, mail = tokens.add(file, "router"), tokens.add(file, "mail")
    with tls_server("--access", str(access), "--tokens", str(file)) as process, connected(process) as link:
        assert isinstance(link.socket, ssl.SSLSocket)
        link.send(b"auth " + router + b"\r\n" + first_line())
        link.expect(b"AUTHENTICATED router\r\nLINK 0 65535\r\n")
        for channel, about, command, reply in (
            (1, Evidence("a:1", certificates=("CN=shop",), until=2**40), b"put 0 0 60 1\r\na\r\n", b"INSERTED 1\r\n"),
            (2, Evidence("a:2"), b"put 0 0 60 1\r\na\r\n", b"UNKNOWN_COMMAND\r\n"),
            (3, Evidence("a:3", user="mail"), b"watch orders\r\n", b"UNKNOWN_COMMAND\r\n"),
            (
                4,
                Evidence("a:4", way="unix"),
                b"auth " + mail + b"\r\nreserve-with-timeout 0\r\n",
                b"AUTHENTICATED mail\r\n",
            ),
        ):
            use = b"use orders\r\n" if channel < 3 else b""
            link.send(frame(channel, OPEN, about.text()) + frame(channel, DATA, use + command))
            assert said(link, channel).startswith((b"USING orders\r\n" if use else b"") + reply)
            if channel == 3:
                link.expect(struct.pack("<II", 3, CLOSE))
        (event,) = process.events("not authenticated")
        assert (event["listener"], event["source"]) == (f"tls:{HOST}:0", "a:3")
        assert "may not speak for mail" in str(event["reason"])
        assert mail.decode() not in process.output
        file.write_text("# none\n")
        process.signal(signal.SIGHUP)
        link.rest()
        assert [event["reason"] for event in process.events("link closed")] == ["access"]
