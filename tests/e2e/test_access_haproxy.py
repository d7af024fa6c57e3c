"""`examples/access/haproxy.cfg` with HAProxy: a certificate is led to the socket of its user, and others nowhere."""

import os
import socket
import ssl
from collections.abc import Iterator

import pytest

from tests import certificates
from tests.e2e.process import Client, serving
from tests.servers import HOST, REPLY_TIMEOUT_S, proxying

pytestmark = pytest.mark.repository

USERS = """
[user.shop]
put = ["orders"]
[user.worker]
reserve = ["orders"]
[user.proxy]
unix = [{uid}]
admin = true
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where HAProxy speaks TLS, in front of a server whose user for the proxy's own uid may do everything."""
    folder = tmp_path_factory.mktemp("haproxy")
    access = folder / "access.toml"
    access.write_text(USERS.format(uid=os.getuid()))
    access.chmod(0o644)
    sockets = [f"unix:{folder / name},user={name},mode=0660" for name in ("shop", "worker")]
    flags = [flag for each in sockets for flag in ("-l", each)]
    with serving(*flags, "--access", str(access), listen=False), proxying(folder) as found:
        yield found


def connected(port: int, name: str) -> Client:
    """A client with a certificate; empty: without."""
    context = ssl.create_default_context(cafile=str(certificates.made("ca").cert))
    if name:
        context.load_cert_chain(*map(str, vars(certificates.made(name, signer="ca")).values()))
    connection = socket.create_connection((HOST, port), timeout=REPLY_TIMEOUT_S)
    return Client(context.wrap_socket(connection, server_hostname=HOST))


def test_a_certificate_is_the_user_of_its_socket_whoever_the_proxy_is(port: int) -> None:
    with connected(port, "shop") as shop, connected(port, "worker") as worker:
        shop.ask(b"use orders\r\nput 0 0 60 1\r\na\r\n", b"USING orders\r\nINSERTED 1\r\n")
        shop.ask(b"watch orders\r\nreserve-with-timeout 0\r\n", b"WATCHING 2\r\nUNKNOWN_COMMAND\r\n")
        worker.ask(b"watch orders\r\nreserve\r\n", b"WATCHING 2\r\nRESERVED 1 1\r\na\r\n")
        worker.ask(b"put 0 0 60 1\r\na\r\n", b"UNKNOWN_COMMAND\r\n")


@pytest.mark.parametrize("name", ["", "other", "queue"])
def test_others_are_closed(port: int, name: str) -> None:
    try:
        with connected(port, name) as client:
            client.send(b"put 0 0 60 1\r\na\r\n")
            assert client.rest() == b""
    except (ConnectionError, ssl.SSLError):
        assert True, "closed as well"
