"""TLS of a server as a client sees it, with users and without."""

import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


BOTH = pytest.mark.parametrize("fronts", [(), ("--fronts", "1")], ids=["server", "fronts"])
"""Who accepts clients: the server itself, or a front."""


@BOTH
def test_without_users_it_is_a_server_behind_tls(fronts: tuple[str, ...]) -> None:
    with tls_server(*fronts) as process, connected(process) as client:
        body = bytes(range(256)) * 255
        client.ask(b"put 0 0 60 %d\r\n%b\r\nreserve\r\n" % (len(body), body), b"INSERTED 1\r\n")
        client.expect(b"RESERVED 1 %d\r\n%b\r\n" % (len(body), body))
        assert process.addresses[0].startswith(f"tls:{HOST}:")
        client.ask(b"auth a\r\nquit\r\n", b"UNKNOWN_COMMAND\r\n")
        assert client.rest() == b""


@BOTH
def test_who_it_is_says_the_certificate_or_a_token(users: tuple[str, ...], fronts: tuple[str, ...]) -> None:
    *flags, token = users
    options = f",client-ca={made('ca').cert},client-cert=optional"
    with tls_server(*flags, *fronts, options=options) as process:
        with connected(process, "shop") as client:
            client.ask(b"use orders\r\nput 0 0 60 1\r\na\r\n", b"USING orders\r\nINSERTED 1\r\n")
            client.ask(b"watch orders\r\nreserve\r\n", b"WATCHING 2\r\nUNKNOWN_COMMAND\r\n")
        with connected(process) as client:
            client.ask(b"auth " + token.encode() + b"\r\n", b"AUTHENTICATED mail\r\n")
            client.ask(b"watch orders\r\nreserve\r\n", b"WATCHING 2\r\nRESERVED 1 1\r\na\r\n")
        with connected(process) as client:
            client.send(b"reserve\r\n")
            assert client.rest() == b"UNKNOWN_COMMAND\r\n"


@BOTH
@pytest.mark.parametrize(
    ("name", "extensions", "why"),
    [("stranger", (), "of no user"), ("both", ("subjectAltName=DNS:other",), "names of both and other")],
)
def test_a_certificate_of_nobody_or_of_two_is_closed(
    users: tuple[str, ...], name: str, extensions: tuple[str, ...], why: str, fronts: tuple[str, ...]
) -> None:
    options = f",client-ca={made('ca').cert}"
    with tls_server(*users[:-1], *fronts, options=options) as process:
        with connected(process, name, *extensions) as client:
            client.send(b"list-extensions\r\n")
            assert client.rest() == b"NOT_AUTHENTICATED\r\n"
        (said,) = process.events("not authenticated")
        assert why in str(said["reason"])


@BOTH
def test_plain_bytes_run_nothing(fronts: tuple[str, ...]) -> None:
    with tls_server(*fronts) as process:
        with socket.create_connection((HOST, process.port), REPLY_TIMEOUT_S) as raw:
            client = Client(raw)
            client.send(b"put 0 0 60 1\r\na\r\n")
            client.rest()
        wait_until(lambda: process.events("no TLS"), "the log says what the client did wrong")
        with connected(process) as client:
            assert client.statistic("current-jobs-ready") == 0


@pytest.mark.parametrize(
    ("trusted", "shown", "said"),
    [("ca", "self-signed", "no client certificate"), ("other-ca", "shop", "TLS refused")],
)
def test_a_certificate_that_is_not_trusted_is_told_of(trusted: str, shown: str, said: str) -> None:
    context = ssl.create_default_context(cafile=str(made(trusted).cert))
    own = made(shown, signer="ca" if shown == "shop" else "")
    context.load_cert_chain(own.cert, own.key)
    with tls_server(options=f",client-ca={made('ca').cert}") as process:
        raw = socket.create_connection((HOST, process.port), REPLY_TIMEOUT_S)
        with suppress(OSError), context.wrap_socket(raw, server_hostname=HOST) as client:
            client.recv(1)
        wait_until(lambda: process.events(said), "the log says what is wrong")


def statistics(process: Process) -> dict[str, str]:
    with connected(process) as client:
        client.send(b"stats\r\n")
        return dict(line.split(": ") for line in client.body().decode().splitlines()[1:])


def test_fronts_count_handshakes_and_go_on_with_the_certificates_that_the_server_reads(tmp_path: Path) -> None:
    pair, other = made("server", LOCALHOST, signer="ca"), made("next", LOCALHOST, signer="ca")
    for target, source in (("cert", pair.cert), ("key", pair.key)):
        (tmp_path / target).write_bytes(source.read_bytes())
        (tmp_path / target).chmod(0o600)
    files = ("--tls-cert", str(tmp_path / "cert"), "--tls-key", str(tmp_path / "key"))
    with serving("-l", f"tls:{HOST}:0", *files, "--fronts", "2", listen=False) as process:

        def shown() -> bytes | None:
            with connected(process) as client:
                assert isinstance(client.socket, ssl.SSLSocket)
                return client.socket.getpeercert(binary_form=True)

        before = shown()
        wait_until(lambda: int(statistics(process)["handshakes-ok"]) > 0, "handshakes are counted")
        (tmp_path / "cert").write_bytes(other.cert.read_bytes())
        (tmp_path / "key").write_bytes(other.key.read_bytes())
        process.signal(signal.SIGHUP)
        wait_until(lambda: before not in {shown() for _ in range(8)}, "all fronts show the other certificate")


def test_a_certificate_that_ends_soon_is_said_in_the_log_and_in_stats() -> None:
    pair = made("ending", LOCALHOST, signer="ca", days=13)
    with serving(
        "-l", f"tls:{HOST}:0", "--tls-cert", str(pair.cert), "--tls-key", str(pair.key), listen=False
    ) as process:
        stats = statistics(process)
        assert 12 * 86_400 < int(stats["certificate-seconds-left"]) <= 13 * 86_400
        assert stats["handshakes-ok"] == "1"
        wait_until(lambda: process.events("certificate ends"), "the end is said")
