"""`beanpole route` to servers with TLS and users: clients know nothing of either."""

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from beanpole.access import tokens
from tests.certificates import made
from tests.e2e.process import COMMAND, Process, serving
from tests.e2e.test_tls import tls_server
from tests.servers import HOST

ROUTE = [*COMMAND[:-1], "route"]

USERS = """
[user.router]
put = ["orders"]
links = ["shop"]

[user.plain]
put = ["mail"]

[user.shop]
put = ["shop"]
"""


class Users:
    """The files of users of a server, and of a router that is one of them."""

    def __init__(self, folder: Path) -> None:
        access, self.tokens = folder / "access.toml", folder / "tokens"
        access.write_text(USERS)
        access.chmod(0o644)
        self.own = folder / "token"
        self.be("router")
        self.flags = ("--access", str(access), "--tokens", str(self.tokens))

    def be(self, name: str) -> None:
        """Let the router have a token of a user."""
        self.own.write_bytes(tokens.add(self.tokens, name))
        self.own.chmod(0o600)

    def shown(self) -> tuple[str, ...]:
        return "--ca", str(made("ca").cert), "--token-file", str(self.own)


@pytest.fixture
def users(tmp_path: Path) -> Users:
    return Users(tmp_path)


def url_of(server: Process) -> str:
    return f"beanstalks://{HOST}:{server.port}"


def test_clients_of_a_router_are_its_user(users: Users) -> None:
    with (
        tls_server(*users.flags) as server,
        serving("--to", url_of(server), *users.shown(), command=ROUTE) as router,
        router.connect() as client,
    ):
        body = bytes(range(256)) * 200
        client.ask(b"use orders\r\nput 0 0 60 %d\r\n%b\r\n" % (len(body), body), b"USING orders\r\nINSERTED 1\r\n")
        client.ask(b"use mail\r\nput 0 0 60 1\r\na\r\n", b"USING mail\r\nUNKNOWN_COMMAND\r\n")
        assert router.events("link opened")[0]["link"] == url_of(server)


def test_what_is_wrong_is_said_and_a_token_that_is_mended_is_good(users: Users) -> None:
    with tls_server(*users.flags) as server:
        users.own.write_text("bp_" + 43 * "a")
        with (
            serving("--to", url_of(server), *users.shown(), command=ROUTE) as router,
            router.connect(wait_accepted=False) as client,
        ):
            (said,) = router.events("no link")
            assert "the server does not know who this is" in str(said["reason"])
            client.send(b"use orders\r\nput 0 0 60 1\r\na\r\n")
            users.be("router")
            server.signal(signal.SIGHUP)
            client.expect(b"USING orders\r\nINSERTED 1\r\n")


def test_server_of_another_name_gets_no_link() -> None:
    with tls_server() as server:
        to = f"beanstalks://localhost:{server.port}"
        with serving("--to", to, "--ca", str(made("ca").cert), command=ROUTE) as router:
            (said,) = router.events("no link")
            assert "is for other names" in str(said["reason"])


def test_router_of_several_shards_goes_to_each_by_tls(users: Users, tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(tls_server(*users.flags, "--shard", str(number))) for number in (0, 1)]
        shards = "".join(
            f'{name} = {{ number = {number}, nodes = "{url_of(each)}" }}\n'
            for number, (name, each) in enumerate(zip("ab", servers, strict=True))
        )
        file = tmp_path / "shards.toml"
        file.write_text(f'epoch = 1\n[shard]\n{shards}[tubes]\norders = "a"\n"mail" = "b"\n')
        router = stack.enter_context(serving("--map", str(file), *users.shown(), command=ROUTE))
        client = stack.enter_context(router.connect())
        client.ask(b"use orders\r\nput 0 0 60 1\r\na\r\n", b"USING orders\r\nINSERTED 1\r\n")
        client.ask(b"use mail\r\nput 0 0 60 1\r\na\r\n", b"USING mail\r\nUNKNOWN_COMMAND\r\n")
        with router.connect() as other:
            other.ask(b"auth bp_a\r\n", b"UNKNOWN_COMMAND\r\n")
