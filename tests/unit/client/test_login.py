"""Who a client is, and whom it believes: TLS, tokens, and what it says when that goes wrong."""

import contextlib
import copy
import os
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beanpole import (
    Address,
    ArgumentError,
    Backoff,
    CannotConnectError,
    ForbiddenError,
    Login,
    NotAuthenticatedError,
    UnknownCommandError,
)
from tests import certificates
from tests.unit.client.peer import ASK, CLOSE, NONE, WAIT_S, Maker, Peer, Steps

PUT = (b"put 65536 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
TOKEN = "bp_" + "t" * 43
AUTH = (f"auth {TOKEN}\r\n".encode(), b"AUTHENTICATED shop\r\n")
REFUSED = (AUTH[0], b"NOT_AUTHENTICATED\r\n")
ONE = Backoff(attempts=1)
SAN = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def server_context(pair: certificates.Pair | None = None, client_ca: str = "") -> ssl.SSLContext:
    """Return what a server's end is set to, with a certificate of the CA `ca`."""
    pair = pair or certificates.made("named", SAN, signer="ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if client_ca:
        context.load_verify_locations(certificates.made(client_ca).cert)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting(**more: Any) -> Login:
    return Login(ca=certificates.made("ca").cert, **more)


def client_of(make: Maker, peer: Peer, login: Login | None = None, host: str = "localhost", **options: Any) -> Any:
    """Return a client of a peer that has TLS."""
    where = Address(host, peer.address[1], tls=True)
    return make(where, login=login or trusting(), backoff=ONE, **options)


def token_file(folder: Path, text: str = TOKEN + "\n", mode: int = 0o600) -> Path:
    file = folder / "token"
    file.write_text(text)
    file.chmod(mode)
    return file


# --- What is said -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_over_tls_a_client_asks_what_the_server_has_before_it_sends_a_command(make: Maker, host: str) -> None:
    with Peer([NONE, PUT, PUT], tls=server_context()) as peer:
        client = client_of(make, peer, host=host)
        assert [client.put("x"), client.put("x")] == [1, 1]
        client.close()


def test_the_token_is_the_first_line_and_what_follows_waits_for_the_answer(make: Maker, tmp_path: Path) -> None:
    file = token_file(tmp_path)
    asked: list[bool] = []

    def answer() -> bytes:
        asked.append(True)
        return AUTH[1]

    greeting = (b"use mail\r\n", b"USING mail\r\n")
    with Peer([(AUTH[0], answer), greeting, NONE, PUT], [AUTH, greeting, NONE, PUT], tls=server_context()) as peer:
        client = client_of(make, peer, trusting(token_file=file), use="mail")
        client.put("x")
        client.close()
        client.put("x")
        client.close()
    assert asked


def test_a_token_goes_to_a_unix_socket(make: Maker, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        received: list[bytes] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                received.append(connection.recv(1000))
                for answer in (AUTH[1], NONE[1]):
                    connection.sendall(answer)
                    received.append(connection.recv(1000))
                connection.sendall(PUT[1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        make(Address(path=str(tmp_path / "s")), login=Login(token=TOKEN)).put("x")
        thread.join(WAIT_S)
    assert received == [AUTH[0], ASK, PUT[0]]


def test_a_token_file_is_read_for_each_connection(make: Maker, tmp_path: Path) -> None:
    file = token_file(tmp_path)
    with Peer([AUTH, NONE, PUT], [(b"auth bp_new\r\n", AUTH[1]), NONE, PUT], tls=server_context()) as peer:
        client = client_of(make, peer, trusting(token_file=file))
        client.put("x")
        client.close()
        file.write_text("bp_new")
        client.put("x")
        client.close()


def test_the_variables_are_those_of_the_server_that_a_variable_names(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEANPOLE_CA", str(certificates.made("ca").cert))
    monkeypatch.setenv("BEANPOLE_TOKEN_FILE", str(token_file(tmp_path)))
    with Peer([AUTH, NONE, PUT], tls=server_context()) as peer:
        monkeypatch.setenv("BEANPOLE_URL", f"beanstalks://localhost:{peer.address[1]}")
        client = make()
        client.put("x")
        client.close()
    with make.to_peer([PUT]) as other:
        other.put("x")


# --- Refusals ---------------------------------------------------------------------------------------------------------


def test_a_refused_token_is_not_tried_again(make: Maker) -> None:
    with Peer([REFUSED], tls=server_context()) as peer:
        client = client_of(make, peer, trusting(token=TOKEN))
        with pytest.raises(NotAuthenticatedError, match=r"^auth: NOT_AUTHENTICATED: the server does not know who"):
            client.put("x")


def test_who_has_lost_the_connection_is_not_patient_with_a_refused_token(make: Maker) -> None:
    with Peer([AUTH, NONE, PUT, (b"peek 1\r\n", CLOSE)], [REFUSED], tls=server_context()) as peer:
        client = client_of(make, peer, trusting(token=TOKEN), patience=None)
        client.put("x")
        with pytest.raises(NotAuthenticatedError):
            client.peek(1)


def test_a_server_without_users_says_so(make: Maker) -> None:
    with Peer([(AUTH[0], b"UNKNOWN_COMMAND\r\n")], tls=server_context()) as peer:
        client = client_of(make, peer, trusting(token=TOKEN))
        with pytest.raises(NotAuthenticatedError, match="the server has no users, or takes no token here"):
            client.put("x")


@pytest.mark.parametrize(
    ("sent", "answer", "call"),
    [
        (b"use t\r\n" + PUT[0], b"UNKNOWN_COMMAND\r\n", lambda client: client.put("x", tube="t")),
        (ASK, b"NOT_AUTHENTICATED\r\n", lambda client: client.features()),
    ],
)
def test_who_is_nobody_hears_so_and_the_connection_is_over(
    make: Maker, sent: bytes, answer: bytes, call: Callable[[Any], object]
) -> None:
    then = [NONE, PUT] if sent == ASK else [PUT]
    with make.to_peer([(sent, answer), (b"", CLOSE)], then, patience=0) as client:
        with pytest.raises(NotAuthenticatedError):
            call(client)
        assert client.put("x") == 1


def test_who_shows_no_login_hears_nothing_of_a_command_that_was_not_typed(make: Maker) -> None:
    with Peer([(ASK, b"NOT_AUTHENTICATED\r\n")], tls=server_context()) as peer:
        client = client_of(make, peer)
        with pytest.raises(NotAuthenticatedError, match=r"^NOT_AUTHENTICATED: the server does not know who"):
            client.tubes()


def test_a_missing_right_has_an_error_of_its_own(make: Maker) -> None:
    with make.to_peer([(PUT[0], b"FORBIDDEN put default\r\n"), (b"kick 1\r\n", b"UNKNOWN_COMMAND\r\n")]) as client:
        with pytest.raises(ForbiddenError, match=r"put into default: .* lacks the right put on default") as caught:
            client.put("x")
        assert (caught.value.right, caught.value.tube) == ("put", "default")
        again = copy.copy(caught.value)  # as pickle does it
        assert (str(again), again.right, again.tube) == (str(caught.value), "put", "default")
        with pytest.raises(UnknownCommandError, match="does not know who this is, or this user lacks the right to it"):
            client.kick(1)


# --- Certificates -----------------------------------------------------------------------------------------------------


def refuse_handshake(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Take a connection, and wait for its end when it is refused: else what is said may be lost on its way."""
    connection, _ = listener.accept()
    with connection.dup() as kept:
        with contextlib.suppress(OSError):
            context.wrap_socket(connection, server_side=True).recv(1)
        with contextlib.suppress(OSError):  # the client has gone
            kept.shutdown(socket.SHUT_WR)
            while kept.recv(1000):
                pass


def expired() -> certificates.Pair:
    """Return a certificate that ended when it began."""
    pair, ca = certificates.made("localhost"), certificates.made("ca")
    old, request = pair.cert.with_suffix(".old"), pair.cert.with_suffix(".csr")
    certificates.openssl("req", "-new", "-key", str(pair.key), "-subj", "/CN=localhost", "-out", str(request))
    signing = ("-CA", str(ca.cert), "-CAkey", str(ca.key), "-CAcreateserial")
    certificates.openssl("x509", "-req", "-in", str(request), *signing, "-days", "-1", "-out", str(old))
    return certificates.Pair(old, pair.key)


FAULTS: dict[str, tuple[Callable[[], certificates.Pair | None], str, Login | None, str]] = {
    "other CA": (lambda: None, "localhost", Login(), r"name the file of its CA \(--ca, BEANPOLE_CA\)"),
    "other name": (
        lambda: certificates.made("else", "subjectAltName=DNS:else", signer="ca"),
        "localhost",
        None,
        "names",
    ),
    "other address": (
        lambda: certificates.made("other", "subjectAltName=DNS:localhost", signer="ca"),
        "127.0.0.1",
        None,
        "nam",
    ),
    "expired": (expired, "localhost", None, "has expired"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_can_not_be_believed_gets_nothing(make: Maker, fault: str) -> None:
    pair, host, login, sentence = FAULTS[fault]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse_handshake, args=(listener, server_context(pair())), daemon=True)
        thread.start()
        login = login or trusting(token=TOKEN)
        client = make(Address(host, listener.getsockname()[1], tls=True), login=login, backoff=ONE)
        with pytest.raises(CannotConnectError, match=sentence):
            client.put("x")
        thread.join(WAIT_S)


def test_a_server_without_tls_gets_nothing(make: Maker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        received: list[bytes] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                received.append(connection.recv(10_000))
                connection.sendall(b"BAD_FORMAT\r\n")
                received.append(connection.recv(10_000))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        where = Address("localhost", listener.getsockname()[1], tls=True)
        client = make(where, login=trusting(token=TOKEN), backoff=ONE)
        with pytest.raises(CannotConnectError, match="speaks no TLS: beanstalk:// is without"):
            client.put("x")
        thread.join(WAIT_S)
    assert TOKEN.encode() not in b"".join(received)


def test_a_handshake_that_hangs_ends_with_the_time_to_connect(make: Maker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = Address("localhost", listener.getsockname()[1], tls=True)
        with pytest.raises(CannotConnectError, match="timed out: nobody answers there, or not with TLS"):
            make(where, login=trusting(), connect_timeout=0.05, backoff=ONE).put("x")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_shows_its_certificate(make: Maker, version: ssl.TLSVersion) -> None:
    context = server_context(client_ca="ca")
    context.maximum_version = version
    shop = certificates.made("shop", signer="ca")
    with Peer([NONE, PUT], tls=context) as peer:
        client = client_of(make, peer, trusting(cert=shop.cert, cert_key=shop.key))
        client.put("x")
        client.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_refused_certificate_is_no_lost_connection(make: Maker, version: ssl.TLSVersion) -> None:
    context = server_context(client_ca="ca")
    context.maximum_version = version
    other = certificates.made("stranger")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse_handshake, args=(listener, context), daemon=True)
        thread.start()
        where = Address("localhost", listener.getsockname()[1], tls=True)
        client = make(where, login=trusting(cert=other.cert, cert_key=other.key), backoff=ONE, patience=0)
        with pytest.raises(NotAuthenticatedError, match="the server refuses the client's certificate: "):
            client.put("x")
        thread.join(WAIT_S)


def test_a_new_certificate_counts_from_the_next_connection_on(make: Maker, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(certificates.made("stranger").cert.read_bytes())
    os.utime(ca, (1, 1))
    with Peer([NONE, PUT], tls=server_context()) as peer:
        login = Login(ca=ca)
        first = login.context()
        assert login.context() is first
        ca.write_bytes(certificates.made("ca").cert.read_bytes())
        client = client_of(make, peer, login)
        client.put("x")
        client.close()


# --- Mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "login", "sentence"),
    [
        (
            "h",
            {"token": TOKEN},
            "a token is sent to beanstalks://HOST or a Unix socket only, not to beanstalk://h:11300",
        ),
        (["h", "unix:/s"], {"token": TOKEN}, "a token is sent to beanstalks://HOST or a Unix socket only"),
        ("h", {"ca": "f"}, "certificates are for beanstalks://HOST, not for beanstalk://h:11300"),
        ("unix:/s", {"cert": "f"}, "certificates are for beanstalks://HOST"),
        ("beanstalks://h", {"cert_key": "f"}, "a key belongs to a certificate"),
        ("beanstalks://h", {"token": TOKEN, "token_file": "f"}, "a client has one token"),
        ("beanstalks://h", {"token": "shop sha256:00"}, "has to be the token alone"),
        ("beanstalks://h", {"token": "a\r\nput"}, "has to be one line of printable ASCII"),
        ("beanstalks://h", {"token": ""}, "has to be one line"),
        ("beanstalks://h", {"token": "x" * 201}, "up to 200 bytes"),
        ("beanstalks://h", {"token_file": TOKEN}, "is the name of a file, not the token"),
    ],
)
def test_what_can_not_be_is_refused_at_once_and_no_token_is_shown(
    make: Maker, address: Any, login: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ArgumentError, match=sentence) as caught:
        make(address, login=Login(**login))
    assert login.get("token") in {None, ""} or login["token"] not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "mode", "sentence"),
    [
        (None, 0, "No such file"),
        (TOKEN, 0o604, "may be read by others: chmod o="),
        ("", 0o600, "has to be one line"),
        (f"{TOKEN}\n{TOKEN}\n", 0o600, "has to be one line"),
        ("shop sha256:00\n", 0o600, "the token alone, without a name or a digest"),
    ],
)
def test_what_is_wrong_with_a_token_file_is_said_when_it_is_read(
    make: Maker, tmp_path: Path, text: str | None, mode: int, sentence: str
) -> None:
    file = tmp_path / "token" if text is None else token_file(tmp_path, text, mode)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = make(Address("localhost", listener.getsockname()[1], tls=True), login=trusting(token_file=file))
        with pytest.raises(ArgumentError, match=sentence):
            client.put("x")


def test_what_is_wrong_with_certificates_is_said_when_they_are_read(tmp_path: Path) -> None:
    pair, other, text = certificates.made("ca"), certificates.made("stranger"), tmp_path / "text"
    text.write_text("no certificate")
    encrypted = tmp_path / "encrypted.key"
    certificates.openssl("pkey", "-in", str(pair.key), "-out", str(encrypted), "-aes256", "-passout", "pass:x")
    for login, sentence in [
        (Login(ca=tmp_path / "none"), "none: No such file"),
        (Login(ca=text), "is no file of certificates: "),
        (Login(cert=pair.cert), r"is no certificate with its key: name the file of the key \(--cert-key, "),
        (Login(cert=pair.cert, cert_key=other.key), "are no certificate with its key: key values mismatch"),
        (Login(cert=pair.cert, cert_key=encrypted), "are no certificate with its key: "),
    ]:
        with pytest.raises(ArgumentError, match=sentence):
            login.context()


def test_a_socket_with_tls_of_its_own_is_refused(make: Maker) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with (
        context.wrap_socket(socket.socket(), server_hostname="h") as wrapped,
        pytest.raises(ArgumentError, match="give it beanstalks://HOST, not an SSLSocket"),
    ):
        make(wrapped)


def test_a_token_is_not_shown() -> None:
    assert TOKEN not in repr(Login(token=TOKEN))
    with pytest.raises(ArgumentError, match="no user, password or token stands in an address") as caught:
        Address.of(f"beanstalks://{TOKEN}@h")
    assert TOKEN not in str(caught.value)


def test_a_pipeline_that_is_larger_than_all_buffers(make: Maker) -> None:
    body = "x" * 60_000
    put = f"put 65536 0 60 60000\r\n{body}\r\n".encode()
    steps: Steps = [(put, b"INSERTED 1\r\n") for _ in range(100)]
    with Peer([NONE, *steps], tls=server_context()) as peer:
        client = client_of(make, peer)
        with client.pipeline() as p:
            results = [p.put(body) for _ in range(100)]
        assert all(each.result() == 1 for each in results)
        client.close()
