"""A cluster of nodes with users and TLS: who a client is says the leader, whichever node it is connected to."""

import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from beanpole.access import tokens
from beanpole.errors import ExitCode
from tests.certificates import made
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.process import Client, Process, serving, start_in_vain, wait_until
from tests.e2e.test_route import ROUTE
from tests.servers import HOST, REPLY_TIMEOUT_S, server_certificate

USERS = """
[user.shop]
put = ["orders"]

[user.mail]
put = ["mail"]
"""


class Installation:
    """A cluster, and the files of its nodes."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.tokens = folder / "tokens"
        self.shop, self.mail = (tokens.add(self.tokens, name) for name in ("shop", "mail"))
        cluster.init()

    def node(self, name: str, users: str = USERS, *more: str) -> AbstractContextManager[Process]:
        """Start a node."""
        access = self.folder / f"{name}.toml"
        access.write_text(users)
        access.chmod(0o644)
        files = ("--access", str(access), "--tokens", str(self.tokens))
        ca = ("--cluster-ca", str(made("ca").cert))
        flags = ("--cluster", self.cluster.url, "--node", name, "-l", f"tls:{HOST}:0")
        pair = server_certificate()
        tls = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
        return serving(*flags, *files, *tls, *ca, *more, listen=False)


@pytest.fixture
def installation(cluster: Cluster, tmp_path: Path) -> Installation:
    return Installation(cluster, tmp_path)


def connected(process: Process) -> Client:
    """A client that has shaken hands, and said nothing."""
    context = ssl.create_default_context(cafile=str(made("ca").cert))
    raw = socket.create_connection((HOST, process.port), REPLY_TIMEOUT_S)
    return Client(context.wrap_socket(raw, server_hostname=HOST))


@contextmanager
def known(process: Process, token: bytes, name: bytes) -> Iterator[Client]:
    """A client that has shown a token."""
    with connected(process) as client:
        client.ask(b"auth " + token + b"\r\n", b"AUTHENTICATED " + name + b"\r\n")
        yield client


def test_client_of_a_follower_is_who_it_is_by_the_files_of_the_leader(installation: Installation) -> None:
    cluster = installation.cluster
    with installation.node("a") as a, installation.node("b") as b:
        cluster.wait_alive("a", "b")
        assert cluster.status()["address"] == f"beanstalks://{HOST}:{a.port}"
        with known(b, installation.shop, b"shop") as client:
            client.ask(b"use orders\r\nput 0 0 60 1\r\nx\r\n", b"USING orders\r\nINSERTED 1\r\n")
            client.ask(b"use mail\r\nput 0 0 60 1\r\nx\r\n", b"USING mail\r\nUNKNOWN_COMMAND\r\n")
            known_tokens = tokens.read(installation.tokens).lines.values()
            tokens.remove(installation.tokens, next(each for each in known_tokens if each.user == "shop"))
            a.signal(signal.SIGHUP)
            assert client.rest() == b""
        with cluster.database.connected() as connection:
            (key,) = connection.exec_driver_sql("select value from beanpole.setting where name = 'key'").scalars()
        assert key.startswith("bp_")
        assert key not in a.messages + b.messages


def test_another_leads_and_serves_the_same_users(installation: Installation) -> None:
    cluster = installation.cluster
    with installation.node("a") as a, installation.node("b") as b:
        cluster.wait_alive("a", "b")
        with known(b, installation.shop, b"shop") as client, connected(b) as waiting:
            client.ask(b"use orders\r\nput 0 0 60 1\r\nx\r\n", b"USING orders\r\nINSERTED 1\r\n")
            a.signal(signal.SIGKILL)
            assert client.rest() == b""
            waiting.ask(b"auth " + installation.shop + b"\r\n", b"AUTHENTICATED shop\r\n")
        cluster.wait_leader("b")
        with known(b, installation.shop, b"shop") as client:
            client.ask(b"use orders\r\nput 0 0 60 1\r\nx\r\n", b"USING orders\r\nINSERTED 2\r\n")
        with installation.node("c") as c:
            cluster.wait_alive("b", "c")
            with known(c, installation.mail, b"mail") as client:
                client.ask(b"use mail\r\nput 0 0 60 1\r\nx\r\n", b"USING mail\r\nINSERTED 3\r\n")


def test_router_finds_the_node_that_leads(installation: Installation, tmp_path: Path) -> None:
    own = tmp_path / "token"
    own.write_bytes(installation.shop)
    own.chmod(0o600)
    cluster = installation.cluster
    with installation.node("a") as a, installation.node("b") as b:
        cluster.wait_alive("a", "b")
        to = f"beanstalks://{HOST}:{b.port}"
        login = ("--ca", str(made("ca").cert), "--token-file", str(own))
        with serving("--to", to, *login, command=ROUTE) as router, router.connect() as client:
            client.ask(b"use orders\r\nput 0 0 60 1\r\nx\r\n", b"USING orders\r\nINSERTED 1\r\n")
            a.signal(signal.SIGKILL)
            assert client.rest() == b""
            with router.connect(wait_accepted=False) as other:
                other.ask(b"use orders\r\nput 0 0 60 1\r\nx\r\n", b"USING orders\r\nINSERTED 2\r\n")


def test_status_says_that_files_differ(installation: Installation) -> None:
    cluster = installation.cluster

    def differ() -> bool:
        return "the files of users or tokens of a and b differ" in " ".join(cluster.status()["warnings"])

    with installation.node("a"), installation.node("b", USERS + "[user.more]\nput = []\n") as b:
        cluster.wait_alive("a", "b")
        wait_until(lambda: all(each["users_digest"] for each in cluster.nodes()), "both say what they know")
        assert differ()
        (installation.folder / "b.toml").write_text(USERS)
        b.signal(signal.SIGHUP)
        wait_until(lambda: not differ(), "both know the same")


def test_node_without_users_has_no_part_in_a_cluster_with_users(installation: Installation) -> None:
    """If it led, everybody could do everything."""
    with installation.node("a"):
        pass
    flags = ("--cluster", installation.cluster.url, "--node", "b")
    outcome = start_in_vain(*flags)
    assert outcome.code == ExitCode.FAILED
    assert "the nodes of this cluster have users: give --access" in outcome.error


@pytest.mark.parametrize("more", ["", ",client-ca={ca}"])
def test_node_that_others_can_not_reach_is_refused(cluster: Cluster, tmp_path: Path, more: str) -> None:
    access = tmp_path / "access.toml"
    access.write_text(USERS)
    access.chmod(0o644)
    pair = server_certificate()
    place = f"tls:{HOST}:0" + more.format(ca=made("ca").cert) if more else f"{HOST}:0,user=shop"
    tls = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key)) if more else ()
    flags = ("--cluster", cluster.url, "--node", "a", "-l", place, "--access", str(access))
    outcome = start_in_vain(*flags, *tls, listen=False)
    assert (outcome.code, outcome.error.count("\n")) == (5, 1)
    assert "needs a place at which the others reach it" in outcome.error
