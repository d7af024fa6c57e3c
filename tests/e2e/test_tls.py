"""TLS of a server as a client sees it, with users and without."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beanpole.access import tokens
from tests.certificates import made
from tests.e2e.process import Client, Process, serving, wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S

LOCALHOST = f"subjectAltName=IP:{HOST}"

USERS = """
[user.shop]
certificates = ["CN=shop"]
put = ["orders"]

[user.mail]
reserve = ["orders"]

[user.both]
certificates = ["CN=both"]

[user.other]
certificates = ["DNS:other"]
"""


@contextmanager
def tls_server(*flags: str, options: str = "") -> Iterator[Process]:
    """A server that speaks TLS alone."""
    pair = made("server", LOCALHOST, signer="ca")
    files = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
    with serving("-l", f"tls:{HOST}:0{options}", *files, *flags, listen=False) as process:
        yield process


def connected(process: Process, name: str = "", *extensions: str) -> Client:
    """A client that has shaken hands, with the certificate of somebody."""
    context = ssl.create_default_context(cafile=str(made("ca").cert))
    if name:
        pair = made(name, *extensions, signer="ca")
        context.load_cert_chain(pair.cert, pair.key)
    raw = socket.create_connection((HOST, process.port), REPLY_TIMEOUT_S)
    return Client(context.wrap_socket(raw, server_hostname=HOST))


@pytest.fixture
def users(tmp_path: Path) -> tuple[str, ...]:
    """The flags of a server with users, and the token of one of them, the last."""
    access, file = tmp_path / "access.toml", tmp_path / "tokens"
    access.write_text(USERS)
    access.chmod(0o644)
    token = tokens.add(file, "mail").decode()
    return "--access", str(access), "--tokens", str(file), token


def test_without_users_it_is_a_server_behind_tls() -> None:
    with tls_server() as process, connected(process) as client:
        body = bytes(range(256)) * 255
        client.ask(b"put 0 0 60 %d\r\n%b\r\nreserve\r\n" % (len(body), body), b"INSERTED 1\r\n")
        client.expect(b"RESERVED 1 %d\r\n%b\r\n" % (len(body), body))
        assert process.addresses[0].startswith(f"tls:{HOST}:")
        client.ask(b"auth a\r\nquit\r\n", b"UNKNOWN_COMMAND\r\n")
        assert client.rest() == b""


def test_who_it_is_says_the_certificate_or_a_token(users: tuple[str, ...]) -> None:
    *flags, token = users
    options = f",client-ca={made('ca').cert},client-cert=optional"
    with tls_server(*flags, options=options) as process:
        with connected(process, "shop") as client:
            client.ask(b"use orders\r\nput 0 0 60 1\r\na\r\n", b"USING orders\r\nINSERTED 1\r\n")
            client.ask(b"watch orders\r\nreserve\r\n", b"WATCHING 2\r\nUNKNOWN_COMMAND\r\n")
        with connected(process) as client:
            client.ask(b"auth " + token.encode() + b"\r\n", b"AUTHENTICATED mail\r\n")
            client.ask(b"watch orders\r\nreserve\r\n", b"WATCHING 2\r\nRESERVED 1 1\r\na\r\n")
        with connected(process) as client:
            client.send(b"reserve\r\n")
            assert client.rest() == b"NOT_AUTHENTICATED\r\n"


@pytest.mark.parametrize(
    ("name", "extensions", "why"),
    [("stranger", (), "of no user"), ("both", ("subjectAltName=DNS:other",), "names of both and other")],
)
def test_a_certificate_of_nobody_or_of_two_is_closed(
    users: tuple[str, ...], name: str, extensions: tuple[str, ...], why: str
) -> None:
    options = f",client-ca={made('ca').cert}"
    with tls_server(*users[:-1], options=options) as process:
        with connected(process, name, *extensions) as client:
            client.send(b"list-rights\r\n")
            assert client.rest() == b"NOT_AUTHENTICATED\r\n"
        (said,) = process.events("not authenticated")
        assert why in str(said["reason"])


def test_plain_bytes_run_nothing() -> None:
    with tls_server() as process:
        with socket.create_connection((HOST, process.port), REPLY_TIMEOUT_S) as raw:
            client = Client(raw)
            client.send(b"put 0 0 60 1\r\na\r\n")
            client.rest()
        wait_until(lambda: process.events("no TLS"), "the log says what the client did wrong")
        with connected(process) as client:
            assert client.statistic("current-jobs-ready") == 0


def test_a_certificate_that_ends_soon_is_said_in_the_log_and_in_stats() -> None:
    pair = made("ending", LOCALHOST, signer="ca", days=13)
    with serving(
        "-l", f"tls:{HOST}:0", "--tls-cert", str(pair.cert), "--tls-key", str(pair.key), listen=False
    ) as process:
        with connected(process) as client:
            client.send(b"stats\r\n")
            stats = dict(line.split(": ") for line in client.body().decode().splitlines()[1:])
        assert 12 * 86_400 < int(stats["certificate-seconds-left"]) <= 13 * 86_400
        assert stats["handshakes-ok"] == "1"
        wait_until(lambda: process.events("certificate ends"), "the end is said")
