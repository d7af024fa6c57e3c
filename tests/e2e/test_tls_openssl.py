"""A server that speaks TLS, as OpenSSL's own client sees it, and while its certificate is exchanged."""

import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.certificates import Pair, made
from tests.e2e.process import Client, Process, serving, wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S, peer

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"
ADDRESS = f"tls:{HOST}:0"


def server_pair() -> Pair:
    return made("tls-server", NAMES)


def flags_of(pair: Pair) -> tuple[str, ...]:
    return ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))


@pytest.fixture(scope="module")
def server() -> Iterator[Process]:
    with serving("-l", ADDRESS, *flags_of(server_pair()), listen=False) as process:
        yield process


def s_client(port: int, *flags: str, said: bytes = b"list-tube-used\r\nquit\r\n") -> tuple[int, str]:
    """Let OpenSSL's client say something; return its exit code, and all that it prints."""
    command = [peer("openssl"), "s_client", "-connect", f"{HOST}:{port}", "-CAfile", str(server_pair().cert)]
    command += ["-verify_return_error", "-ign_eof", *flags]
    ended = subprocess.run(command, input=said, capture_output=True, timeout=REPLY_TIMEOUT_S, check=False)
    return ended.returncode, (ended.stdout + ended.stderr).decode()


@contextmanager
def talking(port: int, *flags: str) -> Iterator[tuple[Callable[[bytes], None], Callable[[bytes], None]]]:
    """OpenSSL's client, what says a line, or one of its own commands, and what waits for something that it prints."""
    command = [peer("openssl"), "s_client", "-connect", f"{HOST}:{port}", *flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as popen:
        said, printed = popen.stdin, popen.stdout
        assert said is not None
        assert printed is not None

        def say(line: bytes) -> None:
            said.write(line + b"\n")
            said.flush()

        def until(text: bytes) -> None:
            found = b""
            while text not in found:
                line = printed.readline()
                assert line, found
                found += line

        until(b"Verify return code")
        yield say, until
        popen.terminate()


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (("-tls1_2",), ("Protocol  : TLSv1.2", "Compression: NONE")),
        (("-tls1_3",), ("New, TLSv1.3", "Compression: NONE")),
        (("-tls1_3", "-curves", "P-384"), ("New, TLSv1.3",)),  # for which the server asks once more
        (("-alpn", "beanstalk"), ("ALPN protocol: beanstalk",)),
        (("-alpn", "h2,beanstalk"), ("ALPN protocol: beanstalk",)),
        (("-tls1_2", "-cipher", "ECDHE+CHACHA20"), ("Cipher    : ECDHE-ECDSA-CHACHA20-POLY1305",)),
    ],
)
def test_who_is_answered(server: Process, flags: tuple[str, ...], found: tuple[str, ...]) -> None:
    code, printed = s_client(server.port, *flags)
    assert code == 0
    for each in ("USING default", *found):
        assert each in printed
    assert "ticket" not in printed.lower()


@pytest.mark.parametrize(
    ("flags", "alert"),
    [
        (("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"), "alert protocol version"),
        (("-tls1", "-cipher", "ALL:@SECLEVEL=0"), "alert protocol version"),
        (("-tls1_2", "-cipher", "AES128-SHA:AES256-GCM-SHA384"), "alert handshake failure"),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"), "alert handshake failure"),
        (("-alpn", "h2,http/1.1"), "alert no application protocol"),
    ],
)
def test_who_gets_an_alert(server: Process, flags: tuple[str, ...], alert: str) -> None:
    code, printed = s_client(server.port, *flags)
    assert code == 1
    assert alert in printed
    assert "USING" not in printed


def test_nobody_renegotiates(server: Process) -> None:
    with talking(server.port, "-tls1_2", "-msg") as (say, until):
        say(b"R")
        until(b"RENEGOTIATING")
        until(b"no_renegotiation")


def test_no_second_put_is_replayed_as_early_data(server: Process, tmp_path: Path) -> None:
    """There is no ticket, and so no early data, and no way back into a session of TLS 1.3."""
    session = tmp_path / "session"
    s_client(server.port, "-tls1_3", "-sess_out", str(session))
    assert not session.exists()


def test_keys_are_exchanged(server: Process) -> None:
    with talking(server.port, "-tls1_3") as (say, until):
        for keys in (b"K", b"k", b"k", b"K"):
            say(keys)
            until(b"KEYUPDATE")
            say(b"list-tube-used\r")
            until(b"USING default")
        for _ in range(5):
            say(b"K")
            until(b"KEYUPDATE")
        say(b"quit\r")


def connect(process: Process, *trusted: Pair) -> Client:
    """A client that knows these certificates of the server."""
    context = ssl.create_default_context(cadata="".join(each.cert.read_text() for each in trusted))
    connection = socket.create_connection((HOST, process.port), REPLY_TIMEOUT_S)
    return Client(context.wrap_socket(connection, server_hostname="localhost"))


def copy(pair: Pair, to: Pair) -> None:
    for old, new in ((pair.cert, to.cert), (pair.key, to.key)):
        new.write_bytes(old.read_bytes())
        new.chmod(0o600)


def test_certificates_are_exchanged_under_load(tmp_path: Path) -> None:
    """No connection fails: each is served with the old certificate or the new one, and those that are there go on."""
    files = Pair(tmp_path / "server.pem", tmp_path / "server.key")
    before, after = server_pair(), made("tls-server-after", NAMES)
    copy(before, files)
    failures: list[Exception] = []
    stops = threading.Event()
    seen: set[str] = set()

    def load(process: Process) -> None:
        while not stops.is_set():
            try:
                with connect(process, before, after) as client:
                    client.ask(b"list-tube-used\r\n", b"USING default\r\n")
                    assert isinstance(client.socket, ssl.SSLSocket)
                    seen.add(str((client.socket.getpeercert() or {})["subject"]))
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not be
                failures.append(error)
                return

    with serving("-l", ADDRESS, *flags_of(files), listen=False) as process, connect(process, before) as stays:
        clients = [threading.Thread(target=load, args=(process,)) for _ in range(4)]
        for each in clients:
            each.start()
        wait_until(lambda: seen or failures, "a client was served")
        copy(after, files)
        process.signal(signal.SIGHUP)
        wait_until(lambda: len(seen) == 2 or failures, "the new certificate is shown")
        files.cert.write_bytes(b"")
        process.signal(signal.SIGHUP)
        wait_until(lambda: process.events("files not read") or failures, "the empty file is refused")
        stops.set()
        for each in clients:
            each.join()
        assert not failures
        stays.ask(b"list-tube-used\r\n", b"USING default\r\n")
        with connect(process, after) as client:
            client.ask(b"list-tube-used\r\n", b"USING default\r\n")
